import pytest

from tournament_assets.judging.batch_service import TokenUsage

from .runs import KEYS, Run, Runner

pytestmark = pytest.mark.e2e


@pytest.fixture
def protocol() -> str:
    """The other protocol bills no writing to the cache."""
    return "anthropic"


def usages(run: Run) -> list[TokenUsage]:
    """Return what the four replies were billed, after everything was settled once."""
    run.settle()
    assert run.is_settled()
    assert run.paid == (1, 4, 0)
    assert run.settle().submitted == 0
    found = [reply.usage for key in KEYS for reply in run.replies(key)]
    return [usage for usage in found if usage is not None]


def count_hits(run: Run) -> tuple[int, int]:
    """Return how many replies wrote the cache, and how many read it."""
    billed = usages(run)
    assert len(billed) == 4
    writes = sum(usage.cache_creation_input_tokens > 0 for usage in billed)
    return writes, sum(usage.cache_read_input_tokens > 0 for usage in billed)


def test_a_cache_that_works_is_written_once(start: Runner) -> None:
    assert count_hits(start()) == (1, 3)


def test_a_prefix_that_is_too_short_to_be_cached_is_billed_in_full(start: Runner) -> None:
    run = start("below_minimum")
    assert count_hits(run) == (0, 0)
    (spending,) = run.ledger.spending_since()
    assert (spending.n_replies, spending.n_cache_hits, spending.n_cache_writes) == (4, 0, 0)


def test_a_cache_that_hits_one_time_in_three_is_billed_as_it_hit(start: Runner) -> None:
    run = start("hit_rate:0.34")
    assert count_hits(run) == (3, 1)
    (spending,) = run.ledger.spending_since()
    assert (spending.n_cache_hits, spending.n_cache_writes) == (1, 3)


def test_a_cache_that_forgets_at_once_is_written_every_time(start: Runner) -> None:
    run = start("cache_expiry:0")
    assert count_hits(run) == (4, 0)
    (spending,) = run.ledger.spending_since()
    assert (spending.n_cache_hits, spending.n_cache_writes) == (0, 4)
