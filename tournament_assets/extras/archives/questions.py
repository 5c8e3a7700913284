"""Asks the judge about runs: composes and prices requests, sends them, and reads the scores.

A request is composed from the run's file and files beside it; its key is the hash of what is sent.
Unlike a verdict, a score rates a single response. The service enforces a JSON object as the reply,
with the reason first, so that the score follows from it. Requests are sent one at a time, and each
reply is stored in the ledger before anything else happens.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.config import ArchiveFile, JudgeInput, Rejudging
from tournament_assets.extras.archives.documents import (
    BrokenRunError,
    is_blank,
    number_of,
)
from tournament_assets.extras.archives.harness import NewScore, RewritingReader
from tournament_assets.extras.archives.runs import ArchivedRun
from tournament_assets.foundation.errors import InputError, VerdictParseError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.foundation.formatting import format_usd
from tournament_assets.foundation.input_files import read_input_text, reading
from tournament_assets.foundation.yaml_files import parse_yaml
from tournament_assets.judging.batch_service import AsksDirectly, MessageParams
from tournament_assets.judging.costs.estimates import measure_workload
from tournament_assets.judging.costs.prices import BudgetTerms, load_newest_prices
from tournament_assets.judging.requests.columns import ModelRequest, with_larger_cap
from tournament_assets.judging.requests.requests import printable
from tournament_assets.judging.requests.verdict_parsing import Members, parse_answer
from tournament_assets.judging.settlement.records import JudgingLedger, JudgingScope, StoredReply
from tournament_assets.judging.settlement.sessions import (
    JudgingSession,
    SettlementTerms,
    hold_lease,
)
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.ledger import Ledger
from tournament_assets.recorded.sample_formats import value_at
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.completions import End, end_of
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.judges import Judge, Waiting
from tournament_assets.verdicts.spending_plans import build_approval

_REMEDY = "correct rejudging.max_tokens or rejudging.judge_model, and run again"


def require_rejudging(archive: ArchiveFile) -> tuple[Rejudging, str]:
    """Return the settings for judging again, and the judge's instructions."""
    rejudging = archive.config.rejudging
    if rejudging is None:
        raise InputError(
            f"{archive.path}: rejudging is missing; expected the judge, the file of its prompt, "
            "and the places of the parts that the judge is shown; add it"
        )
    path = archive.base / rejudging.prompt
    label = f"{archive.path}: rejudging.prompt is {rejudging.prompt!r}, which"
    with reading(path, "a text file in UTF-8 beside the description", label=label):
        instructions = read_input_text(path)
    if not instructions.strip():
        raise InputError(f"{path}: the file is empty; expected the judge's instructions")
    return rejudging, instructions.strip() + "\n"


class Questions:
    """Composes the requests about runs, from their files and from files beside them."""

    def __init__(self, archive: ArchiveFile) -> None:
        reader = archive.config.harness
        if not isinstance(reader, RewritingReader):
            raise InputError(
                f"{archive.path}: reader is {archive.config.reader!r}, which only reads; expected "
                "a RewritingReader, which can write a new score into a run's file"
            )
        self.reader: RewritingReader = reader
        self._rejudging, self._instructions = require_rejudging(archive)
        self._archive = archive
        self._folders = {model.model_id: model.folder_name for model in archive.config.models}
        self._beside: dict[Path, Any] = {}

    def ask(self, run: ArchivedRun, document: Mapping[str, Any]) -> ModelRequest:
        """Compose the request about a run.

        Raises:
            BrokenRunError: If a part is missing.
        """
        parts = {
            name: self._part(name, part, run, document)
            for name, part in self._rejudging.parts.items()
        }
        return build_score_request(
            self._instructions,
            parts,
            judge=Judge(service=self._rejudging.service, model=self._rejudging.judge_model),
            max_tokens=self._rejudging.max_tokens,
        )

    def threshold(self, run: ArchivedRun, document: Mapping[str, Any]) -> float | None:
        """Return the lowest score that passes; None if unknown.

        Raises:
            BrokenRunError: If it is not where the description says.
        """
        configured = self._rejudging.passing_threshold
        if not isinstance(configured, JudgeInput):
            return configured
        value = self._value(configured, run, document)
        number = number_of(value)
        if number is None:
            raise BrokenRunError(
                f"{_place(configured)} holds {value!r:.80}; expected the passing threshold"
            )
        return number

    def _part(
        self, name: str, part: JudgeInput, run: ArchivedRun, document: Mapping[str, Any]
    ) -> str:
        value = self._value(part, run, document)
        if is_blank(value):
            raise BrokenRunError(
                f"{_place(part)} holds nothing; expected the {name} that is judged"
            )
        if not isinstance(value, str):
            value = json.dumps(value, indent=1, ensure_ascii=False, default=str)
        return _cut(value, part.max_chars)

    def _value(self, source: JudgeInput, run: ArchivedRun, document: Mapping[str, Any]) -> Any:
        content: Any = document if source.file is None else self._file(source.file, run)
        if source.key is None:
            return content
        return value_at(content, source.key) if isinstance(content, Mapping) else None

    def _file(self, pattern: str, run: ArchivedRun) -> Any:
        for place, value in (
            ("{task}", run.task),
            ("{run}", run.run),
            ("{model}", run.model_id),
            ("{folder}", self._folders[run.model_id]),
        ):
            pattern = pattern.replace(place, escape(value))
        matches = [path for path in self._archive.base.glob(pattern) if path.is_file()]
        if len(matches) != 1:
            raise BrokenRunError(f"{len(matches)} files match {pattern!r}; expected one")
        (path,) = matches
        if path not in self._beside:
            self._beside[path] = _read_beside(path)
        return self._beside[path]


def _place(source: JudgeInput) -> str:
    return " in ".join(each for each in (source.key, source.file) if each is not None)


def _read_beside(path: Path) -> Any:
    """Return the content of a file, parsed if it is YAML or JSON."""
    try:
        with reading(path, "YAML, JSON or text in UTF-8", label=path.name):
            text = read_input_text(path)
            match path.suffix.lower():
                case ".yaml" | ".yml":
                    return parse_yaml(text, path.name).values
                case ".json":
                    return json.loads(text)
            return text
    except (InputError, RecursionError) as error:
        raise BrokenRunError(str(error)) from None


def _cut(text: str, max_chars: int | None) -> str:
    """Cut the middle out of a text that is too long: its beginning and end matter most."""
    if max_chars is None or len(text) <= max_chars:
        return text
    note = f"\n[… {len(text) - max_chars:,} characters left out …]\n"
    head = max_chars // 2
    return f"{text[:head]}{note}{text[len(text) - (max_chars - head) :]}"


def ask_judge(
    requests: Sequence[ModelRequest],
    archive: ArchiveFile,
    *,
    ledger: Ledger,
    connect: Callable[[], AbstractContextManager[AsksDirectly]],
    waiting: Waiting,
    log: Callable[[str], None],
) -> None:
    """Ask for the scores that the ledger does not hold, one request at a time.

    A request whose reply has no score is sent once more, with twice the token limit if the reply
    was cut off, and again by the next call.

    Args:
        archive: Names the judge and the budget.

    Raises:
        JudgeWaitingError: If another process is still working on the archive at the deadline.
        JudgeError: If the service refuses; replies received so far are in the ledger.
        BudgetError: If asking could exceed the budget; nothing is sent then.
    """
    rejudging, _ = require_rejudging(archive)
    scope = JudgingScope(
        tournament_id=f"archive {archive.config.archive_id}",
        mode="archive",
        dimension="scores",
        purpose="scores",
        subject=f"the archive {archive.config.archive_id}",
    )
    budget = BudgetTerms(
        prices=load_newest_prices(rejudging.prices),
        limit_usd=None if SERVICES[rejudging.service].is_free else rejudging.budget_usd,
        period="run",
        began_at=datetime.now(UTC),
        setting="rejudging.budget_usd",
    )
    with (
        connect() as service,
        JudgingBar(f"{scope.subject} is judged", total=len(requests), log=log) as progress,
    ):
        session = JudgingSession(
            scope=scope,
            ledger=ledger,
            service=service,
            progress=progress,
            terms=SettlementTerms(
                waiting=waiting, reply_format=None, remedy=_REMEDY, budget=budget
            ),
            approval=build_approval(budget, ledger=ledger),
        )
        with hold_lease(session):
            _settle_scores(session, requests, ceiling=archive.config.harness.ceiling)


def cost_sentence(requests: Sequence[ModelRequest], rejudging: Rejudging) -> str:
    """Describe the most that asking can cost, assuming an empty ledger."""
    workload = measure_workload(requests)
    prices = load_newest_prices(rejudging.prices)
    if SERVICES[rejudging.service].is_free:
        prices = prices.with_free(rejudging.judge_model)
    price = prices.models.get(rejudging.judge_model)
    cost = "an unknown price"
    if price is not None:
        dearest = workload.dearest_usd(price, discount=prices.discount("direct"))
        cost = f"up to {format_usd(dearest)}"
    return f"Asking {workload.distinct} requests of {rejudging.judge_model} costs {cost}."


SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
"""The JSON schema of a reply."""

_FENCE_LENGTH = 8
_KEYS = {"reason", "score"}


def build_score_request(
    instructions: str, parts: Mapping[str, str], *, judge: Judge, max_tokens: int
) -> ModelRequest:
    """Compose the request for a score; its key is the SHA-256 of its content and the judge.

    The instructions are the system prompt of every request. The parts follow in the user message,
    each between tags with a code that is a hash of all parts: to fake its closing tag, a model's
    text would have to contain a hash of itself.

    Args:
        parts: What the judge is shown, by name.
    """
    texts = [(name, printable(text)) for name, text in parts.items()]
    fence = fingerprint(texts)[:_FENCE_LENGTH]
    message = "\n\n".join(
        f'<{name} fence="{fence}">\n{text}\n</{name} fence="{fence}">' for name, text in texts
    )
    params: MessageParams = {
        "model": judge.model,
        "max_tokens": max_tokens,
        "system": [
            {
                "type": "text",
                "text": printable(instructions),
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        "messages": [{"role": "user", "content": message}],
        "output_config": {"format": {"type": "json_schema", "schema": SCORE_SCHEMA}},
    }
    identity = judge.identity
    key = fingerprint({**identity, "params": params} if identity else params)
    return ModelRequest(request_key=key, params=params)


def parse_score(reply: str, *, ceiling: float) -> tuple[float, str]:
    """Parse a JSON reply into its score, from 0 to the ceiling, and its reason.

    Raises:
        VerdictParseError: If the reply is not a JSON object with exactly these two keys, or if its
            score or reason is invalid: nothing is guessed.
    """
    expected = (
        'expected one JSON object and nothing else, with a text under "reason" and a number from '
        f'0 to {ceiling:g} under "score"'
    )
    try:
        pairs = json.loads(reply, object_pairs_hook=Members)
    except (ValueError, RecursionError):
        raise VerdictParseError(
            f"the judge's reply is not JSON and ends in {reply[-80:]!r}; {expected}"
        ) from None
    members = dict(pairs) if isinstance(pairs, Members) else {}
    if len(members) != len(_KEYS) or len(pairs) != len(members) or members.keys() != _KEYS:
        raise VerdictParseError(f"the judge's reply is {reply[:80]!r}; {expected}")
    score, reason = members["score"], members["reason"]
    if not isinstance(reason, str) or not reason.strip():
        raise VerdictParseError(f"the judge's reason is {reason!r:.80}; {expected}")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not 0 <= score <= ceiling:
        raise VerdictParseError(f"the judge's score is {score!r:.80}; {expected}")
    return float(score), reason


_TRIES_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class HeldScores:
    """The scores and replies that the ledger holds for some requests, by key.

    Attributes:
        scores: The first score of each request that has one.
        problems: Why the newest reply without a score has none.
        last: The newest reply to each request that was answered.
    """

    scores: Mapping[str, NewScore]
    problems: Mapping[str, str]
    last: Mapping[str, StoredReply]

    @property
    def n_replies(self) -> int:
        """How many replies were received."""
        return sum(reply.attempt for reply in self.last.values())


def held_scores(
    request_keys: Iterable[str], *, ledger: JudgingLedger, ceiling: float
) -> HeldScores:
    """Read the scores that are already in the ledger; nothing is sent."""
    scores: dict[str, NewScore] = {}
    problems: dict[str, str] = {}
    last: dict[str, StoredReply] = {}
    for reply in ledger.iterate_replies(request_keys):
        last[reply.request_key] = reply
        try:
            scores.setdefault(reply.request_key, _read(reply, ceiling=ceiling))
        except VerdictParseError as error:
            problems[reply.request_key] = str(error)
    return HeldScores(scores, problems, last)


def _read(reply: StoredReply, *, ceiling: float) -> NewScore:
    if reply.result_type != "succeeded":
        raise VerdictParseError(
            f"the service answered {reply.error_type or reply.result_type!r}; expected a reply"
        )
    # An interrupted reply does not count, even if it can be parsed.
    if end_of(reply.stop_reason) not in (End.STOP, End.UNSAID, End.OTHER):
        raise VerdictParseError(
            f"the judge's reply stopped with {reply.stop_reason!r}; expected 'end_turn'"
        )
    score, reason = parse_answer(reply.text or "", partial(parse_score, ceiling=ceiling))
    return NewScore(
        score=score,
        reason=reason,
        model=reply.model,
        received_at=reply.received_at.astimezone(UTC).isoformat(timespec="seconds"),
        usage=None if reply.usage is None else asdict(reply.usage),
    )


def _settle_scores(
    session: JudgingSession, requests: Sequence[ModelRequest], *, ceiling: float
) -> None:
    by_key = {request.request_key: request for request in requests}
    for batch in session.ledger.open_batches(session.scope):
        # The process that asked is gone, so its replies cannot be collected.
        session.ledger.record_closed(batch.nonce, state="abandoned")
    for trial in range(_TRIES_AT_ONCE):
        held = held_scores(by_key, ledger=session.ledger, ceiling=ceiling)
        session.tally.total, session.tally.answered = len(by_key), len(held.scores)
        missing = [request for key, request in by_key.items() if key not in held.scores]
        if trial:
            answered = {key for key, last in held.last.items() if last.result_type == "succeeded"}
            missing = [request for request in missing if request.request_key in answered]
            session.tally.second_questions += len(missing)
        elif missing:
            session.check_budget(missing, "direct")
            session.check_model(missing[0].params["model"])
        _ask(session, missing, held.last)


def _ask(
    session: JudgingSession,
    requests: Sequence[ModelRequest],
    last: Mapping[str, StoredReply],
) -> None:
    by_attempt: dict[int, list[ModelRequest]] = {}
    for request in requests:
        reply = last.get(request.request_key)
        is_cut_off = reply is not None and reply.stop_reason == "max_tokens"
        attempt = 1 if reply is None else reply.attempt + 1
        attempted = with_larger_cap(request) if is_cut_off else request
        by_attempt.setdefault(attempt, []).append(attempted)
    for attempt, members in sorted(by_attempt.items()):
        ask_directly(session, members, attempt=attempt)
