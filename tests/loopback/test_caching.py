import pytest

from tests.loopback.builders import judge_params
from tournament_assets.loopback.faults import plan_faults
from tournament_assets.loopback.messages import PromptCache, make_cache

PREFIX = "Judge well. " * 200  # 2,400 characters: 600 tokens


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_first_request_with_a_prefix_writes_it_and_later_ones_read_it() -> None:
    cache = PromptCache()
    uses = [
        cache.use(judge_params(system=PREFIX)),
        cache.use(judge_params(system=PREFIX)),
        cache.use(judge_params(system=PREFIX, model="claude-sonnet-5-5")),
        cache.use(judge_params(system=PREFIX + "x")),
        cache.use(judge_params(system=PREFIX)),
    ]
    assert uses == ["write", "read", "write", "write", "read"]


@pytest.mark.parametrize(("characters", "use"), [(2044, "none"), (2048, "write")])
def test_a_prefix_below_512_tokens_is_not_cached(characters: int, use: str) -> None:
    assert PromptCache().use(judge_params(system="x" * characters)) == use


@pytest.mark.parametrize(("ttl", "lifetime"), [("1h", 3600.0), ("5m", 300.0)])
def test_a_prefix_lives_as_long_as_its_breakpoint_asks_for(ttl: str, lifetime: float) -> None:
    clock = Clock()
    cache = PromptCache(clock=clock)
    uses = []
    for clock.now in (0.0, lifetime - 1, 2 * lifetime - 2, 3 * lifetime - 2, 4 * lifetime - 3):
        uses.append(cache.use(judge_params(system=PREFIX, ttl=ttl)))
    # The second use and the third, each in time, let it live on; the fourth came a second late.
    assert uses == ["write", "read", "read", "write", "read"]


def test_cache_expiry_replaces_every_lifetime() -> None:
    clock = Clock()
    cache = PromptCache(lifetime=10, clock=clock)
    uses = []
    for clock.now in (0.0, 9.0, 18.0, 28.0):
        uses.append(cache.use(judge_params(system=PREFIX, ttl="1h")))
    assert uses == ["write", "read", "read", "write"]


def test_a_cache_can_expire_at_once_and_then_hits_nothing() -> None:
    cache = make_cache(plan_faults(["hit_rate:1", "cache_expiry:0"]))
    assert [cache.use(judge_params(system=PREFIX)) for _ in range(3)] == ["write"] * 3


def test_a_system_of_nonsense_is_not_cached_and_breaks_nothing() -> None:
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    assert PromptCache().use({"model": "m", "system": ["x", 3, marked]}) == "none"
