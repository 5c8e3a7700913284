"""From pairs to the judge's replies: the estimated cost, and the step that spends the money."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from tournament_assets.foundation.errors import InputError, JudgeError
from tournament_assets.foundation.fingerprints import fingerprint, short
from tournament_assets.foundation.formatting import format_usd
from tournament_assets.graph.outputs import Check, Made, Metadata, Shown, known, markdown_table
from tournament_assets.graph.rows import COLLECTS_TAG, Options, StartedAt, Step, ThisDimension
from tournament_assets.judging.costs.estimates import JudgingEstimate
from tournament_assets.judging.requests.columns import KeyPositions
from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.judging.requests.requests import JudgeRequests, by_pair
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import Tally
from tournament_assets.preparing.estimates import estimate_pairs, requests_of_share
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import load_rubric
from tournament_assets.provenance.origins import Bill, LargeTables
from tournament_assets.reports.cost_estimate import (
    cost_sentences,
    estimate_rows,
    estimate_totals,
    price_rows,
)
from tournament_assets.storage.tables import StoredTable, WrittenTable, write_table
from tournament_assets.tournament.answering_models import AnsweringModels
from tournament_assets.tournament.asset_rows import (
    JudgeReplyRow,
    RequestsRow,
)
from tournament_assets.tournament.completions import End, end_of
from tournament_assets.tournament.judges import Judge, Rubric, label_judges, parse_rubric
from tournament_assets.verdicts.judge_requests import (
    AskingOptions,
    JudgeAccess,
    JudgeWork,
    LedgerAccess,
    ask_together,
    missing_budget_problem,
)
from tournament_assets.verdicts.rounds import follow_rounds
from tournament_assets.verdicts.table_rows import pairs_of, reply_rows

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


@dataclass(frozen=True)
class EstimateOptions:
    """Options of one run.

    Attributes:
        judge_model: Price this model instead of the configured one.
    """

    judge_model: str | None = None


def judging_estimate(
    step: Step,
    match_list: LargeTables,
    options: Options[EstimateOptions],
    ledger: LedgerAccess,
) -> Made[list[RequestsRow]]:
    """The requests still to be sent to the judge on each dimension, and their cost.

    Nothing is sent. Replies in the ledger cost nothing; the rest is priced without caching and for
    several rates of cache hits, none of which is guaranteed.
    """
    plan, mode = step.plan, step.mode
    with ledger.open() as opened:
        estimate = estimate_pairs(
            plan,
            mode,
            ((dimension, pairs_of(table)) for dimension, table in match_list.items()),
            ledger=opened,
            judge_model=options.judge_model,
        )
        under_way = any(scope.mode == mode for scope in opened.open_scopes(plan.tournament_id))
    totals = known(estimate_totals(estimate))
    prices = [{"prompt cache": words, "US dollars": usd} for words, usd in price_rows(estimate)]
    return Made(
        estimate_rows(estimate),
        metadata={
            **{name: round(value, 6) for name, value in totals.items()},
            "judge_model": estimate.judge_model,
            "prices_of": estimate.prices_of,
            "budget": cost_sentences("budget", estimate)[0],
            "prices": markdown_table(prices, ("prompt cache", "US dollars")),
        },
        checks=_estimate_checks(estimate, step, is_under_way=under_way),
        version=_ORDER_ALONE,
    )


_ORDER_ALONE = fingerprint("the price is looked at before judging")
"""All that replies depend on in the estimate and in asking: new prices, or one more reply in the
ledger, do not make them out of date. The pairs and the rubrics show what is asked.
"""


def _estimate_checks(estimate: JudgingEstimate, step: Step, *, is_under_way: bool) -> list[Check]:
    problem, planned = estimate.budget_problem, estimate.planned_usd
    if problem is None and estimate.to_ask:
        problem = missing_budget_problem(step.plan, step.mode, is_allowed=step.plan.no_budget)
    (fits,) = cost_sentences("budget", estimate)
    if planned is not None and not estimate.costs_nothing:
        fits = f"judging may cost up to {format_usd(planned)}. {fits}"
    if problem is not None and is_under_way:
        # Collecting what was paid needs no budget; whoever asks checks what is left then.
        problem, fits = None, f"what is under way is collected first; at present, {problem}"
    problems = "; ".join(
        line for judge in estimate.by_judge for line in cost_sentences("caching_problems", judge)
    )
    caching = problems or cost_sentences("caching", estimate)[0]
    return [
        Check(
            "within_budget", problem is None, f"{estimate.mode}: {problem or fits}", is_error=True
        ),
        Check("caching_pays", not problems, f"{estimate.mode}: {caching}"),
        Check(
            "judge_does_not_play",
            not estimate.cautions,
            f"{estimate.mode}: {'; '.join(estimate.cautions) or 'no judge is an entrant'}",
        ),
    ]


def judge_requests(
    step: Step,
    match_list: LargeTables,
    options: Options[AskingOptions],
    ledger: LedgerAccess,
    judge: JudgeAccess,
) -> Made[list[RequestsRow]]:
    """The requests to the judge on all dimensions at once, and how many are answered.

    This is the step that costs money. All requests are sent before the step waits, so a mode waits
    for its judge once, not once per dimension. Replies are kept in the ledger, where
    `judge_replies` finds them; nothing that the ledger holds is asked again.
    """
    pairs = {dimension: pairs_of(table) for dimension, table in match_list.items()}
    with ledger.open() as opened:

        def look() -> list[_DimensionWork]:
            return [
                _judging(step, dimension, own, options, opened) for dimension, own in pairs.items()
            ]

        work, tallies = _ask_in_rounds(look, step, options, opened, judge)
        rows = [row for own in work for row in _asked_rows(own, tallies, opened)]
    pending = sum(row.requests - row.answered for row in rows)
    return Made(
        rows,
        metadata={
            **_tally_metadata(tallies.values()),
            "replies_pending": pending,
            "first_rows": markdown_table(rows, ("dimension", "requests", "answered")),
        },
        version=_ORDER_ALONE,
    )


def _ask_in_rounds(
    look: "Callable[[], list[_DimensionWork]]",
    step: Step,
    options: Options[AskingOptions],
    ledger: "Ledger",
    judge: JudgeAccess,
    failed_since: datetime | None = None,
) -> "tuple[list[_DimensionWork], dict[JudgingScope, Tally]]":
    """Ask until nothing more is to be asked: once, or round by round.

    Args:
        look: Returns what to ask, given what the ledger holds.
        ledger: Where the replies are.
        failed_since: Requests that failed since then are not asked again.
    """
    tallies: dict[JudgingScope, Tally] = {}
    work, began = look(), datetime.now(UTC)
    allows_unbudgeted = step.plan.no_budget or _collects(step, work, ledger)
    while True:
        found = ask_together(
            [each for own in work for each in own.by_judge],
            plan=step.plan,
            ledger=ledger,
            judge=judge,
            options=options,
            log=step.log.info,
            failed_since=failed_since,
            allows_unbudgeted=allows_unbudgeted,
        )
        for scope, tally in found.items():
            own = tallies.setdefault(scope, Tally())
            own.add(tally)
            own.total, own.answered = tally.total, tally.answered
        if options.rejudge or follow_rounds(step.plan.config.mode(step.mode)) is None:
            return work, tallies
        following = look()
        if [len(each.pairs) for each in following] == [len(each.pairs) for each in work]:
            return work, tallies
        work = following
        # What failed has had its rounds, also where other pairs are asked about now.
        failed_since = failed_since or began


def _collects(step: Step, work: "list[_DimensionWork]", ledger: "Ledger") -> bool:
    """Whether the run goes on with an open batch: what was begun was allowed when it was begun."""
    nonce = step.tags.get(COLLECTS_TAG)
    scopes = [each.scope for own in work for each in own.by_judge] if nonce else []
    return any(nonce == batch.nonce for scope in scopes for batch in ledger.open_batches(scope))


def _asked_rows(
    work: "_DimensionWork", tallies: Mapping[JudgingScope, Tally], ledger: "Ledger"
) -> list[RequestsRow]:
    return [
        RequestsRow(
            dimension=each.scope.dimension,
            asked=judge.model,
            requests=tallies[each.scope].total,
            answered=_count_answered(each, ledger),
        )
        for judge, each in zip(work.judges, work.by_judge, strict=True)
    ]


def _count_answered(work: JudgeWork, ledger: "Ledger") -> int:
    keys = iter(KeyPositions(work.requests))
    parts = iter(lambda: list(islice(keys, _KEYS_AT_ONCE)), [])
    return sum(len(ledger.answered_keys(part)) for part in parts)


_KEYS_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class _DimensionWork:
    """One step's requests to the judges on one dimension.

    Attributes:
        options: The options of the run.
        pairs: The pairs to judge, as far as they are known.
        identical: The pairs that are settled without asking.
        to_ask: What to ask each judge about the other pairs.
    """

    step: Step
    options: AskingOptions
    rubric: Rubric
    judges: tuple[Judge, ...]
    pairs: list[PairToJudge]
    identical: list[PairToJudge]
    to_ask: list[JudgeRequests]

    @property
    def by_judge(self) -> list[JudgeWork]:
        """What to ask about the other pairs: one scope's work for each judge."""
        plan, mode, dimension = self.step.plan, self.step.mode, self.rubric.dimension
        return [
            JudgeWork(plan.verdict_scope(mode, dimension, judge), requests, judge)
            for judge, requests in zip(self.judges, self.to_ask, strict=True)
        ]

    def requests(self) -> list[JudgeRequests]:
        """Return every judge's presentations, also of pairs that nobody is asked about."""
        if not self.identical:
            return self.to_ask
        plan = self.step.plan
        return [requests_of_share(plan, self.pairs, self.rubric, judge) for judge in self.judges]


def judge_replies(
    step: Step,
    match_list: StoredTable,
    options: Options[AskingOptions],
    ledger: LedgerAccess,
    judge: JudgeAccess,
    started_at: StartedAt,
) -> Made[WrittenTable[JudgeReplyRow]]:
    """The judges' replies, one row for each presentation of a pair and each reply to it.

    Replies that the ledger holds for exactly the same request are used: `judge_requests` has bought
    them. Any still missing are requested now, except those that already failed in this run. A
    request whose reply has no verdict is sent once more.
    """
    pairs = pairs_of(match_list)
    with ledger.open() as opened:
        work, tally = _ask(
            lambda: _judging(step, step.name, pairs, options, opened),
            step,
            options,
            opened,
            judge,
            options.began_at or started_at,
        )
        counted, made = _write_replies(work, tally, opened)
    _refuse_empty(counted.results, work, tally)
    return made


def _write_replies(
    work: _DimensionWork, tally: Tally, ledger: "Ledger"
) -> tuple["_CountedReplies", Made[WrittenTable[JudgeReplyRow]]]:
    requests = work.requests()
    answered = {each.model: AnsweringModels(each.row, each.model) for each in work.judges}
    rows = reply_rows(
        by_pair(work.pairs, requests),
        work.pairs,
        ledger.iterate_replies,
        work.rubric,
        identical=work.identical,
        withheld=tally.withheld,
        note_model=lambda asked, answering: answered[asked].counts.update([answering]),
    )
    counted = _CountedReplies(rows)
    shown = Shown(counted, ("prompt_id", "entrant_a", "entrant_b", "presentation", "reply"))
    written = write_table(JudgeReplyRow, shown)
    metadata = _reply_metadata(work, requests, counted, tally)
    who = Check(
        "judge_is_who_was_asked",
        passed=not any(each.problem for each in answered.values()),
        description=f"{work.step.where}: {'; '.join(each.sentence for each in answered.values())}",
    )
    return counted, Made(written, metadata={**metadata, "first_rows": shown.markdown}, checks=[who])


def _judging(
    step: Step,
    dimension: ThisDimension,
    pairs: list[PairToJudge],
    options: Options[AskingOptions],
    ledger: "Ledger",
) -> _DimensionWork:
    config = step.plan.config
    told = rubrics_told(options.rubrics, options.instructions)
    rubric = told.get(dimension) or load_rubric(config, step.plan.project, dimension)
    judges = config.judges_of(step.mode, model=options.judge_model)
    if problems := list(filter(None, (each.model_problem for each in judges))):
        raise InputError(problems)
    follow = follow_rounds(config.mode(step.mode))
    if follow is not None:
        pairs = list(follow(step.plan, step.mode, pairs, rubric, judges, ledger).needed)
    others, identical = pairs, list[PairToJudge]()
    if config.judging.identical_responses_tie:
        others, identical = split_identical(pairs)
    to_ask = [requests_of_share(step.plan, others, rubric, judge) for judge in judges]
    return _DimensionWork(step, options, rubric, judges, pairs, identical, to_ask)


def rubrics_told(texts: Mapping[str, str] | None, instructions: str | None) -> dict[str, Rubric]:
    """Return the rubrics passed to a run, by dimension; empty if it reads them itself.

    Args:
        texts: The texts that its options hold, by dimension.
        instructions: The project's own instructions when the run began, where there are any.
    """
    return {
        dimension: replace(
            parse_rubric(text, dimension=dimension, where="the run's rubric"),
            instructions=instructions,
        )
        for dimension, text in (texts or {}).items()
    }


def _ask(
    look: Callable[[], _DimensionWork],
    step: Step,
    options: Options[AskingOptions],
    ledger: "Ledger",
    judge: JudgeAccess,
    failed_since: datetime,
) -> tuple[_DimensionWork, Tally]:
    together = Tally()
    if options.skip_judging:
        return look(), together
    (work,), tallies = _ask_in_rounds(lambda: [look()], step, options, ledger, judge, failed_since)
    for tally in tallies.values():
        together.add(tally)
    return work, together


class _CountedReplies:
    """Counts rows of the table `judge_replies` as they pass.

    Attributes:
        bill: What they were billed.
        results: Number of replies by type of result.
        unknown_ends: Number of replies by a reason for ending that nobody here knows.
    """

    def __init__(self, rows: Iterable[JudgeReplyRow]) -> None:
        self._rows = rows
        self.bill = Bill()
        self.unknown_ends: Counter[str] = Counter()
        self.results: Counter[str] = Counter()

    def __iter__(self) -> Iterator[JudgeReplyRow]:
        for row in self._rows:
            self.results[row.result_type] += 1
            self.bill.add(row)
            if end_of(row.stop_reason) is End.OTHER:
                self.unknown_ends[str(row.stop_reason)] += 1
            yield row


def _refuse_empty(results: Counter[str], work: _DimensionWork, tally: Tally) -> None:
    wanted = results.total() - results["identical"]
    if wanted and not results["succeeded"]:
        advice = (
            "run without skip_judging to ask the judge"
            if work.options.skip_judging
            else "they were paid and their results could not be read: run again later, or with "
            "--pay-again to ask and pay for them again"
            if tally.withheld
            else "see the table judge_failures in the ledger, and run again or `tournament rejudge`"
        )
        raise JudgeError(
            f"not one of the {wanted} presentations on {work.step.name} has a reply; "
            f"expected some; nothing is written; {advice}"
        )


def _reply_metadata(
    work: _DimensionWork, requests: list[JudgeRequests], counted: _CountedReplies, tally: Tally
) -> Metadata:
    return {
        "presentations": sum(map(len, requests)),
        "distinct_requests": sum(len(KeyPositions(each)) for each in requests),
        **_tally_metadata([tally]),
        "replies_pending": counted.results["pending"],
        "presentations_identical": counted.results["identical"],
        **known({"ends_nobody_knows": dict(counted.unknown_ends) or None}),
        "judge": label_judges(work.judges),
        "judge_model": ", ".join(each.model for each in work.judges),
        "judging_skipped": work.options.skip_judging,
        "rubric_version": work.rubric.version,
        "rubric_hash": short(work.rubric.content_hash),
        "rubric_text": work.rubric.told,
        **counted.bill.metadata(work.step.plan.config),
    }


def _tally_metadata(tallies: Collection[Tally]) -> dict[str, int]:
    return {
        "requests_submitted_now": sum(tally.submitted for tally in tallies),
        "requests_asked_directly_now": sum(tally.direct for tally in tallies),
        "second_questions_now": sum(tally.second_questions for tally in tallies),
        "batches_adopted_now": sum(tally.adopted for tally in tallies),
        "requests_unread": sum(len(tally.withheld) for tally in tallies),
        "waste_replies_paid_twice_now": sum(tally.paid_twice for tally in tallies),
        "waste_requests_never_confirmed_now": sum(tally.abandoned for tally in tallies),
        "waste_requests_unparsable_now": sum(tally.unparsable for tally in tallies),
    }


def judge_kinds(plan: TournamentPlan) -> set[str]:
    """Return what the UI marks assets with that the judges are asked for."""
    return {"parquet", *(judge.service for judge in plan.config.judges)}
