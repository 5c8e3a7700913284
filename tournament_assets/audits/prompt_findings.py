"""Findings about prompts: their kinds, the measurements behind them, and their wording.

Decisive prompts: each prompt is left out in turn and the entrants are rated by Bradley-Terry on the
others, all in one fit. This is the jackknife's leave-one-out by prompt, read prompt by prompt
instead of summed up as a standard error. Source: Miller, "The jackknife - a review",
https://doi.org/10.1093/biomet/61.1.1.

Signal to noise: the variation between groups, relative to that of repeated scores of one group. A
one-way random-effects analysis of variance of k groups and N scores gives

    MSB = sum_i n_i (mean_i - mean)^2 / (k - 1)              between groups
    MSW = sum_i sum_j (score_ij - mean_i)^2 / (N - k)        within them: noise
    signal to noise = max(0, MSB - MSW) / MSW                of the mean of one group's scores

Where groups do not differ, MSB / MSW follows the F distribution with k - 1 and N - k degrees of
freedom. Its 95th percentile, less one, is the chance level: without any signal one ratio in
twenty is above it. F takes scores as normal. With scores of 0 and 1 alone the share is 3 to 10 %
(simulated in the tests), and with a single degree of freedom any ratio may be chance.
Sources: Searle, Casella and McCulloch, "Variance Components",
https://doi.org/10.1002/9780470316856, section 3.6 (unbalanced data); Shrout and Fleiss,
"Intraclass correlations: uses in assessing rater reliability",
https://doi.org/10.1037/0033-2909.86.2.420: with n scores a group the ratio is
ICC(1, n) / (1 - ICC(1, n)).

A prompt's discrimination, relative to the judge's inconsistency on it. Every entrant has two scores
on a prompt: its mean points over its pairs in presentation `ab`, and in presentation `ba`. If the
judge ignored positions, both would be the same. So the two presentations are two repetitions of one
measurement, and `signal_noise` separates what differs between entrants from what differs between
presentations.

One entrant's gain is the other's loss, so the differences of all n entrants sum to zero: the mean
square within has n - 1 degrees of freedom here, where independent scores would have n. With random
replies both mean squares have the same expectation when everybody met everybody.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import pairwise
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from tournament_assets.audits.missingness import PairReading, ReplyReading
from tournament_assets.ratings.bradley_terry import (
    ELO_PER_NAT,
    are_strongly_connected,
    find_standing,
    log_strengths,
)
from tournament_assets.ratings.matches import Matches
from tournament_assets.tournament.asset_rows import PromptFindingRow
from tournament_assets.tournament.verdicts import Verdict

_DECIMALS = 6
"""Decimals of Elo points to which the fit is accurate."""
_TABLES_AT_ONCE = 4096
"""Tables fitted together; a fit takes several times their memory."""
_LEAST_GAP = 10**-_DECIMALS
"""Elo points below which two ratings count as equal."""


@dataclass(frozen=True, slots=True)
class PromptInfluence:
    """The effect on the ratings of leaving out one prompt.

    Attributes:
        moved: The entrant whose rating moves most; None if the other prompts determine no rating.
        move: Its signed change in Elo points when the prompt is left out.
        swaps: Neighbours in the ranking, the better first, that change places without it, or that
            are equal only with or only without it.
        keeps_connected: Whether the other prompts still determine every rating.
    """

    prompt_id: str
    moved: str | None
    move: float | None
    swaps: tuple[tuple[str, str], ...]
    keeps_connected: bool


def leave_one_prompt_out(matches: Matches) -> list[PromptInfluence]:
    """Rate without each prompt in turn; in the order of `matches.prompts`.

    Only entrants with a rating on all prompts take part: an entrant that won or lost every match
    has no rating that could move.

    Args:
        matches: Who beat whom on which prompt; a tie is half a win for each.
    """
    rated = find_standing(matches.wins).rated if matches.prompts else np.zeros(0, dtype=np.bool_)
    if rated.sum() < 2:
        return []
    names = [name for name, is_rated in zip(matches.entrants, rated, strict=True) if is_rated]
    by_prompt = matches.wins_by_prompt()[:, rated][:, :, rated]  # (n_prompts, n, n)
    everything = by_prompt.sum(axis=0)
    without = everything - by_prompt
    connected = are_strongly_connected(without)
    ratings = np.full((len(matches.prompts), len(names)), np.nan)
    tables = np.flatnonzero(connected)
    for start in range(0, tables.size, _TABLES_AT_ONCE):
        some = tables[start : start + _TABLES_AT_ONCE]
        ratings[some] = log_strengths(without[some]) * ELO_PER_NAT
    full = log_strengths(everything) * ELO_PER_NAT
    order = np.argsort(-full, kind="stable")
    return [
        _influence(prompt_id, row - full, row, full, order, names, bool(is_connected))
        for prompt_id, row, is_connected in zip(matches.prompts, ratings, connected, strict=True)
    ]


def _influence(
    prompt_id: str,
    moves: NDArray[np.float64],
    ratings: NDArray[np.float64],
    full: NDArray[np.float64],
    order: NDArray[np.int64],
    names: Sequence[str],
    is_connected: bool,
) -> PromptInfluence:
    if not is_connected:
        return PromptInfluence(prompt_id, None, None, (), keeps_connected=False)
    # Moves that differ only by rounding are equal; then the first entrant is named.
    moves = np.round(moves, _DECIMALS)
    largest = int(np.argmax(np.abs(moves)))
    swaps = tuple(
        (names[upper], names[lower])
        for upper, lower in pairwise(order)
        if _sign(full[upper] - full[lower]) != _sign(ratings[upper] - ratings[lower])
    )
    return PromptInfluence(
        prompt_id, names[largest], float(moves[largest]), swaps, keeps_connected=True
    )


def _sign(gap: float) -> int:
    return 0 if abs(gap) < _LEAST_GAP else (1 if gap > 0 else -1)


_BY_CHANCE = 0.05
"""Probability of a ratio above the chance level if groups do not differ."""
_ROUNDING = 1e-9
"""Differences below this fraction of the largest score are rounding errors of sums."""


@dataclass(frozen=True, slots=True)
class SignalToNoise:
    """The analysis of variance of some groups.

    Attributes:
        between: MSB, the mean square between groups.
        within: MSW, the mean square within them.
        between_freedom: Degrees of freedom of `between`.
        within_freedom: Degrees of freedom of `within`.
    """

    between: float
    within: float
    between_freedom: int
    within_freedom: int

    @property
    def ratio(self) -> float | None:
        """Signal to noise; infinite without noise, None where there is neither."""
        if self.within == 0:
            return math.inf if self.between > 0 else None
        return max(0.0, self.between - self.within) / self.within

    @property
    def chance_level(self) -> float:
        """The ratio that is exceeded once in twenty if groups do not differ.

        Infinite with one degree of freedom, since two scores agree by chance too often.
        """
        if self.within_freedom < 2:
            return math.inf
        # Imported here, so that loading the definitions does not pay for it.
        from scipy.special import fdtri

        return float(fdtri(self.between_freedom, self.within_freedom, 1 - _BY_CHANCE)) - 1

    @property
    def is_above_chance(self) -> bool:
        """Whether the ratio shows that groups differ."""
        return self.ratio is not None and self.ratio > self.chance_level


def measure_signal(
    groups: Sequence[Sequence[float]], *, within_freedom: int | None = None
) -> SignalToNoise | None:
    """Separate the variation between groups from that within them.

    Args:
        groups: The scores of each group; those without a score are left out.
        within_freedom: Degrees of freedom within groups, where scores depend on one another; by
            default the number of scores minus that of groups.

    Returns:
        None with fewer than two groups, or where no group has two scores.
    """
    groups = [group for group in groups if group]
    n_scores = sum(map(len, groups))
    if len(groups) < 2 or n_scores == len(groups):
        return None
    freedom = n_scores - len(groups) if within_freedom is None else within_freedom
    means = [math.fsum(group) / len(group) for group in groups]
    overall = math.fsum(math.fsum(group) for group in groups) / n_scores
    between = math.fsum(
        len(group) * (mean - overall) ** 2 for group, mean in zip(groups, means, strict=True)
    ) / (len(groups) - 1)
    within = (
        math.fsum(
            (score - mean) ** 2
            for group, mean in zip(groups, means, strict=True)
            for score in group
        )
        / freedom
    )
    rounding = (_ROUNDING * max(abs(score) for group in groups for score in group)) ** 2
    return SignalToNoise(
        between=between if between > rounding else 0.0,
        within=within if within > rounding else 0.0,
        between_freedom=len(groups) - 1,
        within_freedom=freedom,
    )


# Points of entrant_a by verdict, for `ab`, where it is shown as A, and for `ba`.
_POINTS_AB = {Verdict.A: 1.0, Verdict.B: 0.0, Verdict.TIE: 0.5}
_POINTS_BA = {Verdict.A: 0.0, Verdict.B: 1.0, Verdict.TIE: 0.5}


@dataclass(frozen=True, slots=True)
class PromptNoise:
    """The signal and the noise on one prompt.

    Attributes:
        n_disagreements: Judged pairs whose two presentations end differently.
        n_judged: Judged pairs.
        signal: Variation between entrants against that between presentations; None with fewer than
            two entrants.
    """

    prompt_id: str
    n_disagreements: int
    n_judged: int
    signal: SignalToNoise | None

    @property
    def ratio(self) -> float | None:
        """Signal to noise; infinite without noise, None where there is neither."""
        return None if self.signal is None else self.signal.ratio


def measure_noise(prompt_id: str, pairs: Iterable[PairReading]) -> PromptNoise:
    """Separate the scores on one prompt into signal and presentation noise.

    Args:
        pairs: Its pairs on one dimension; those that are not settled are left out.
    """
    scores: dict[str, list[tuple[float, float]]] = {}
    judged = disagreements = 0
    for pair in pairs:
        if pair.share is None:
            continue
        judged += pair.is_judged
        shown_first = _mean_points(pair.replies[::2], _POINTS_AB)
        shown_second = _mean_points(pair.replies[1::2], _POINTS_BA)
        disagreements += shown_first != shown_second
        scores.setdefault(pair.entrant_a, []).append((shown_first, shown_second))
        scores.setdefault(pair.entrant_b, []).append((1 - shown_first, 1 - shown_second))
    means = [
        [math.fsum(side) / len(points) for side in zip(*points, strict=True)]
        for points in scores.values()
    ]
    signal = measure_signal(means, within_freedom=len(means) - 1)
    return PromptNoise(prompt_id, disagreements, judged, signal)


def _mean_points(replies: Iterable[ReplyReading], points: Mapping[Verdict, float]) -> float:
    return fmean(points[each.verdict] for each in replies if each.verdict.is_decided)


_NOISY = 1.0
"""Signal to noise below which presentation noise exceeds the signal."""


class FindingKind(StrEnum):
    """Kinds of findings about prompts, by what they can change: the ranking first."""

    DECIDES_ORDER = "decides_order"
    """Without this prompt neighbours in the ranking change places."""
    CONNECTS = "connects"
    """Without this prompt an entrant has no rating."""
    SIGNAL_TO_NOISE = "signal_to_noise"
    """Variation between entrants against that between presentations."""
    JUDGE_FAILURES = "judge_failures"
    """More replies are missing on this prompt than expected by chance."""
    STRATUM_FAILURE = "stratum_failure"
    """An entrant loses in one stratum and nowhere else."""
    MOVES_RATING = "moves_rating"
    """How far ratings move without this prompt; a finding for the prompt that moves them most."""
    ALL_INCONSISTENT = "all_inconsistent"
    """Every judged pair changes its winner with the positions."""
    EQUAL_SCORES = "equal_scores"
    """Pairs have winners but form cycles: every entrant has the same score."""
    NO_WINNER = "no_winner"
    """Every entrant loses or ties every pair: no pair has a winner."""


def describe_noise(noise: PromptNoise, *, dimension: str, stratum: str) -> PromptFindingRow:
    """Put the signal and the noise of a prompt into words; a small ratio is a finding."""
    signal, ratio = noise.signal, noise.ratio
    if signal is None:
        words = "cannot be said: fewer than two entrants are judged"
    elif ratio is None:
        words = "cannot be said: neither entrants nor presentations differ"
    elif math.isinf(ratio):
        words = "is without bound: both presentations agree everywhere"
    else:
        words = (
            f"is {ratio:.2f} (mean squares {signal.between:.3f} between entrants, "
            f"{signal.within:.3f} between presentations; "
            + (
                "with two entrants any ratio may be chance)"
                if math.isinf(signal.chance_level)
                else f"by chance alone 1 prompt in 20 is above {signal.chance_level:.2f})"
            )
        )
    return PromptFindingRow(
        dimension=dimension,
        kind=FindingKind.SIGNAL_TO_NOISE,
        is_finding=ratio is not None and ratio < _NOISY,
        prompt_id=noise.prompt_id,
        stratum=stratum,
        value=ratio,
        count=noise.n_disagreements,
        total=noise.n_judged,
        sentence=(
            f"Signal to noise on {noise.prompt_id} {words}; {noise.n_disagreements} of "
            f"{noise.n_judged} judged pairs change with the position."
        ),
    )


def describe_influence(
    influence: PromptInfluence,
    *,
    dimension: str,
    stratum: str,
    judged: int,
    pairs: int,
    largest: float,
) -> Iterator[PromptFindingRow]:
    """Put the effect of leaving out a prompt into words.

    Args:
        influence: The effect.
        stratum: The prompt's stratum.
        judged: Judged pairs on it.
        largest: The largest move by any prompt, in Elo points.
    """
    prompt_id = influence.prompt_id
    finding = partial(
        PromptFindingRow,
        dimension=dimension,
        prompt_id=prompt_id,
        stratum=stratum,
        count=judged,
        total=pairs,
    )
    if not influence.keeps_connected:
        yield finding(
            kind=FindingKind.CONNECTS,
            is_finding=True,
            sentence=(
                f"Without {prompt_id} the wins no longer connect all rated entrants, so an "
                "entrant has no rating without this prompt."
            ),
        )
        return
    if influence.move is None or influence.moved is None:
        return
    moved = f"{influence.moved} moves by {influence.move:+.1f} Elo points"
    if influence.swaps:
        swapped = "; ".join(f"{upper} and {lower}" for upper, lower in influence.swaps)
        yield finding(
            kind=FindingKind.DECIDES_ORDER,
            is_finding=True,
            entrants=tuple(dict.fromkeys(name for pair in influence.swaps for name in pair)),
            value=influence.move,
            sentence=(
                f"Without {prompt_id} the order of neighbours changes: {swapped} (and {moved})."
            ),
        )
    yield finding(
        kind=FindingKind.MOVES_RATING,
        is_finding=0 < largest * (1 - 1e-9) <= abs(influence.move),
        entrants=(influence.moved,),
        value=influence.move,
        sentence=f"Without {prompt_id}, {moved}.",
    )
