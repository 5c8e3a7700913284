"""The number of prompts needed to separate two entrants, before paying for them.

Two entrants are *separated* as on the leaderboard: by Bradley-Terry strengths with ties as half
wins, whole prompts being the unit, all pairs of the dimension together (`ratings.significance`).
Where that draws resamples, this takes their limit, the sandwich by prompt and the largest of
correlated normal differences, so that hundreds of tournaments can be simulated.

How prompts differ is a standard deviation that each prompt adds to each entrant's logit, found by
how far the residuals of two pairs that share an entrant go together within a prompt. With s the
mean square of a pair's residual, c that mean product, n prompts and k entrants near one another,

    Var(difference) = 32 (s + (k - 2) c) / (k n)    in squares of natural logarithms of odds,

which is the formula that the simulation is checked by: the information of a complete table is
n (k I - J) / 4, the score of a prompt is what an entrant won beyond 1/2, and the difference of two
scores has the variance 2 k (s + (k - 2) c).

Where a prompt has several samples, a pair's share on it is their mean, which is no win, tie or
loss. Its s and c are learnt as they are, all samples of a prompt together, over m (1 - m) of the
pair's mean share m, as in a Pearson residual; shares are drawn that have them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit
from scipy.stats import studentized_range

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import CELLS_AT_ONCE
from tournament_assets.foundation.formatting import expected_share
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, log_strengths
from tournament_assets.ratings.intervals import can_tell
from tournament_assets.ratings.matches import Matches, require_confidence
from tournament_assets.ratings.sequential import StoppingRule, aimed_capital, decide

_LARGEST_SIMULATION = 1000
"""The most prompts that are simulated; from here on, errors shrink as 1 / sqrt(prompts)."""
_ADAPTIVE_TOURNAMENTS = 24
_MOST = 10_000_000


@cache
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes and weights of an average over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return nodes, weights / weights.sum()


@dataclass(frozen=True, slots=True)
class JudgingNoise:
    """The quantities that decide how many prompts are needed.

    Attributes:
        tied: Share of the pairs that nobody wins in either presentation: ties and same texts.
        split: Share of the pairs whose two presentations disagree.
        prompt_sd: What a prompt adds to an entrant's logit, as a standard deviation.
        gaps: Win shares of the first of every two entrants, less 1/2; for the bill of adaptive
            judging.
        n_prompts: Prompts it was learnt from; None if it is assumed.
        spread: Variance of a pair's mean share over the samples of a prompt, over that of a pair
            that is only won or lost; None where every prompt is answered once.
        together: Covariance of two such shares with an entrant in common, on the same scale.
    """

    n_entrants: int
    tied: float = 0.2
    split: float = 0.1
    prompt_sd: float = 1.0
    gaps: tuple[float, ...] = ()
    n_prompts: int | None = None
    spread: float | None = None
    together: float = 0.0

    @property
    def n_pairs(self) -> int:
        """Number of pairs of entrants."""
        return self.n_entrants * (self.n_entrants - 1) // 2


def learn_noise(matches: Matches, *, split: float) -> JudgingNoise:
    """Learn from a pilot how undecided judgments are and how much prompts differ.

    Args:
        matches: The pilot's settled pairs on a dimension, each sample of a prompt on its own;
            whoever wins nothing has a half.
        split: Share of them whose two presentations disagree.

    Raises:
        InputError: If nothing was judged, or on fewer than ten prompts.
    """
    n = len(np.unique(matches.prompt_index))
    if n < 10:
        raise InputError(
            f"pairs were judged on {n} prompts; expected 10 or more to learn from; plan without "
            "--from-pilot, or run a larger pilot"
        )
    by_prompt = matches.averaged_over_samples()
    mean, count = _mean_shares(by_prompt)
    residuals = by_prompt.preference - mean[by_prompt.first, by_prompt.second]
    _, product = _moments(by_prompt, residuals)
    undecided = float((matches.preference == 0.5).mean())
    above, below = np.triu_indices(len(matches.entrants), 1)
    learnt = JudgingNoise(
        n_entrants=len(matches.entrants),
        tied=max(0.0, undecided - split),
        split=min(split, undecided),
        prompt_sd=_prompt_sd(product, decided=1 - undecided),
        gaps=tuple(np.where(count > 0, mean - 0.5, 0.0)[above, below].tolist()),
        n_prompts=n,
    )
    if not matches.sample.size:
        return learnt
    # Half a win is added to each side, so that a pair that one entrant always won has a scale.
    smooth = (mean * count + 0.5) / (count + 1)
    scale = np.sqrt(smooth * (1 - smooth))[by_prompt.first, by_prompt.second]
    spread, together = _moments(by_prompt, residuals / scale)
    # Where nothing varies, the next prompt may be the first on which something does.
    spread = min(max(spread, 1 / (n + 1)), 1.0)
    return replace(learnt, spread=spread, together=min(max(together, 0.0), spread / 2))


def _mean_shares(matches: Matches) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the row's mean share against the column, and how often they met."""
    met = matches.table()
    count = met + met.T
    won = matches.table(matches.preference) + matches.table(1 - matches.preference).T
    return won / np.maximum(count, 1), count


def _moments(matches: Matches, residuals: NDArray[np.float64]) -> tuple[float, float]:
    """Return a residual's mean square, and the mean product of two that share an entrant.

    Args:
        matches: A match for each prompt and two entrants.
        residuals: Of the first entrants' shares, shape (n_matches,).
    """
    n = len(np.unique(matches.prompt_index))
    scaled = residuals * np.sqrt(n / (n - 1))
    shape = (len(matches.prompts), len(matches.entrants))
    scores, squares, games = (np.zeros(shape) for _ in range(3))
    for side, sign in ((matches.first, 1.0), (matches.second, -1.0)):
        np.add.at(scores, (matches.prompt_index, side), sign * scaled)
        np.add.at(squares, (matches.prompt_index, side), scaled**2)
        np.add.at(games, (matches.prompt_index, side), 1.0)
    n_products = (games**2 - games).sum()
    product = float((scores**2 - squares).sum() / n_products) if n_products else 0.0
    return float((scaled**2).mean()), product


def _shared(prompt_sd: float, *, decided: float) -> float:
    """Return the mean product of two residuals that share an entrant, between equals."""
    nodes, weights = _quadrature()
    odds = prompt_sd * (nodes[:, None] - nodes)
    won = (1 / (1 + np.exp(-odds))) @ weights - 0.5
    return float(decided**2 * (won**2 @ weights))


def _prompt_sd(product: float, *, decided: float) -> float:
    low, high = 0.0, 6.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _shared(middle, decided=decided) < product else (low, middle)
    return low


@dataclass(frozen=True)
class PowerCurve:
    """The probability that two entrants are separated, by the number of prompts.

    Attributes:
        elo: How far they are apart, in Elo points of Bradley-Terry with ties as half wins; the
            other entrants lie half way between them.
        confidence: Probability that all statements about a dimension are true at once.
    """

    noise: JudgingNoise
    elo: float
    confidence: float = 0.95
    n_tournaments: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        if self.noise.n_entrants < 2 or self.elo <= 0:
            raise InputError(
                f"there are {self.noise.n_entrants} entrants, {self.elo:g} Elo points apart; "
                "expected two or more, apart"
            )

    @property
    def _tied(self) -> float:
        return self.noise.tied + self.noise.split

    @cached_property
    def formula_error(self) -> float:
        """Return the standard error on one prompt by the formula, in Elo points."""
        noise, k = self.noise, self.noise.n_entrants
        if noise.spread is None:
            spread = (1 - self._tied) / 4 - (expected_share(self.elo) - 0.5) ** 2
            shared = _shared(noise.prompt_sd, decided=1 - self._tied)
        else:
            spread, shared = noise.spread / 4, noise.together / 4
        return ELO_PER_NAT * math.sqrt(32 * (max(spread, 0.0) + (k - 2) * shared) / k)

    def formula_power(self, n_prompts: int) -> float:
        """Return the power by the formula."""
        return self._power(self.elo / self.formula_error * math.sqrt(n_prompts), n_prompts)

    def formula_prompts(self, power: float = 0.8) -> int:
        """Return the prompts for a power by the formula."""
        return _fewest(lambda n: self.formula_power(n) >= power)

    def equal_prompts(self, margin: float, power: float = 0.8) -> int:
        """Return the prompts that show two to be equivalent if they are as near as here.

        Their difference is then within the margin, in Elo points, with its whole interval.
        """

        def is_enough(n_prompts: int) -> bool:
            room = margin / self.formula_error * math.sqrt(n_prompts) - self._reach(n_prompts)
            lead = self.elo / self.formula_error * math.sqrt(n_prompts)
            return float(ndtr(room - lead) - ndtr(-room - lead)) >= power

        return _fewest(is_enough)

    def simulate(self, n_prompts: int) -> float:
        """Return the share of simulated tournaments that separate the two, the better above."""
        ratios = self._ratios(n_prompts)
        return float((ratios > self._reach(n_prompts)).mean())

    def prompts(self, power: float = 0.8) -> int | None:
        """Return the prompts for a power, by simulation; None if ties allow no such difference."""
        if expected_share(self.elo) - 0.5 >= (1 - self.noise.tied - self.noise.split) / 2:
            return None
        # The formula says where to look. There the ratio of difference and error is measured; it
        # grows with the root of the number of prompts.
        near = max(20, min(self.formula_prompts(power), _LARGEST_SIMULATION))
        ratios = self._ratios(near)
        mean, spread = float(ratios.mean()) / math.sqrt(near), float(ratios.std())
        if mean <= 0:
            return None
        return _fewest(lambda n: self._power(mean * math.sqrt(n), n, spread=spread) >= power)

    def _power(self, ratio: float, n_prompts: int, *, spread: float = 1.0) -> float:
        return float(ndtr((ratio - self._reach(n_prompts)) / spread))

    @cached_property
    def _largest(self) -> float:
        """The quantile of the largest of all differences of equals, each over its spread."""
        k = self.noise.n_entrants
        return float(studentized_range.ppf(self.confidence, k, np.inf)) / math.sqrt(2)

    def _reach(self, n_prompts: int) -> float:
        """Return how many standard errors of a difference the leaderboard asks for."""
        n = n_prompts
        if n < 2 or not can_tell(self.confidence, n_units=n, n_pairs=self.noise.n_pairs):
            return math.inf
        return float(-stdtrit(n - 1, ndtr(-self._largest)) * math.sqrt(n / (n - 1)))

    def _ratios(self, n_prompts: int) -> NDArray[np.float64]:
        """Simulate the difference of the two over its error, shape (n_tournaments,)."""
        generator = np.random.default_rng((self.seed, n_prompts))
        at_once = max(1, CELLS_AT_ONCE // (n_prompts * self.noise.n_pairs))
        parts = []
        for begin in range(0, self.n_tournaments, at_once):
            count = min(at_once, self.n_tournaments - begin)
            parts.append(_ratio(self.draw(n_prompts, count, generator), self.noise.n_entrants))
        return np.concatenate(parts)

    def draw(
        self, n_prompts: int, n_tournaments: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw tournaments; the first entrant is the better one and the second the worse.

        Returns:
            Shares of the first of every two entrants, shape (n_tournaments, n_prompts, n_pairs),
            the pairs in the order of `numpy.triu_indices`.
        """
        k = self.noise.n_entrants
        if self.noise.spread is not None:
            return self._draw_means(self.noise.spread, (n_tournaments, n_prompts, k), generator)
        skills = self.noise.prompt_sd * generator.normal(size=(n_tournaments, n_prompts, k))
        gap = self._logit_gap()
        skills[..., 0] += gap / 2
        skills[..., 1] -= gap / 2
        above, below = np.triu_indices(k, 1)
        won = 1 / (1 + np.exp(skills[..., below] - skills[..., above]))
        kind = generator.random(won.shape)
        chance = np.where(kind < self._tied, 0.5, won)
        shares = (generator.random(won.shape) < chance).astype(np.float64)
        return np.where(kind < self._tied, 0.5, shares)

    def _draw_means(
        self, spread: float, shape: tuple[int, int, int], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Draw mean shares over samples; they are normal, so single ones may leave 0 to 1."""
        above, below = np.triu_indices(shape[-1], 1)
        together = self.noise.together
        entrants = math.sqrt(together) * generator.normal(size=shape)
        pairs = math.sqrt(spread - 2 * together) * generator.normal(size=(*shape[:2], above.size))
        ratings = np.zeros(shape[-1])
        ratings[:2] = self.elo / 2, -self.elo / 2
        mean = 1 / (1 + np.exp((ratings[below] - ratings[above]) / ELO_PER_NAT))
        residuals = entrants[..., above] - entrants[..., below] + pairs
        return np.asarray(mean + np.sqrt(mean * (1 - mean)) * residuals)

    def _logit_gap(self) -> float:
        """Return by how much the logits of the two differ for the difference of ratings."""
        decided = 1 - self.noise.tied - self.noise.split
        lead = (expected_share(self.elo) - 0.5) / decided
        nodes, weights = _quadrature()
        low, high = 0.0, 30.0
        for _ in range(60):
            middle = (low + high) / 2
            logits = middle + math.sqrt(2) * self.noise.prompt_sd * nodes
            is_low = float((1 / (1 + np.exp(-logits))) @ weights) - 0.5 < lead
            low, high = (middle, high) if is_low else (low, middle)
        return low


def _ratio(shares: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """Return the first less the second over the sandwich's error, shape (n_tournaments,)."""
    above, below = np.triu_indices(k, 1)
    n_prompts = shares.shape[1]
    wins = np.zeros((len(shares), k, k))
    totals = np.clip(shares.sum(axis=1), 0.0, n_prompts)
    wins[:, above, below] = totals + 0.5
    wins[:, below, above] = n_prompts - totals + 0.5
    strengths = log_strengths(wins)
    expected = 1 / (1 + np.exp(strengths[:, below] - strengths[:, above]))
    residuals = shares - expected[:, None, :]
    sides = np.zeros((above.size, k))
    sides[np.arange(above.size), above] = 1.0
    sides[np.arange(above.size), below] = -1.0
    scores = residuals @ sides
    meat = np.swapaxes(scores, 1, 2) @ scores
    weight = (n_prompts + 1) * expected * (1 - expected)
    curvature = np.swapaxes(sides, 0, 1) @ (weight[:, :, None] * sides)
    contrast = np.zeros(k)
    contrast[:2] = 1.0, -1.0
    # The added constant gives the curvature an inverse, and leaves contrasts alone.
    lean = np.linalg.solve(curvature + 1.0, np.broadcast_to(contrast[:, None], (len(shares), k, 1)))
    error = np.sqrt((np.swapaxes(lean, 1, 2) @ meat @ lean)[:, 0, 0])
    # Without spread the quotient is large, and no division by zero.
    return np.asarray((strengths[:, 0] - strengths[:, 1]) / np.maximum(error, 1e-12))


def _fewest(is_enough: Callable[[int], bool]) -> int:
    """Return the smallest number of prompts that is enough, by bisection; at most `_MOST`."""
    low, high = 1, 2
    while high < _MOST and not is_enough(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@cache
def adaptive_share(noise: JudgingNoise, rule: StoppingRule, *, tail: float) -> float:
    """Return the share of a dimension's pairs that adaptive judging is expected to take.

    The field is that of `noise.gaps`, all equal where there are none. A bank too large to simulate
    is shrunk, and its gaps grow by the square root of the factor, which keeps the evidence.
    """
    n = min(rule.n_prompts, _LARGEST_SIMULATION // 4)
    small = replace(rule, n_pairs=noise.n_pairs, n_prompts=n)
    gaps = np.array(noise.gaps or (0.0,) * noise.n_pairs) * math.sqrt(rule.n_prompts / n)
    generator = np.random.default_rng((0, n))
    judged = 0.0
    for _ in range(_ADAPTIVE_TOURNAMENTS):
        shares = _draw_pairs(gaps, noise, (noise.n_pairs, n), generator)
        for decision in decide(list(shares), small):
            stopped = n if decision.judged is None else decision.judged
            judged += (stopped + tail * (n - stopped)) / n
    return judged / (_ADAPTIVE_TOURNAMENTS * noise.n_pairs)


def adaptive_prompts(
    noise: JudgingNoise, elo: float, rule: StoppingRule, *, power: float = 0.8
) -> int | None:
    """Return how large a sample decides, by its end, between two entrants with some probability.

    The population's question; the bank's is always decided by the whole bank.

    Args:
        elo: How far the two are apart, in Elo points with ties as half wins.
        rule: When a pair is decided; its number of prompts does not matter.

    Returns:
        None if ties allow no such difference.
    """
    tied, gap = noise.tied + noise.split, expected_share(elo) - 0.5
    if gap >= (1 - tied) / 2:
        return None
    # A gap that some 300 prompts show stands for others: evidence grows with prompts times gap^2.
    easy = min(0.08, 0.45 * (1 - tied))
    rule = replace(rule, goal="population", n_pairs=noise.n_pairs, n_prompts=1, min_prompts=1)
    return math.ceil(_prompts_for(easy, noise, rule, power) * (easy / gap) ** 2)


@cache
def _prompts_for(gap: float, noise: JudgingNoise, rule: StoppingRule, power: float) -> int:
    def is_enough(n: int) -> bool:
        if n > 4 * _LARGEST_SIMULATION:
            return True
        at_n = replace(rule, n_prompts=n)
        shares = _draw_pairs(np.full(400, gap), noise, (400, n), np.random.default_rng((0, n)))
        capital = aimed_capital(shares, at_n, side="first").max(axis=-1)
        return bool((capital >= math.log(at_n.threshold())).mean() >= power)

    return _fewest(is_enough)


def _draw_pairs(
    gaps: NDArray[np.float64],
    noise: JudgingNoise,
    shape: tuple[int, int],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw shares of pairs with given mean shares less 1/2; a row each pair."""
    tied = noise.tied + noise.split
    if noise.spread is None:
        chance = np.clip(0.5 + gaps / max(1 - tied, 1e-9), 0.0, 1.0)[:, None]
        shares = (generator.random(shape) < chance).astype(np.float64)
        return np.where(generator.random(shape) < tied, 0.5, shares)
    # Of the shares between 0 and 1 with some mean and variance, the beta distribution's.
    spread = min(max(noise.spread, 1e-6), 1 - 1e-6)
    mean = np.clip(0.5 + gaps, 1e-6, 1 - 1e-6)[:, None]
    return generator.beta(mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1), size=shape)
