"""Asking a judge for a score of one response: what is sent, and how the reply is read.

Unlike a verdict, a score stands for one response alone. The reply is a JSON object that the
service holds the model to: the reason first, so that the score follows from it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tournament_assets.judging.requests import ModelRequest, printable
from tournament_assets.tournament.errors import VerdictParseError
from tournament_assets.tournament.fingerprints import fingerprint

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
    instructions: str, parts: Mapping[str, str], *, judge_model: str, max_tokens: int
) -> ModelRequest:
    """Compose the request for a score; its key is the SHA-256 of what is sent.

    The instructions are the system prefix, the same in every request. The parts follow in the
    user message, in their order, each between tags with a fence code that is derived from all of
    them: what a model wrote would have to hold a hash of itself to pose as the end of its fence.

    Args:
        instructions: What the judge is told to do.
        parts: What it is shown, by name.
        judge_model: The model that is asked.
        max_tokens: The most tokens of its reply.
    """
    shown = [(name, printable(text)) for name, text in parts.items()]
    fence = fingerprint(shown)[:_FENCE_LENGTH]
    message = "\n\n".join(
        f'<{name} fence="{fence}">\n{text}\n</{name} fence="{fence}">' for name, text in shown
    )
    params: dict[str, Any] = {
        "model": judge_model,
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
    return ModelRequest(request_key=fingerprint(params), params=params)


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
            f"the judge's reply is no JSON and ends in {reply[-80:]!r}; {expected}"
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
