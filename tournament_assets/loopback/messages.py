"""Messages as the API answers them: validation, the reply, and its bill."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tournament_assets.loopback.caching import (
    CacheUse,
    count_tokens,
    cut_to_tokens,
    find_breakpoint_ttl,
    find_cached_prefix,
    join_text,
)
from tournament_assets.loopback.echo import respond_lexically
from tournament_assets.loopback.lexical import judge_lexically
from tournament_assets.loopback.parts import read_dimension, read_parts
from tournament_assets.loopback.replies import (
    find_format_problem,
    find_wanted_names,
    read_reply,
    wants_score,
)
from tournament_assets.loopback.scores import score_lexically


def find_invalid_parameter(params: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the parameters of a message, or None."""
    model = params.get("model")
    if not isinstance(model, str) or not model:
        return "model: Field required"
    max_tokens = params.get("max_tokens")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool):
        return "max_tokens: Field required"
    if max_tokens < 1:
        return "max_tokens: must be greater than or equal to 1"
    messages = params.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant"):
            return f"messages.{index}: expected a message with the role 'user' or 'assistant'"
        if not _is_content(message.get("content")):
            return f"messages.{index}.content: expected a text or a list of blocks"
    if not _is_content(params.get("system", "")):
        return "system: expected a text or a list of text blocks"
    if params.get("stream"):
        return "stream: the loopback judge does not stream"
    return find_format_problem(params)


def compose_message(
    params: Mapping[str, Any], *, message_id: str, cache_use: CacheUse
) -> dict[str, Any]:
    """Answer a request and put the reply in the API's shape.

    What shows no two responses and names no dimension is no judge request but a prompt, and is
    echoed.

    Args:
        params: Valid parameters of a message.
        message_id: The message's id.
        cache_use: What the request did with the prompt cache when it was accepted.
    """
    reply = _write_judgment(params)
    stop_reason = "end_turn"
    if reply is None:
        whole = respond_lexically(_last_user_text(params))
        reply = cut_to_tokens(whole, params["max_tokens"])
        stop_reason = "end_turn" if reply == whole else "max_tokens"
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": params["model"],
        "content": [{"type": "text", "text": reply}],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": _simulate_usage(params, reply, cache_use),
    }


def _write_judgment(params: Mapping[str, Any]) -> str | None:
    dimension = read_dimension(join_text(params.get("system", "")))
    user_text = _last_user_text(params)
    names = find_wanted_names(params)
    if wants_score(params):
        return score_lexically(user_text, names=names)
    if dimension is None and not names and read_parts(user_text) is None:
        return None
    text = judge_lexically(user_text, dimension=dimension)
    if not names:
        return text
    reply = read_reply(text)
    # A schema leaves no way to say nothing.
    return replace(reply, verdict=reply.verdict or "TIE", names=names).write()


def count_input_tokens(params: Mapping[str, Any]) -> int:
    """Return the tokens of a request's system and messages together."""
    messages = "".join(join_text(message["content"]) for message in params["messages"])
    return count_tokens(join_text(params.get("system", "")) + messages)


def _simulate_usage(params: Mapping[str, Any], reply: str, cache_use: CacheUse) -> dict[str, Any]:
    system = join_text(params.get("system", ""))
    messages = "".join(join_text(message["content"]) for message in params["messages"])
    prefix = find_cached_prefix(params) if cache_use != "none" else ""
    written = count_tokens(prefix) if cache_use == "write" else 0
    lives_an_hour = find_breakpoint_ttl(params) == "1h"
    return {
        "input_tokens": count_tokens(system[len(prefix) :] + messages),
        "output_tokens": count_tokens(reply),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": count_tokens(prefix) if cache_use == "read" else 0,
        "cache_creation": {
            "ephemeral_1h_input_tokens": written if lives_an_hour else 0,
            "ephemeral_5m_input_tokens": 0 if lives_an_hour else written,
        },
        "service_tier": "standard",
    }


def _is_content(content: Any) -> bool:
    return isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(block, Mapping) for block in content)
    )


def _last_user_text(params: Mapping[str, Any]) -> str:
    texts = [
        join_text(message["content"]) for message in params["messages"] if message["role"] == "user"
    ]
    return texts[-1] if texts else ""
