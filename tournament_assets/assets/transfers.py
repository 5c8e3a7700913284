"""Moving judgments between ledgers, as JSON lines that other programs can read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tournament_assets.adapters.judgment_files import (
    JudgmentRecord,
    read_judgments,
    write_judgments,
)
from tournament_assets.assets.holdings import existing_requests
from tournament_assets.assets.partitions import TournamentPlan
from tournament_assets.judging.harvesting import is_final
from tournament_assets.judging.records import StoredReply
from tournament_assets.judging.requests import JudgeRequests
from tournament_assets.judging.service import ReplyRow
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.adapters.ledger import Ledger

_IMPORTED = "imported"
_NOT_ASKED = frozenset({"identical", "pending"})


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What came of one file.

    Attributes:
        path: The file.
        records: Its records.
        added: Replies that the ledger did not hold.
        failures: Records without a reply that can be judged again.
    """

    path: Path
    records: int
    added: int
    failures: int


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
        for record in file:
            row = _row(record)
            if record.result_type in _NOT_ASKED:
                continue
            if is_final(row):
                added += ledger.import_replies([_stored(record)])
            else:
                ledger.record_failures(_IMPORTED, [(record.request_key, row)])
                failures += 1
        reports.append(ImportReport(path, file.n_records, added, failures))
    return reports


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


def _stored(record: JudgmentRecord) -> StoredReply:
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
