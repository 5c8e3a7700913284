"""Messages of the simulated API: validation, the reply, its usage, and the prompt cache.

A reply is a verdict as prose or JSON, a score, or an echo of a prompt.
"""

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tournament_assets.loopback.lexical_judge import (
    PART,
    examine,
    judge_lexically,
    list_content_words,
    list_words,
    read_dimension,
    read_parts,
)

Params = Mapping[str, Any]
"""The parameters of a message, as the Messages API names them."""
_KNOWN_SCHEMAS = ({"reasoning", "verdict"}, {"reason", "score"})
_VERDICT_MARK = "\nVERDICT: "


def find_format_problem(params: Params) -> str | None:
    """Return what is wrong with the format that a request asks for, or None."""
    reply_format = _find_format(params)
    if not reply_format:
        return None
    if not isinstance(reply_format, Mapping) or reply_format.get("type") != "json_schema":
        return "output_config.format.type: expected 'json_schema'"
    schema = reply_format.get("schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or set(properties) not in _KNOWN_SCHEMAS:
        return (
            "output_config.format.schema: the loopback judge knows only schemas of an object with "
            "reasoning and verdict, or with reason and score"
        )
    return None


def find_wanted_names(params: Params) -> tuple[str, ...]:
    """Return the names of the values that a valid request wants as JSON; empty for prose."""
    reply_format = _find_format(params)
    return tuple(reply_format["schema"]["properties"]) if reply_format else ()


def _find_format(params: Params) -> Any:
    config = params.get("output_config") or {}
    return config.get("format") if isinstance(config, Mapping) else config


def score_lexically(user_text: str, *, names: tuple[str, ...]) -> str:
    """Return a JSON object with a reason and a score from 0 to 1.

    Args:
        names: The names of the object's values, in order.
    """
    parts = [match["text"] for match in PART.finditer(user_text)]
    *context, response = parts or [user_text]
    words = list_content_words("\n".join(context))
    score = round(examine(response).measure_coverage(words), 2) if words else 0.5
    reason = f"It has {score:.0%} of the words that what comes before it asks for."
    values = {"reason": reason, "score": score}
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)


_LABEL = "This is the loopback service, which is no language model."
_MOST_WORDS = 12


def respond_lexically(prompt: str) -> str:
    """Repeat a prompt's meaningful words; the same prompt gives the same response."""
    words = list(dict.fromkeys(word for word in list_words(prompt) if list_content_words(word)))
    if not words:
        return f"{_LABEL} Nothing in the prompt carries meaning."
    return f"{_LABEL} The prompt is about: {', '.join(words[:_MOST_WORDS])}."


CacheUse = Literal["none", "write", "read"]
"""A request's use of the cache: none, write its prefix, or read it."""

MINIMUM_CACHED_TOKENS = 512
"""A shorter prefix is silently not cached; some models require up to 4,096 tokens."""
_LIFETIMES = {"1h": 3600.0}
_SHORT_LIFETIME = 300.0
_CHARACTERS_PER_TOKEN = 4


class PromptCache:
    """A cache that forgets a sent prefix once it has been unused for its lifetime.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expires_at: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def use(self, params: Params) -> CacheUse:
        """Return a request's use of the cache, and remember its prefix."""
        prefix = find_cached_prefix(params)
        if count_tokens(prefix) < MINIMUM_CACHED_TOKENS:
            return "none"
        key = (str(params.get("model")), prefix)
        with self._lock:
            now = self._clock()
            is_alive = now < self._expires_at.get(key, -math.inf)
            self._expires_at[key] = now + self.find_lifetime(params)
        return "read" if is_alive else "write"

    def find_lifetime(self, params: Params) -> float:
        """Return the seconds that a request's prefix lives after its last use."""
        return _LIFETIMES.get(find_breakpoint_ttl(params), _SHORT_LIFETIME)


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each."""
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def find_cached_prefix(params: Params) -> str:
    """Return the system text up to the last block that is marked as a cache breakpoint."""
    marked = _breakpoints(params)
    return join_text(params["system"][: marked[-1] + 1]) if marked else ""


def find_breakpoint_ttl(params: Params) -> str:
    """Return the requested lifetime of the prefix: `1h` or `5m`."""
    marked = _breakpoints(params)
    last = params["system"][marked[-1]]["cache_control"] if marked else {}
    return str(last.get("ttl", "5m"))


def _breakpoints(params: Params) -> list[int]:
    system = params.get("system")
    return [
        index
        for index, block in enumerate(system if isinstance(system, list) else [])
        if isinstance(block, Mapping) and isinstance(block.get("cache_control"), Mapping)
    ]


def join_text(content: Any) -> str:
    """Return the text of a message's or a system's content."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, Mapping)]
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


def find_invalid_parameter(params: Params) -> str | None:
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


def compose_message(params: Params, *, message_id: str, cache_use: CacheUse) -> dict[str, Any]:
    """Answer a request and put the reply in the API's shape.

    A request that neither shows two responses nor names a dimension is a prompt, and is echoed.

    Args:
        params: Valid parameters of a message.
        cache_use: The request's use of the prompt cache when it was accepted.
    """
    reply = _write_judgment(params)
    stop_reason = "end_turn"
    if reply is None:
        whole = respond_lexically(_last_user_text(params))
        reply = whole[: params["max_tokens"] * _CHARACTERS_PER_TOKEN]
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


def _write_judgment(params: Params) -> str | None:
    dimension = read_dimension(join_text(params.get("system", "")))
    user_text = _last_user_text(params)
    names = find_wanted_names(params)
    if "score" in names:
        return score_lexically(user_text, names=names)
    if dimension is None and not names and read_parts(user_text) is None:
        return None
    text = judge_lexically(user_text, dimension=dimension, model=str(params.get("model", "")))
    if not names:
        return text
    before, mark, after = text.rpartition(_VERDICT_MARK)
    # A schema does not allow an empty reply.
    values = {"reasoning": before if mark else text, "verdict": after if mark else "TIE"}
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)


def count_input_tokens(params: Params) -> int:
    """Return the tokens of a request's system and messages together."""
    messages = "".join(join_text(message["content"]) for message in params["messages"])
    return count_tokens(join_text(params.get("system", "")) + messages)


def _simulate_usage(params: Params, reply: str, cache_use: CacheUse) -> dict[str, Any]:
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


def _last_user_text(params: Params) -> str:
    texts = [
        join_text(message["content"]) for message in params["messages"] if message["role"] == "user"
    ]
    return texts[-1] if texts else ""
