"""The Arrow schema of every table that travels between assets, derived from its row's class."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from tournament_assets.tournament import asset_rows
from tournament_assets.tournament.late_modules import late_module

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = late_module("pyarrow")

ROW_TYPES: Mapping[str, type] = {
    "prompt_bank": asset_rows.PromptRow,
    "selected_prompts": asset_rows.PromptRow,
    "entrant_requests": asset_rows.EntrantRequestsRow,
    "entrant_responses": asset_rows.ResponseRow,
    "match_list": asset_rows.MatchRow,
    "judging_estimate": asset_rows.EstimateRow,
    "judge_requests": asset_rows.JudgeRequestsRow,
    "judge_replies": asset_rows.JudgeReplyRow,
    "judging_decisions": asset_rows.DecisionRow,
    "judge_verdicts": asset_rows.VerdictRow,
    "elo_ratings": asset_rows.EloRow,
    "bradley_terry_ratings": asset_rows.BradleyTerryRow,
    "model_comparison": asset_rows.RatingMethodRow,
    "style_control": asset_rows.StyleRow,
    "win_rates": asset_rows.WinRateRow,
    "battles": asset_rows.BattleRow,
    "human_battles": asset_rows.HumanBattleRow,
    "arena_ratings": asset_rows.ArenaRatingRow,
    "human_agreement": asset_rows.HumanAgreementRow,
    "prediction_powered_ratings": asset_rows.PredictionPoweredRow,
    "judge_calibration": asset_rows.JudgeCalibrationRow,
    "audit": asset_rows.CoverageRow,
    "prompt_audit": asset_rows.PromptFindingRow,
    "leaderboard": asset_rows.LeaderboardRow,
    "report": asset_rows.ReportPageRow,
    "judge_controls": asset_rows.ControlRow,
    "judge_retest": asset_rows.RetestRow,
    "judge_drift": asset_rows.DriftRow,
    "run_comparison": asset_rows.RunComparisonRow,
    "judge_agreement": asset_rows.JudgeAgreementRow,
    "trust_panel": asset_rows.TrustRow,
    "jury": asset_rows.JuryRow,
    "fair_comparison": asset_rows.FairRow,
}
"""What a row of each table is, by the name of the asset that makes it."""

RARE_COLUMNS: Mapping[str, frozenset[str]] = {
    "judge_verdicts": frozenset({"weight"}),
    "battles": frozenset({"weight"}),
}
"""Columns of streamed tables that a file has only where they say something; absent otherwise."""

_KINDS: Mapping[Any, str] = {
    str: "string",
    int: "int64",
    float: "double",
    bool: "bool",
    tuple[str, ...]: "list<item: string>",
    tuple[float, ...]: "list<item: double>",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as its row's class says it.

    Attributes:
        name: The field's name.
        kind: Its Arrow type, by the name that Arrow gives it.
        is_nullable: Whether a value may be absent.
        description: What the column says; may be empty.
    """

    name: str
    kind: str
    is_nullable: bool
    description: str


@cache
def columns_of(row_type: type) -> tuple[Column, ...]:
    """Return a table's columns, which takes no Arrow: a column a field, in the order of the fields.

    Raises:
        TypeError: If it is no dataclass, or a field's type is not that of a column.
    """
    if not is_dataclass(row_type):
        raise TypeError(f"{row_type!r} is not a dataclass; expected the class of a table's rows")
    hints = get_type_hints(row_type, include_extras=True)
    return tuple(_column(each.name, hints[each.name]) for each in fields(row_type))


def _column(name: str, hint: Any) -> Column:
    kind, description = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
    nullable = get_origin(kind) in (types.UnionType, Union) and type(None) in get_args(kind)
    if nullable:
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if kind not in _KINDS:
        raise TypeError(f"column {name!r} has type {kind!r}; expected one of {[*map(str, _KINDS)]}")
    return Column(name, _KINDS[kind], nullable, description)


def derive_schema(row_type: type) -> pa.Schema:
    """Return the Arrow schema of a table: a column a field, nullable where the type allows None.

    Raises:
        TypeError: If it is no dataclass, or a field's type is not that of a column.
    """
    return _schema_of(columns_of(row_type))


@cache
def _schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    kinds = _arrow_types()
    return pa.schema(
        [
            pa.field(
                each.name,
                kinds[each.kind],
                nullable=each.is_nullable,
                metadata={"description": each.description} if each.description else None,
            )
            for each in columns
        ]
    )


@cache
def _arrow_types() -> Mapping[str, pa.DataType]:
    lists = (pa.list_(pa.string()), pa.list_(pa.float64()))
    return {str(each): each for each in (pa.string(), pa.int64(), pa.float64(), pa.bool_(), *lists)}


class _Schemas(Mapping[str, "pa.Schema"]):
    """Schemas that are derived when they are asked for, so that their names take no Arrow."""

    def __getitem__(self, name: str) -> pa.Schema:
        return derive_schema(ROW_TYPES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(ROW_TYPES)

    def __len__(self) -> int:
        return len(ROW_TYPES)


SCHEMAS: Mapping[str, pa.Schema] = _Schemas()
"""The schema of every table, by the name of the asset that makes it."""
