"""Test whether a candidate is not worse than a baseline by a margin stated beforehand.

Non-inferiority reverses the burden of proof: the candidate passes if the verdicts show that it is
not worse by the margin or more, not if they merely fail to show a difference. Source: Piaggio et
al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308(24), 2012,
https://doi.org/10.1001/jama.2012.87802.

The test is on the difference of two Bradley-Terry ratings, with standard errors clustered by
prompt. To pass, all dimensions must, so each is tested at the level of one; for the claim that any
is worse their p-values are Holm's: "A simple sequentially rejective multiple test procedure",
Scandinavian Journal of Statistics 6(2), 1979.

Looking again every few prompts, and stopping at will, needs evidence that is valid at any time: the
wealth of a bettor against the hypothesis, which exceeds 1 / alpha at any time with a chance of at
most alpha. Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", JRSS B 86(1), 2024, https://arxiv.org/abs/2010.09686.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import expect_one_of
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.ratings.matches import code_judgments, require_confidence
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.tournament.prompts import AnswerKey, answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome

_BETS = np.arange(1, 20) / 20
"""Fractions of their wealth that the bettors stake, all below 1."""


@dataclass(frozen=True, slots=True)
class DifferenceTest:
    """The test of a candidate against a baseline on one dimension.

    Attributes:
        pairs: Pairs of candidate and baseline that were planned.
        settled: Those of them that were judged, or whose responses are the same text.
        difference: Elo points that the candidate is above the baseline, each bound one-sided at the
            confidence, over the prompts with a battle between rated entrants; without a value where
            the battles set no bound, because one of the two won all of them or nothing connects
            them.
        standard_error: Elo points; None where the difference has no value.
        p_not_worse: p-value of the hypothesis that the candidate is worse by the margin.
        p_worse: p-value of the hypothesis that it is worse by no more than the margin.
    """

    dimension: str
    pairs: int
    settled: int
    difference: Estimate
    standard_error: float | None
    p_not_worse: float
    p_worse: float

    @property
    def coverage(self) -> float:
        """Settled pairs over planned pairs; 0 if none was planned."""
        return self.settled / self.pairs if self.pairs else 0.0


def compare_with_margin(
    judgments: Sequence[Judgment],
    *,
    dimension: str,
    entrants: Sequence[str],
    candidate: str,
    baseline: str,
    margin: float,
    confidence: float,
) -> DifferenceTest:
    """Test on one dimension whether the candidate is worse than the baseline by the margin.

    The ratings come from everybody's pairs, as on the leaderboard. Where one of the two won
    everything there is no rating; then the test bets on the pairs of the two alone (`bet`), which
    is valid but less powerful.

    Args:
        judgments: Settled pairs of the dimension.
        candidate: The entrant to test.
        baseline: The entrant it is compared with.
        margin: The largest difference that would not matter, in Elo points, above 0.
        confidence: Of each one-sided bound, such as 0.95.

    Raises:
        InputError: If an argument is out of range or an entrant is unknown.
    """
    _require(entrants, candidate, baseline, margin)
    require_confidence(confidence)
    pair = {candidate, baseline}
    direct = [each for each in judgments if {each.entrant_a, each.entrant_b} == pair]
    settled = [each for each in direct if each.outcome is not Outcome.UNJUDGED]
    fit = sandwich_bradley_terry(
        code_judgments(judgments, entrants=entrants), confidence=confidence
    )
    new, old = entrants.index(candidate), entrants.index(baseline)
    ours, theirs = fit.ratings[new], fit.ratings[old]
    variance = float(
        fit.covariance[new, new] + fit.covariance[old, old] - 2 * fit.covariance[new, old]
    )
    test = partial(DifferenceTest, dimension, len(direct), len(settled))
    note = ours.note or theirs.note
    if note is not None or ours.value is None or theirs.value is None or not variance > 0:
        scores = prompt_scores(settled, candidate=candidate)
        wealth = bet(scores.values(), margin=margin)
        note = note or "the verdicts of all prompts are alike, so the error cannot be measured"
        return test(
            difference=Estimate(None, n=len(scores), note=note),
            standard_error=None,
            p_not_worse=min(1.0, 1 / wealth.not_worse),
            p_worse=min(1.0, 1 / wealth.worse),
        )
    # Imported here, so that loading the definitions does not pay for it.
    from scipy.special import stdtr, stdtrit

    difference, error = ours.value - theirs.value, math.sqrt(variance)
    reach = error * float(stdtrit(fit.n_prompts - 1, confidence))
    beyond = (difference + margin) / error
    return test(
        difference=Estimate(difference, difference - reach, difference + reach, n=fit.n_prompts),
        standard_error=error,
        p_not_worse=float(stdtr(fit.n_prompts - 1, -beyond)),
        p_worse=float(stdtr(fit.n_prompts - 1, beyond)),
    )


def _require(entrants: Sequence[str], candidate: str, baseline: str, margin: float) -> None:
    problems = Problems()
    problems.extend(
        f"found no entrant {name!r}; {expect_one_of(name, map(str, entrants))}"
        for name in (candidate, baseline)
        if name not in entrants
    )
    if candidate == baseline:
        problems.add(f"candidate and baseline are both {candidate!r}; expected two entrants")
    if not 0 < margin < math.inf:
        problems.add(f"margin is {margin!r}; expected Elo points above 0")
    problems.raise_if_any()


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return Holm's adjusted p-values: each may be compared with the level of the whole family."""
    adjusted: dict[str, float] = {}
    worst = 0.0
    for index, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        worst = max(worst, min(1.0, p_value * (len(p_values) - index)))
        adjusted[name] = worst
    return {name: adjusted[name] for name in p_values}


def prompt_scores(judgments: Iterable[Judgment], *, candidate: str) -> dict[str, float]:
    """Return the candidate's share of the points on each prompt.

    With several samples per prompt it is their mean, since bets are on prompts.

    Args:
        judgments: Pairs of the candidate and the baseline on one dimension.
        candidate: The entrant whose share it is.
    """
    scores: dict[AnswerKey, float] = {}
    for judgment in judgments:
        key = answer_key(judgment)
        if key in scores or judgment.share is None:
            raise InputError(
                f"prompt {judgment.prompt_id!r} is {judgment.outcome.value!r} or appears twice; "
                "expected each prompt of the two entrants once, and settled"
            )
        scores[key] = judgment.share if judgment.entrant_a == candidate else 1 - judgment.share
    by_prompt: dict[str, list[float]] = {}
    for (prompt_id, _), score in scores.items():
        by_prompt.setdefault(prompt_id, []).append(score)
    return {prompt_id: fmean(values) for prompt_id, values in by_prompt.items()}


@dataclass(frozen=True, slots=True)
class Wealth:
    """The wealth of bettors who began with 1.

    Attributes:
        not_worse: Wealth of those who bet against "worse by the margin or more".
        worse: Wealth of those who bet against "worse by no more than the margin".
    """

    not_worse: float
    worse: float


def bet(scores: Iterable[float], *, margin: float) -> Wealth:
    """Bet on prompts, one after another, against both hypotheses on the margin.

    Under a hypothesis, the wealth of those who bet against it exceeds 1 / alpha at any time with a
    chance of at most alpha (Ville), however often one looks and whenever one stops. Nineteen
    bettors stake fixed shares; their mean wealth counts, so nothing is tuned to the data.

    Args:
        scores: The candidate's share of the points on each prompt, between 0 and 1, in an order
            that does not depend on them.
        margin: The largest difference that would not matter, Elo points.
    """
    level = 1 / (1 + math.exp(margin / ELO_PER_NAT))
    against_worse = np.ones_like(_BETS)
    against_fine = np.ones_like(_BETS)
    for score in scores:
        against_worse *= 1 + _BETS / level * (score - level)
        against_fine *= 1 + _BETS / (1 - level) * (level - score)
    return Wealth(not_worse=float(against_worse.mean()), worse=float(against_fine.mean()))
