"""What a mode's judging would cost and could tell, before anything is generated or asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tournament_assets.judging.batch_service import TokenCounter
from tournament_assets.judging.costs.estimates import (
    CHARACTERS_PER_TOKEN,
    JudgingEstimate,
    ResponseEstimate,
    RoundsEstimate,
    Workload,
    measure_workload,
)
from tournament_assets.judging.costs.prices import month_start
from tournament_assets.judging.requests.pairs import PairToJudge, draw_share, split_identical
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.submission import MAX_BATCH_REQUESTS
from tournament_assets.project.existing_work import (
    known_responses,
    load_bank_and_selection,
    pairs_of_dimension,
)
from tournament_assets.project.plan import TournamentPlan, requests_for_pairs
from tournament_assets.project.project_files import load_rubrics
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.power import (
    JudgingNoise,
    PowerCurve,
    adaptive_prompts,
    adaptive_share,
    learn_noise,
)
from tournament_assets.ratings.sequential import StoppingRule
from tournament_assets.reports.cost_estimate import DimensionPlan, PlannedChoice
from tournament_assets.responses.api_responses import (
    build_response_requests,
    costs_nothing,
    response_scope,
)
from tournament_assets.run_comparison.differences import judgment_of
from tournament_assets.run_comparison.run_reading import FinishedRun
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import (
    ApiEntrant,
    RecordedEntrant,
    answers_once,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.judges import AdaptiveConfig, Judge, Rubric
from tournament_assets.tournament.prompts import Prompt, first_samples, sample_of
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.verdicts.adaptive_judging import (
    Course,
    decide,
    expected_share,
    is_free_with,
    verdicts_in_ledger,
)
from tournament_assets.verdicts.judge_requests import (
    find_budget,
    judging_terms,
    observe_ledger,
    response_terms,
)
from tournament_assets.verdicts.juries import count_shown, weigh_judges

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


FindShares = Callable[[Rubric], Mapping[tuple[str, str], Sequence[float]]]
"""Says what shares of a win the first of every two entrants had, by the two."""


def estimate_pairs(
    plan: TournamentPlan,
    mode: Mode,
    pairs_by_dimension: Iterable[tuple[str, Sequence[PairToJudge]]],
    *,
    ledger: Ledger,
    judge_model: str | None = None,
    assumed_responses: int = 0,
    counter: TokenCounter | None = None,
    pilot: FindShares | None = None,
) -> JudgingEstimate:
    """Count the requests that some pairs take, and price them.

    Where pairs stop early this is the most that they can take from here.

    Args:
        pairs_by_dimension: The pairs of each dimension; looked at one dimension at a time.
        ledger: What is in it is not asked again.
        judge_model: Another model than the configured ones.
        assumed_responses: Responses among them that do not exist yet.
        counter: Counts the tokens of a sample of requests; None counts characters.
        pilot: Says what a pilot found on a dimension, for what an adaptive run may come to.

    Raises:
        InputError: If a rubric cannot be used.
        JudgeError: If the counter does not say.
    """
    rubrics = load_rubrics(plan.config, plan.project)

    def judges_to_price() -> list[_JudgeToPrice]:
        return [
            _JudgeToPrice(judge, plan.verdict_scope(mode, "", judge), plan, ledger)
            for judge in plan.config.judges_of(mode, model=judge_model)
        ]

    judges, next_round = judges_to_price(), judges_to_price()
    adaptive = plan.config.mode(mode).stops
    shares: dict[str, float | None] = {}
    for dimension, pairs in pairs_by_dimension:
        possible = pairs
        if adaptive is not None:
            asked = plan.config.judges_of(mode, model=judge_model)
            course = _course_so_far(plan, mode, pairs, rubrics[dimension], asked, ledger)
            possible = course.possible
            for each in next_round:
                each.measure(course.needed, rubrics[dimension], counter)
            found = pilot(rubrics[dimension]) if pilot is not None else {}
            shares[dimension] = expected_share(course, found, adaptive=adaptive)
        for each in judges:
            each.measure(possible, rubrics[dimension], counter)
    lead, *others = [each.estimate(mode) for each in judges]
    if adaptive is not None:
        now, *others_now = [each.estimate(mode) for each in next_round]
        now = replace(now, others=tuple(others_now))
        lead = replace(lead, rounds=RoundsEstimate(now, shares))
    budgets = (each.budget for each in (lead, *others))
    return replace(
        lead,
        assumed_responses=assumed_responses,
        others=tuple(others),
        budget=next((each for each in budgets if each is not None), None),
    )


def _course_so_far(
    plan: TournamentPlan,
    mode: Mode,
    pairs: Sequence[PairToJudge],
    rubric: Rubric,
    judges: Sequence[Judge],
    ledger: Ledger,
) -> Course:
    return decide(
        pairs,
        verdicts_in_ledger(
            ledger,
            rubric,
            plan.config.judging,
            lambda own: [
                requests_for_pairs(
                    plan,
                    draw_share(own, judge_model=judge.model, share=judge.share),
                    rubric,
                    judge=judge,
                )
                for judge in judges
            ],
        ),
        dimension=rubric.dimension,
        adaptive=plan.config.mode(mode).stops,
        is_free=is_free_with(plan.config.judging),
        weigh=weigh_judges(plan.config, mode),
        count_shown=count_shown(judges),
    )


def _shares_of_pilot(plan: TournamentPlan, *, ledger: Ledger) -> FindShares:
    """Return what reads from the ledger what the pilot's judge said."""
    config = plan.config
    bank, prompts = load_bank_and_selection(plan, "pilot")
    responses = {
        (entrant.entrant_id, prompt_id): text
        for entrant in config.entrants
        for prompt_id, text in known_responses(plan, entrant, bank, prompts, ledger=ledger).items()
    }

    def find(rubric: Rubric) -> Mapping[tuple[str, str], Sequence[float]]:
        pairs = pairs_of_dimension(plan, rubric.dimension, prompts, responses)
        judges = config.judges_of("pilot")
        return _course_so_far(plan, "pilot", pairs, rubric, judges, ledger).known_shares()

    return find


class _JudgeToPrice:
    """What one judge is to be asked, and its prices.

    Args:
        judge: Who is asked, and about which share of the pairs.
        scope: Its work, on no dimension yet.
        plan: The tournament.
        ledger: What is in it is not asked again.
    """

    def __init__(
        self, judge: Judge, scope: JudgingScope, plan: TournamentPlan, ledger: Ledger
    ) -> None:
        self._judge, self._scope, self._plan, self._ledger = judge, scope, plan, ledger
        self._terms = judging_terms(plan, since=datetime.now(UTC), judges=[judge])
        self._channel = judge.row.channel
        self._observation, self._tokens_per_reply = observe_ledger(ledger, judge.model)
        self._workloads: dict[str, Workload] = {}

    def measure(
        self, pairs: Sequence[PairToJudge], rubric: Rubric, counter: TokenCounter | None
    ) -> None:
        """Count what some pairs of a dimension take."""
        judging, judge, ledger = self._plan.config.judging, self._judge, self._ledger
        to_ask = draw_share(pairs, judge_model=judge.model, share=judge.share)
        n_identical = 0
        if judging.identical_responses_tie:
            to_ask, identical = split_identical(to_ask)
            n_identical = len(identical)
        scope = replace(self._scope, dimension=rubric.dimension)
        self._workloads[rubric.dimension] = measure_workload(
            requests_for_pairs(self._plan, to_ask, rubric, judge=judge),
            find_answered=ledger.answered_keys,
            under_way=_keys_under_way(ledger, scope),
            identical=2 * n_identical,
            tokens_per_reply=self._tokens_per_reply,
            prices=self._terms.prices,
            counter=counter,
            channel=self._channel,
        )

    def estimate(self, mode: Mode) -> JudgingEstimate:
        """Price what was counted."""
        prices, model = self._terms.prices, self._judge.model
        spent = self._ledger.spending_since(month_start(datetime.now(UTC)))
        return JudgingEstimate(
            mode=mode,
            judge_model=model,
            prices_of=prices.date,
            price=prices.models.get(model),
            price_source="judging.prices" if model in prices.configured else prices.source,
            batch_discount=prices.discount(self._channel),
            workloads=self._workloads,
            assumed_responses=0,
            is_free=self._judge.row.is_free or prices.is_zero(model),
            observation=self._observation,
            month=prices.add_up(spent),
            budget=find_budget(self._terms, self._workloads.values(), ledger=self._ledger),
        )


def _keys_under_way(ledger: Ledger, scope: JudgingScope) -> set[str]:
    """Return what the next run collects; what was asked directly cannot be had any more."""
    keys: set[str] = set()
    for batch in ledger.open_batches(scope):
        if batch.channel == "batch":
            keys |= ledger.batch_keys(batch.nonce)
    return keys


def estimate_judging(
    plan: TournamentPlan,
    mode: Mode,
    *,
    ledger: Ledger,
    judge_model: str | None = None,
    counter: TokenCounter | None = None,
) -> JudgingEstimate:
    """Count the requests that a mode would send, with the responses that exist so far.

    Nothing is generated, sent or written. Weights that are not there yet are no problem. See
    `estimate_pairs` for the arguments.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
        JudgeError: If the counter does not say.
    """
    config = plan.config
    bank, prompts = load_bank_and_selection(plan, mode)
    responses: dict[tuple[str, str], str] = {}
    priced: list[ResponseEstimate] = []
    assumed = 0
    for entrant in config.entrants:
        known = known_responses(plan, entrant, bank, prompts, ledger=ledger)
        if isinstance(entrant, ApiEntrant):
            missing = [prompt for prompt in prompts if prompt.prompt_id not in known]
            asked = first_samples(missing) if answers_once(entrant) else missing
            priced.append(_estimate_responses(plan, entrant, asked, ledger=ledger))
        if not isinstance(entrant, RecordedEntrant):
            # Each stands for a text of its own, so that no two of them are one request.
            length = round(entrant.max_new_tokens * CHARACTERS_PER_TOKEN)
            for prompt in prompts:
                if prompt.prompt_id not in known:
                    sample = 1 if answers_once(entrant) else sample_of(prompt.prompt_id)
                    own = entrant.entrant_id + (f" {sample}" if sample > 1 else "")
                    known[prompt.prompt_id] = own.ljust(length, ".")
                    assumed += 1
        responses.update(
            ((entrant.entrant_id, prompt_id), text) for prompt_id, text in known.items()
        )
    estimate = estimate_pairs(
        plan,
        mode,
        (
            (dimension, pairs_of_dimension(plan, dimension, prompts, responses))
            for dimension in config.dimension_names
        ),
        ledger=ledger,
        judge_model=judge_model,
        assumed_responses=assumed,
        counter=counter,
        pilot=_shares_of_pilot(plan, ledger=ledger) if config.mode(mode).stops else None,
    )
    return replace(
        estimate,
        responses=tuple(priced),
        response_budget=find_budget(
            response_terms(plan, since=datetime.now(UTC)),
            [each.workload for each in priced],
            ledger=ledger,
        ),
    )


def _estimate_responses(
    plan: TournamentPlan,
    entrant: ApiEntrant,
    missing: Sequence[Prompt],
    *,
    ledger: Ledger,
) -> ResponseEstimate:
    prices = response_terms(plan, since=datetime.now(UTC)).prices
    _, expected = observe_ledger(ledger, entrant.model, on_responses=True)
    channel = SERVICES[entrant.service].channel
    return ResponseEstimate(
        entrant_id=entrant.entrant_id,
        model=entrant.model,
        price=prices.models.get(entrant.model),
        discount=prices.discount(channel),
        workload=measure_workload(
            list(build_response_requests(entrant, missing).values()),
            find_answered=ledger.answered_keys,
            under_way=_keys_under_way(ledger, response_scope(entrant)),
            tokens_per_reply=min(expected, entrant.max_new_tokens),
            prices=prices,
            channel=channel,
        ),
        is_free=costs_nothing(entrant, plan.project.environment, prices),
    )


GAPS = (10.0, 20.0, 50.0)
"""How far apart two entrants are, in Elo points."""
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

    Raises:
        InputError: If the pilot judged too few prompts of a dimension.
    """
    return [
        _Planner(estimate, plan, dimension, pilot).plan(gaps, power=power)
        for dimension in estimate.workloads
    ]


class _Planner:
    """Plans one dimension."""

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
        self._noise = _learn(pilot, dimension, config.entrant_ids)
        self._workload = estimate.workloads[dimension]
        self._n_prompts = self._workload.presentations // (2 * max(1, self._noise.n_pairs))
        costs = [_usd_if_new(each, dimension) for each in estimate.by_judge]
        known = [cost for cost in costs if cost is not None]
        self._usd_per_request = (
            sum(known) / self._workload.presentations
            if len(known) == len(costs) and self._workload.presentations
            else None
        )
        adaptive = config.mode(estimate.mode).adaptive or AdaptiveConfig()
        self._tail, self._rounds = adaptive.tail, adaptive.rounds
        self._min_prompts = adaptive.min_prompts

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
            choices=tuple(choices),
            curve=curve,
        )

    def _curve(self, gap: float) -> PowerCurve:
        return PowerCurve(self._noise, gap, confidence=self._confidence, seed=0)

    def _choices(self, gap: float, power: float) -> list[PlannedChoice]:
        curve = self._curve(gap)
        whole = curve.prompts(power)
        found = [self._choice(_EVERYTHING, gap, whole, curve.formula_prompts(power))]
        population = adaptive_prompts(self._noise, gap, self._rule(1, is_bank=False), power=power)
        for way, prompts, is_bank in ((_POPULATION, population, False), (_BANK, whole, True)):
            judged = 1.0
            if prompts is not None:
                judged = adaptive_share(
                    self._noise, self._rule(prompts, is_bank=is_bank), tail=self._tail
                )
            found.append(self._choice(way, gap, prompts, None, judged=judged, rounds=self._rounds))
        return found

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
        requests = round(prompts * self._noise.n_pairs * 2 * judged)
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
        requests = prompts * self._noise.n_pairs * 2
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


def _learn(pilot: FinishedRun | None, dimension: str, entrant_ids: Sequence[str]) -> JudgingNoise:
    """Learn from a pilot's settled pairs; what it did not judge is assumed."""
    settled = [
        pair
        for pair in (pilot.verdicts.get(dimension, ()) if pilot else ())
        if pair.outcome is not Outcome.UNJUDGED
    ]
    if not settled:
        return JudgingNoise(len(entrant_ids))
    if any(sample_of(pair.prompt_id) > 1 for pair in settled):
        raise InputError(
            f"the pilot's {dimension} has several samples of a prompt; expected one, because the "
            "plan counts prompts that are answered once; plan from a pilot without "
            "generation.n_samples"
        )
    entrants = sorted({name for pair in settled for name in (pair.entrant_a, pair.entrant_b)})
    matches = code_judgments(map(judgment_of, settled), entrants=entrants)
    split = sum(pair.outcome is Outcome.INCONSISTENT for pair in settled) / len(settled)
    try:
        learnt = learn_noise(matches, split=split)
    except InputError as error:
        raise InputError(f"the pilot's {dimension}: {error}") from error
    is_same_field = entrants == sorted(entrant_ids)
    return replace(learnt, n_entrants=len(entrant_ids), gaps=learnt.gaps if is_same_field else ())
