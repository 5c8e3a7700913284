"""How many prompts it takes to separate two entrants, and what each way to judge them costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tournament_assets.extras.planning.power import (
    JudgingNoise,
    PowerCurve,
    adaptive_prompts,
    adaptive_share,
    learn_noise,
)
from tournament_assets.extras.planning.tables import DimensionPlan, PlannedChoice
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.judging.settlement.submission import MAX_BATCH_REQUESTS
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.ratings.matches import code_samples
from tournament_assets.ratings.prompt_rounds import MIN_PROMPTS, ROUNDS, TAIL
from tournament_assets.ratings.sequential import StoppingRule
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.verdicts.rounds import rounds_config

GAPS = (10.0, 20.0, 50.0)
"""How far apart two entrants are, in Elo points."""
_EQUAL = 1e-6
"""Elo points between two that are as good as equal."""
_CURVE_GAPS = tuple(round(3.0 * 50 ** (step / 30), 2) for step in range(31))


def plan_prompts(
    estimate: JudgingEstimate,
    plan: TournamentPlan,
    *,
    pilot: FinishedRun | None = None,
    gaps: Sequence[float] = GAPS,
    power: float = 0.8,
) -> list[DimensionPlan]:
    """Say how many prompts it takes to separate two entrants, and what each way to judge costs.

    Args:
        estimate: What the mode's judging costs; its prices are those of the plan.
        pilot: A finished run to learn from how prompts differ and how many pairs are ties.
        gaps: How far apart the two are, in Elo points.
        power: The probability with which they are to be separated.
    """
    return [
        _Planner(estimate, plan, dimension, pilot).plan(gaps, power=power)
        for dimension in estimate.workloads
    ]


class _Planner:
    def __init__(
        self,
        estimate: JudgingEstimate,
        plan: TournamentPlan,
        dimension: str,
        pilot: FinishedRun | None,
    ) -> None:
        config = plan.config
        self._dimension = dimension
        self._confidence = config.ratings.confidence
        self._margin = config.ratings.equivalent_within
        n_samples = config.generation.n_samples
        self._noise = _learn(pilot, dimension, config.entrant_ids, n_samples=n_samples)
        self._workload = estimate.workloads[dimension]
        self._requests_per_prompt = 2 * n_samples * self._noise.n_pairs
        self._n_prompts = self._workload.presentations // max(1, self._requests_per_prompt)
        costs = [_usd_if_new(each, dimension) for each in estimate.by_judge]
        priced = [cost for cost in costs if cost is not None]
        self._usd_per_request = (
            sum(priced) / self._workload.presentations
            if len(priced) == len(costs) and self._workload.presentations
            else None
        )
        rounds = rounds_config(config.mode(estimate.mode))
        self._tail = TAIL if rounds is None else rounds.tail
        self._rounds = ROUNDS if rounds is None else rounds.rounds
        self._min_prompts = MIN_PROMPTS if rounds is None else rounds.min_prompts

    def plan(self, gaps: Sequence[float], *, power: float) -> DimensionPlan:
        """Plan every way of judging."""
        choices = [choice for gap in gaps for choice in self._choices(gap, power)]
        ratio = _mean_ratio([choice for choice in choices if choice.way == _EVERYTHING])
        curve = tuple(self._point(gap, power, ratio) for gap in _CURVE_GAPS)
        return DimensionPlan(
            dimension=self._dimension,
            noise=self._noise,
            power=power,
            confidence=self._confidence,
            n_prompts=self._n_prompts,
            smallest_gap=_smallest_gap(curve, self._n_prompts),
            margin=self._margin,
            equals=self._choice(
                _EVERYTHING, 0.0, self._curve(_EQUAL).equal_prompts(self._margin, power), None
            ),
            choices=tuple(choices),
            curve=curve,
        )

    def _curve(self, gap: float) -> PowerCurve:
        return PowerCurve(self._noise, gap, confidence=self._confidence, seed=0)

    def _choices(self, gap: float, power: float) -> list[PlannedChoice]:
        curve = self._curve(gap)
        whole = curve.prompts(power)
        plans = [self._choice(_EVERYTHING, gap, whole, curve.formula_prompts(power))]
        population = adaptive_prompts(self._noise, gap, self._rule(1, is_bank=False), power=power)
        for way, prompts, is_bank in ((_POPULATION, population, False), (_BANK, whole, True)):
            judged = 1.0
            if prompts is not None:
                judged = adaptive_share(
                    self._noise, self._rule(prompts, is_bank=is_bank), tail=self._tail
                )
            plans.append(self._choice(way, gap, prompts, None, judged=judged, rounds=self._rounds))
        return plans

    def _rule(self, n_prompts: int, *, is_bank: bool) -> StoppingRule:
        return StoppingRule(
            "bank" if is_bank else "population",
            self._confidence,
            self._noise.n_pairs,
            n_prompts,
            min_prompts=self._min_prompts,
            rounds=self._rounds,
        )

    def _choice(
        self,
        way: str,
        gap: float,
        prompts: int | None,
        by_formula: int | None,
        *,
        judged: float = 1.0,
        rounds: int = 1,
    ) -> PlannedChoice:
        if prompts is None:
            return PlannedChoice(way, gap, None, None, judged, None, None, None)
        requests = round(prompts * self._requests_per_prompt * judged)
        return PlannedChoice(
            way=way,
            elo=gap,
            prompts=prompts,
            formula_prompts=by_formula,
            judged=judged,
            requests=requests,
            usd=self._usd(requests),
            batches=max(rounds, math.ceil(requests / MAX_BATCH_REQUESTS)),
        )

    def _usd(self, requests: int) -> float | None:
        return None if self._usd_per_request is None else requests * self._usd_per_request

    def _point(
        self, gap: float, power: float, ratio: float
    ) -> tuple[float, int, int, float | None]:
        prompts = math.ceil(self._curve(gap).formula_prompts(power) * ratio)
        requests = prompts * self._requests_per_prompt
        return gap, prompts, requests, self._usd(requests)


_EVERYTHING, _POPULATION, _BANK = "everything", "adaptive, population", "adaptive, bank"


def _mean_ratio(choices: Sequence[PlannedChoice]) -> float:
    """Return prompts by simulation over prompts by the formula."""
    ratios = [
        each.prompts / each.formula_prompts
        for each in choices
        if each.prompts and each.formula_prompts
    ]
    return sum(ratios) / len(ratios) if ratios else 1.0


def _smallest_gap(
    curve: Sequence[tuple[float, int, int, float | None]], n_prompts: int
) -> float | None:
    """Return the gap that some prompts show, between two points of a curve in logarithms."""
    for (low, many, *_), (high, few, *_) in pairwise(curve):
        if few <= n_prompts <= many and few < many:
            part = math.log(many / n_prompts) / math.log(many / few)
            return float(low * (high / low) ** part)
    return None


def _usd_if_new(estimate: JudgingEstimate, dimension: str) -> float | None:
    """Return what a judge's share of a dimension costs with nothing in the ledger."""
    if estimate.is_free:
        return 0.0
    if estimate.price is None:
        return None
    new, rate = estimate.workloads[dimension].as_if_new(), estimate.observed_hit_rate
    if rate is None:
        return new.dearest_usd(estimate.price, discount=estimate.batch_discount)
    return new.cost_usd(estimate.price, discount=estimate.batch_discount, hit_rate=rate)


def _learn(
    pilot: FinishedRun | None, dimension: str, entrant_ids: Sequence[str], *, n_samples: int
) -> JudgingNoise:
    """Learn from a pilot's settled pairs; what it did not judge is assumed."""
    settled = [
        pair
        for pair in (pilot.verdicts.get(dimension, ()) if pilot else ())
        # Of more samples than the plan has, the first are as many as those of the plan.
        if pair.outcome is not Outcome.UNJUDGED and pair.sample <= n_samples
    ]
    if not settled:
        return JudgingNoise(len(entrant_ids))
    entrants = sorted({name for pair in settled for name in (pair.entrant_a, pair.entrant_b)})
    matches = code_samples(settled, entrants=entrants)
    split = sum(pair.outcome is Outcome.INCONSISTENT for pair in settled) / len(settled)
    try:
        learnt = learn_noise(matches, split=split)
    except InputError as error:
        raise InputError(f"the pilot's {dimension}: {error}") from error
    is_same_field = entrants == sorted(entrant_ids)
    return replace(learnt, n_entrants=len(entrant_ids), gaps=learnt.gaps if is_same_field else ())
