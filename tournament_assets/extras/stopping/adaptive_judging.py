"""The pairs that an adaptive run judges: round by round, until their winners are known.

The prompts of every two entrants are ordered by a hash of their ids and judged in rounds. At the
end of a round a pair whose winner is known stops: of its other prompts only a share is judged,
drawn by a hash, and each of those stands for several in the ratings. All of it is a function of the
pairs, the settings and the replies that the ledger holds, so a killed run continues where it was, a
finished one asks nothing, and added prompts do not change the order of the others.

A decision uses only what judging itself asks: the first reply to a request, or the second if the
first is unreadable. Requests repeated by hand later count in the ratings but change no decision, so
that they do not undo what a stop has saved. Two identical responses count as one half without
asking; a pair without a verdict is skipped. Several judges are weighed by the earlier rounds, since
a bet must not depend on its own outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tournament_assets.extras.stopping.decisions import EVERYTHING, DecisionRow, last_rounds
from tournament_assets.extras.stopping.mode_keys import AdaptiveConfig, adaptive_of
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import by_pair
from tournament_assets.judging.requests.verdict_parsing import (
    needs_second_question,
    read_reply,
    settle_panel,
)
from tournament_assets.preparing.estimates import requests_of_share
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.ratings import sequential
from tournament_assets.ratings.prompt_rounds import hashed_order, tail_prompts
from tournament_assets.ratings.sequential import PairDecision, PairEvidence, StoppingRule
from tournament_assets.storage.tables import AnyTable, PairKey, pair_key, rows_of
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.judges import Judge, JudgingConfig, Rubric
from tournament_assets.verdicts.juries import WeighJudges, count_shown, weigh_judges
from tournament_assets.verdicts.table_rows import reply_rows, settled_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

FindVerdicts = Callable[[Sequence[PairToJudge]], Mapping[PairKey, Sequence[VerdictRow]]]
"""Return how each judge settled pairs, without pairs whose last reply is still to come."""

_MOST_SIMULATIONS, _SIMULATED_PAIRS = 40, 400


@dataclass(frozen=True, slots=True)
class Course:
    """The progress of judging a dimension, as decided by the replies so far.

    Attributes:
        needed: The pairs that are judged, in the order they came.
        possible: Those and the pairs of later rounds that may still be needed.
        rows: The table `judging_decisions`.
        shares: The first entrant's shares of a win so far, of every two entrants in the order of
            the rows.
        adaptive: How pairs stop; None if everything is judged.
    """

    needed: tuple[PairToJudge, ...]
    possible: tuple[PairToJudge, ...]
    rows: tuple[DecisionRow, ...]
    shares: tuple[NDArray[np.float64], ...]
    adaptive: AdaptiveConfig | None

    def known_shares(self) -> dict[tuple[str, str], list[float]]:
        """Return the shares on prompts with a verdict by the two entrants, without pending ones."""
        return {
            (row.entrant_a, row.entrant_b): shares[~np.isnan(shares)].tolist()
            for row, shares in zip(last_rounds(self.rows), self.shares, strict=True)
            if not row.pending
        }

    def expected_share(self, pilot: Mapping[tuple[str, str], Sequence[float]]) -> float | None:
        """Estimate the share of the remaining requests that will be asked, going by a pilot.

        Prompts to come are drawn from those that the pilot judged, and the rounds are simulated.

        Args:
            pilot: Shares of a win of the first entrant on the pilot's prompts, by the two entrants.

        Returns:
            A share from 0 to 1; None if a pair has no share in the pilot, or nothing remains.
        """
        rows = last_rounds(self.rows)
        names = [(row.entrant_a, row.entrant_b) for row in rows]
        settled = [row.looked_at - row.pending for row in rows]
        n_open = sum(row.prompts - done for row, done in zip(rows, settled, strict=True))
        if self.adaptive is None or not n_open or any(not pilot.get(name) for name in names):
            return None
        n_prompts = max(row.prompts for row in rows)
        rule = stopping_rule(self.adaptive, n_pairs=len(rows), n_prompts=n_prompts)
        rng = np.random.default_rng(0)
        n_simulations = max(3, min(_MOST_SIMULATIONS, _SIMULATED_PAIRS // len(rows)))
        n_asked = 0.0
        for _ in range(n_simulations):
            played = []
            for name, row, shares in zip(names, rows, self.shares, strict=True):
                drawn = rng.choice(np.asarray(pilot[name]), row.prompts)
                if not row.pending:
                    drawn[: shares.size] = shares
                played.append(drawn)
            for decision, row, done in zip(
                sequential.decide(played, rule), rows, settled, strict=True
            ):
                ordered = decision.judged or row.prompts
                tail = self.adaptive.tail * (row.prompts - ordered)
                n_asked += max(0.0, ordered + tail - done)
        return n_asked / n_simulations / n_open


def decide(
    pairs: Sequence[PairToJudge],
    find_verdicts: FindVerdicts,
    *,
    dimension: str,
    adaptive: AdaptiveConfig | None,
    is_free: Callable[[PairToJudge], bool],
    weigh: WeighJudges | None = None,
    count_shown: Callable[[PairToJudge], int] = lambda _: 2,
) -> Course:
    """Decide which pairs of a dimension are judged, from the verdicts so far.

    The samples of a prompt are asked about together, and the bet is on their mean share.

    Args:
        find_verdicts: Called with the pairs of one round at a time.
        adaptive: How pairs stop; None if everything is judged.
        is_free: Whether a pair is settled without asking.
        weigh: Weighs several judges; called before each round, because a bet must not depend on
            later verdicts. None with a single judge.
        count_shown: Returns in how many presentations all judges together are shown a pair.
    """
    duels = [
        _Duel(by_prompt, dimension, adaptive, is_free, count_shown)
        for by_prompt in _by_two(pairs, salt=dimension)
    ]
    _play(duels, adaptive, find_verdicts, weigh)
    needed = {key for duel in duels for key in duel.needed()}
    possible = needed | {key for duel in duels for key in duel.undecided()}
    return Course(
        needed=tuple(pair for pair in pairs if pair_key(pair) in needed),
        possible=tuple(pair for pair in pairs if pair_key(pair) in possible),
        shares=tuple(duel.shares for duel in duels),
        rows=tuple(row for duel in duels for row in duel.table_rows()),
        adaptive=adaptive,
    )


def _by_two(pairs: Sequence[PairToJudge], *, salt: str) -> Iterator[dict[str, list[PairToJudge]]]:
    """Yield the pairs of every two entrants, by prompt, in the order of the hashes."""
    order = hashed_order([*dict.fromkeys(pair.prompt_id for pair in pairs)], salt=salt)
    place = {name: index for index, name in enumerate(order)}
    by_two: dict[tuple[str, str], list[PairToJudge]] = {}
    for pair in pairs:
        by_two.setdefault((pair.entrant_a, pair.entrant_b), []).append(pair)
    for of_two in by_two.values():
        by_prompt: dict[str, list[PairToJudge]] = {}
        for pair in sorted(of_two, key=lambda pair: place[pair.prompt_id]):
            by_prompt.setdefault(pair.prompt_id, []).append(pair)
        yield by_prompt


def _play(
    duels: Sequence[_Duel],
    adaptive: AdaptiveConfig | None,
    find_verdicts: FindVerdicts,
    weigh: WeighJudges | None,
) -> None:
    """Play round after round, until one is incomplete or every duel is decided."""
    n_prompts = max((duel.n_prompts for duel in duels), default=0)
    rule = None
    if adaptive is not None and duels:
        rule = stopping_rule(adaptive, n_pairs=len(duels), n_prompts=n_prompts)
    history: list[VerdictRow] = []
    for end in (n_prompts,) if rule is None else rule.ends:
        undecided = [duel for duel in duels if duel.is_open]
        if not undecided:
            break
        weights = {} if weigh is None else weigh(history)
        verdicts = find_verdicts([pair for duel in undecided for pair in duel.round_to(end)])
        for duel in undecided:
            duel.take(verdicts, weights, end)
        history += [row for key in sorted(verdicts) for row in verdicts[key]]
        # A decision changes the threshold for the others: a round is decided only when complete.
        if rule is None or any(duel.pending for duel in undecided):
            break
        decisions = sequential.decide([duel.shares for duel in duels], rule)
        for duel, decision in zip(duels, decisions, strict=True):
            if duel in undecided:
                duel.decide(decision)


class _Duel:
    """Two entrants over all prompts, in the order of the hashes.

    Args:
        by_prompt: Their pairs, one for each sample, by prompt in that order.
        count_shown: In how many presentations a pair is shown.
    """

    def __init__(
        self,
        by_prompt: Mapping[str, Sequence[PairToJudge]],
        dimension: str,
        adaptive: AdaptiveConfig | None,
        is_free: Callable[[PairToJudge], bool],
        count_shown: Callable[[PairToJudge], int],
    ) -> None:
        self._adaptive, self._dimension, self._is_free = adaptive, dimension, is_free
        self._count_shown = count_shown
        self._order = list(by_prompt.items())
        self._shares: dict[str, float] = {}
        self._rows: list[DecisionRow] = []
        self._path: tuple[float, ...] = ()

    @property
    def n_prompts(self) -> int:
        """Prompts in all."""
        return len(self._order)

    @property
    def _end(self) -> int:
        return self._rows[-1].looked_at if self._rows else 0

    @property
    def pending(self) -> int:
        """Prompts of the last round without their last reply."""
        return self._rows[-1].pending

    @property
    def is_open(self) -> bool:
        """Whether the two entrants are undecided."""
        return not self._rows or self._rows[-1].decided_at is None

    @property
    def shares(self) -> NDArray[np.float64]:
        """The first entrant's shares of a win so far, NaN without a verdict, shape (t,)."""
        shares = [self._shares.get(name, np.nan) for name, _ in self._order[: self._end]]
        return np.array(shares, dtype=np.float64)

    def round_to(self, end: int) -> list[PairToJudge]:
        """Return the pairs asked about in the round that ends at a number of prompts."""
        return [pair for _, samples in self._order[self._end : end] for pair in samples]

    def take(
        self,
        verdicts: Mapping[PairKey, Sequence[VerdictRow]],
        weights: Mapping[str, float],
        end: int,
    ) -> None:
        """Take in the verdicts on a round's pairs."""
        pending = 0
        for name, samples in self._order[self._end : end]:
            settled = [verdicts[key] for pair in samples if (key := pair_key(pair)) in verdicts]
            if len(settled) < len(samples):
                pending += 1
                continue
            shares = [share for rows in settled if (share := _share(rows, weights)) is not None]
            if shares:
                self._shares[name] = fmean(shares)
        later = [samples for _, samples in self._order[end:]]
        counted = [self._shares[name] for name, _ in self._order[:end] if name in self._shares]
        first = self._order[0][1][0]
        row = DecisionRow(
            dimension=self._dimension,
            entrant_a=first.entrant_a,
            entrant_b=first.entrant_b,
            goal=EVERYTHING if self._adaptive is None else self._adaptive.goal,
            round=len(self._rows) + 1,
            prompts=len(self._order),
            looked_at=min(end, len(self._order)),
            counted=len(counted),
            share=float(np.mean(counted)) if counted else None,
            pending=pending,
            tail=(),
            weight=1.0,
            not_needed=0,
            pairs=sum(len(samples) for _, samples in self._order),
            free=sum(self._is_free(pair) for _, samples in self._order for pair in samples),
            undecided=sum(map(self._n_asked, later)),
            presentations=sum(
                self._count_shown(pair) for _, samples in self._order for pair in samples
            ),
            presentations_not_needed=0,
            presentations_undecided=sum(map(self._n_presentations, later)),
            path=(),
        )
        self._rows.append(row)

    def decide(self, decision: PairDecision) -> None:
        """Add the decisions by the evidence, and what is judged after a stop."""
        evidence, row = decision.evidence, self._rows[-1]
        first, second = evidence.capital_first[-1], evidence.capital_second[-1]
        self._path = tuple(_signed_evidence(evidence).tolist())
        row = replace(
            row,
            capital=float(max(first, second)),
            threshold=evidence.threshold,
            evidence=self._path[-1],
            decided_at=evidence.stopped_at,
            side={None: None, "first": row.entrant_a, "second": row.entrant_b}[evidence.side],
        )
        if np.isfinite(evidence.half_width[-1]):
            centre, reach = float(evidence.centre[-1]), float(evidence.half_width[-1])
            row = replace(row, low=max(0.0, centre - reach), high=min(1.0, centre + reach))
        if row.side is not None and self._adaptive is not None:
            row = self._with_tail(row, self._adaptive.tail)
        self._rows[-1] = row

    def _with_tail(self, row: DecisionRow, share: float) -> DecisionRow:
        later = {
            name: samples
            for name, samples in self._order[row.looked_at :]
            if self._n_asked(samples)
        }
        pair = row.entrant_a, row.entrant_b
        tail = tail_prompts([*later], pair=pair, share=share, salt=self._dimension)
        saved = [samples for name, samples in later.items() if name not in set(tail)]
        return replace(
            row,
            tail=tail,
            weight=1 / share,
            not_needed=sum(map(self._n_asked, saved)),
            undecided=0,
            presentations_not_needed=sum(map(self._n_presentations, saved)),
            presentations_undecided=0,
        )

    def needed(self) -> Iterator[PairKey]:
        """Yield the pairs that are judged, and identical ones, which no judge is asked about.

        While undecided, these are the pairs of the rounds so far and the next one.
        """
        tail = set(self._rows[-1].tail)
        for place, (name, samples) in enumerate(self._order):
            for pair in samples:
                if place < self._end or name in tail or self._is_free(pair):
                    yield pair_key(pair)

    def undecided(self) -> Iterator[PairKey]:
        """Yield the pairs of later rounds, if there may be any."""
        if self.is_open:
            yield from map(pair_key, self.round_to(len(self._order)))

    def _n_asked(self, samples: Sequence[PairToJudge]) -> int:
        return sum(not self._is_free(pair) for pair in samples)

    def _n_presentations(self, samples: Sequence[PairToJudge]) -> int:
        return sum(self._count_shown(pair) for pair in samples if not self._is_free(pair))

    def table_rows(self) -> Iterator[DecisionRow]:
        """Yield the rows of the table; the last one holds the path."""
        *earlier, last = self._rows
        for row in earlier:
            yield replace(row, undecided=0, presentations_undecided=0)
        yield replace(last, path=self._path)


def _share(rows: Sequence[VerdictRow], weights: Mapping[str, float]) -> float | None:
    """Return the first entrant's share of a pair, by all its judges."""
    if not weights:
        (row,) = rows
        return row.share
    return settle_panel(rows, weights, settled_by="").share


def stopping_rule(adaptive: AdaptiveConfig, *, n_pairs: int, n_prompts: int) -> StoppingRule:
    """Return the rule by which a pair is decided, as the config says."""
    return StoppingRule(
        goal=adaptive.goal,
        confidence=adaptive.confidence,
        n_pairs=n_pairs,
        n_prompts=n_prompts,
        min_prompts=adaptive.min_prompts,
        rounds=adaptive.rounds,
    )


_MOST_EVIDENCE = 10.0
"""The largest evidence that is written; a capital can be infinite."""


def _signed_evidence(evidence: PairEvidence) -> NDArray[np.float64]:
    """Return log evidence over its threshold's log, positive for the first entrant, shape (t,)."""
    ahead = np.maximum(evidence.capital_first, evidence.capital_second)
    sign = np.where(evidence.capital_first >= evidence.capital_second, 1.0, -1.0)
    parts = sign * np.log(np.maximum(ahead, 1.0)) / np.log(evidence.threshold)
    clipped: NDArray[np.float64] = np.clip(parts, -_MOST_EVIDENCE, _MOST_EVIDENCE)
    return clipped


def course_so_far(
    plan: TournamentPlan,
    mode: Mode,
    pairs: Sequence[PairToJudge],
    rubric: Rubric,
    judges: Sequence[Judge],
    ledger: Ledger,
) -> Course:
    """Decide which pairs of a dimension are judged, from the replies that the ledger holds."""
    judging = plan.config.judging
    is_free = is_free_with(judging)

    def find(pairs: Sequence[PairToJudge]) -> Mapping[PairKey, Sequence[VerdictRow]]:
        identical = [pair for pair in pairs if is_free(pair)]
        requests = [requests_of_share(plan, pairs, rubric, judge) for judge in judges]
        rows = reply_rows(
            by_pair(pairs, requests), pairs, ledger.iterate_replies, rubric, identical=identical
        )
        return _verdicts(rows, judging)

    return decide_mode(plan, mode, pairs, find, dimension=rubric.dimension, judges=judges)


def decide_mode(
    plan: TournamentPlan,
    mode: Mode,
    pairs: Sequence[PairToJudge],
    find_verdicts: FindVerdicts,
    *,
    dimension: str,
    judges: Sequence[Judge],
) -> Course:
    """Decide which pairs of a dimension are judged, as a mode of the config says."""
    adaptive = adaptive_of(plan.config.mode(mode))
    return decide(
        pairs,
        find_verdicts,
        dimension=dimension,
        adaptive=None if adaptive is None or adaptive.rounds == 1 else adaptive,
        is_free=is_free_with(plan.config.judging),
        weigh=weigh_judges(plan.config, mode),
        count_shown=count_shown(judges),
    )


def is_free_with(judging: JudgingConfig) -> Callable[[PairToJudge], bool]:
    """Return a test of whether a pair is settled without asking, having identical responses."""
    return lambda pair: judging.identical_responses_tie and pair.response_a == pair.response_b


def verdicts_in_table(replies: AnyTable, judging: JudgingConfig) -> FindVerdicts:
    """Return a function that reads from table `judge_replies` how pairs were settled."""
    verdicts = _verdicts(rows_of(JudgeReplyRow, replies), judging)
    return lambda pairs: {key: verdicts[key] for key in map(pair_key, pairs) if key in verdicts}


def _verdicts(
    rows: Iterable[JudgeReplyRow], judging: JudgingConfig
) -> dict[PairKey, Sequence[VerdictRow]]:
    """Settle pairs by the replies of judging itself; pairs that wait for a reply are left out."""
    verdicts: dict[PairKey, Sequence[VerdictRow]] = {}
    for key, about_one_pair in groupby(rows, key=pair_key):
        replies = [*_asked_of_itself(about_one_pair, judging)]
        if all(reply.result_type != "pending" for reply in replies):
            verdicts[key] = [*settled_rows(replies, reply_format=judging.reply_format)]
    return verdicts


def _asked_of_itself(
    rows: Iterable[JudgeReplyRow], judging: JudgingConfig
) -> Iterator[JudgeReplyRow]:
    """Yield each presentation's first reply, or the second where the first is unreadable.

    A second reply that is still to come is pending.
    """
    in_order = sorted(rows, key=lambda row: (row.judge_model, row.presentation, row.attempt))
    for _, attempts in groupby(in_order, key=lambda row: (row.judge_model, row.presentation)):
        first, *later = attempts
        if first.result_type in ("identical", "pending") or not _is_unreadable(first, judging):
            yield first
        elif later:
            yield later[0]
        else:
            yield replace(first, result_type="pending")


def _is_unreadable(row: JudgeReplyRow, judging: JudgingConfig) -> bool:
    verdict, _ = read_reply(
        result_type=row.result_type,
        stop_reason=row.stop_reason,
        text=row.reply,
        reply_format=judging.reply_format,
    )
    return needs_second_question(verdict)
