"""Whether a judge contradicts itself: between the two orders of a pair, and around three entrants.

Position bias: a judge without it names the first slot in half of the replies that name a slot, and
pairs that flip (both replies name the same slot) flip equally often to either slot. Only pairs put
to the judge count, and each pair of requests only once: two pairs of entrants with the same two
texts share their requests. Sources: Zheng et al., "Judging LLM-as-a-judge with MT-bench and Chatbot
Arena", https://arxiv.org/abs/2306.05685 (the bias, and the swap that shows it); McNemar,
https://doi.org/10.1007/BF02295996 (what discordant pairs say about a direction).

Transitivity: equal entrants beat each other at random, and then a quarter of all triples are cycles
(Kendall and Babington Smith, "On the method of paired comparisons",
https://doi.org/10.1093/biomet/31.3-4.324). So cycles are compared with simulations of independent
outcomes on one scale: every decisive pair is redrawn many times with the odds of a Bradley-Terry
fit to all of them. The p-value counts the observation among the simulations, so it is never 0:
Phipson and Smyth, https://doi.org/10.2202/1544-6115.1585.

The share that runs in circles: the log odds of every two entrants are split into differences of one
rating each, by least squares weighted with their precision, and what no ratings can say. These are
the gradient and the residual of a Hodge decomposition, and their sums of squares add up: Jiang,
Lim, Yao and Ye, "Statistical ranking and combinatorial Hodge theory",
https://doi.org/10.1007/s10107-010-0419-x. Noise fills both parts, equals above all, so what prompts
drawn again add to each is taken off.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tournament_assets.audits.agreement import measure_by_prompt
from tournament_assets.foundation.estimates import CELLS_AT_ONCE, Estimate, Resampling
from tournament_assets.ratings.bradley_terry import PromptResamples, find_groups, log_strengths
from tournament_assets.ratings.intervals import expanded_percentile_interval
from tournament_assets.ratings.matches import Matches, require_count
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair and its two verdicts.

    Attributes:
        judgment: How it was settled.
        verdicts: What the replies to its presentations say; A is the response shown first.
        requests: The keys of the two requests; pairs with the same two were asked once.
        longer: Which response has more words: `a_wins` for entrant_a's, `b_wins` for
            entrant_b's, `tie` where they have equally many; None where that is not known.
    """

    judgment: Judgment
    verdicts: tuple[Verdict, Verdict]
    requests: tuple[str, str]
    longer: Outcome | None = None


def distinct_requests(pairs: Iterable[JudgedPair]) -> list[JudgedPair]:
    """Return the pairs put to the judge; of pairs that share both requests, only one."""
    by_requests: dict[frozenset[str], JudgedPair] = {}
    for pair in pairs:
        if pair.judgment.outcome is not Outcome.SAME_TEXT:
            by_requests.setdefault(frozenset(pair.requests), pair)
    return [*by_requests.values()]


@dataclass(frozen=True, slots=True)
class PositionBias:
    """A judge's position bias; intervals are by prompt.

    Attributes:
        first_slot: Replies that name the response shown first, of those that name either, where
            both replies to the pair are readable, so that both orders count.
        flips_to_first: Pairs whose replies both name the first slot, of those whose replies both
            name the same slot.
        half_flips: Pairs with one reply that names a response and one that says tie.
        consistent: Pairs that come out the same whichever response is shown first, of those with
            two readable replies.
    """

    first_slot: Estimate
    flips_to_first: Estimate
    half_flips: int
    consistent: Estimate


def measure_position_bias(pairs: Iterable[JudgedPair], *, confidence: float = 0.95) -> PositionBias:
    """Count the slots that the replies prefer.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    pairs = list(pairs)
    readable = [
        (pair.judgment.prompt_id, *pair.verdicts)
        for pair in pairs
        # Both presentations of two equal texts are one request, which has no other order.
        if all(reply.is_decided for reply in pair.verdicts) and len(set(pair.requests)) == 2
    ]
    half_flips = sum((ab is Verdict.TIE) != (ba is Verdict.TIE) for _, ab, ba in readable)
    return PositionBias(
        first_slot=measure_by_prompt(
            (
                (prompt_id, reply is Verdict.A)
                for prompt_id, *replies in readable
                for reply in replies
                if reply is not Verdict.TIE
            ),
            confidence=confidence,
        ),
        flips_to_first=measure_by_prompt(
            (
                (prompt_id, ab is Verdict.A)
                for prompt_id, ab, ba in readable
                if ab is ba is not Verdict.TIE
            ),
            confidence=confidence,
        ),
        half_flips=half_flips,
        consistent=measure_by_prompt(
            (
                (pair.judgment.prompt_id, not pair.judgment.inconsistent)
                for pair in pairs
                if pair.judgment.outcome.is_judged and len(set(pair.requests)) == 2
            ),
            confidence=confidence,
        ),
    )


def measure_longer_wins(pairs: Iterable[JudgedPair], *, confidence: float = 0.95) -> Estimate:
    """Count how often the response with more words won, of decided pairs of unequal length.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    return measure_by_prompt(
        (
            (pair.judgment.prompt_id, pair.judgment.outcome is pair.longer)
            for pair in pairs
            if pair.judgment.outcome.is_decisive
            and pair.longer is not None
            and pair.longer.is_decisive
        ),
        confidence=confidence,
    )


def measure_circles(matches: Matches, resampling: Resampling) -> Estimate:
    """Measure the share of the variance between entrants that runs in circles.

    0 is a judge whose verdicts follow one scale, 1 is one for whom nobody is above anybody else.

    Args:
        matches: Who beat whom on which prompt; a tie is half a win for each.
        resampling: Of the prompts, for what noise adds and for the interval.

    Returns:
        Without a value where no three entrants all met, or nothing but noise tells them apart;
        `n` counts prompts.
    """
    wins = matches.wins
    first, second = np.nonzero(np.triu(wins + wins.T) > 0)
    incidence = np.zeros((first.size, len(matches.entrants)))
    incidence[np.arange(first.size), first] = 1.0
    incidence[np.arange(first.size), second] = -1.0
    n_prompts = len(matches.prompts)
    if first.size <= np.linalg.matrix_rank(incidence):
        return Estimate(None, n=n_prompts, note="no three entrants all met")
    # Half a win for each side keeps the odds finite.
    won, lost = wins[first, second] + 0.5, wins[second, first] + 0.5
    scale = np.sqrt(1 / (1 / won + 1 / lost))
    fit = scale[:, None] * incidence
    gradient = fit @ np.linalg.pinv(fit)  # (n_pairs, n_pairs), a projection

    def parts(odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums of squares in circles and in all, shape (2, n)."""
        whole = (odds**2).sum(axis=1)
        return np.stack([((odds - odds @ gradient) ** 2).sum(axis=1), whole])

    tables = PromptResamples(matches, seed=resampling.seed).draw(resampling.n)
    drawn = np.log((tables[:, first, second] + 0.5) / (tables[:, second, first] + 0.5)) * scale
    noise = parts(drawn - drawn.mean(axis=0)).mean(axis=1, keepdims=True)
    value = float(_share(parts((np.log(won / lost) * scale)[None]) - noise)[0])
    if np.isnan(value):
        return Estimate(None, n=n_prompts, note="nothing but noise tells the entrants apart")
    # A resample has the noise of the prompts and that of drawing them again.
    shares = _share(parts(drawn) - 2 * noise)
    interval = expanded_percentile_interval(
        # A resample of nothing but noise says nothing about the share.
        np.stack([np.nan_to_num(shares, nan=0.0), np.nan_to_num(shares, nan=1.0)], axis=1),
        confidence=resampling.confidence,
        n_units=n_prompts,
    )
    low, high = float(interval.low[0]), float(interval.high[1])
    if not np.isfinite(low + high):
        return Estimate(value, n=n_prompts)
    return Estimate(value, min(low, value), max(high, value), n_prompts)


def _share(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return circles over all of both, shape (n,), within 0 and 1; NaN where there is neither."""
    circles, rest = np.maximum(parts[0], 0.0), np.maximum(parts[1] - parts[0], 0.0)
    whole = circles + rest
    shares = np.divide(circles, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return np.asarray(shares, dtype=np.float64)


_WORK = 3e9
"""Limit on multiplications over all simulations; about two seconds."""
_FEWEST = 99


@dataclass(frozen=True, slots=True)
class CycleCount:
    """The number of cycles of three, compared with chance.

    Attributes:
        triples: Triples of entrants with all three pairs decided.
        cycles: Those among them in which each beat one other.
        expected: Mean number of cycles in the simulations.
        p_value: Share of the simulations, the observation among them, with as many cycles or
            more; None if there is no triple.
    """

    triples: int
    cycles: int
    expected: float
    p_value: float | None


@dataclass(frozen=True, slots=True)
class Transitivity:
    """Cycles among single decisions and among majorities.

    Attributes:
        within_prompts: Triples of judgments on one prompt.
        of_majorities: Triples of entrants, by who won more of the pairs between each two; equal
            numbers decide nothing. Few entrants make few triples, so that no number of cycles is
            significant.
        majority_cycles: The cycles of majorities, each entrant over the next and the last over
            the first, sorted.
        n_simulations: Number of simulations.
    """

    within_prompts: CycleCount
    of_majorities: CycleCount
    majority_cycles: tuple[tuple[str, str, str], ...]
    n_simulations: int


def measure_transitivity(
    matches: Matches, *, n_simulations: int = 999, seed: int = 0
) -> Transitivity:
    """Count cycles of three, and how often independent outcomes give at least as many.

    Args:
        matches: Who beat whom on which prompt; two entrants meet at most once per prompt. Ties are
            left out.
        n_simulations: Number of simulations; reduced, but not below 99, where that would take long.
        seed: Seeds the draws.

    Raises:
        InputError: If `n_simulations` is less than 1.
        RatingError: If the odds could not be fitted.
    """
    require_count("n_simulations", n_simulations)
    n, n_prompts = len(matches.entrants), len(matches.prompts)
    affordable = int(_WORK / max(1, n_prompts * n**3))
    n_simulations = min(n_simulations, max(_FEWEST, affordable))
    won = matches.decisive()
    low = np.minimum(won.first, won.second)
    high = np.maximum(won.first, won.second)
    chance = _chances(won)[low, high]
    observed = _Outcomes(low, high, won.prompt_index, n, n_prompts)
    within, majority = observed.count((won.first == low)[None])
    generator = np.random.default_rng(seed)
    simulated: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    step = max(1, CELLS_AT_ONCE // max(1, n_prompts * n * n))
    for start in range(0, n_simulations, step):
        size = min(step, n_simulations - start)
        simulated.append(observed.count(generator.random((size, chance.size)) < chance))
    net = observed.net_wins((won.first == low)[None])[0]
    beats = net > 0
    return Transitivity(
        within_prompts=_compare(
            observed.triples_within(), within[0], np.concatenate([each[0] for each in simulated])
        ),
        of_majorities=_compare(
            _count_triples((net != 0)[None])[0],
            majority[0],
            np.concatenate([each[1] for each in simulated]),
        ),
        majority_cycles=_name_cycles(beats, matches.entrants),
        n_simulations=n_simulations,
    )


class _Outcomes:
    """The decisive pairs, whose winners can be redrawn."""

    def __init__(
        self,
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        prompt_index: NDArray[np.int64],
        n_entrants: int,
        n_prompts: int,
    ) -> None:
        self._low, self._high, self._prompt = low, high, prompt_index
        self._n, self._n_prompts = n_entrants, n_prompts

    def triples_within(self) -> int:
        met = np.zeros((self._n_prompts, self._n, self._n), dtype=np.bool_)
        met[self._prompt, self._low, self._high] = True
        met[self._prompt, self._high, self._low] = True
        return int(_count_triples(met).sum())

    def net_wins(self, first_wins: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Wins less losses of the row's entrant against the column's, shape (n_draws, n, n)."""
        pair = self._low * self._n + self._high
        n_draws = first_wins.shape[0]
        signs = np.where(first_wins, 1.0, -1.0)
        flat = np.stack(
            [np.bincount(pair, weights=row, minlength=self._n * self._n) for row in signs]
        )
        net = flat.reshape(n_draws, self._n, self._n).astype(np.int64)
        return np.asarray(net - net.transpose(0, 2, 1), dtype=np.int64)

    def count(self, first_wins: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return cycles within prompts and of majorities, each of shape (n_draws,)."""
        n_draws = first_wins.shape[0]
        beats = np.zeros((n_draws, self._n_prompts, self._n, self._n), dtype=np.float32)
        draws = np.arange(n_draws)[:, None]
        beats[draws, self._prompt, self._low, self._high] = first_wins
        beats[draws, self._prompt, self._high, self._low] = ~first_wins
        within: NDArray[np.int64] = _count_cycles(beats).sum(axis=1)
        majority = _count_cycles((self.net_wins(first_wins) > 0).astype(np.float32))
        return within, majority


def _count_cycles(beats: NDArray[np.float32]) -> NDArray[np.int64]:
    # Each cycle is a closed walk of three steps, counted once from each of its members.
    walks = (np.matmul(beats, beats) * np.swapaxes(beats, -1, -2)).sum(axis=(-2, -1))
    return np.asarray(np.rint(walks / 3), dtype=np.int64)


def _count_triples(met: NDArray[np.bool_]) -> NDArray[np.int64]:
    # Meeting is symmetric, so every triple is walked in both directions.
    return _count_cycles(met.astype(np.float32)) // 2


def _compare(triples: int, cycles: np.int64, simulated: NDArray[np.int64]) -> CycleCount:
    as_many = int((simulated >= cycles).sum())
    return CycleCount(
        triples=int(triples),
        cycles=int(cycles),
        expected=float(simulated.mean()),
        p_value=(1 + as_many) / (1 + simulated.size) if triples else None,
    )


def _chances(won: Matches) -> NDArray[np.float64]:
    """Return the chance that the row's entrant beats the column's, shape (n, n)."""
    n = len(won.entrants)
    wins = won.table()
    met = (wins + wins.T) > 0
    # Half a win for each side keeps the odds finite where one won every time.
    smoothed = np.where(met, wins + 0.5, 0.0)
    strengths = np.zeros(n)
    n_groups, group_of = find_groups(met)
    for number in range(n_groups):
        group = np.flatnonzero(group_of == number)
        if len(group) > 1:
            strengths[group] = log_strengths(smoothed[np.ix_(group, group)])
    chances: NDArray[np.float64] = (1 + np.tanh((strengths[:, None] - strengths) / 2)) / 2
    return chances


def _name_cycles(
    beats: NDArray[np.bool_], entrants: Sequence[str]
) -> tuple[tuple[str, str, str], ...]:
    cycles = []
    for a, b, c in combinations(range(len(entrants)), 3):
        for x, y, z in ((a, b, c), (a, c, b)):
            if beats[x, y] and beats[y, z] and beats[z, x]:
                cycles.append((entrants[x], entrants[y], entrants[z]))
    return tuple(sorted(cycles))
