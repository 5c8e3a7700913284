"""Ask the judge about runs: compose requests, price them, send them, and read the scores.

A request is made of the run's file and of files beside it; its key is the hash of what is sent.
Unlike a verdict, a score stands for one response alone. The reply is a JSON object that the
service holds the model to: the reason first, so that the score follows from it. Each request goes
by itself, and each reply is in the ledger before anything else happens.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.config import ArchiveFile, JudgeInput, Rejudging
from tournament_assets.extras.archives.documents import (
    BrokenRunError,
    is_blank,
    number_of,
    value_at,
)
from tournament_assets.extras.archives.harness import NewScore, RewritingReader
from tournament_assets.extras.archives.runs import ArchivedRun
from tournament_assets.judging.batch_service import AsksDirectly, Channel, MessageParams
from tournament_assets.judging.costs.estimates import ASSUMED_OUTPUT_TOKENS, measure_workload
from tournament_assets.judging.costs.prices import BudgetTerms, format_usd, load_newest_prices
from tournament_assets.judging.requests.requests import ModelRequest, printable, with_larger_cap
from tournament_assets.judging.requests.verdict_parsing import Members
from tournament_assets.judging.settlement.records import JudgingLedger, JudgingScope, StoredReply
from tournament_assets.judging.settlement.sessions import (
    Approval,
    JudgingOptions,
    JudgingProgress,
    JudgingSession,
    Tally,
    WaitingPolicy,
    open_session,
)
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.reports.progress_bars import JudgingBar
from tournament_assets.tournament.errors import BudgetError, InputError, VerdictParseError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.yaml_files import parse_yaml

_REMEDY = "correct rejudging.max_tokens or rejudging.judge_model, and run again"


def require_rejudging(archive: ArchiveFile) -> tuple[Rejudging, str]:
    """Return how the judge is asked again, and what it is told to do.

    Raises:
        InputError: If the archive's description does not say.
    """
    rejudging = archive.config.rejudging
    if rejudging is None:
        raise InputError(
            f"{archive.path}: rejudging is missing; expected the judge, the file of its prompt, "
            "and the places of the parts that the judge is shown; add it"
        )
    path = archive.base / rejudging.prompt
    try:
        instructions = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{archive.path}: rejudging.prompt is {rejudging.prompt!r}, which cannot be read "
            f"({type(error).__name__}); expected a text file in UTF-8 beside the description"
        ) from None
    if not instructions.strip():
        raise InputError(f"{path}: the file is empty; expected what the judge is told to do")
    return rejudging, instructions.strip() + "\n"


class Questions:
    """Composes what the judge is asked about runs, from their files and from files beside them.

    Attributes:
        reader: The archive's reader, which can write a new score.

    Raises:
        InputError: If the archive's description does not say, or its reader only reads.
    """

    def __init__(self, archive: ArchiveFile) -> None:
        reader = archive.config.harness
        if not isinstance(reader, RewritingReader):
            raise InputError(
                f"{archive.path}: reader is {archive.config.reader!r}, which only reads; expected "
                "a RewritingReader, which says how a new score stands in a run's file"
            )
        self.reader: RewritingReader = reader
        self._rejudging, self._instructions = require_rejudging(archive)
        self._archive = archive
        self._folders = {model.model_id: model.folder_name for model in archive.config.models}
        self._beside: dict[Path, Any] = {}

    def ask(self, run: ArchivedRun, document: Mapping[str, Any]) -> ModelRequest:
        """Compose the request about a run.

        Raises:
            BrokenRunError: If a part is not there.
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
        """Return the score from which on a run passes; None where nobody says.

        Raises:
            BrokenRunError: If it should stand somewhere and does not.
        """
        configured = self._rejudging.passing_threshold
        if not isinstance(configured, JudgeInput):
            return configured
        value = self._value(configured, run, document)
        found = number_of(value)
        if found is None:
            raise BrokenRunError(
                f"{_place(configured)} holds {value!r:.80}; expected the passing threshold"
            )
        return found

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
        found: Any = document if source.file is None else self._file(source.file, run)
        if source.key is None:
            return found
        return value_at(found, source.key) if isinstance(found, Mapping) else None

    def _file(self, pattern: str, run: ArchivedRun) -> Any:
        for place, value in (
            ("{task}", run.task),
            ("{run}", run.run),
            ("{model}", run.model_id),
            ("{folder}", self._folders[run.model_id]),
        ):
            pattern = pattern.replace(place, escape(value))
        found = [path for path in self._archive.base.glob(pattern) if path.is_file()]
        if len(found) != 1:
            raise BrokenRunError(f"{len(found)} files match {pattern!r}; expected one")
        (path,) = found
        if path not in self._beside:
            self._beside[path] = _read_beside(path)
        return self._beside[path]


def _place(source: JudgeInput) -> str:
    return " in ".join(each for each in (source.key, source.file) if each is not None)


def _read_beside(path: Path) -> Any:
    """Read a file: as a document if it is YAML or JSON, as text otherwise."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        match path.suffix.lower():
            case ".yaml" | ".yml":
                return parse_yaml(text, path.name).values
            case ".json":
                return json.loads(text)
        return text
    except InputError as error:
        raise BrokenRunError(str(error)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenRunError(
            f"{path.name} cannot be read ({type(error).__name__}); expected YAML, JSON or text in "
            "UTF-8"
        ) from None


def _cut(text: str, max_chars: int | None) -> str:
    """Return a text without its middle if it is too long: how it begins and ends says most."""
    if max_chars is None or len(text) <= max_chars:
        return text
    note = f"\n[… {len(text) - max_chars:,} characters left out …]\n"
    head = max_chars // 2
    return f"{text[:head]}{note}{text[len(text) - (max_chars - head) :]}"


def ask_judge(
    requests: Sequence[ModelRequest],
    archive: ArchiveFile,
    *,
    ledger: JudgingLedger,
    connect: Callable[[], AbstractContextManager[AsksDirectly]],
    policy: WaitingPolicy,
    log: Callable[[str], None],
) -> None:
    """Ask for the scores that the ledger does not hold; every reply is in it at once.

    Args:
        archive: The archive, which says who is asked and for how much.
        connect: Connects to the judging service.

    Raises:
        JudgeError: If the service refuses.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
    """
    rejudging, _ = require_rejudging(archive)
    scope = JudgingScope(
        tournament_id=f"archive {archive.config.archive_id}",
        mode="archive",
        dimension="scores",
        purpose="scores",
        subject=f"the archive {archive.config.archive_id}",
    )
    options = JudgingOptions(
        policy=policy,
        approve=_build_approval(rejudging),
        terms=BudgetTerms(
            prices=load_newest_prices(rejudging.prices),
            limit_usd=_limit_usd(rejudging),
            period="run",
            began_at=datetime.now(UTC),
            setting="rejudging.budget_usd",
        ),
        reply_format=None,
        remedy=_REMEDY,
    )
    with (
        connect() as service,
        JudgingBar(f"{scope.subject} is judged", total=len(requests), log=log) as progress,
    ):
        ask_for_scores(
            requests,
            scope=scope,
            ledger=ledger,
            service=service,
            progress=progress,
            options=options,
            ceiling=archive.config.harness.ceiling,
        )


def cost_sentence(requests: Sequence[ModelRequest], rejudging: Rejudging) -> str:
    """Describe what asking costs at most, with nothing in the ledger."""
    unique = list({request.request_key: request for request in requests}.values())
    cost = dearest_usd(unique, rejudging)
    price = "an unknown price" if cost is None else f"up to {format_usd(cost)}"
    return f"Asking {len(unique)} requests of {rejudging.judge_model} costs {price}."


def dearest_usd(requests: Sequence[ModelRequest], rejudging: Rejudging) -> float | None:
    """Return the most that asking some requests costs; None where the price is not known.

    The loopback judge costs nothing.
    """
    if SERVICES[rejudging.service].is_free or not requests:
        return 0.0
    workload = measure_workload(
        requests, find_answered=lambda _: frozenset(), tokens_per_reply=ASSUMED_OUTPUT_TOKENS
    )
    prices = load_newest_prices(rejudging.prices)
    price = prices.models.get(rejudging.judge_model)
    if price is None:
        return None
    return workload.dearest_usd(price, discount=prices.discount("direct"))


def _limit_usd(rejudging: Rejudging) -> float | None:
    return None if SERVICES[rejudging.service].is_free else rejudging.budget_usd


def _build_approval(rejudging: Rejudging) -> Approval:
    limit = _limit_usd(rejudging)

    def approve(requests: Sequence[ModelRequest], _channel: Channel) -> None:
        if limit is None:
            return
        planned = dearest_usd(requests, rejudging)
        if planned is None or planned > limit:
            cost = "an unknown price" if planned is None else f"up to {format_usd(planned)}"
            raise BudgetError(
                f"asking {len(requests):,} requests of {rejudging.judge_model} costs {cost}; "
                f"expected at most {format_usd(limit)} (rejudging.budget_usd); raise it, or judge "
                "fewer runs at a time (--limit)"
            )

    return approve


SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
"""What a reply looks like."""

_FENCE_LENGTH = 8
_KEYS = {"reason", "score"}


def build_score_request(
    instructions: str, parts: Mapping[str, str], *, judge: Judge, max_tokens: int
) -> ModelRequest:
    """Compose the request for a score; its key is the SHA-256 of what is sent, and to whom.

    The instructions are the system prefix, the same in every request. The parts follow in the
    user message, in their order, each between tags with a fence code that is derived from all of
    them: what a model wrote would have to hold a hash of itself to pose as the end of its fence.

    Args:
        instructions: What the judge is told to do.
        parts: What it is shown, by name.
        judge: The model that is asked, and its service.
        max_tokens: The most tokens of its reply.
    """
    shown = [(name, printable(text)) for name, text in parts.items()]
    fence = fingerprint(shown)[:_FENCE_LENGTH]
    message = "\n\n".join(
        f'<{name} fence="{fence}">\n{text}\n</{name} fence="{fence}">' for name, text in shown
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
    """Read a reply that is one JSON object: the score from 0 to the ceiling, and the reason.

    Raises:
        VerdictParseError: If it is anything else, if a key stands twice, if the score is not from
            0 to the ceiling, or if there is no reason: nothing is guessed.
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
    found = dict(pairs) if isinstance(pairs, Members) else {}
    if len(found) != len(_KEYS) or len(pairs) != len(found) or found.keys() != _KEYS:
        raise VerdictParseError(f"the judge's reply is {reply[:80]!r}; {expected}")
    score, reason = found["score"], found["reason"]
    if not isinstance(reason, str) or not reason.strip():
        raise VerdictParseError(f"the judge's reason is {reason!r:.80}; {expected}")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not 0 <= score <= ceiling:
        raise VerdictParseError(f"the judge's score is {score!r:.80}; {expected}")
    return float(score), reason


_TRIES_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class HeldScores:
    """What the ledger holds of some requests.

    Attributes:
        scores: The first score of each request that has one, by key.
        problems: Why the others that were answered have none, by key.
        attempts: How often each request was answered, by key.
        cut_off: Requests whose last reply reached its token cap.
        refused: Requests that the service refused as they stand.
    """

    scores: Mapping[str, NewScore]
    problems: Mapping[str, str]
    attempts: Mapping[str, int]
    cut_off: frozenset[str]
    refused: frozenset[str]


def held_scores(
    request_keys: Iterable[str], *, ledger: JudgingLedger, ceiling: float
) -> HeldScores:
    """Read the scores that are paid for already; nothing is sent."""
    scores: dict[str, NewScore] = {}
    problems: dict[str, str] = {}
    attempts: dict[str, int] = {}
    cut_off: set[str] = set()
    refused: set[str] = set()
    for reply in ledger.iterate_replies(request_keys):
        key = reply.request_key
        attempts[key] = reply.attempt
        cut_off.discard(key)
        if reply.result_type != "succeeded":
            refused.add(key)
        if reply.stop_reason == "max_tokens":
            cut_off.add(key)
        try:
            score = _read(reply, ceiling=ceiling)
        except VerdictParseError as error:
            problems[key] = str(error)
        else:
            scores.setdefault(key, score)
    return HeldScores(
        scores=scores,
        problems={key: text for key, text in problems.items() if key not in scores},
        attempts=attempts,
        cut_off=frozenset(cut_off - scores.keys()),
        refused=frozenset(refused),
    )


def _read(reply: StoredReply, *, ceiling: float) -> NewScore:
    if reply.result_type != "succeeded":
        raise VerdictParseError(
            f"the service answered {reply.error_type or reply.result_type!r}; expected a reply"
        )
    # What the model was writing when it was stopped is no opinion, even if it can be read.
    if reply.stop_reason != "end_turn":
        raise VerdictParseError(
            f"the judge's reply stopped with {reply.stop_reason!r}; expected 'end_turn'"
        )
    score, reason = parse_score(reply.text or "", ceiling=ceiling)
    return NewScore(
        score=score,
        reason=reason,
        model=reply.model,
        received_at=reply.received_at.astimezone(UTC).isoformat(timespec="seconds"),
        usage=None if reply.usage is None else asdict(reply.usage),
    )


def ask_for_scores(
    requests: Sequence[ModelRequest],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    service: AsksDirectly,
    progress: JudgingProgress,
    options: JudgingOptions,
    ceiling: float,
) -> Tally:
    """Get a score for every request that has none, one request at a time.

    What the ledger holds is not asked again. A reply without a score is asked for once more, with
    twice the cap where it was cut off, and again by the next call.

    Raises:
        JudgeWaitingError: If somebody else is at work on the scope until the deadline.
        JudgeError: If the service refuses; what was received is in the ledger.
        BudgetError: If asking would cost more than may be spent; nothing was sent then.
    """
    by_key = {request.request_key: request for request in requests}
    with open_session(
        scope, ledger=ledger, service=service, progress=progress, options=options
    ) as session:
        session.tally.total = len(by_key)
        for batch in ledger.open_batches(scope):
            # Asked by a process that is gone: nothing under way can be collected.
            ledger.record_closed(batch.nonce, state="abandoned")
        for trial in range(_TRIES_AT_ONCE):
            held = held_scores(by_key, ledger=ledger, ceiling=ceiling)
            session.tally.answered = len(held.scores)
            left = [key for key in by_key if key not in held.scores]
            if trial:
                left = [key for key in left if key in held.problems and key not in held.refused]
                session.tally.second_questions += len(left)
            if not left:
                break
            if not trial:
                options.approve([by_key[key] for key in left], "direct")
                session.check_model(by_key[left[0]].params["model"])
            _ask(session, left, by_key, held)
        session.tally.answered = len(held_scores(by_key, ledger=ledger, ceiling=ceiling).scores)
        return session.tally


def _ask(
    session: JudgingSession,
    keys: Sequence[str],
    by_key: Mapping[str, ModelRequest],
    held: HeldScores,
) -> None:
    by_attempt: dict[int, list[ModelRequest]] = {}
    for key in keys:
        request = by_key[key]
        if key in held.cut_off:
            request = with_larger_cap(request)
        by_attempt.setdefault(held.attempts.get(key, 0) + 1, []).append(request)
    for attempt, members in sorted(by_attempt.items()):
        ask_directly(session, members, attempt=attempt)
