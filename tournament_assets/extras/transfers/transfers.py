"""Moving judgments between ledgers as JSON lines that other programs can read, and reading caches.

Files of an earlier cache, `judgments_<dimension>.jsonl` and `responses_<entrant>.jsonl`, name
rows by a hash of 12 hexadecimal digits that is not a request's key. So a row is matched by what it
holds: the prompt, the pair, the order, and both responses or, where it holds no texts, the hash
computed over today's. What does not match is counted and not used.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from tournament_assets.extras.transfers.judgment_files import (
    JudgmentRecord,
    failed_unless_the_judges,
    read_judgments,
    write_judgments,
)
from tournament_assets.foundation.errors import InputError, make_each
from tournament_assets.foundation.json_lines import numbered_lines, parse_object, read_json_lines
from tournament_assets.judging.batch_service import TOKEN_NAMES, TokenUsage, takes_batches
from tournament_assets.judging.requests.pairs import PairToJudge, Presentation
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.settlement.harvest import is_final
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.judging.settlement.recovery import (
    PlannedRequest,
    RecoveryReport,
    recover_batches,
)
from tournament_assets.preparing.existing_work import (
    existing_requests,
    known_responses,
    load_bank_and_selection,
)
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import (
    entrant_fingerprint,
    load_rubric,
)
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.responses.api_responses import (
    asked_as_a_judge,
    bought_entrants,
    keep_paid_responses,
    planned_responses,
)
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.entrants import loader_of
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import GeneratedResponse, answer_key
from tournament_assets.verdicts.judge_requests import JudgeAccess

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger

_JUDGMENTS = re.compile(r"judgments_(.+)\.jsonl")
_RESPONSES = re.compile(r"responses_(.+)\.jsonl")
_SHORT_KEY = re.compile("[0-9a-f]{12}")
_REPLY_NAMES = ("reply", "raw_text", "raw_response", "raw_reply", "raw", "text", "content")
_RESPONSE_NAMES = ("response", "response_text", "text")
_PROMPT_NAMES = ("prompt", "prompt_text")
_TIME_NAMES = ("received_at", "created_at", "timestamp")


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """The rows of a file that answer today's requests.

    Attributes:
        unmatched: Rows that answer nothing that would be asked today.
        replies: Judges' replies, each under today's request.
        responses: An entrant's responses, each with its prompt's fingerprint.
    """

    rows: int
    unmatched: int
    replies: tuple[StoredReply, ...] = ()
    responses: tuple[tuple[str, GeneratedResponse], ...] = ()
    entrant_fingerprint: str = ""


def _is_cache_file(path: Path) -> bool:
    """Return whether a file is an earlier cache's rather than an export of a ledger."""
    if _RESPONSES.fullmatch(path.name):
        return True
    try:
        where, line = next(numbered_lines(path), (path.name, b"{}"))
        first = parse_object(line, where, strict=False)
    except InputError:
        return False  # the reader of exports says what is wrong
    key = first.get("cache_key")
    return "request_key" not in first and isinstance(key, str) and bool(_SHORT_KEY.fullmatch(key))


def _match_cache_file(path: Path, plan: TournamentPlan, *, ledger: "Ledger") -> MatchedRows:
    """Match a file's rows to what would be asked today."""
    if (named := _RESPONSES.fullmatch(path.name)) is not None:
        return _match_responses(path, named[1], plan)
    named = _JUDGMENTS.fullmatch(path.name)
    if named is None or named[1] not in plan.config.dimensions:
        raise InputError(
            f"{path}: the file's name contains no dimension; expected judgments_<dimension>.jsonl "
            f"with one of {', '.join(plan.config.dimension_names)}; rename it"
        )
    return _match_judgments(path, named[1], plan, ledger=ledger)


@dataclass(frozen=True, slots=True)
class _Asked:
    request_key: str
    judge_model: str
    first: str
    second: str
    short_keys: frozenset[str]


def _match_judgments(
    path: Path, dimension: str, plan: TournamentPlan, *, ledger: "Ledger"
) -> MatchedRows:
    requests = _asked_today(plan, dimension, ledger=ledger)
    # Of two rows of the same request the later one is the cache's.
    replies: dict[str, StoredReply] = {}
    n_rows = unmatched = 0
    for _, row in read_json_lines(path):
        n_rows += 1
        request = _find(row, requests)
        text = _reply_text(row)
        if request is None or text is None:
            unmatched += 1
        else:
            replies[request.request_key] = _reply(row, request, text)
    return MatchedRows(n_rows, unmatched, replies=tuple(replies.values()))


def _asked_today(
    plan: TournamentPlan, dimension: str, *, ledger: "Ledger"
) -> dict[tuple[str, str, str], list[_Asked]]:
    """Return today's requests by prompt and entrants, in the order they are shown."""
    load_rubric(plan.config, plan.project, dimension)  # says what is wrong with it
    rubric = (plan.project.folder / plan.config.dimensions[dimension].rubric).read_text("utf-8-sig")
    by_names: dict[tuple[str, str, str], list[_Asked]] = {}
    for requests in (
        existing_requests(plan, mode, judge, ledger=ledger)[dimension]
        for mode in plan.config.mode_names
        for judge in plan.config.judges_of(mode)
    ):
        for position, request in enumerate(requests):
            pair = requests.pair_of(position)
            swap = request.presentation is Presentation.BA
            first, second = (
                (pair.response_b, pair.response_a) if swap else (pair.response_a, pair.response_b)
            )
            names = (pair.entrant_b, pair.entrant_a) if swap else (pair.entrant_a, pair.entrant_b)
            model = request.params["model"]
            entry = _Asked(
                request.request_key,
                model,
                first,
                second,
                _short_keys(pair, rubric, model, swap=swap),
            )
            by_names.setdefault((pair.prompt_id, *names), []).append(entry)
    return by_names


def _short_keys(pair: PairToJudge, rubric: str, model: str, *, swap: bool) -> frozenset[str]:
    """Return what an earlier cache may have called a request, whichever entrant it had first."""
    ours = (pair.entrant_a, pair.entrant_b, pair.response_a, pair.response_b, swap)
    turned = (pair.entrant_b, pair.entrant_a, pair.response_b, pair.response_a, not swap)
    return frozenset(
        hashlib.sha256(
            json.dumps(
                {
                    "rubric_text": rubric,
                    "judge_model": model,
                    "prompt_id": pair.name,
                    "entrant_a": entrant_a,
                    "entrant_b": entrant_b,
                    "position_swap": swapped,
                    "response_a": response_a,
                    "response_b": response_b,
                },
                sort_keys=True,
                ensure_ascii=ensure_ascii,
            ).encode(errors="replace")
        ).hexdigest()[:12]
        for entrant_a, entrant_b, response_a, response_b, swapped in (ours, turned)
        for ensure_ascii in (True, False)
    )


def _find(
    row: Mapping[str, Any], requests: Mapping[tuple[str, str, str], list[_Asked]]
) -> _Asked | None:
    """Return the request of today that a row answers, if it is unambiguous."""
    swap = row.get("position_swap", row.get("presentation") == Presentation.BA.value)
    names = (row.get("entrant_a"), row.get("entrant_b"))
    texts = (row.get("response_a"), row.get("response_b"))
    if not isinstance(swap, bool) or not all(isinstance(name, str) for name in names):
        return None
    order, ordered = (names[::-1], texts[::-1]) if swap else (names, texts)
    model = row.get("judge_model")
    candidates: list[_Asked] = []
    for request in requests.get((str(row.get("prompt_id")), str(order[0]), str(order[1])), ()):
        is_named = row.get("cache_key") in request.short_keys
        # Some wrote down the texts as they were shown, others by entrant.
        is_same = (request.first, request.second) in (ordered, texts) if any(texts) else is_named
        if is_same and (request.judge_model == model or (model is None and is_named)):
            candidates.append(request)
    keys = {request.request_key for request in candidates}
    return candidates[0] if len(keys) == 1 else None


def _reply_text(row: Mapping[str, Any]) -> str | None:
    for name in _REPLY_NAMES:
        if isinstance(row.get(name), str) and row[name].strip():
            return str(row[name])
    verdict = row.get("verdict")
    return f"VERDICT: {verdict}" if verdict in ("A", "B", "TIE") else None


def _reply(row: Mapping[str, Any], request: _Asked, text: str) -> StoredReply:
    counts = row["usage"] if isinstance(row.get("usage"), Mapping) else row
    tokens = {name: counts[name] for name in TOKEN_NAMES if type(counts.get(name)) is int}
    stop_reason = row.get("stop_reason")
    stop_reason = stop_reason if isinstance(stop_reason, str) else "end_turn"
    # A gateway's words in the judge's place never become a verdict.
    return failed_unless_the_judges(
        StoredReply(
            request_key=request.request_key,
            attempt=1,
            channel="batch",
            result_type="succeeded",
            stop_reason=stop_reason,
            text=text,
            model=request.judge_model,
            usage=TokenUsage(**tokens) if tokens else None,
            received_at=_time(row),
        )
    )


def _time(row: Mapping[str, Any]) -> datetime:
    for name in _TIME_NAMES:
        try:
            moment = datetime.fromisoformat(row[name])
        except (KeyError, TypeError, ValueError):
            continue
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    return datetime.now(UTC)


def _match_responses(path: Path, name: str, plan: TournamentPlan) -> MatchedRows:
    entrant = next((each for each in plan.config.entrants if each.entrant_id == name), None)
    if entrant is None:
        raise InputError(
            f"{path}: the file's name says the entrant {name!r}, which is not in the config; "
            f"expected one of {', '.join(plan.config.entrant_ids)}; rename the file"
        )
    bank, prompts = load_bank_and_selection(plan, "headline")
    recorded: dict[str, str] | None = None
    read = loader_of(entrant).answered
    if read is not None:
        # The config's own file says what it responds; a row can only agree.
        of_entrant: Sequence[GeneratedResponse] = resolve_name(read)(entrant, plan, bank)
        recorded = {each.prompt_id: each.text for each in of_entrant}
    planned = {answer_key(prompt): prompt for prompt in prompts}
    responses: dict[str, GeneratedResponse] = {}
    n_rows = unmatched = 0
    for _, row in read_json_lines(path):
        n_rows += 1
        sample = row.get("sample", 1)
        key = (str(row.get("prompt_id")), sample if isinstance(sample, int) else 0)
        prompt = planned.get(key)
        prompt_text = next((row[key] for key in _PROMPT_NAMES if row.get(key) is not None), None)
        text = next((row[key] for key in _RESPONSE_NAMES if isinstance(row.get(key), str)), None)
        if (
            prompt is None
            or not isinstance(text, str)
            or prompt_text not in (None, prompt.text)
            or row.get("entrant_id", name) != name
            or (recorded is not None and recorded.get(prompt.prompt_id) != text)
        ):
            unmatched += 1
            continue
        finish = row.get("finish_reason")
        responses[prompt.fingerprint] = GeneratedResponse(
            prompt_id=prompt.prompt_id,
            sample=prompt.sample,
            text=text,
            finish_reason=finish if finish in ("stop", "length", "other") else "recorded",
        )
    if recorded is not None:
        return MatchedRows(n_rows, unmatched)
    return MatchedRows(
        n_rows,
        unmatched,
        responses=tuple(responses.items()),
        entrant_fingerprint=entrant_fingerprint(entrant, plan.project),
    )


_IMPORTED = "imported"
_RECORDS_AT_ONCE = 2_000
_NOT_ASKED = frozenset({"identical", "pending"})


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The result of importing one file.

    Attributes:
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
    """Write every reply to a mode's requests, one file per dimension; return their records.

    Files are left behind only where one of them could not be written.
    """
    written: dict[Path, int] = {}
    folder.mkdir(parents=True, exist_ok=True)
    by_judge = [
        existing_requests(plan, mode, judge, ledger=ledger) for judge in plan.config.judges_of(mode)
    ]
    for dimension in plan.config.dimension_names:
        records = [
            record
            for requests in by_judge
            for record in _records(dimension, requests[dimension], ledger=ledger)
        ]
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
                dimension=dimension,
                prompt_id=request.prompt_id,
                sample=request.sample,
                entrant_a=request.entrant_a,
                entrant_b=request.entrant_b,
                presentation=request.presentation,
                reply=replace(reply, model=request.params["model"]),
            )


def import_files(
    paths: Sequence[Path], plan: TournamentPlan, *, ledger: "Ledger"
) -> list[ImportReport]:
    """Import files into the ledger: exports of a ledger, and files of an earlier cache."""
    cached = [path for path in paths if _is_cache_file(path)]
    reports = import_judgments([path for path in paths if path not in cached], ledger=ledger)
    # Responses first: today's requests are made of them.
    for path in sorted(cached, key=lambda path: path.name.startswith("judgments_")):
        matched = _match_cache_file(path, plan, ledger=ledger)
        added = ledger.keep_responses(matched.entrant_fingerprint, matched.responses)
        new, failures = _keep(matched.replies, ledger)
        reports.append(ImportReport(path, matched.rows, added + new, failures, matched.unmatched))
    return reports


def import_judgments(paths: Sequence[Path], *, ledger: "Ledger") -> list[ImportReport]:
    """Keep the replies of some files; every file is checked before the first one is kept.

    What a file holds instead of a reply, a gateway's words for example, is kept as a failure,
    which can be judged again and never becomes a verdict.
    """
    files = make_each(read_judgments, paths)
    reports: list[ImportReport] = []
    for path, file in zip(paths, files, strict=True):
        added = failures = 0
        # One transaction for many rows: the disk is waited for once in each.
        asked = (record.reply for record in file if record.reply.result_type not in _NOT_ASKED)
        while replies := list(islice(asked, _RECORDS_AT_ONCE)):
            new, failed = _keep(replies, ledger)
            added, failures = added + new, failures + failed
        reports.append(ImportReport(path, file.n_records, added, failures))
    return reports


def _keep(replies: Sequence[StoredReply], ledger: "Ledger") -> tuple[int, int]:
    """Return how many replies are new, and how many are failures, which are recorded as such."""
    failed = [(each.request_key, each) for each in replies if not is_final(each)]
    ledger.record_failures(_IMPORTED, failed)
    return ledger.import_replies(filter(is_final, replies)), len(failed)


def recover_replies(
    plan: TournamentPlan,
    *,
    ledger: "Ledger",
    judge: JudgeAccess,
    log: Callable[[str], None],
    judge_model: str | None = None,
) -> RecoveryReport:
    """Recover replies that a tournament's modes and entrants paid for and the ledger lost.

    Args:
        judge: Leads to the services: those of the judges of all modes and of bought entrants.
        judge_model: A judge to ask instead of the configured ones.
    """
    config = plan.config
    bank, _ = load_bank_and_selection(plan, "headline")
    bought = bought_entrants(plan.config.entrants)
    planned: dict[str, PlannedRequest] = {}
    for entrant in bought:
        planned.update(planned_responses(entrant, bank))

    def recover_from(panel: Iterable[Judge]) -> RecoveryReport:
        report = RecoveryReport()
        batched = {member.door: member for member in panel if member.row.channel == "batch"}
        for member in batched.values():
            first = min(member.waiting.poll_initial_seconds, 1.0)
            title = f"replies of {member.service} are taken back"
            with judge.service(member) as service, JudgingBar(title, total=1, log=log) as progress:
                if takes_batches(service):
                    report.add(
                        recover_batches(
                            planned,
                            ledger=ledger,
                            service=service,
                            waiting=member.waiting.model_copy(
                                update={"poll_initial_seconds": first}
                            ),
                            progress=progress,
                        )
                    )
        return report

    sellers = [asked_as_a_judge(entrant, config.judges) for entrant in bought]
    responses = recover_from(sellers)
    for entrant in bought:
        keep_paid_responses(entrant, bank, ledger=ledger)
    # What the judges were asked holds the responses, so it is known only now.
    judges: list[Judge] = []
    for mode in config.mode_names:
        for mode_judge in config.judges_of(mode, model=judge_model):
            judges.append(mode_judge)
            requests_of = existing_requests(plan, mode, mode_judge, ledger=ledger)
            for dimension, requests in requests_of.items():
                scope = plan.verdict_scope(mode, dimension, mode_judge)
                one = PlannedRequest(scope, mode_judge.model, config.judging.reply_format)
                for request in requests:
                    planned.setdefault(request.request_key, one)
    # The second look may find planned requests where the first one found none.
    report = RecoveryReport(
        taken=responses.taken,
        replies=responses.replies,
        paid_twice=responses.paid_twice,
        without_reply=responses.without_reply,
    )
    report.add(recover_from([*judges, *sellers]))
    return report


def missing_responses(plan: TournamentPlan, *, ledger: "Ledger") -> dict[str, int]:
    """Return the number of missing responses, by entrant; their pairs cannot be planned."""
    bank, _ = load_bank_and_selection(plan, "headline")
    missing = {
        entrant.entrant_id: len(bank)
        - len(known_responses(plan, entrant, bank, bank, ledger=ledger))
        for entrant in plan.config.entrants
        if loader_of(entrant).answered is None
    }
    return {entrant_id: count for entrant_id, count in missing.items() if count}
