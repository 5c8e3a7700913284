"""From pairs to what the judge wrote about them: the step that costs money."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.adapters.project_files import load_rubric
from tournament_assets.adapters.tables import table_rows
from tournament_assets.assets.asking import (
    Asking,
    ask_what_is_missing,
    prewarms,
    requests_for_pairs,
)
from tournament_assets.assets.billing import cost_metadata
from tournament_assets.assets.currency import RUBRIC_CHECK, currency_result, find_outdated
from tournament_assets.assets.inputs import read_inputs
from tournament_assets.assets.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.assets.partitions import (
    TournamentPlan,
    mode_of,
    partition_values,
    same_dimension,
)
from tournament_assets.judging.pairing import PairToJudge, split_identical
from tournament_assets.judging.records import JudgingScope, StoredReply
from tournament_assets.judging.requests import JudgeRequest
from tournament_assets.judging.sessions import Tally
from tournament_assets.resources.judge import JudgeResource
from tournament_assets.resources.ledger import LedgerResource
from tournament_assets.tournament.errors import InputError, JudgeError
from tournament_assets.tournament.fingerprints import short
from tournament_assets.tournament.rubrics import Rubric, parse_rubric

UNREAD = "unread"
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


def pairs_of(match_list: pd.DataFrame) -> list[PairToJudge]:
    """Return the rows of the table `match_list` as pairs."""
    return [
        PairToJudge(**{key: value for key, value in row.items() if key != "dimension"})
        for row in table_rows("match_list", match_list)
    ]


def reply_rows(
    requests: Iterable[JudgeRequest],
    pairs: Sequence[PairToJudge],
    replies: Iterable[StoredReply],
    rubric: Rubric,
    *,
    identical: Iterable[PairToJudge] = (),
    withheld: AbstractSet[str] = frozenset(),
) -> list[dict[str, Any]]:
    """Return the table `judge_replies`: a row for each presentation and reply to it.

    A presentation without a reply has one row as well, which says so, and whether it is one of the
    `withheld` requests, whose reply was paid for and could not be read.
    """
    by_key: dict[str, list[StoredReply]] = {}
    for reply in replies:
        by_key.setdefault(reply.request_key, []).append(reply)
    by_prompt = {pair.prompt_id: pair for pair in pairs}
    not_asked = {(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in identical}
    rows: list[dict[str, Any]] = []
    for request in requests:
        common = {
            "prompt_id": request.prompt_id,
            "source": by_prompt[request.prompt_id].source,
            "dimension": rubric.dimension,
            "entrant_a": request.entrant_a,
            "entrant_b": request.entrant_b,
            "presentation": request.presentation.value,
            "request_key": request.request_key,
            "judge_model": request.params["model"],
            "rubric_version": rubric.version,
            "rubric_hash": rubric.content_hash,
        }
        if (request.prompt_id, request.entrant_a, request.entrant_b) in not_asked:
            rows.append({**common, "asking": 1, "result_type": "identical"})
            continue
        held = by_key.get(request.request_key)
        if held is None:
            reason = UNREAD if request.request_key in withheld else None
            rows.append({**common, "asking": 1, "result_type": "pending", "error_type": reason})
            continue
        rows.extend({**common, **_reply_values(reply)} for reply in held)
    return rows


def _reply_values(reply: StoredReply) -> dict[str, Any]:
    usage = reply.usage
    is_direct = reply.channel == "direct"
    return {
        "asking": reply.asking,
        "result_type": reply.result_type,
        "channel": reply.channel,
        "stop_reason": reply.stop_reason,
        "reply": reply.text,
        "error_type": reply.error_type,
        "input_tokens": usage.input_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens if usage else None,
        "cache_read_input_tokens": usage.cache_read_input_tokens if usage else None,
        "rejudged_at": reply.received_at.isoformat() if is_direct else None,
    }


def _refuse_empty(
    rows: Sequence[Mapping[str, Any]], *, skipped: bool, withheld: AbstractSet[str]
) -> None:
    wanted = [row for row in rows if row["result_type"] != "identical"]
    if wanted and not any(row["result_type"] == "succeeded" for row in wanted):
        advice = (
            "run without skip_judging to ask the judge"
            if skipped
            else "they were paid and their results could not be read: run again later, or with "
            "--pay-again to ask and pay for them again"
            if withheld
            else "see the table judge_failures in the ledger, and run again or `tournament rejudge`"
        )
        raise JudgeError(
            f"not one of the {len(wanted)} presentations on {wanted[0]['dimension']} has a reply; "
            f"expected some; nothing is written; {advice}"
        )


def _work_metadata(rows: Sequence[Mapping[str, Any]], tally: Tally) -> dict[str, Any]:
    results = Counter(row["result_type"] for row in rows)
    return {
        "presentations": len({_presentation(row) for row in rows}),
        "distinct_requests": len({row["request_key"] for row in rows}),
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


def _presentation(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["prompt_id"], row["entrant_a"], row["entrant_b"], row["presentation"])


def build_judging_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `judge_replies` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "judge_replies",
        stage="3_judging",
        ins={"pairs_to_judge": dg.AssetIn(key=plan.key("match_list"))},
        deps=[dg.AssetDep(plan.key("rubrics"), partition_mapping=same_dimension())],
        partitions_def=plan.by_mode_and_dimension,
        kinds={"parquet", "anthropic"},
        pool="judge",
        checks={RUBRIC_CHECK.name: RUBRIC_CHECK.description},
    )
    def judge_replies(
        context: dg.AssetExecutionContext,
        config: JudgeRepliesConfig,
        pairs_to_judge: pd.DataFrame,
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
        to_ask, identical = pairs, list[PairToJudge]()
        if tournament.judge.identical_responses_tie:
            to_ask, identical = split_identical(pairs)
        with ledger.open() as opened:
            tally = Tally()
            if not config.skip_judging:
                wait, began = config.wait_seconds, config.run_began_at
                tally = ask_what_is_missing(
                    requests_for_pairs(plan, to_ask, rubric, judge_model=judge_model),
                    plan=plan,
                    scope=JudgingScope(plan.tournament_id, mode, dimension),
                    ledger=opened,
                    judge=judge,
                    asking=Asking(
                        wait_seconds=tournament.judge.slot_seconds if wait is None else wait,
                        prewarms=prewarms(plan, mode),
                        may_pay_again=config.pay_again,
                        rejudges=config.rejudge,
                        since=datetime.fromisoformat(began) if began else None,
                    ),
                    log=context.log.info,
                )
            keys = [request.request_key for request in requests]
            rows = reply_rows(
                requests,
                pairs,
                opened.iterate_replies(keys),
                rubric,
                identical=identical,
                withheld=tally.withheld,
            )
        _refuse_empty(rows, skipped=config.skip_judging, withheld=tally.withheld)
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
        return table_result(
            "judge_replies",
            rows,
            metadata={
                **_work_metadata(rows, tally),
                "judge": tournament.judge_label,
                "judge_model": judge_model,
                "judging_skipped": config.skip_judging,
                **judged_with,
                "rubric_text": rubric.text,
                **cost_metadata(rows, tournament),
                "first_rows": markdown_table(
                    rows, ("prompt_id", "entrant_a", "entrant_b", "presentation", "reply")
                ),
            },
            checks=[currency_result(RUBRIC_CHECK, outdated)],
        )

    return [judge_replies]
