"""The rows of table `judging_decisions`: what an adaptive run decides after each round."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

import pandas as pd

from tournament_assets.storage.tables import rows_of
from tournament_assets.verdicts.rounds import RoundsOutcome

EVERYTHING = "everything"
"""The goal of a run that judges everything, without stopping early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """What an adaptive run knew about two entrants at the end of a round, and what it decided."""

    dimension: Annotated[str, "the quality that was judged"]
    entrant_a: Annotated[str, "the pair's first entrant"]
    entrant_b: Annotated[str, "the pair's second entrant"]
    goal: Annotated[str, "the question: bank or population; everything: no pair stops"]
    round: Annotated[int, "the round, from 1"]
    prompts: Annotated[int, "prompts of the two in all"]
    looked_at: Annotated[int, "prompts asked about by the end of the round, in hashed order"]
    counted: Annotated[int, "of these, those with a verdict or identical responses"]
    pending: Annotated[int, "of these, those that wait for a reply: nothing is decided"]
    share: Annotated[float | None, "the first entrant's mean share of a win"] = None
    low: Annotated[float | None, "lower end of the share's confidence sequence"] = None
    high: Annotated[float | None, "upper end of the share's confidence sequence"] = None
    capital: Annotated[float | None, "what a bet of 1 on the one ahead has become"] = None
    threshold: Annotated[float | None, "the capital at which the bank's question is decided"] = None
    evidence: Annotated[
        float | None, "part of what a decision takes: 1 decides for the first, -1 for the second"
    ] = None
    decided_at: Annotated[int | None, "prompts after which it was decided; absent: open"] = None
    side: Annotated[str | None, "the entrant ahead; absent: open, or equal on the whole bank"] = (
        None
    )
    tail: Annotated[tuple[str, ...], "later prompts that are judged all the same"]
    weight: Annotated[float, "prompts that a verdict of the tail stands for"]
    pairs: Annotated[int, "pairs of their responses in all: one a prompt and sample"]
    not_needed: Annotated[int, "pairs that no judge is asked about, because of a stop"]
    free: Annotated[int, "pairs of identical responses, which no judge is asked about"]
    undecided: Annotated[int, "pairs of later rounds, which wait for what is pending"]
    presentations: Annotated[int, "presentations of the two to all judges, in all"]
    presentations_not_needed: Annotated[int, "presentations that a stop made needless"]
    presentations_undecided: Annotated[int, "presentations of later rounds"]
    path: Annotated[tuple[float, ...], "the evidence after each prompt; in the last row alone"]


def last_rounds(rows: Iterable[DecisionRow]) -> list[DecisionRow]:
    """Return the last row of every two entrants on every dimension."""
    groups = groupby(rows, key=lambda row: (row.dimension, row.entrant_a, row.entrant_b))
    return [list(of_two)[-1] for _, of_two in groups]


def outcome_of_decisions(decisions: pd.DataFrame) -> RoundsOutcome | None:
    """Return what the table of a dimension came to; None if everything was judged."""
    rows = last_rounds(rows_of(DecisionRow, decisions))
    if all(row.goal == EVERYTHING for row in rows):
        return None
    return RoundsOutcome(
        presentations=sum(row.presentations for row in rows),
        presentations_not_needed=sum(row.presentations_not_needed for row in rows),
        presentations_undecided=sum(row.presentations_undecided for row in rows),
        pairs=sum(row.pairs for row in rows),
        pairs_not_needed=sum(row.not_needed for row in rows),
        pairs_undecided=sum(row.undecided for row in rows),
        weights={
            (name, row.entrant_a, row.entrant_b): row.weight for row in rows for name in row.tail
        },
        decided=frozenset(
            (row.side, row.entrant_b if row.side == row.entrant_a else row.entrant_a)
            for row in rows
            if row.side is not None
        ),
    )
