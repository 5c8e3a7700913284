"""The drift sentinel: a fixed sample of pairs that the judge is asked about anew each time.

The test–retest of `judge_retest` measures the judge's own noise at one time. Here the time is what
counts: the same pairs again on every occasion, such as every scheduled rerun, against the verdicts
that the tournament is rated by. What is asked is paid for, and stored apart from those verdicts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tournament_assets.audits.judge_tests import (
    DriftResult,
    JudgedAnchor,
    explain_drift,
    measure_drift,
)
from tournament_assets.graph.assets.judge_tests import JudgeTest
from tournament_assets.graph.outputs import Check, Made, known, markdown_table
from tournament_assets.graph.rows import Step
from tournament_assets.judging.requests.controls import (
    draw_anchors,
    drift_check_of,
    drift_check_purpose,
    repeat_for_drift_check,
)
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import PairKey, StoredTable, pair_key, rows_of
from tournament_assets.tournament.asset_rows import DriftRow, VerdictRow
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.workflows.judge_requests import (
    JudgeAccess,
    LedgerAccess,
    requests_for_pairs,
)
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.table_rows import pairs_of, reply_rows, settled_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

DRIFT_CHECK = "judge_has_not_drifted"
_FLIPPED_COLUMNS = ("prompt_id", "entrant_a", "entrant_b", "tournament_outcome", "outcome")

# A batch ends within a day; what was begun longer ago than this is another time of asking.
_STILL_THE_SAME = timedelta(days=7)
Rows = Mapping[PairKey, VerdictRow]
"""Settled pairs by name."""


@dataclass(frozen=True)
class DriftOptions:
    """Options of one run.

    Attributes:
        occasion: Names this time of asking, such as a rerun's id: the same occasion goes on with
            what it began and pays for nothing twice, a new one asks anew. By default the occasion
            that is still waiting for a batch, or else today's date in UTC.
        wait_seconds: Wait this long for batches instead of judge.slot_seconds.
    """

    occasion: str | None = None
    wait_seconds: float | None = None


def judge_drift(
    step: Step,
    pairs_to_judge: StoredTable,
    verdicts: StoredTable,
    options: DriftOptions,
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> Made[list[DriftRow]]:
    """A fixed sample of pairs, judged again on every occasion: has the judge changed?

    Compares with the verdicts that the tournament is rated by, and with the occasion before.
    """
    anchors = _draw_anchors(step, pairs_to_judge, verdicts)
    occasions = _judge_again(step, anchors, options, ledger, judge)
    judged = _judged_anchors(anchors, occasions)
    rows = [_row(step, name, each, anchors, occasions) for name, each in judged.items()]
    result, description = _measure(step, anchors, occasions, [*judged.values()])
    numbers = _numbers(result)
    flipped = [row for row in rows if row.flipped]
    return Made(
        rows,
        metadata={
            "what_it_means": description,
            "occasion": occasions.name,
            "earlier_occasion": occasions.earlier_name or "none",
            "judge_model": anchors.judge_model,
            **numbers,
            **occasions.bill,
            "flipped_pairs": markdown_table(flipped, _FLIPPED_COLUMNS),
        },
        checks=[_check(result, description, occasions.name)],
    )


@dataclass(frozen=True, slots=True)
class _Anchors:
    """The pairs that are judged again, and how they are settled for the tournament."""

    rubric: Rubric
    judge_model: str
    settled: Rows
    pairs: Sequence[PairToJudge]
    asked: Sequence[JudgeRequest]


@dataclass(frozen=True, slots=True)
class _Occasions:
    """How the anchors are settled on this occasion, and on the one before."""

    name: str
    now: Rows
    earlier_name: str | None
    earlier: Rows
    bill: Mapping[str, Any]


def choose_drift_check(
    given: str | None,
    *,
    tournament_id: str,
    values: Mapping[str, str],
    ledger: "Ledger",
    now: datetime,
) -> str:
    """Return the occasion: the given one, or that which waits for a batch, or else today's date.

    Raises:
        InputError: If the given one is blank.
    """
    if given is not None:
        if not given.strip():
            raise InputError(
                f"occasion is {given!r}; expected a name, such as a rerun's id; leave it out to "
                "take today's date"
            )
        return given.strip()
    waiting = [
        occasion
        for scope, batches in ledger.open_scopes(tournament_id).items()
        if (scope.mode, scope.dimension) == (values["mode"], values["dimension"])
        and now - batches[0].begun_at < _STILL_THE_SAME
        and (occasion := drift_check_of(scope.purpose)) is not None
    ]
    return waiting[-1] if waiting else now.astimezone(UTC).date().isoformat()


def settle_earlier(
    plan: TournamentPlan,
    values: Mapping[str, str],
    asked: Sequence[JudgeRequest],
    pairs: Sequence[PairToJudge],
    rubric: Rubric,
    *,
    occasion: str,
    ledger: "Ledger",
) -> tuple[str | None, Rows]:
    """Return the last occasion before on which a pair was asked the same, and what came of it.

    Only pairs whose both presentations were answered then are among the rows.
    """
    purposes = ledger.purposes_begun(plan.tournament_id, mode_of(values), values["dimension"])
    begun = [name for purpose in purposes if (name := drift_check_of(purpose)) is not None]
    before = begun[: begun.index(occasion)] if occasion in begun else begun
    for earlier in reversed(before):
        requests = [repeat_for_drift_check(request, earlier) for request in asked]
        rows = list(reply_rows(requests, pairs, ledger.iterate_replies, rubric))
        if all(row.result_type == "pending" for row in rows):
            continue
        not_answered = {pair_key(row) for row in rows if row.result_type == "pending"}
        settled = settled_rows(rows, judge=plan.config.judge)
        return earlier, {pair_key(row): row for row in settled if pair_key(row) not in not_answered}
    return None, {}


def _draw_anchors(step: Step, pairs_to_judge: StoredTable, verdicts: StoredTable) -> _Anchors:
    plan, config = step.plan, step.plan.config
    rubric = load_rubric(config, plan.project, step.name)
    settled = {
        pair_key(row): row
        for row in rows_of(VerdictRow, verdicts)
        if row.outcome != Outcome.UNJUDGED
    }
    judge_model = _judge_model(plan, settled) or config.judge_model(step.mode)
    pairs = draw_anchors(
        pairs_of(pairs_to_judge),
        can_serve=_is_settled_as_it_is(plan, rubric, settled, judge_model),
        sample=config.judge.anchor_pairs,
        seed=config.judge.test_seed,
    )
    asked = requests_for_pairs(plan, pairs, rubric, judge=config.judge.named(judge_model))
    return _Anchors(rubric, judge_model, settled, pairs, asked)


def _judge_model(plan: TournamentPlan, settled: Rows) -> str | None:
    """Return the model that judged the tournament, which need not be the configured one.

    Raises:
        InputError: If it is a model of another service than the config names.
    """
    # One run of judge_replies asks one model, so whichever row is looked at says it.
    judge_model: str | None = next((row.judge_model for row in settled.values()), None)
    problem = judge_model and plan.config.judge.model_problem(judge_model)
    if problem:
        raise InputError(problem)
    return judge_model


def _is_settled_as_it_is(
    plan: TournamentPlan, rubric: Rubric, settled: Rows, judge_model: str
) -> Callable[[PairToJudge], bool]:
    """Tell the pairs whose verdicts answer the very requests that would be sent today.

    Otherwise an edit of the rubric or of a response would be taken for a drift of the judge.
    """

    def is_settled_as_it_is(pair: PairToJudge) -> bool:
        row = settled.get((pair.prompt_id, pair.entrant_a, pair.entrant_b))
        if row is None:
            return False
        judge = plan.config.judge.named(judge_model)
        requests = requests_for_pairs(plan, [pair], rubric, judge=judge)
        return [request.request_key for request in requests] == [
            row.request_key_ab,
            row.request_key_ba,
        ]

    return is_settled_as_it_is


def _judge_again(
    step: Step,
    anchors: _Anchors,
    options: DriftOptions,
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> _Occasions:
    values = {"mode": step.mode, "dimension": step.name}
    with ledger.open() as opened:
        occasion = choose_drift_check(
            options.occasion,
            tournament_id=step.plan.tournament_id,
            values=values,
            ledger=opened,
            now=datetime.now(UTC),
        )
    test = JudgeTest(
        step, anchors.rubric, drift_check_purpose(occasion), options.wait_seconds, ledger, judge
    )
    again = [repeat_for_drift_check(request, occasion) for request in anchors.asked]
    now, bill = test.settle(again, anchors.pairs)
    with ledger.open() as opened:
        earlier_occasion, earlier = settle_earlier(
            step.plan,
            values,
            anchors.asked,
            anchors.pairs,
            anchors.rubric,
            occasion=occasion,
            ledger=opened,
        )
    return _Occasions(occasion, now, earlier_occasion, earlier, bill)


def _judged_anchors(
    anchors: _Anchors, occasions: _Occasions
) -> dict[tuple[str, str, str], JudgedAnchor]:

    def outcome(rows: Rows, name: tuple[str, str, str]) -> Outcome:
        return Outcome(rows[name].outcome)

    names = [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in anchors.pairs]
    return {
        name: JudgedAnchor(
            tournament=outcome(anchors.settled, name),
            now=outcome(occasions.now, name),
            earlier=outcome(occasions.earlier, name) if name in occasions.earlier else None,
        )
        for name in names
    }


def _row(
    step: Step,
    name: tuple[str, str, str],
    anchor: JudgedAnchor,
    anchors: _Anchors,
    occasions: _Occasions,
) -> DriftRow:
    return DriftRow(
        occasion=occasions.name,
        prompt_id=name[0],
        dimension=step.name,
        entrant_a=name[1],
        entrant_b=name[2],
        tournament_outcome=anchor.tournament.value,
        outcome=anchor.now.value,
        flipped=anchor.flipped,
        earlier_occasion=occasions.earlier_name,
        earlier_outcome=anchor.earlier.value if anchor.earlier else None,
        flipped_since=anchor.flipped_since,
        verdict_ab=occasions.now[name].verdict_ab,
        verdict_ba=occasions.now[name].verdict_ba,
        judge_model=anchors.judge_model,
    )


def _measure(
    step: Step, anchors: _Anchors, occasions: _Occasions, judged: Sequence[JudgedAnchor]
) -> tuple[DriftResult, str]:
    """Return what was measured, and what it means in words."""
    config, confidence = step.plan.config, step.plan.config.ratings.confidence
    result = measure_drift(judged, max_rate=config.checks.max_drift_rate, confidence=confidence)
    if result.asked or not config.judge.anchor_pairs:
        words = explain_drift(
            result, confidence=confidence, earlier_occasion=occasions.earlier_name
        )
    else:
        words = (
            f"there is no anchor pair, so nothing is known of a drift: {len(anchors.settled)} "
            "pairs are settled, none of them by the rubric and the texts as they are now; judge "
            "them first"
        )
    return result, f"{step.where}: {words}"


def _check(result: DriftResult, description: str, occasion: str) -> Check:
    return Check(
        DRIFT_CHECK,
        passed=bool(result.flips.n) and not result.has_drifted,
        description=description,
        metadata={**_numbers(result), "max_drift_rate": result.max_rate, "occasion": occasion},
    )


def _numbers(result: DriftResult) -> dict[str, Any]:
    """Return numbers whose names stay from time to time, so that the UI plots them."""
    rates = {
        "flip_rate": result.flips.value,
        "flip_rate_low": result.flips.low,
        "flip_rate_high": result.flips.high,
        "flip_rate_since_earlier": result.flips_since.value,
    }
    return {
        **known(rates),
        "anchors": result.asked,
        "anchors_judged": result.flips.n,
        "anchors_unjudged": result.unjudged,
        "anchors_flipped": result.flips.count,
        "anchors_reversed": result.reversals,
    }
