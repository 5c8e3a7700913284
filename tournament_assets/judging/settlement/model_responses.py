"""A model's own responses, bought through the same batches as a judge's replies.

What is asked, the key under which its reply is kept, and what a reply means. A reply that was paid
for is final: a refusal is asked for once and is no response, and neither is a thought that took all
the tokens there were.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.judging.batch_service import Reply
from tournament_assets.judging.requests.requests import ModelRequest, printable
from tournament_assets.judging.settlement.records import RESPONSES, JudgingScope
from tournament_assets.tournament.entrants import AnthropicApiEntrant, OpenAiApiEntrant
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, sample_of

REMEDY = (
    "correct the entrant's model or its settings, or, if the service was at fault, give it another "
    "revision"
)
"""What a person can do if every prompt is refused as invalid."""
_ANY = "*"  # no tournament and no mode bears this name
_FINISH_REASONS = {"end_turn": "stop", "max_tokens": "length"}


@dataclass(frozen=True, slots=True)
class ResponseRequest(ModelRequest):
    """A prompt as it is put to a model; its key also says which entrant asks.

    Attributes:
        prompts: The prompts that say so; their responses are one.
    """

    prompts: Sequence[Prompt]


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why a prompt that was asked has no response, as a sentence without an end."""

    reason: str


def response_scope(entrant: AnthropicApiEntrant | OpenAiApiEntrant) -> JudgingScope:
    """Return what only one process at a time may submit.

    Responses belong to an entrant's fingerprint: two modes, and two tournaments with one ledger,
    share them, and a renamed entrant keeps them. So does whatever is under way.
    """
    return JudgingScope(
        tournament_id=_ANY,
        mode=_ANY,
        dimension=entrant.fingerprint(entrant.content_hash),
        purpose=RESPONSES,
        subject=f"entrant {entrant.entrant_id!r}",
    )


def build_response_requests(
    entrant: AnthropicApiEntrant, prompts: Iterable[Prompt]
) -> dict[str, ResponseRequest]:
    """Return what is asked of a model, by request key, in the order of the prompts.

    Prompts of the same text are one request, but for samples of a prompt: the service takes no
    seed, so each is a request of its own.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    by_text: dict[tuple[str, int], list[Prompt]] = {}
    for prompt in prompts:
        asked = printable(prompt.text), sample_of(prompt.prompt_id)
        by_text.setdefault(asked, []).append(prompt)
    requests: dict[str, ResponseRequest] = {}
    for (text, sample), of_text in by_text.items():
        params = _compose(entrant, text)
        which = {} if sample == 1 else {"sample": sample}
        key = fingerprint({"response_of": identity, "params": params, **which})
        requests[key] = ResponseRequest(key, params, tuple(of_text))
    return requests


def build_server_requests(
    entrant: OpenAiApiEntrant, prompts: Iterable[Prompt]
) -> dict[str, ResponseRequest]:
    """Return what a chat server is asked, by request key, for counting what it costs.

    Each prompt has a seed of its own, so that prompts of the same text are two requests.
    """
    identity = entrant.fingerprint(entrant.content_hash)
    requests: dict[str, ResponseRequest] = {}
    for prompt in prompts:
        key = fingerprint({"response_of": identity, "prompt": prompt.fingerprint})
        params = _compose(entrant, printable(prompt.text))
        requests[key] = ResponseRequest(key, params, (prompt,))
    return requests


def _compose(entrant: AnthropicApiEntrant | OpenAiApiEntrant, text: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "model": entrant.model,
        "max_tokens": entrant.max_new_tokens,
        "messages": [{"role": "user", "content": text}],
    }
    if entrant.system_prompt is not None:
        params["system"] = printable(entrant.system_prompt)
    if entrant.temperature is not None:
        params["temperature"] = entrant.temperature
    if isinstance(entrant, OpenAiApiEntrant) and entrant.extra_body is not None:
        params["extra_body"] = entrant.extra_body
    return params


def read_response(prompt_id: str, reply: Reply) -> GeneratedResponse | NoResponse:
    """Say what a final reply to a prompt means.

    A response that the token cap has cut off is one if it says anything. One that the model ended
    by itself is one even if it says nothing: that is what it said.
    """
    if reply.result_type != "succeeded":
        return NoResponse(f"the request was refused for good ({reply.error_type})")
    if reply.stop_reason == "refusal":
        return NoResponse("the model refused to answer")
    if reply.stop_reason == "model_context_window_exceeded":
        return NoResponse("the prompt and its response exceed the model's context")
    finish_reason = _FINISH_REASONS.get(reply.stop_reason or "")
    if finish_reason is None or reply.text is None:
        return NoResponse(
            f"the reply ended with stop_reason {reply.stop_reason!r}; "
            "expected 'end_turn' or 'max_tokens'"
        )
    if finish_reason == "length" and not reply.text.strip():
        return NoResponse(
            "all of max_new_tokens went by before the model wrote a word; what it thinks counts"
        )
    usage = reply.usage
    return GeneratedResponse(
        prompt_id=prompt_id,
        text=reply.text,
        finish_reason=finish_reason,
        prompt_tokens=None if usage is None else usage.read_tokens,
        response_tokens=None if usage is None else usage.output_tokens,
        diagnostics={"served_model": reply.model},
    )
