"""From pairs to what the judge wrote about them: the step that costs money."""

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

import dagster as dg

from tournament_assets.graph.assets.bank_inputs import read_inputs
from tournament_assets.graph.assets.freshness import RUBRIC_CHECK, find_outdated, freshness_result
from tournament_assets.graph.outputs import Shown, Table, table_asset, written_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode_and_dimension,
    partition_values,
    same_dimension,
)
from tournament_assets.graph.resources.services import JudgeResource, LedgerResource
from tournament_assets.judging.requests.pairs import PairToJudge, split_identical
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import Tally
from tournament_assets.project.project_files import load_rubric
from tournament_assets.storage.tables import StoredTable, write_table
from tournament_assets.tournament.asset_rows import JudgeReplyRow
from tournament_assets.tournament.errors import InputError, JudgeError
from tournament_assets.tournament.fingerprints import short
from tournament_assets.tournament.rubrics import parse_rubric
from tournament_assets.workflows.judge_requests import (
    JudgingStep,
    ask_what_is_missing,
    prewarms,
    requests_for_pairs,
)
from tournament_assets.workflows.plan import TournamentPlan, mode_of
from tournament_assets.workflows.provenance import Bill
from tournament_assets.workflows.table_rows import pairs_of, reply_rows

"""The error of a pending row whose result was paid for and could not be read."""


class JudgeRepliesConfig(dg.Config):
    """Options of one run."""

    judge_model: str | None = None
    """Ask this model instead of the configured one."""
    skip_judging: bool = False
    """Ask nothing: take only what the ledger holds."""
    rejudge: bool = False
    """Ask what failed again, one by one, instead of what was never answered."""
    pay_again: bool = False
    """Ask again for paid results that the service no longer keeps or does not hand out."""
    wait_seconds: float | None = None
    """Wait this long for batches instead of judge.slot_seconds."""
    rubric: str | None = None
    """The rubric's text when the run began, so that an edit meanwhile is the next run's; the file's
    unless given."""
    run_began_at: str | None = None
    """When the run that this step is a part of began, for a budget that is for one run."""


"""Returns the replies to requests, by their keys: those that share a key by attempt."""


class _Counted:
    """Counts rows of the table `judge_replies` as they pass.

    Attributes:
        bill: What they were billed.
        results: How many there are of each result's type.
    """

    def __init__(self, rows: Iterable[JudgeReplyRow]) -> None:
        self._rows = rows
        self.bill = Bill()
        self.results: Counter[str] = Counter()

    def __iter__(self) -> Iterator[JudgeReplyRow]:
        for row in self._rows:
            self.results[row.result_type] += 1
            self.bill.add(row)
            yield row


def _refuse_empty(
    results: Counter[str], dimension: str, *, skipped: bool, withheld: AbstractSet[str]
) -> None:
    wanted = results.total() - results["identical"]
    if wanted and not results["succeeded"]:
        advice = (
            "run without skip_judging to ask the judge"
            if skipped
            else "they were paid and their results could not be read: run again later, or with "
            "--pay-again to ask and pay for them again"
            if withheld
            else "see the table judge_failures in the ledger, and run again or `tournament rejudge`"
        )
        raise JudgeError(
            f"not one of the {wanted} presentations on {dimension} has a reply; "
            f"expected some; nothing is written; {advice}"
        )


def _work_metadata(requests: JudgeRequests, results: Counter[str], tally: Tally) -> dict[str, Any]:
    return {
        "presentations": len(requests),
        "distinct_requests": requests.n_distinct,
        "requests_submitted_now": tally.submitted,
        "requests_asked_directly_now": tally.direct,
        "second_questions_now": tally.second_questions,
        "batches_adopted_now": tally.adopted,
        "replies_pending": results["pending"],
        "presentations_identical": results["identical"],
        "requests_unread": len(tally.withheld),
        "waste_replies_paid_twice_now": tally.paid_twice,
        "waste_requests_never_confirmed_now": tally.abandoned,
        "waste_requests_unparsable_now": tally.unparsable,
    }


def build_judging_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_replies` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "judge_replies",
        stage="3_judging",
        ins={"pairs_to_judge": dg.AssetIn(key=asset_key(plan, "match_list"))},
        deps=[dg.AssetDep(asset_key(plan, "rubrics"), partition_mapping=same_dimension())],
        partitions_def=by_mode_and_dimension(plan),
        kinds={"parquet", tournament.judge.service},
        pool="judge",
        checks={RUBRIC_CHECK.name: RUBRIC_CHECK.description},
    )
    def judge_replies(
        context: dg.AssetExecutionContext,
        config: JudgeRepliesConfig,
        pairs_to_judge: StoredTable,
        ledger: LedgerResource,
        judge: JudgeResource,
    ) -> Table:
        """What the judge wrote, a row for each of a pair's two presentations and reply to it.

        This is the step that costs money. Replies that the ledger holds for the very same request
        are used again; the rest goes to the judge in batches. A reply without a verdict is asked
        for once more.
        """
        values = partition_values(context)
        mode, dimension = mode_of(values), values["dimension"]
        rubric = (
            load_rubric(tournament, plan.project, dimension)
            if config.rubric is None
            else parse_rubric(config.rubric, dimension=dimension, where="the run's rubric")
        )
        judge_model = config.judge_model or tournament.judge_model(mode)
        problem = tournament.judge.model_problem(judge_model)
        if problem is not None:
            raise InputError(problem)
        pairs = pairs_of(pairs_to_judge)
        requests = requests_for_pairs(plan, pairs, rubric, judge_model=judge_model)
        to_ask, identical = requests, list[PairToJudge]()
        if tournament.judge.identical_responses_tie:
            others, identical = split_identical(pairs)
            if identical:
                to_ask = requests_for_pairs(plan, others, rubric, judge_model=judge_model)
        with ledger.open() as opened:
            tally = Tally()
            if not config.skip_judging:
                wait, began = config.wait_seconds, config.run_began_at
                tally = ask_what_is_missing(
                    to_ask,
                    plan=plan,
                    scope=JudgingScope(plan.tournament_id, mode, dimension),
                    ledger=opened,
                    judge=judge,
                    step=JudgingStep(
                        wait_seconds=tournament.judge.slot_seconds if wait is None else wait,
                        prewarms=prewarms(plan, mode),
                        may_pay_again=config.pay_again,
                        rejudges=config.rejudge,
                        since=datetime.fromisoformat(began) if began else None,
                    ),
                    log=context.log.info,
                )
            counted = _Counted(
                reply_rows(
                    requests,
                    pairs,
                    opened.iterate_replies,
                    rubric,
                    identical=identical,
                    withheld=tally.withheld,
                )
            )
            shown = Shown(counted, ("prompt_id", "entrant_a", "entrant_b", "presentation", "reply"))
            written = write_table("judge_replies", shown)
        _refuse_empty(
            counted.results, dimension, skipped=config.skip_judging, withheld=tally.withheld
        )
        judged_with = {
            "rubric_version": rubric.version,
            "rubric_hash": short(rubric.content_hash),
        }
        outdated = find_outdated(
            plan,
            RUBRIC_CHECK,
            read_inputs(plan, "rubrics"),
            context.instance,
            just_made={str(context.partition_key): judged_with},
        )
        return written_result(
            written,
            metadata={
                **_work_metadata(requests, counted.results, tally),
                "judge": tournament.judge_label,
                "judge_model": judge_model,
                "judging_skipped": config.skip_judging,
                **judged_with,
                "rubric_text": rubric.text,
                **counted.bill.metadata(tournament),
                "first_rows": shown.markdown,
            },
            checks=[freshness_result(RUBRIC_CHECK, outdated)],
        )

    return [judge_replies]
