"""Moving judgments between ledgers, as JSON lines that other programs can read."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tournament_assets.adapters.judgment_files import (
    JudgmentRecord,
    read_judgments,
    write_judgments,
)
from tournament_assets.adapters.progress import JudgingBar
from tournament_assets.assets.cache_files import is_cache_file, match_cache_file
from tournament_assets.assets.holdings import (
    existing_requests,
    known_responses,
    load_bank_and_selection,
)
from tournament_assets.assets.judge_access import JudgeAccess
from tournament_assets.assets.plan import TournamentPlan
from tournament_assets.judging.harvesting import is_final
from tournament_assets.judging.records import JudgingScope, StoredReply
from tournament_assets.judging.recovery import PlannedRequest, RecoveryReport, recover_batches
from tournament_assets.judging.requests import JudgeRequests
from tournament_assets.judging.service import ReplyRow
from tournament_assets.judging.sessions import WaitingPolicy
from tournament_assets.resources.anthropic_generator import (
    keep_paid_responses,
    planned_responses,
)
from tournament_assets.tournament.api_entrants import AnthropicApiEntrant
from tournament_assets.tournament.config import MODES, Mode
from tournament_assets.tournament.entrants import RecordedEntrant

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger

_IMPORTED = "imported"
_CHUNK = 2_000
_NOT_ASKED = frozenset({"identical", "pending"})


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What came of one file.

    Attributes:
        path: The file.
        records: Its records.
        added: Replies that the ledger did not hold.
        failures: Records without a reply that can be judged again.
        unmatched: Rows of an earlier cache that answer nothing that would be asked today.
    """

    path: Path
    records: int
    added: int
    failures: int
    unmatched: int = 0


def export_judgments(
    plan: TournamentPlan, mode: Mode, folder: Path, *, ledger: "Ledger"
) -> dict[Path, int]:
    """Write every reply to a mode's requests, one file a dimension; return their records.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used.
    """
    written: dict[Path, int] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for dimension, requests in existing_requests(plan, mode, ledger=ledger).items():
        records = list(_records(dimension, requests, ledger=ledger))
        path = folder / f"judgments_{dimension}.jsonl"
        write_judgments(path, records)
        written[path] = len(records)
    return written


def _records(
    dimension: str, requests: JudgeRequests, *, ledger: "Ledger"
) -> Iterator[JudgmentRecord]:
    replies: dict[str, list[StoredReply]] = {}
    for reply in ledger.iterate_replies(request.request_key for request in requests):
        replies.setdefault(reply.request_key, []).append(reply)
    for request in requests:
        for reply in replies.get(request.request_key, ()):
            yield JudgmentRecord(
                request_key=request.request_key,
                dimension=dimension,
                prompt_id=request.prompt_id,
                entrant_a=request.entrant_a,
                entrant_b=request.entrant_b,
                presentation=request.presentation,
                judge_model=request.params["model"],
                asking=reply.asking,
                channel=reply.channel,
                result_type=reply.result_type,
                stop_reason=reply.stop_reason,
                reply=reply.text,
                error_type=reply.error_type,
                usage=reply.usage,
                received_at=reply.received_at,
            )


def import_files(
    paths: Sequence[Path], plan: TournamentPlan, *, ledger: "Ledger"
) -> list[ImportReport]:
    """Keep what is in some files, exports of a ledger and files of an earlier cache alike.

    Raises:
        InputError: With every problem of the first file that has any.
    """
    cached = [path for path in paths if is_cache_file(path)]
    reports = import_judgments([path for path in paths if path not in cached], ledger=ledger)
    # Responses first: today's requests are made of them.
    for path in sorted(cached, key=lambda path: path.name.startswith("judgments_")):
        matched = match_cache_file(path, plan, ledger=ledger)
        added = ledger.keep_responses(matched.entrant_fingerprint, matched.responses)
        kept = [reply for reply in matched.replies if reply.result_type == "succeeded"]
        failed = [reply for reply in matched.replies if reply.result_type != "succeeded"]
        added += ledger.import_replies(kept)
        ledger.record_failures(_IMPORTED, [(each.request_key, _failed(each)) for each in failed])
        reports.append(ImportReport(path, matched.rows, added, len(failed), matched.unmatched))
    return reports


def _failed(reply: StoredReply) -> ReplyRow:
    return ReplyRow(
        custom_id="",
        result_type=reply.result_type,
        text=reply.text,
        stop_reason=reply.stop_reason,
        error_type=reply.error_type,
        error_message=reply.text,
        model=reply.model,
        usage=reply.usage,
        raw="{}",
    )


def import_judgments(paths: Sequence[Path], *, ledger: "Ledger") -> list[ImportReport]:
    """Keep the replies of some files; every file is checked before the first one is kept.

    What a file holds instead of a reply, a gateway's words for example, is kept as a failure,
    which can be judged again and never becomes a verdict.

    Raises:
        InputError: With every problem of the first file that has any.
    """
    files = [read_judgments(path) for path in paths]
    reports: list[ImportReport] = []
    for path, file in zip(paths, files, strict=True):
        added = failures = 0
        # One transaction for many rows: the disk is waited for once in each.
        records = (record for record in file if record.result_type not in _NOT_ASKED)
        while chunk := list(islice(records, _CHUNK)):
            rows = [(record, _row(record)) for record in chunk]
            added += ledger.import_replies(
                stored_reply(each) for each, row in rows if is_final(row)
            )
            failed = [(each.request_key, row) for each, row in rows if not is_final(row)]
            ledger.record_failures(_IMPORTED, failed)
            failures += len(failed)
        reports.append(ImportReport(path, file.n_records, added, failures))
    return reports


def recover_replies(
    plan: TournamentPlan,
    *,
    ledger: "Ledger",
    judge: JudgeAccess,
    log: Callable[[str], None],
    judge_model: str | None = None,
) -> RecoveryReport:
    """Take back what both modes of a tournament, and its entrants, have paid for and forgotten.

    Args:
        plan: The tournament.
        ledger: Where replies are put.
        judge: Leads to the service.
        log: Told what is happening.
        judge_model: Another judge than the configured ones.

    Raises:
        InputError: If the bank, a rubric or a recorded file cannot be used, or there is no key.
        JudgeError: If the service cannot be asked.
    """
    config = plan.config.judge
    bank, _ = load_bank_and_selection(plan, "headline")
    bought = [
        entrant
        for entrant in plan.config.entrants
        if isinstance(entrant, AnthropicApiEntrant) and entrant.service == config.service
    ]
    planned: dict[str, PlannedRequest] = {}
    for entrant in bought:
        planned.update(planned_responses(entrant, bank))
    policy = WaitingPolicy(
        poll_initial_seconds=min(config.poll_initial_seconds, 1.0),
        poll_max_seconds=config.poll_max_seconds,
        deadline_seconds=config.deadline_seconds,
    )
    with (
        judge.service(config) as service,
        JudgingBar("replies are taken back", total=1, log=log) as progress,
    ):

        def recover() -> RecoveryReport:
            return recover_batches(
                planned, ledger=ledger, service=service, policy=policy, progress=progress
            )

        responses = RecoveryReport()
        if bought:
            responses = recover()
            for entrant in bought:
                keep_paid_responses(entrant, bank, ledger=ledger)
        # What the judge was asked holds the responses, so it is known only now.
        for mode in MODES:
            model = judge_model or plan.config.judge_model(mode)
            for dimension, requests in existing_requests(
                plan, mode, ledger=ledger, judge_model=model
            ).items():
                scope = JudgingScope(plan.tournament_id, mode, dimension)
                one = PlannedRequest(scope, model, config.reply_format)
                for request in requests:
                    planned.setdefault(request.request_key, one)
        report = recover()
    report.taken[:0] = responses.taken
    report.replies += responses.replies
    report.paid_twice += responses.paid_twice
    report.without_reply += responses.without_reply
    return report


def missing_responses(plan: TournamentPlan, *, ledger: "Ledger") -> dict[str, int]:
    """Return how many responses do not exist, by entrant; what they make up cannot be planned.

    Raises:
        InputError: If the bank or a recorded file cannot be used.
    """
    bank, _ = load_bank_and_selection(plan, "headline")
    missing = {
        entrant.entrant_id: len(bank)
        - len(known_responses(plan, entrant, bank, bank, ledger=ledger))
        for entrant in plan.config.entrants
        if not isinstance(entrant, RecordedEntrant)
    }
    return {entrant_id: count for entrant_id, count in missing.items() if count}


def _row(record: JudgmentRecord) -> ReplyRow:
    return ReplyRow(
        custom_id="",
        result_type=record.result_type,
        text=record.reply,
        stop_reason=record.stop_reason,
        error_type=record.error_type,
        error_message=record.reply if record.error_type else None,
        model=record.judge_model,
        usage=record.usage,
        raw="{}",
    )


def stored_reply(record: JudgmentRecord) -> StoredReply:
    """Return what the ledger keeps of a judgment."""
    return StoredReply(
        request_key=record.request_key,
        asking=record.asking,
        channel=record.channel,
        result_type=record.result_type,
        stop_reason=record.stop_reason,
        text=record.reply,
        error_type=record.error_type,
        model=record.judge_model,
        usage=record.usage,
        received_at=record.received_at,
    )
