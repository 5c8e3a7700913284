"""Judging in rounds: which pairs are asked about now, later or not at all.

By default a mode asks about all of its pairs at once. An extra may judge in rounds instead: its row
of kind `rounds` says which modes it does so in, which pairs the replies so far call for, and what
its asset `judging_decisions` means for whoever reads the verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Protocol

from tournament_assets.foundation.extensions import added_rows
from tournament_assets.storage.tables import PairKey

if TYPE_CHECKING:
    import pandas as pd

    from tournament_assets.foundation.json_lines import JsonObject
    from tournament_assets.judging.requests.pairs import PairToJudge
    from tournament_assets.ledger import Ledger
    from tournament_assets.project.plan import TournamentPlan
    from tournament_assets.tournament.config import Mode, ModeConfig
    from tournament_assets.tournament.judges import Judge, Rubric


class RoundsConfig(Protocol):
    """How a mode judges in rounds; the model of a key that an extra adds to modes."""

    @property
    def goal(self) -> str:
        """The question that judging answers, in a word."""

    @property
    def rounds(self) -> int:
        """The largest number of rounds; with one, everything is judged."""

    @property
    def min_prompts(self) -> int:
        """The number of prompts on which every two entrants are judged at least."""

    @property
    def tail(self) -> float:
        """The share of what was not needed that is judged all the same."""

    def changed(self) -> JsonObject:
        """Return the settings that are not the default."""


class Course(Protocol):
    """How far judging of a dimension has come, by the replies so far."""

    @property
    def needed(self) -> tuple[PairToJudge, ...]:
        """The pairs that are judged now, in the order they came."""

    @property
    def possible(self) -> tuple[PairToJudge, ...]:
        """Those and the pairs of later rounds that may still be needed."""

    def known_shares(self) -> Mapping[tuple[str, str], Sequence[float]]:
        """Return the first entrant's shares of a win so far, by the two entrants."""

    def expected_share(self, pilot: Mapping[tuple[str, str], Sequence[float]]) -> float | None:
        """Estimate the share of the remaining requests that will be asked, by a pilot's shares.

        Returns:
            A share from 0 to 1; None if the pilot does not tell, or nothing remains.
        """


FollowCourse = Callable[
    ["TournamentPlan", "Mode", "Sequence[PairToJudge]", "Rubric", "Sequence[Judge]", "Ledger"],
    Course,
]
"""Returns the course of a mode's pairs on the dimension of a rubric, by the ledger's replies."""


@dataclass(frozen=True, slots=True)
class RoundsOutcome:
    """What judging in rounds came to on a dimension.

    Attributes:
        presentations: Presentations of all pairs to their judges.
        presentations_not_needed: Those that nobody is asked about, since the winner is known.
        presentations_undecided: Those of later rounds that may still be needed.
        pairs: Pairs of responses in all.
        pairs_not_needed: Those of them that nobody is asked about.
        pairs_undecided: Those of later rounds.
        weights: How many prompts a verdict stands for, by prompt, first and second entrant; 1
            unless named.
        decided: The decided pairs of entrants, as (better, worse); all right together at the
            configured confidence.
    """

    presentations: int
    presentations_not_needed: int
    presentations_undecided: int
    pairs: int
    pairs_not_needed: int
    pairs_undecided: int
    weights: Mapping[tuple[str, str, str], float]
    decided: frozenset[tuple[str, str]]

    def weight_of(self, pair: PairKey) -> float:
        """Return how many prompts the verdict on a pair stands for."""
        return self.weights.get((pair[0], *pair[2:]), 1.0)


@dataclass(frozen=True, slots=True)
class RoundsRow:
    """One way to judge in rounds.

    Attributes:
        config: Returns how a mode judges in rounds; None where it does not say.
        course: Says how far judging has come.
        outcome: Reads one dimension's table `judging_decisions`; None if everything was judged.
    """

    config: Callable[[ModeConfig], RoundsConfig | None]
    course: FollowCourse
    outcome: Callable[[pd.DataFrame], RoundsOutcome | None]


@cache
def _rows() -> tuple[RoundsRow, ...]:
    # Not at import: rows of extras follow a course with what stands above.
    return added_rows("rounds")


def rounds_config(mode: ModeConfig) -> RoundsConfig | None:
    """Return what a mode says about judging in rounds; None where it says nothing."""
    return next((config for row in _rows() if (config := row.config(mode)) is not None), None)


def goal_of_rounds(mode: ModeConfig) -> str | None:
    """Return the question by which judging in rounds ends; None where everything is judged."""
    config = rounds_config(mode)
    return None if config is None or config.rounds == 1 else config.goal


def follow_rounds(mode: ModeConfig) -> FollowCourse | None:
    """Return what says how far a mode's judging has come; None where everything is judged."""
    if goal_of_rounds(mode) is None:
        return None
    return next(row.course for row in _rows() if row.config(mode) is not None)


def outcome_of(decisions: pd.DataFrame | None) -> RoundsOutcome | None:
    """Return what table `judging_decisions` means; None if everything was judged."""
    if decisions is None:
        return None
    outcomes = (row.outcome(decisions) for row in _rows())
    return next((outcome for outcome in outcomes if outcome is not None), None)
