"""Judging a fixed sample of pairs again, to measure the judge's noise and drift.

On each occasion, such as a scheduled rerun, the judge gets exactly the same requests, and its
verdicts are compared with those that the tournament is rated by. Differences on the first occasion
are the judge's own noise (test–retest); on later ones they may be drift. The requests cost money,
and their replies are stored separately.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tournament_assets.extras.judge_tests.controls import (
    draw_anchors,
    drift_check_of,
    drift_check_purpose,
    repeat_for_drift_check,
)
from tournament_assets.extras.judge_tests.judge_tests import JudgeTest, Settled
from tournament_assets.extras.judge_tests.outcomes import (
    RepeatedPair,
    RepeatResult,
    explain_repeats,
    measure_repeats,
)
from tournament_assets.extras.judge_tests.rows import RetestRow
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.outputs import Check, Made, Metadata, known, markdown_table
from tournament_assets.graph.rows import Options, Step
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.project.plan import requests_for_pairs
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import StoredTable, pair_key, rows_of
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.verdicts.judge_requests import JudgeAccess, LedgerAccess
from tournament_assets.verdicts.table_rows import pairs_of, reply_rows, settled_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

DRIFT_CHECK = "judge_has_not_drifted"
_FLIPPED_COLUMNS = ("prompt_id", "entrant_a", "entrant_b", "expected", "outcome")

# A batch ends within a day; what was begun longer ago than this is another time of asking.
_STILL_THE_SAME = timedelta(days=7)


@dataclass(frozen=True)
class RepeatOptions:
    """Options of one run.

    Attributes:
        occasion: The occasion's name, such as a rerun's id: an existing occasion continues and pays
            for nothing twice, a new one asks again. By default the occasion still waiting for a
            batch, or else today's date in UTC.
        wait_seconds: Wait this long for batches instead of the judge's waiting.slot_seconds.
    """

    occasion: str | None = None
    wait_seconds: float | None = None


def judge_repeats(
    step: Step,
    match_list: StoredTable,
    judge_verdicts: StoredTable,
    options: Options[RepeatOptions],
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> Made[list[RetestRow]]:
    """A fixed sample of pairs, judged again on every occasion: does the judge say the same?

    The first occasion shows the judge's own noise; from the second on, the check compares with the
    verdicts that the tournament is rated by, and the metadata with the occasion before.
    """
    anchors = _draw_anchors(step, match_list, judge_verdicts)
    occasions, bill = _judge_again(step, anchors, options, ledger, judge)
    rows = list(_rows(step, anchors, occasions))
    result = measure_repeats(_repeated(rows), step.plan.config.ratings.resampling)
    last = len(occasions)
    description = _explain(step, anchors, result, occasions)
    flipped = [row for row in rows if row.occasion == last and _is_flipped(row)]
    return Made(
        rows,
        metadata={
            "what_it_means": description,
            "occasion": occasions[-1].name,
            "earlier_occasion": occasions[-2].name if last > 1 else "none",
            "judge_model": anchors.judge_model,
            **_numbers(result),
            **bill,
            "flipped_pairs": markdown_table(flipped, _FLIPPED_COLUMNS),
        },
        checks=[_check(step, result, description, occasions[-1].name)],
    )


@dataclass(frozen=True, slots=True)
class _Anchors:
    """The pairs that are judged again, and how they are settled for the tournament."""

    rubric: Rubric
    judge_model: str
    settled: Settled
    pairs: Sequence[PairToJudge]
    asked: Sequence[JudgeRequest]


@dataclass(frozen=True, slots=True)
class Occasion:
    """How the anchors were settled on one occasion.

    Attributes:
        settled: The pairs whose both presentations were answered.
    """

    name: str
    settled: Settled


def choose_drift_check(
    given: str | None,
    *,
    tournament_id: str,
    values: Mapping[str, str],
    ledger: "Ledger",
    now: datetime,
) -> str:
    """Return the occasion: the given one, or that which waits for a batch, or else today's date."""
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


def _settle_earlier(
    step: Step, anchors: _Anchors, *, occasion: str, ledger: "Ledger"
) -> list[Occasion]:
    """Return, in order, the earlier occasions on which any pair had the same requests."""
    plan = step.plan
    purposes = ledger.purposes_begun(plan.tournament_id, step.mode, step.name)
    begun = [name for purpose in purposes if (name := drift_check_of(purpose)) is not None]
    found = []
    for earlier in begun[: begun.index(occasion)] if occasion in begun else begun:
        requests = [repeat_for_drift_check(request, earlier) for request in anchors.asked]
        rows = list(reply_rows(requests, anchors.pairs, ledger.iterate_replies, anchors.rubric))
        pending = {pair_key(row) for row in rows if row.result_type == "pending"}
        settled = {
            pair_key(row): row
            for row in settled_rows(rows, reply_format=plan.config.judging.reply_format)
            if pair_key(row) not in pending
        }
        if settled:
            found.append(Occasion(earlier, settled))
    return found


def _draw_anchors(step: Step, pairs_to_judge: StoredTable, verdicts: StoredTable) -> _Anchors:
    plan, config = step.plan, step.plan.config
    rubric = load_rubric(config, plan.project, step.name)
    settled = {
        pair_key(row): row
        for row in rows_of(VerdictRow, verdicts)
        if row.outcome != Outcome.UNJUDGED
    }
    # One run of judge_replies asks one model, which need not be the configured one.
    judged_by = next((row.settled_by for row in settled.values()), None)
    judge = config.lead(step.mode, model=judged_by)
    if judge.model_problem is not None:
        raise InputError(judge.model_problem)

    def is_settled_as_it_is(pair: PairToJudge) -> bool:
        # Otherwise an edit of the rubric or of a response would look like a drift of the judge.
        row = settled.get(pair_key(pair))
        if row is None:
            return False
        requests = requests_for_pairs(plan, [pair], rubric, judge=judge)
        keys = [request.request_key for request in requests]
        return keys == [row.request_key_ab, row.request_key_ba]

    judged = pairs_of(pairs_to_judge)
    pairs = draw_anchors(
        judged,
        can_serve=is_settled_as_it_is,
        sample=config.judging.tests.n_anchors(len(judged)),
        seed=config.judging.tests.seed,
    )
    asked = requests_for_pairs(plan, pairs, rubric, judge=judge)
    return _Anchors(rubric, judge.model, settled, pairs, asked)


def _judge_again(
    step: Step,
    anchors: _Anchors,
    options: Options[RepeatOptions],
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> tuple[list[Occasion], Metadata]:
    """Return all occasions, this one last, and metadata on its bill."""
    with ledger.open() as opened:
        occasion = choose_drift_check(
            options.occasion,
            tournament_id=step.plan.tournament_id,
            values={"mode": step.mode, "dimension": step.name},
            ledger=opened,
            now=datetime.now(UTC),
        )
    purpose = drift_check_purpose(occasion)
    wait, model = options.wait_seconds, anchors.judge_model
    test = JudgeTest(step, anchors.rubric, purpose, wait, ledger, judge, model)
    again = [repeat_for_drift_check(request, occasion) for request in anchors.asked]
    settled, bill = test.settle(again, anchors.pairs)
    with ledger.open() as opened:
        earlier = _settle_earlier(step, anchors, occasion=occasion, ledger=opened)
    return [*earlier, Occasion(occasion, settled)], bill


def _rows(step: Step, anchors: _Anchors, occasions: Sequence[Occasion]) -> Iterator[RetestRow]:
    names = [pair_key(pair) for pair in anchors.pairs]
    for number, occasion in enumerate(occasions, start=1):
        for name in names:
            first, again = anchors.settled[name], occasion.settled.get(name)
            if again is None:
                continue
            yield RetestRow(
                reason="repeat",
                name=occasion.name,
                occasion=number,
                prompt_id=first.prompt_id,
                sample=first.sample,
                dimension=step.name,
                entrant_a=first.entrant_a,
                entrant_b=first.entrant_b,
                expected=first.outcome,
                outcome=again.outcome,
                expected_ab=first.verdict_ab,
                expected_ba=first.verdict_ba,
                verdict_ab=again.verdict_ab,
                verdict_ba=again.verdict_ba,
                request_key_ab=first.request_key_ab,
                request_key_ba=first.request_key_ba,
                judge_model=anchors.judge_model,
                rubric_hash=anchors.rubric.content_hash,
            )


def _repeated(rows: Sequence[RetestRow]) -> list[RepeatedPair]:
    """Return the pairs of the last occasion, each with its outcome on the previous one."""
    last = max((row.occasion for row in rows), default=0)
    earlier = {pair_key(row): row.outcome for row in rows if row.occasion == last - 1}
    return [
        RepeatedPair(
            row.prompt_id,
            row.expected,
            row.outcome,
            earlier.get(pair_key(row)),
        )
        for row in rows
        if row.occasion == last and row.expected is not None
    ]


def _is_flipped(row: RetestRow) -> bool:
    return row.outcome not in (row.expected, Outcome.UNJUDGED)


def _explain(
    step: Step, anchors: _Anchors, result: RepeatResult, occasions: Sequence[Occasion]
) -> str:
    config = step.plan.config
    if result.n_asked or not config.judging.tests.anchor_pairs:
        words = explain_repeats(
            result,
            max_rate=config.checks.max_drift_rate,
            confidence=config.ratings.confidence,
            earlier_occasion=occasions[-2].name if len(occasions) > 1 else None,
        )
    else:
        words = (
            f"there is no anchor pair, so nothing is known of a drift: {len(anchors.settled)} "
            "pairs are settled, none of them by the rubric and the texts as they are now; judge "
            "them first"
        )
    return f"{step.where}: {words}"


def _check(step: Step, result: RepeatResult, description: str, occasion: str) -> Check:
    max_rate = step.plan.config.checks.max_drift_rate
    return Check(
        DRIFT_CHECK,
        passed=bool(result.flips.n) and not result.has_drifted(max_rate),
        description=description,
        metadata={**_numbers(result), "max_drift_rate": max_rate, "occasion": occasion},
    )


def _numbers(result: RepeatResult) -> Metadata:
    """Return numbers under constant names, so that the UI plots them over time."""
    rates = {
        "flip_rate": result.flips.value,
        "flip_rate_low": result.flips.low,
        "flip_rate_high": result.flips.high,
        "flip_rate_since_earlier": result.flips_since.value,
        "kappa": result.agreement.kappa.value,
    }
    return {
        **known(rates),
        "anchors": result.n_asked,
        "anchors_judged": result.flips.n,
        "anchors_unjudged": result.n_asked - result.flips.n,
        "anchors_flipped": result.flips.count,
        "anchors_reversed": result.reversed.count,
    }
