"""Which pairs of an adaptive run are judged: round by round, and no longer than it takes.

The prompts of every two entrants stand in one order, that of a hash of their ids, and are judged in
rounds. At the end of a round a pair whose winner is known stops: of its other prompts only a
share is judged, drawn by a hash, and each of those stands for several in the ratings. All of it is
a function of the pairs, the settings and the replies that the ledger holds, so a run that is killed
goes on where it was, a finished one asks nothing, and other prompts change the order of none.

A decision looks at what judging itself asks: the first reply to a request, and the second one where
the first is unreadable. What is asked again by hand later counts in the ratings and changes no
decision, for what a stop has saved must not come back. Two responses of one text are a half
that nobody is asked about; a pair without a verdict is passed over and counts as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequests, by_pair
from tournament_assets.judging.requests.verdict_parsing import needs_second_question, read_reply
from tournament_assets.ratings import sequential
from tournament_assets.ratings.sequential import (
    PairDecision,
    PairEvidence,
    StoppingRule,
    hashed_order,
    tail_prompts,
)
from tournament_assets.storage.tables import AnyTable, PairKey, pair_key, rows_of
from tournament_assets.tournament.asset_rows import DecisionRow, JudgeReplyRow
from tournament_assets.tournament.judges import AdaptiveConfig, JudgeConfig, Rubric
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.table_rows import reply_rows, settled_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

FindOutcomes = Callable[[Sequence[PairToJudge]], Mapping[PairKey, Outcome]]
"""Says how pairs were settled; one whose last reply is still to come is not in it."""

EVERYTHING = "everything"
"""The goal of a run that stops at nothing."""
_SHARES = {
    Outcome.A_WINS: 1.0,
    Outcome.B_WINS: 0.0,
    Outcome.TIE: 0.5,
    Outcome.SAME_TEXT: 0.5,
    Outcome.INCONSISTENT: 0.5,
}


@dataclass(frozen=True, slots=True)
class Course:
    """How far the judging of a dimension has come, as the replies so far decide it.

    Attributes:
        needed: The pairs that are judged, in the order they came.
        possible: Those and the pairs of later rounds that nobody knows to be needless.
        rows: The table `judging_decisions`.
        shares: The first entrant's shares of a win so far, of every two entrants in the order of
            the rows.
    """

    needed: tuple[PairToJudge, ...]
    possible: tuple[PairToJudge, ...]
    rows: tuple[DecisionRow, ...]
    shares: tuple[NDArray[np.float64], ...]

    def known_shares(self) -> dict[tuple[str, str], list[float]]:
        """Return the shares of the prompts with a verdict, by the two entrants; none is pending."""
        return {
            (row.entrant_a, row.entrant_b): own[~np.isnan(own)].tolist()
            for row, own in zip(last_rows(self.rows), self.shares, strict=True)
            if not row.pending
        }


def last_rows(rows: Iterable[DecisionRow]) -> Iterator[DecisionRow]:
    """Yield the last row of every two entrants."""
    for _, of_two in groupby(rows, key=lambda row: (row.entrant_a, row.entrant_b)):
        *_, last = of_two
        yield last


def decide(
    pairs: Sequence[PairToJudge],
    find_outcomes: FindOutcomes,
    *,
    dimension: str,
    adaptive: AdaptiveConfig | None,
    is_free: Callable[[PairToJudge], bool],
) -> Course:
    """Say which pairs of a dimension are judged, given what is known so far.

    Args:
        pairs: All pairs of the dimension.
        find_outcomes: Asked about the pairs of one round at a time.
        dimension: The quality that is judged.
        adaptive: How pairs stop; None if everything is judged.
        is_free: Whether a pair is settled without asking.
    """
    order = hashed_order([*dict.fromkeys(pair.prompt_id for pair in pairs)], salt=dimension)
    place = {name: index for index, name in enumerate(order)}
    by_two: dict[tuple[str, str], list[PairToJudge]] = {}
    for pair in pairs:
        by_two.setdefault((pair.entrant_a, pair.entrant_b), []).append(pair)
    for own in by_two.values():
        own.sort(key=lambda pair: place[pair.prompt_id])
    duels = [_Duel(own, dimension, adaptive, is_free) for own in by_two.values()]
    n_prompts = max(map(len, by_two.values()), default=0)
    rule = (
        stopping_rule(adaptive, n_pairs=len(duels), n_prompts=n_prompts)
        if adaptive is not None and duels
        else None
    )
    ends = (n_prompts,) if rule is None else rule.ends
    for end in ends:
        open_duels = [duel for duel in duels if duel.is_open]
        if not open_duels:
            break
        outcomes = find_outcomes([pair for duel in open_duels for pair in duel.asked_until(end)])
        for duel in open_duels:
            duel.take(outcomes, end)
        if any(duel.pending for duel in open_duels):
            # A decision moves the bar for the others, so a round is decided when it is whole.
            break
        if rule is not None:
            decisions = sequential.decide([duel.shares for duel in duels], rule)
            for duel, decision in zip(duels, decisions, strict=True):
                if duel in open_duels:
                    duel.decide(decision)
    needed = {key for duel in duels for key in duel.needed()}
    possible = needed | {key for duel in duels for key in duel.undecided()}
    return Course(
        needed=tuple(pair for pair in pairs if pair_key(pair) in needed),
        possible=tuple(pair for pair in pairs if pair_key(pair) in possible),
        shares=tuple(duel.shares for duel in duels),
        rows=tuple(row for duel in duels for row in duel.table_rows()),
    )


_MOST_SIMULATIONS, _SIMULATED_PAIRS = 40, 400


def expected_share(
    course: Course, pilot: Mapping[tuple[str, str], Sequence[float]], *, adaptive: AdaptiveConfig
) -> float | None:
    """Say which share of what may still be asked will be, if it goes on as in a pilot.

    The prompts to come are drawn from those that the pilot judged, and the rounds are played.

    Args:
        course: How far judging has come.
        pilot: Shares of a win of the first entrant on the pilot's prompts, by the two entrants.
        adaptive: How pairs stop.

    Returns:
        A share from 0 to 1; None where a pair has none in the pilot, or nothing is left.
    """
    rows = list(last_rows(course.rows))
    names = [(row.entrant_a, row.entrant_b) for row in rows]
    settled = [row.looked_at - row.pending for row in rows]
    left = sum(row.prompts - done for row, done in zip(rows, settled, strict=True))
    if not left or any(not pilot.get(name) for name in names):
        return None
    n_prompts = max(row.prompts for row in rows)
    rule = stopping_rule(adaptive, n_pairs=len(rows), n_prompts=n_prompts)
    rng = np.random.default_rng(0)
    n_simulations = max(3, min(_MOST_SIMULATIONS, _SIMULATED_PAIRS // len(rows)))
    asked = 0.0
    for _ in range(n_simulations):
        played = []
        for name, row, own in zip(names, rows, course.shares, strict=True):
            drawn = rng.choice(np.asarray(pilot[name]), row.prompts)
            if not row.pending:
                drawn[: own.size] = own
            played.append(drawn)
        for decision, row, done in zip(sequential.decide(played, rule), rows, settled, strict=True):
            ordered = decision.judged or row.prompts
            tail = adaptive.tail * (row.prompts - ordered)
            asked += max(0.0, ordered + tail - done)
    return asked / n_simulations / left


class _Duel:
    """Two entrants over all prompts, in the order of the hashes.

    Args:
        pairs: Their pairs, in that order.
        dimension: The quality that is judged.
        adaptive: How they stop; None if everything is judged.
        is_free: Whether a pair is settled without asking.
    """

    def __init__(
        self,
        pairs: Sequence[PairToJudge],
        dimension: str,
        adaptive: AdaptiveConfig | None,
        is_free: Callable[[PairToJudge], bool],
    ) -> None:
        self._adaptive, self._dimension, self._is_free = adaptive, dimension, is_free
        self.order = list(pairs)
        self._outcomes: dict[str, Outcome] = {}
        self._rows: list[DecisionRow] = []
        self._path: tuple[float, ...] = ()

    @property
    def _end(self) -> int:
        return self._rows[-1].looked_at if self._rows else 0

    @property
    def pending(self) -> int:
        """Prompts of the last round without their last reply."""
        return self._rows[-1].pending

    @property
    def is_open(self) -> bool:
        """Whether it is not decided yet."""
        return not self._rows or self._rows[-1].decided_at is None

    @property
    def shares(self) -> NDArray[np.float64]:
        """The first entrant's shares of a win so far, NaN without a verdict, shape (t,)."""
        known = (self._outcomes.get(each.prompt_id) for each in self.order[: self._end])
        shares = [np.nan if each is None else _SHARES.get(each, np.nan) for each in known]
        return np.array(shares, dtype=np.float64)

    def asked_until(self, end: int) -> list[PairToJudge]:
        """Return what the round that ends at some number of prompts asks about."""
        return self.order[self._end : end]

    def take(self, outcomes: Mapping[PairKey, Outcome], end: int) -> None:
        """Take what is known of a round's pairs."""
        found = {each.prompt_id: outcomes.get(pair_key(each)) for each in self.asked_until(end)}
        self._outcomes |= {name: each for name, each in found.items() if each is not None}
        pending = sum(each is None for each in found.values())
        later = sum(not self._is_free(each) for each in self.order[end:])
        row = DecisionRow(
            dimension=self._dimension,
            entrant_a=self.order[0].entrant_a,
            entrant_b=self.order[0].entrant_b,
            goal=EVERYTHING if self._adaptive is None else self._adaptive.goal,
            round=len(self._rows) + 1,
            prompts=len(self.order),
            looked_at=min(end, len(self.order)),
            counted=0,
            pending=pending,
            tail=(),
            weight=1.0,
            not_needed=0,
            free=sum(map(self._is_free, self.order)),
            undecided=later,
            path=(),
        )
        self._rows.append(row)
        shares = self.shares
        known = shares[~np.isnan(shares)]
        share = float(known.mean()) if known.size else None
        self._rows[-1] = replace(row, counted=known.size, share=share)

    def decide(self, decision: PairDecision) -> None:
        """Add what the evidence says, and what is judged after a stop."""
        known, row = decision.evidence, self._rows[-1]
        first, second = known.capital_first[-1], known.capital_second[-1]
        self._path = tuple(_signed_evidence(known).tolist())
        row = replace(
            row,
            capital=float(max(first, second)),
            threshold=known.threshold,
            evidence=self._path[-1],
            decided_at=known.stopped_at,
            side=_SIDES[known.side](row) if known.side is not None else None,
        )
        if np.isfinite(known.half_width[-1]):
            centre, reach = float(known.centre[-1]), float(known.half_width[-1])
            row = replace(row, low=max(0.0, centre - reach), high=min(1.0, centre + reach))
        if known.side is not None and self._adaptive is not None:
            left = [each for each in self.order[row.looked_at :] if not self._is_free(each)]
            tail = tail_prompts(
                [each.prompt_id for each in left],
                pair=(row.entrant_a, row.entrant_b),
                share=self._adaptive.tail,
                salt=self._dimension,
            )
            row = replace(
                row,
                tail=tail,
                weight=1 / self._adaptive.tail,
                not_needed=len(left) - len(tail),
                undecided=0,
            )
        self._rows[-1] = row

    def needed(self) -> Iterator[PairKey]:
        """Yield the pairs that are judged, and those of one text, which nobody is asked about.

        Of what is still open, these are the rounds so far and the next one.
        """
        tail = set(self._rows[-1].tail)
        for place, pair in enumerate(self.order):
            if place < self._end or pair.prompt_id in tail or self._is_free(pair):
                yield pair_key(pair)

    def undecided(self) -> Iterator[PairKey]:
        """Yield the pairs of later rounds, if there may be any."""
        if self.is_open:
            yield from map(pair_key, self.order[self._end :])

    def table_rows(self) -> Iterator[DecisionRow]:
        """Yield the rows of the table, the path in the last one."""
        *earlier, last = self._rows
        for row in earlier:
            yield replace(row, undecided=0)
        yield replace(last, path=self._path)


_SIDES: Mapping[str, Callable[[DecisionRow], str]] = {
    "first": lambda row: row.entrant_a,
    "second": lambda row: row.entrant_b,
}


def stopping_rule(adaptive: AdaptiveConfig, *, n_pairs: int, n_prompts: int) -> StoppingRule:
    """Return when a pair is decided, by the words of a config."""
    return StoppingRule(
        goal=adaptive.goal,
        confidence=adaptive.confidence,
        n_pairs=n_pairs,
        n_prompts=n_prompts,
        min_prompts=adaptive.min_prompts,
        rounds=adaptive.rounds,
    )


_MOST_EVIDENCE = 10.0
"""More than this says no more; a capital can be infinite."""


def _signed_evidence(known: PairEvidence) -> NDArray[np.float64]:
    """Return the evidence as a part of what decides, above 0 for the first, shape (t,)."""
    ahead = np.maximum(known.capital_first, known.capital_second)
    sign = np.where(known.capital_first >= known.capital_second, 1.0, -1.0)
    parts = sign * np.log(np.maximum(ahead, 1.0)) / np.log(known.threshold)
    clipped: NDArray[np.float64] = np.clip(parts, -_MOST_EVIDENCE, _MOST_EVIDENCE)
    return clipped


def is_free_with(judge: JudgeConfig) -> Callable[[PairToJudge], bool]:
    """Return what says whether a pair is settled without asking: its two responses are one text."""
    return lambda pair: judge.identical_responses_tie and pair.response_a == pair.response_b


def outcomes_in_ledger(
    ledger: Ledger,
    rubric: Rubric,
    judge: JudgeConfig,
    build: Callable[[list[PairToJudge]], JudgeRequests],
) -> FindOutcomes:
    """Return what reads from the ledger how pairs were settled when they were judged.

    Args:
        ledger: Where the replies are.
        rubric: What the judge goes by.
        judge: How replies are read, and whether pairs of one text are asked about.
        build: Makes the requests about some pairs.
    """
    is_free = is_free_with(judge)

    def find(pairs: Sequence[PairToJudge]) -> Mapping[PairKey, Outcome]:
        identical = [each for each in pairs if is_free(each)]
        requests = build(list(pairs))
        rows = reply_rows(
            by_pair(pairs, [requests]), pairs, ledger.iterate_replies, rubric, identical=identical
        )
        return _outcomes(rows, judge)

    return find


def outcomes_in_table(replies: AnyTable, judge: JudgeConfig) -> FindOutcomes:
    """Return what reads from the table `judge_replies` how pairs were settled when judged."""
    found = _outcomes(rows_of(JudgeReplyRow, replies), judge)
    return lambda _pairs: found


def _outcomes(rows: Iterable[JudgeReplyRow], judge: JudgeConfig) -> dict[PairKey, Outcome]:
    """Settle pairs by what judging itself asks; those that wait for a reply are left out."""
    found: dict[PairKey, Outcome] = {}
    for key, about_one_pair in groupby(rows, key=pair_key):
        replies = [*_asked_of_itself(about_one_pair, judge)]
        if all(each.result_type != "pending" for each in replies):
            (row,) = settled_rows(replies, judge=judge)
            found[key] = Outcome(row.outcome)
    return found


def _asked_of_itself(rows: Iterable[JudgeReplyRow], judge: JudgeConfig) -> Iterator[JudgeReplyRow]:
    """Yield each presentation's first reply, or the second where the first is unreadable.

    A second one that is still to come is pending.
    """
    in_order = sorted(rows, key=lambda row: (row.presentation, row.asking))
    for _, asked in groupby(in_order, key=lambda row: row.presentation):
        first, *later = asked
        if first.result_type in ("identical", "pending") or not _is_unreadable(first, judge):
            yield first
        elif later:
            yield later[0]
        else:
            yield replace(first, result_type="pending")


def _is_unreadable(row: JudgeReplyRow, judge: JudgeConfig) -> bool:
    verdict, _ = read_reply(
        result_type=row.result_type,
        stop_reason=row.stop_reason,
        text=row.reply,
        reply_format=judge.reply_format,
    )
    return needs_second_question(verdict)


@dataclass(frozen=True, slots=True)
class Unasked:
    """What an adaptive run did not ask, in presentations.

    Attributes:
        planned: All that there are.
        not_needed: Those that a stop made needless.
        undecided: Those of later rounds, of which nobody knows yet whether they are needed.
    """

    planned: int
    not_needed: int
    undecided: int

    @classmethod
    def of(cls, decisions: pd.DataFrame | None) -> Unasked | None:
        """Count them in the table `judging_decisions`; None where no pair stops."""
        rows = [] if decisions is None else list(last_rows(rows_of(DecisionRow, decisions)))
        if all(row.goal == EVERYTHING for row in rows):
            return None
        return cls(
            planned=2 * sum(row.prompts for row in rows),
            not_needed=2 * sum(row.not_needed for row in rows),
            undecided=2 * sum(row.undecided for row in rows),
        )


Weigh = Callable[[PairKey], float]
"""Says how many prompts the verdict on a pair stands for."""


def weights_of(decisions: pd.DataFrame) -> Weigh | None:
    """Return what weighs verdicts as the table `judging_decisions` says; None: each is itself."""
    rows = list(last_rows(rows_of(DecisionRow, decisions)))
    if all(row.goal == EVERYTHING for row in rows):
        return None
    tails = {(name, row.entrant_a, row.entrant_b): row.weight for row in rows for name in row.tail}
    return lambda key: tails.get(key, 1.0)


def sides_of(decisions: pd.DataFrame) -> frozenset[tuple[str, str]] | None:
    """Return who is decided to be above whom; None where no pair stops.

    All of it is right together with the confidence asked for.
    """
    rows = list(last_rows(rows_of(DecisionRow, decisions)))
    if all(row.goal == EVERYTHING for row in rows):
        return None
    return frozenset(
        (row.side, row.entrant_b if row.side == row.entrant_a else row.entrant_a)
        for row in rows
        if row.side is not None
    )
