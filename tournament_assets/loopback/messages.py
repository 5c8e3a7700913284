"""Messages as the API answers them: validation, the reply, its bill, and a simulated cache.

A reply is a verdict as prose or JSON, a score, or an echo of a prompt.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from tournament_assets.loopback.faults import FaultPlan
from tournament_assets.loopback.lexical_judge import (
    examine,
    judge_lexically,
    list_content_words,
    list_words,
    read_dimension,
    read_parts,
)

_VERDICTS = {"A", "B", "TIE"}
_SHAPES = (
    {"reasoning": "string", "verdict": "verdict"},
    {"reason": "string", "score": "number"},
)
_LINE = "VERDICT: "
_OPPOSITE = {"A": "B", "B": "A", "TIE": "A"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply taken apart.

    Attributes:
        reasoning: What comes before the verdict.
        verdict: A, B or TIE; None if there is none.
        names: The names of a JSON reply's values, in their order; empty for prose.
    """

    reasoning: str
    verdict: str | None
    names: tuple[str, ...] = ()

    @property
    def opposite(self) -> str:
        """A verdict other than this one."""
        return _OPPOSITE.get(self.verdict or "", "A")

    def write(self) -> str:
        """Return the reply as a text."""
        if self.names:
            values = {"reasoning": self.reasoning, "verdict": self.verdict}
            return json.dumps(
                {name: values[name] for name in self.names if values[name] is not None},
                ensure_ascii=False,
            )
        return (
            self.reasoning if self.verdict is None else f"{self.reasoning}\n{self.write_verdict()}"
        )

    def write_verdict(self) -> str:
        """Return the verdict alone, in the reply's own form."""
        return json.dumps({"verdict": self.verdict}) if self.names else f"{_LINE}{self.verdict}"


def read_reply(text: str) -> Reply:
    """Take apart a reply that the judge wrote, even one that a fault has spoiled."""
    try:
        values = json.loads(text)
    except ValueError:
        reasoning, _, last_line = text.rpartition("\n")
        if not last_line.startswith(_LINE):
            return Reply(text, None)
        return Reply(reasoning, last_line.removeprefix(_LINE))
    if not isinstance(values, Mapping) or "reasoning" not in values:
        return Reply(text, None)
    return Reply(values["reasoning"], values.get("verdict"), ("reasoning", "verdict"))


def find_format_problem(params: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the format that a request asks for, or None."""
    config = params.get("output_config")
    if config is None:
        return None
    if not isinstance(config, Mapping):
        return "output_config: expected an object"
    wanted = config.get("format")
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping) or wanted.get("type") != "json_schema":
        return "output_config.format.type: expected 'json_schema'"
    schema = wanted.get("schema")
    if not isinstance(schema, Mapping):
        return "output_config.format.schema: expected an object"
    if not any(_has_shape(schema, types) for types in _SHAPES):
        return (
            "output_config.format.schema: the loopback judge knows only schemas with reasoning and "
            "verdict, a string and one of 'A', 'B' and 'TIE', or with reason and score, a string "
            "and a number, both required and nothing else"
        )
    return None


def find_wanted_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the values that a valid request wants as JSON; none if it wants prose."""
    wanted = (params.get("output_config") or {}).get("format")
    return tuple(wanted["schema"]["properties"]) if wanted else ()


def wants_score(params: Mapping[str, Any]) -> bool:
    """Say whether a valid request wants a score of one response."""
    return set(find_wanted_names(params)) == {"reason", "score"}


def _has_shape(schema: Mapping[str, Any], types: Mapping[str, str]) -> bool:
    properties = schema.get("properties")
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and _is_list_of(schema.get("required"), set(types))
        and isinstance(properties, Mapping)
        and set(properties) == set(types)
        and all(_is_value(properties[name], kind) for name, kind in types.items())
    )


def _is_value(value: Any, kind: str) -> bool:
    if not isinstance(value, Mapping):
        return False
    if kind == "verdict":
        return value.get("type", "string") == "string" and _is_list_of(value.get("enum"), _VERDICTS)
    return value.get("type") == kind


def _is_list_of(value: Any, expected: set[str]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(expected)
        and all(name in value for name in expected)
    )


_PART = re.compile(
    r'<(?P<name>[a-z][a-z0-9_]*) fence="(?P<code>[^"\n]+)">\n(?P<text>.*?)\n?'
    r'</(?P=name) fence="(?P=code)">',
    re.DOTALL,
)


def score_lexically(user_text: str, *, names: tuple[str, ...]) -> str:
    """Return a JSON object with a reason and a score from 0 to 1.

    Args:
        user_text: The user message.
        names: The names of the object's values, in their order.
    """
    parts = [match["text"] for match in _PART.finditer(user_text)]
    *wanted, response = parts or [user_text]
    words = list_content_words("\n".join(wanted))
    score = round(examine(response).measure_coverage(words), 2) if words else 0.5
    reason = f"It has {score:.0%} of the words that what comes before it asks for."
    values = {"reason": reason, "score": score}
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)


_LABEL = "This is the loopback service, which is no language model."
_MOST_WORDS = 12


def respond_lexically(prompt: str) -> str:
    """Repeat the words of a prompt that carry meaning; the same prompt gives the same response."""
    words = list(dict.fromkeys(word for word in list_words(prompt) if list_content_words(word)))
    if not words:
        return f"{_LABEL} Nothing in the prompt carries meaning."
    return f"{_LABEL} The prompt is about: {', '.join(words[:_MOST_WORDS])}."


CacheUse = Literal["none", "write", "read"]
"""What a request does with the cache: nothing, fill it with its prefix, or read that."""

MINIMUM_CACHED_TOKENS = 512
"""A shorter prefix is not cached, and nothing complains; some models want up to 4,096."""
_LIFETIMES = {"1h": 3600.0}
_SHORT_LIFETIME = 300.0
_CHARACTERS_PER_TOKEN = 4


class PromptCache:
    """Remembers the prefixes that were sent until they have not been used for their lifetime.

    Args:
        lifetime: Seconds that every prefix lives after its last use; None for the lifetime that
            its breakpoint asks for: an hour, or five minutes.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, *, lifetime: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lifetime = lifetime
        self._clock = clock
        self._expires_at: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()

    def use(self, params: Mapping[str, Any]) -> CacheUse:
        """Say what a request does with the cache, and remember its prefix."""
        prefix = find_cached_prefix(params)
        if count_tokens(prefix) < MINIMUM_CACHED_TOKENS:
            return "none"
        key = (str(params.get("model")), prefix)
        lifetime = self._lifetime
        if lifetime is None:
            lifetime = _LIFETIMES.get(find_breakpoint_ttl(params), _SHORT_LIFETIME)
        with self._lock:
            now = self._clock()
            is_alive = now < self._expires_at.get(key, -math.inf)
            self._expires_at[key] = now + lifetime
        return "read" if is_alive else "write"


def make_cache(plan: FaultPlan) -> PromptCache:
    """Return the prompt cache that a plan asks for."""
    if plan.find("below_minimum") is not None:
        return _UselessCache()
    expiry = plan.find("cache_expiry")
    lifetime = None if expiry is None else expiry.argument
    hit_rate = plan.find("hit_rate")
    if hit_rate is None:
        return PromptCache(lifetime=lifetime)
    return _LeakyCache(hit_rate.argument, lifetime=lifetime)


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text: four characters each."""
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def cut_to_tokens(text: str, n_tokens: int) -> str:
    """Return as much of a text as some tokens hold."""
    return text[: n_tokens * _CHARACTERS_PER_TOKEN]


def find_cached_prefix(params: Mapping[str, Any]) -> str:
    """Return the system text up to the last block that is marked as a cache breakpoint."""
    system = params.get("system")
    if not isinstance(system, list):
        return ""
    marked = [index for index, block in enumerate(system) if _is_breakpoint(block)]
    return join_text(system[: marked[-1] + 1]) if marked else ""


def find_breakpoint_ttl(params: Mapping[str, Any]) -> str:
    """Return how long the prefix is to be kept: `1h` or `5m`."""
    system = params.get("system")
    blocks = (
        [block for block in system if _is_breakpoint(block)] if isinstance(system, list) else []
    )
    return str(blocks[-1]["cache_control"].get("ttl", "5m")) if blocks else "5m"


def join_text(content: Any) -> str:
    """Return the text of a message's or a system's content."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, Mapping)]
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")


class _UselessCache(PromptCache):
    def use(self, params: Mapping[str, Any]) -> CacheUse:  # noqa: ARG002
        return "none"


class _LeakyCache(PromptCache):
    """Lets the k-th reader hit if that keeps the hits at the whole part of k times the share."""

    def __init__(self, share: float, *, lifetime: float | None) -> None:
        super().__init__(lifetime=lifetime)
        self._share = share
        self._readers = 0
        self._counting = threading.Lock()

    def use(self, params: Mapping[str, Any]) -> CacheUse:
        use = super().use(params)
        if use != "read":
            return use
        with self._counting:
            before, self._readers = self._readers, self._readers + 1
            return "read" if self._due(before + 1) > self._due(before) else "write"

    def _due(self, readers: int) -> int:
        return math.floor(readers * self._share + 1e-9)


def _is_breakpoint(block: Any) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("cache_control"), Mapping)


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
    text = judge_lexically(user_text, dimension=dimension, model=str(params.get("model", "")))
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
