"""A judge's score of one response: what is sent, how the reply is read, and getting those missing.

Unlike a verdict, a score stands for one response alone. The reply is a JSON object that the
service holds the model to: the reason first, so that the score follows from it. Each request goes
by itself, and each reply is in the ledger before anything else happens.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.judging.batch_service import BatchService
from tournament_assets.judging.requests.requests import ModelRequest, printable, with_larger_cap
from tournament_assets.judging.settlement.records import JudgingLedger, JudgingScope, StoredReply
from tournament_assets.judging.settlement.sessions import (
    JudgingOptions,
    JudgingProgress,
    JudgingSession,
    Tally,
    open_session,
)
from tournament_assets.judging.settlement.settlement import ask_directly
from tournament_assets.tournament.errors import VerdictParseError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.judges import Judge

SCORE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reason", "score"],
    "additionalProperties": False,
}
"""What a reply looks like."""

_FENCE_LENGTH = 8
_KEYS = {"reason", "score"}


@dataclass(frozen=True, slots=True)
class JudgeScore:
    """What a judge says of one response.

    Attributes:
        score: From 0 to the ceiling that it was told.
        reason: Why.
    """

    score: float
    reason: str


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
    params: dict[str, Any] = {
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


def parse_score(reply: str, *, ceiling: float) -> JudgeScore:
    """Read a reply that is one JSON object with a reason and a score.

    Raises:
        VerdictParseError: If it is anything else, if a key stands twice, if the score is not from
            0 to the ceiling, or if there is no reason: nothing is guessed.
    """
    expected = (
        'expected one JSON object and nothing else, with a text under "reason" and a number from '
        f'0 to {ceiling:g} under "score"'
    )
    try:
        pairs = json.loads(reply, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        raise VerdictParseError(
            f"the judge's reply is not JSON and ends in {reply[-80:]!r}; {expected}"
        ) from None
    found = dict(pairs) if isinstance(pairs, _Pairs) else {}
    if len(found) != len(_KEYS) or len(pairs) != len(found) or found.keys() != _KEYS:
        raise VerdictParseError(f"the judge's reply is {reply[:80]!r}; {expected}")
    score, reason = found["score"], found["reason"]
    if not isinstance(reason, str) or not reason.strip():
        raise VerdictParseError(f"the judge's reason is {reason!r:.80}; {expected}")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not 0 <= score <= ceiling:
        raise VerdictParseError(f"the judge's score is {score!r:.80}; {expected}")
    return JudgeScore(score=float(score), reason=reason)


class _Pairs(list[tuple[str, Any]]):
    """An object's members in the order they are written, each as often as it is written."""


_TRIES_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class PaidScore:
    """A score, and the reply that holds it.

    Attributes:
        score: What the judge says.
        reply: The reply, as the ledger holds it.
    """

    score: JudgeScore
    reply: StoredReply


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

    scores: Mapping[str, PaidScore]
    problems: Mapping[str, str]
    attempts: Mapping[str, int]
    cut_off: frozenset[str]
    refused: frozenset[str]


def held_scores(
    request_keys: Iterable[str], *, ledger: JudgingLedger, ceiling: float
) -> HeldScores:
    """Read the scores that are paid for already; nothing is sent."""
    scores: dict[str, PaidScore] = {}
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
            scores.setdefault(key, PaidScore(score, reply))
    return HeldScores(
        scores=scores,
        problems={key: text for key, text in problems.items() if key not in scores},
        attempts=attempts,
        cut_off=frozenset(cut_off - scores.keys()),
        refused=frozenset(refused),
    )


def _read(reply: StoredReply, *, ceiling: float) -> JudgeScore:
    if reply.result_type != "succeeded":
        raise VerdictParseError(
            f"the service answered {reply.error_type or reply.result_type!r}; expected a reply"
        )
    # What the model was writing when it was stopped is no opinion, even if it can be read.
    if reply.stop_reason != "end_turn":
        raise VerdictParseError(
            f"the judge's reply stopped with {reply.stop_reason!r}; expected 'end_turn'"
        )
    return parse_score(reply.text or "", ceiling=ceiling)


def ask_for_scores(
    requests: Sequence[ModelRequest],
    *,
    scope: JudgingScope,
    ledger: JudgingLedger,
    service: BatchService,
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
