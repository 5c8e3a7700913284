"""The Arrow schema of every table that travels between assets, derived from its row's class."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from tournament_assets.tournament import asset_rows

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

_ARROW_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[str, ...]: pa.list_(pa.string()),
    tuple[float, ...]: pa.list_(pa.float64()),
}


def derive_schema(row_type: type) -> pa.Schema:
    """Return the Arrow schema of a table: a column a field, nullable where the type allows None.

    Raises:
        TypeError: If it is no dataclass, or a field's type is not that of a column.
    """
    if not is_dataclass(row_type):
        raise TypeError(f"{row_type!r} is not a dataclass; expected the class of a table's rows")
    hints = get_type_hints(row_type, include_extras=True)
    return pa.schema([_column(each.name, hints[each.name]) for each in fields(row_type)])


def _column(name: str, hint: Any) -> pa.Field:
    kind, description = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
    nullable = get_origin(kind) in (types.UnionType, Union) and type(None) in get_args(kind)
    if nullable:
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if kind not in _ARROW_TYPES:
        raise TypeError(
            f"column {name!r} has type {kind!r}; expected one of {[*map(str, _ARROW_TYPES)]}"
        )
    metadata = {"description": description} if description else None
    return pa.field(name, _ARROW_TYPES[kind], nullable=nullable, metadata=metadata)


SCHEMAS: Mapping[str, pa.Schema] = {name: derive_schema(row) for name, row in ROW_TYPES.items()}
"""The schema of every table, by the name of the asset that makes it."""
