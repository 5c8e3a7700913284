"""The simulated prompt cache: which prefixes it holds, for how long, and how it can disappoint."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tournament_assets.loopback.faults import FaultPlan

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
