"""Reading the reply to a prompt: an entrant's response, or why there is none."""

from dataclasses import dataclass, replace

from tournament_assets.foundation.fingerprints import prompt_seed
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.providers.openai.wire_format import (
    NOT_SENT,
    count_of,
    keepable,
)
from tournament_assets.providers.service_words import mapping, parse_object, quote_service
from tournament_assets.tournament.completions import (
    Completion,
    End,
    Part,
    end_of,
    parts_of,
    text_of,
)
from tournament_assets.tournament.entrants import ApiEntrant, OpenAiApiEntrant, has_server
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

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
    """Describe what a final reply to a prompt means."""
    if reply.result_type != "succeeded":
        return NoResponse(f"the request was refused for good ({reply.error_type})")
    answer = parse_object(reply.raw) or {}
    usage = reply.usage
    read = None if usage is None else usage.read_tokens
    written = None if usage is None else usage.output_tokens
    sent: JsonObject = {}
    is_open = False
    if has_server(entrant):
        counts = mapping(answer.get("usage"))
        read, written = count_of(counts, "prompt_tokens"), count_of(counts, "completion_tokens")
        if written is not None and written > entrant.max_new_tokens:
            return NoResponse(
                f"the server answered with {written} tokens; expected at most "
                f"{entrant.max_new_tokens}; it ignores the name under which the cap was sent "
                "under: choose max_tokens_field, and give the entrant another revision",
                ends_it=True,
            )
        sent = _sent(entrant, prompt, answer.get(NOT_SENT))
        # Some servers put a thought that the cap cut off where a response belongs, without a tag.
        n_thought = count_of(mapping(counts.get("completion_tokens_details")), "reasoning_tokens")
        is_open = written is not None and written == n_thought
    came = Completion.of_answer(answer) or Completion(
        parts=() if reply.text is None else parts_of(reply.text), end=reply.stop_reason
    )
    completion = replace(
        came,
        parts=_kept_parts(came.parts, is_stripped=has_server(entrant)),
        is_open=is_open and end_of(came.end) is End.LENGTH,
    )
    served = {"served_model": came.model or reply.model, **_fingerprint_of(answer)}
    response = GeneratedResponse(
        prompt_id=prompt.prompt_id,
        sample=prompt.sample,
        text="",
        finish_reason="",
        prompt_tokens=read,
        response_tokens=written,
        diagnostics={**sent, **{name: _quote(served[name]) for name in served if served[name]}},
    ).read(completion, cuts_thoughts=entrant.cuts_thoughts)
    if isinstance(response, GeneratedResponse):
        return response
    refusal = text_of(completion.parts, "refusal")
    return NoResponse(f"{response.missing}: {_quote(refusal)!r}" if refusal else response.missing)


def _kept_parts(parts: tuple[Part, ...], *, is_stripped: bool) -> tuple[Part, ...]:
    """Return parts that every database can hold; a text without words is empty."""
    kept = [replace(part, text=keepable(part.text)) for part in parts]
    if len(kept) == 1 and (is_stripped or not kept[0].text.strip()):
        return (replace(kept[0], text=kept[0].text.strip()),)
    return tuple(kept)


def _fingerprint_of(answer: JsonObject) -> JsonObject:
    fingerprint = answer.get("system_fingerprint")
    return {"system_fingerprint": fingerprint} if isinstance(fingerprint, str) else {}


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
