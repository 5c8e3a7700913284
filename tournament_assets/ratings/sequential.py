"""When to stop judging a pair of entrants, by tests that stay valid however often one looks.

There are two questions, which must not be confused:

- **bank**: who would win if every prompt of this bank were judged? The prompts are drawn without
  replacement, in an order that knows nothing of their content. Before prompt i, if the mean share
  over the bank's N prompts were 1/2, the next share would be expected to be

      m_i = (N/2 - S_{i-1}) / (N - i + 1),    S the sum of the shares so far.

  Whoever bets on the next share at those odds cannot expect to gain, whatever the size of the
  bets, as long as it is chosen beforehand. So a capital that grows from 1 to 1/a contradicts the
  hypothesis; by Ville's inequality that happens with probability a at most, at any time and
  however often one looks. Waudby-Smith and Ramdas, "Confidence sequences for sampling without
  replacement", https://arxiv.org/abs/2006.04347, and "Estimating means of bounded random variables
  by betting", https://arxiv.org/abs/2010.09686.
- **population**: who is better on prompts such as these? The prompts are a sample, as if put back,
  so m is always 1/2 and the rest is the same. Beside it stands a confidence sequence of the share,
  the asymptotic one of Waudby-Smith et al., https://arxiv.org/abs/2103.06476: it holds at all sizes
  together, in the limit, and decides nothing.

A prompt without a readable verdict is NaN. In the bank it keeps its place among the N and adds
nothing: "the mean over the prompts with a verdict is 1/2" says the same as "the sum of (share -
1/2) over them is 0", and a prompt that adds 0 to that sum leaves the hypothesis what it was, so the
test stays exact, however many are missing and for whatever reason. The claim is about the bank's
prompts that have a verdict. In the population such a prompt is left out, as a prompt that was not
drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.matches import require_confidence
from tournament_assets.ratings.prompt_rounds import MIN_PROMPTS, ROUNDS, round_ends

Goal = Literal["bank", "population"]
"""The question that is answered."""
Side = Literal["first", "second"]
"""The entrant of a pair that is shown to be above the other."""
Shares: TypeAlias = "NDArray[np.float64]"
"""The first entrant's share of the win on each prompt, in hashed order: 1, 1/2 or 0; NaN where no
verdict is readable."""

FROM_PROMPTS = 30
"""From this many verdicts on, the asymptotic confidence sequence is used."""


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """When a pair is decided.

    Attributes:
        confidence: Probability with which all signs of one dimension are right together.
        n_prompts: Prompts of the bank on which the pairs can be judged.
        min_prompts: No pair stops on fewer.
        rounds: Number of looks at the evidence.
    """

    goal: Goal
    confidence: float
    n_pairs: int
    n_prompts: int
    min_prompts: int = MIN_PROMPTS
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        for name in ("n_pairs", "n_prompts", "min_prompts", "rounds"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; expected at least 1")

    @property
    def ends(self) -> tuple[int, ...]:
        """How many prompts an open pair has by the end of each round."""
        return round_ends(self.n_prompts, rounds=self.rounds, min_prompts=self.min_prompts)

    def threshold(self, n_decided: int = 0) -> float:
        """Return the capital in one direction at which a pair is decided.

        Half of the start is bet in each direction. While no pair is decided, all n could be equals
        and each may err with probability (1 - confidence) / n. Each pair decided leaves fewer that
        may be, but it never becomes harmless, since a sign can be wrong where no two are equal:
        with r pairs decided rightly, n - r equals and r others, whose wrong direction alone can
        err, the probability of an error stays within 1 - confidence if

            (n - r) / a_r + r / (2 a_{r-1}) <= 1,    threshold_r = 2 a_r / (1 - confidence),

        for every r, so a_0 = n and a_r = (n - r) / (1 - r / (2 a_{r-1})). Holm's steps would go
        down to a = 1, and are not valid for signs.

        Args:
            n_decided: Pairs of the dimension that were decided before.
        """
        n, step = self.n_pairs, float(self.n_pairs)
        for r in range(1, min(n_decided, n - 1) + 1):
            step = (n - r) / (1 - r / (2 * step))
        return 2 * max(step, n / 2) / (1 - self.confidence)


@dataclass(frozen=True, slots=True, eq=False)
class PairEvidence:
    """The evidence about a pair from the prompts so far.

    Attributes:
        capital_first: What a bet of 1 against "the first is not above" has grown to, by prompt,
            shape (t,); infinite once the rest of the bank could not undo the lead.
        capital_second: The same for the second.
        threshold: The capital at which the pair was decided, or would be.
        centre: The mean share by prompt, shape (t,); NaN before there is one.
        half_width: Half the width of the asymptotic confidence sequence around `centre`, shape
            (t,), for all pairs together; infinite where there is no sequence: for the bank, and
            before `FROM_PROMPTS`. It shows how large the share may be and decides nothing.
        stopped_at: Prompts after which the pair was decided; None while it is open.
        side: Which entrant is above; None while it is open, and after a whole bank of equals.
    """

    capital_first: NDArray[np.float64]
    capital_second: NDArray[np.float64]
    threshold: float
    centre: NDArray[np.float64]
    half_width: NDArray[np.float64]
    stopped_at: int | None
    side: Side | None


def evidence(shares: Shares, rule: StoppingRule, *, n_decided: int = 0) -> PairEvidence:
    """Return the evidence of a pair's prompts, independent of earlier looks.

    Args:
        shares: The pair's shares in hashed order up to the end of a round, shape (t,); t is up to
            `rule.n_prompts`. A tail is no part of it.
        n_decided: Other pairs of the dimension that are decided already.

    Raises:
        InputError: If there are more shares than prompts, or one is not 0 to 1.
    """
    return _Fortunes(shares, rule).evidence(len(shares), n_decided=n_decided)


class _Fortunes:
    """The capital of the bets on a pair, by prompt: the same at every look and threshold.

    Args:
        shares: The pair's shares in hashed order, shape (t,).
    """

    def __init__(self, shares: Shares, rule: StoppingRule) -> None:
        if len(shares) > rule.n_prompts:
            raise InputError(
                f"there are {len(shares)} shares; expected one for each of {rule.n_prompts} prompts"
            )
        if np.any((shares < 0) | (shares > 1)):
            raise InputError("a share of a win is below 0 or above 1; expected 0, 1/2 or 1")
        self._shares, self._rule = shares, rule
        self._first = aimed_capital(shares, rule, side="first")
        self._second = aimed_capital(shares, rule, side="second")
        best = np.maximum(self._first, self._second)
        best[: min(rule.min_prompts, rule.n_prompts) - 1] = -np.inf
        self._peaks = np.maximum.accumulate(best)

    def is_decided(self, end: int, *, threshold: float) -> bool:
        """Whether a capital has reached the threshold within so many prompts."""
        return bool((self._peaks[:end][-1:] >= math.log(threshold)).any())

    def evidence(self, end: int, *, n_decided: int) -> PairEvidence:
        """Return the evidence of this many prompts, after decisions on this many other pairs."""
        rule, first, second = self._rule, self._first[:end], self._second[:end]
        threshold = rule.threshold(n_decided)
        index: int | None = None
        side: Side | None = None
        if self.is_decided(end, threshold=threshold):
            index = int((self._peaks[:end] >= math.log(threshold)).argmax())
            side = "first" if first[index] > second[index] else "second"
        centre, half_width = _sequence(self._shares[:end], rule)
        with np.errstate(over="ignore"):
            capitals = np.exp(first), np.exp(second)
        return PairEvidence(
            *capitals,
            threshold=threshold,
            centre=centre,
            half_width=half_width if rule.goal == "population" else np.full(first.size, np.inf),
            stopped_at=None if index is None else index + 1,
            side=side,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PairDecision:
    """How a pair's judging ended, or where it stands.

    Attributes:
        evidence: What was known when it ended, or is known now.
        judged: Prompts by the end of the round in which it was decided; None while it is open.
    """

    evidence: PairEvidence
    judged: int | None


def decide(shares: Sequence[Shares], rule: StoppingRule) -> tuple[PairDecision, ...]:
    """Return which pairs of a dimension are decided, replaying its rounds from the first.

    A pure function of the shares, so a restarted process decides the same. Within a round one
    decision may lead to another, because it lowers the threshold.

    Args:
        shares: One array per pair, as for `evidence`, up to the end of the last complete round;
            shares after the round in which a pair was decided are ignored.

    Returns:
        The pairs' decisions, in their order. An open pair needs the prompts up to the next of
        `rule.ends`, if there is one.
    """
    whole = [end for end in rule.ends if end <= max(len(each) for each in shares)]
    last = whole[-1] if whole else 0
    fortunes = [_Fortunes(pair_shares[:last], rule) for pair_shares in shares]
    decided: dict[int, PairDecision] = {}
    for end in whole:
        is_new = True
        while is_new:
            n_decided = len(decided)
            threshold = rule.threshold(n_decided)
            for index, bets in enumerate(fortunes):
                if index not in decided and bets.is_decided(end, threshold=threshold):
                    decided[index] = PairDecision(
                        bets.evidence(end, n_decided=n_decided), judged=end
                    )
            is_new = len(decided) > n_decided
    return tuple(
        decided.get(index) or PairDecision(bets.evidence(last, n_decided=len(decided)), judged=None)
        for index, bets in enumerate(fortunes)
    )


_OVERSHOOT = 1.3
"""Factor by which bets aim beyond the threshold, since they cannot hit it exactly."""
_LARGEST_BET = 0.99
"""Largest bet, as a fraction of the one with which a single prompt could lose everything."""


def log_capital(
    shares: NDArray[np.float64],
    bets: NDArray[np.float64],
    *,
    side: Side,
    n_prompts: int | None,
) -> NDArray[np.float64]:
    """Return the natural logarithm of the capital from a bet of 1 on one side, by prompt.

    Args:
        shares: Shape (..., t), in hashed order; NaN where no verdict is readable.
        bets: How much is bet on each prompt, as a multiple of the capital; each may depend on
            earlier prompts alone. Shape (..., t), from 0 to 1 / m on the first entrant and to
            1 / (1 - m) on the second, m being what the hypothesis expects of the prompt.
        n_prompts: Prompts of the bank; None for the population, where m is always 1/2.

    Returns:
        Shape (..., t); infinite once the rest of the bank could not undo the lead.
    """
    sign = _SIGNS[side]
    course = _Course(shares, n_prompts)
    total = np.cumsum(np.log1p(bets * sign * course.surprise), axis=-1)
    return np.where(course.is_certain(sign), np.inf, total)


_SIGNS: dict[Side, int] = {"first": 1, "second": -1}


class _Course:
    """What is known before each prompt; arrays have the shape of the shares, (..., t).

    Attributes:
        place: Prompts before, shape (t,).
        stretch: N / (N - place), the factor by which drawing without replacement stretches a lead;
            1 in the population. Shape (t,).
        lead: Wins less losses before, in halves of a prompt.
        surprise: The share less what the hypothesis expects of it; 0 for a missing one that the
            hypothesis expects nothing of.
        spread: Mean square of (share - 1/2) before, with one of 1/4 added.
    """

    def __init__(self, shares: NDArray[np.float64], n_prompts: int | None) -> None:
        self._n_prompts = n_prompts
        is_known = ~np.isnan(shares)
        gains = np.where(is_known, shares - 0.5, 0.0)
        self._after = np.cumsum(gains, axis=-1)
        self.place = np.arange(shares.shape[-1])
        self.lead = self._after - gains
        self.stretch = self.stretch_at(self.place)
        owed = 0.0 if n_prompts is None else self.stretch / n_prompts
        self._expected = 0.5 - self.lead * owed
        self.surprise = gains + self.lead * owed
        seen = np.cumsum(is_known, axis=-1) - is_known
        self.spread = (0.25 + np.cumsum(gains**2, axis=-1) - gains**2) / (seen + 1)

    def stretch_at(self, place: NDArray[np.int64] | int) -> NDArray[np.float64]:
        """Return N / (N - place)."""
        n = self._n_prompts
        return np.ones(np.shape(place)) if n is None else np.asarray(n / (n - place))

    def is_certain(self, sign: int) -> NDArray[np.bool_]:
        """Whether the prompts that are left could not undo the lead, from each prompt on."""
        if self._n_prompts is None:
            return np.zeros(self._after.shape, dtype=np.bool_)
        left_after = self._n_prompts - self.place - 1
        certain = sign * self._after > left_after / 2
        return np.asarray(np.maximum.accumulate(certain, axis=-1))

    def clip(self, bets: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
        """Make bets small enough that no prompt loses everything."""
        expected = self._expected if sign == 1 else 1 - self._expected
        # The constant keeps a zero, which is not betted on, out of the division.
        most = _LARGEST_BET / np.maximum(expected, 1e-12)
        return np.where(expected > 0, np.minimum(bets, most), 0.0)


def aimed_capital(
    shares: NDArray[np.float64], rule: StoppingRule, *, side: Side
) -> NDArray[np.float64]:
    """Return the log capital of a bet of 1 on one side, with bets that aim at the ends of rounds.

    Evidence is needed only at the ends of rounds. So each round has a part of the bet that is to be
    worth the threshold at its end, or nothing, as an option is that pays if the lead then exceeds
    c. In the clock of drawing without replacement the lead M = N D / (N - t) has the variance v B,
    B = N t / (N - t); the option is worth Phi(h), h = (M - c) / sqrt(v (B_end - B)), and the bet
    that keeps up with it is d ln Phi(h) / dD. v is estimated from earlier prompts: a poor estimate
    costs power, never validity. After its round, what is left of a part joins the next round's.

    Args:
        shares: As for `log_capital`.
    """
    is_bank, n = rule.goal == "bank", rule.n_prompts
    # The whole bank needs no bet to decide, a whole sample does.
    ends = rule.ends[:-1] if is_bank else rule.ends
    course = _Course(shares, n if is_bank else None)
    parts = np.arange(len(ends) + 1, 1, -1) / sum(range(2, len(ends) + 2)) if ends else np.ones(1)
    bets = [
        _option_bet(course, end, _SIGNS[side], _quantile(part, rule))
        for end, part in zip(ends, parts, strict=False)
    ]
    nothing = np.zeros(shares.shape)
    current = np.searchsorted(np.array(ends), course.place, side="right")
    totals = []
    for first, part in enumerate(parts):
        bet = nothing
        for index, option in enumerate(bets):
            bet = np.where(np.maximum(first, current) == index, option, bet)
        totals.append(
            log_capital(shares, bet, side=side, n_prompts=n if is_bank else None) + math.log(part)
        )
    return np.asarray(np.logaddexp.reduce(totals, axis=0))


def _option_bet(course: _Course, end: int, sign: int, quantile: float) -> NDArray[np.float64]:
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.special import log_ndtr

    place = course.place
    stretch = course.stretch
    at_end = end * course.stretch_at(end)
    remaining = np.where(place < end, at_end - place * stretch, np.nan)
    scale = np.sqrt(course.spread * remaining)
    aim = quantile * np.sqrt(course.spread * at_end)
    height = (sign * course.lead * stretch - aim) / scale
    slope = np.exp(-(height**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(height))
    return course.clip(np.where(place < end, slope / scale * stretch, 0.0), sign)


def _quantile(part: float, rule: StoppingRule) -> float:
    """Return how many standard deviations of lead are worth the threshold to a part of the bet."""
    from scipy.special import ndtri

    return -float(ndtri(part / (rule.threshold() * _OVERSHOOT)))


def _sequence(
    shares: Shares, rule: StoppingRule
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and half width of the asymptotic confidence sequence, shape (t,) each."""
    has_share = ~np.isnan(shares)
    count = np.cumsum(has_share)
    values = np.where(has_share, shares, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.cumsum(values) / count
        variance = np.cumsum(values**2) / count - mean**2
    alpha = (1 - rule.confidence) / rule.n_pairs
    rho = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha)) + 1) / max(rule.n_prompts / 2, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = count * np.maximum(variance, 0.0) * rho + 1
        half_width = np.sqrt(scale / (count**2 * rho) * np.log(scale / alpha**2))
    return mean, np.where(count >= FROM_PROMPTS, half_width, np.inf)
