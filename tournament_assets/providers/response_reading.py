"""Reading the reply to a prompt: an entrant's response, or why there is none."""

from dataclasses import dataclass

from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.providers.openai.wire_format import (
    NOT_SENT,
    count_of,
    first_choice,
    keepable,
)
from tournament_assets.providers.service_words import mapping, parse_object, quote_service
from tournament_assets.tournament.entrants import ApiEntrant, OpenAiApiEntrant, has_server
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, ToldApart, cut_thought

_FINISH_REASONS = {"end_turn": "stop", "max_tokens": "length"}
_QUOTED_LENGTH = 300


@dataclass(frozen=True, slots=True)
class NoResponse:
    """Why a prompt that was asked has no response.

    Attributes:
        reason: A sentence without a full stop.
        ends_it: Whether to ask the service nothing more.
    """

    reason: str
    ends_it: bool = False


def read_response(
    entrant: ApiEntrant, prompt: Prompt, reply: ReplyRow | StoredReply
) -> GeneratedResponse | NoResponse:
    """Describe what a final reply to a prompt means.

    A reply that the model ended by itself, or that the token cap cut off, is a response even if it
    is empty: of a thought that used up the cap nothing is left for the reader.
    """
    if reply.result_type != "succeeded":
        return NoResponse(f"the request was refused for good ({reply.error_type})")
    if has_server(entrant):
        return _read_completion(entrant, prompt, parse_object(reply.raw) or {})
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
    usage = reply.usage
    return GeneratedResponse(
        prompt_id=prompt.prompt_id,
        sample=prompt.sample,
        text=reply.text if reply.text.strip() else "",
        finish_reason=finish_reason,
        prompt_tokens=None if usage is None else usage.read_tokens,
        response_tokens=None if usage is None else usage.output_tokens,
        diagnostics={"served_model": reply.model},
    )


def _read_completion(
    entrant: OpenAiApiEntrant, prompt: Prompt, answer: JsonObject
) -> GeneratedResponse | NoResponse:
    """Describe what a chat completion means; a missing text is never an empty response."""
    choice = first_choice(answer)
    message, usage = mapping(choice.get("message")), mapping(answer.get("usage"))
    content, finish_reason = message.get("content"), choice.get("finish_reason")
    n_written = count_of(usage, "completion_tokens")
    if n_written is not None and n_written > entrant.max_new_tokens:
        return NoResponse(
            f"the server answered with {n_written} tokens; expected at most "
            f"{entrant.max_new_tokens}; it ignores the name under which the cap was sent "
            "under: choose max_tokens_field, and give the entrant another revision",
            ends_it=True,
        )
    if content is None and finish_reason == "length":
        content = ""  # as servers that tell thoughts apart describe one that the cap cut off
    if not isinstance(content, str):
        refusal = message.get("refusal")
        refused = f", refusal {_quote(refusal)!r}" if refusal else ""
        return NoResponse(
            f"the server answered without a text (finish_reason {finish_reason!r}{refused})"
        )
    parts = ToldApart(keepable(content).strip())
    if entrant.strip == "think":
        # Some servers put a thought that the cap cut off where a response belongs, without a tag.
        n_thought = count_of(mapping(usage.get("completion_tokens_details")), "reasoning_tokens")
        is_thought = finish_reason == "length" and n_written is not None and n_written == n_thought
        parts = cut_thought(parts.response, is_open=is_thought)
        apart = message.get("reasoning_content") or message.get("reasoning")
        if parts.thought is None and isinstance(apart, str):
            parts = ToldApart(parts.response, keepable(apart).strip())
    served = {"served_model": "model", "system_fingerprint": "system_fingerprint"}
    return GeneratedResponse(
        prompt_id=prompt.prompt_id,
        sample=prompt.sample,
        text=parts.response,
        finish_reason=str(finish_reason) if finish_reason in ("stop", "length") else "other",
        prompt_tokens=count_of(usage, "prompt_tokens"),
        response_tokens=n_written,
        diagnostics={
            **_sent(entrant, prompt, answer.get(NOT_SENT)),
            **parts.diagnostics,
            **{
                name: _quote(answer[key])
                for name, key in served.items()
                if isinstance(answer.get(key), str)
            },
        },
    )


def _sent(entrant: OpenAiApiEntrant, prompt: Prompt, left_out: Json) -> JsonObject:
    """Return the seed of a response, and which fields its request had to do without."""
    seed: JsonObject = {"seed": prompt_seed(prompt.name, entrant.seed)}
    not_sent = [
        name for name in entrant.unasked if name in (left_out if isinstance(left_out, list) else [])
    ]
    if not not_sent:
        return seed
    return {**({} if "seed" in not_sent else seed), "not_sent": not_sent}


def _quote(words: object) -> str:
    return quote_service(keepable(str(words)), key=None, length=_QUOTED_LENGTH)
