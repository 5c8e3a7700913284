"""Ratings from a file of battles alone: no ledger, no graph, the same numbers as the run's.

Rows are those of the tables "elo_ratings" and "bradley_terry_ratings", in the same order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from tournament_assets.adapters.battle_files.coding import (
    CodedBattles,
    code_battles,
    of_dimension,
)
from tournament_assets.adapters.battle_files.columns import different_names
from tournament_assets.ratings.rows import bradley_terry_rows, elo_rows, trace_elo
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.rating_settings import RatingSettings

Method = Literal["elo", "bradley-terry"]
METHODS: tuple[Method, ...] = ("elo", "bradley-terry")


@dataclass(frozen=True, slots=True)
class BattleRatings:
    """The ratings of one dimension.

    Attributes:
        dimension: The quality that was judged; None where the battles name none.
        elo: Rows of table "elo_ratings", by K-factor and then best first.
        bradley_terry: Rows of table "bradley_terry_ratings", best first.
        counts: Battles, those that somebody won, ties, inconsistent ones, and prompts.
        notes: What a reader of the numbers has to know.
    """

    dimension: str | None
    elo: tuple[Mapping[str, Any], ...]
    bradley_terry: tuple[Mapping[str, Any], ...]
    counts: Mapping[str, int]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return them as JSON values."""
        return {
            "dimension": self.dimension,
            "counts": dict(self.counts),
            "elo": [dict(row) for row in self.elo],
            "bradley_terry": [dict(row) for row in self.bradley_terry],
            "notes": list(self.notes),
        }


def rate_battles(
    table: pa.Table,
    *,
    settings: RatingSettings,
    dimensions: Sequence[str] = (),
    methods: Sequence[Method] = METHODS,
    soft: bool = False,
) -> list[BattleRatings]:
    """Rate the battles of every dimension.

    Args:
        table: The battles, in the order in which the run rated them.
        settings: How.
        dimensions: Only these; all if empty.
        methods: Which ratings.
        soft: Let Bradley-Terry share a win by the preference, where a battle has one.

    Raises:
        InputError: If a dimension has no battle, a model is not among the entrants, or a setting
            is impossible.
        RatingError: If a likelihood could not be maximised.
    """
    known = _dimensions(table, settings)
    if unknown := sorted(set(dimensions) - set(known)):
        listed = ", ".join(str(each) for each in known if each is not None) or "none"
        raise InputError(
            f"no battle is on the dimension {name!r}; the battles have {listed}" for name in unknown
        )
    return [
        _rate(of_dimension(table, each), each, settings, methods=methods, soft=soft)
        for each in known
        if not dimensions or each in dimensions
    ]


def _dimensions(table: pa.Table, settings: RatingSettings) -> list[str | None]:
    found = different_names(table, "dimension")
    named: list[str | None] = list(dict.fromkeys([*settings.dimensions, *found]))
    return [*named, None] if table.column("dimension").null_count or not named else named


def _rate(
    table: pa.Table,
    dimension: str | None,
    settings: RatingSettings,
    *,
    methods: Sequence[Method],
    soft: bool,
) -> BattleRatings:
    coded = code_battles(table, entrants=settings.entrants, soft=soft)
    elo, bradley_terry = [], []
    if "elo" in methods:
        traces = trace_elo(coded.matches, settings)
        elo = elo_rows(coded.matches, traces, coded.cells, dimension=dimension, settings=settings)
    if "bradley-terry" in methods:
        bradley_terry = bradley_terry_rows(coded.cells, dimension=dimension, settings=settings)
    return BattleRatings(
        dimension=dimension,
        elo=tuple(elo),
        bradley_terry=tuple(bradley_terry),
        counts={
            "battles": coded.n_battles,
            "decisive": coded.matches.n_matches,
            "ties": coded.n_ties,
            "inconsistent": coded.n_inconsistent,
            "prompts": len(coded.matches.prompts),
        },
        notes=tuple(_notes(coded, soft=soft)),
    )


def _notes(coded: CodedBattles, *, soft: bool) -> list[str]:
    notes = []
    if coded.n_without_prompt:
        notes.append(
            f"{coded.n_without_prompt} battles name no prompt: each counts as a prompt of its own, "
            "so the sampling intervals are too narrow if several were on one; where a column of "
            "the file names the prompt, give it by --prompt-column"
        )
    if coded.n_repeated:
        notes.append(
            f"{coded.n_repeated} battles repeat the prompt, pair and judge of another one; all "
            "of them count"
        )
    if coded.n_weighted:
        notes.append(
            f"{coded.n_weighted} battles have a weight: Bradley-Terry counts it, Elo counts "
            "each of them once"
        )
    if coded.n_soft:
        notes.append(
            f"{coded.n_soft} battles have a preference finer than their winner: "
            + ("Bradley-Terry shares the win by it, Elo does not" if soft else "it is not used")
        )
    return notes
