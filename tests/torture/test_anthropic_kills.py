import re
from random import Random

import pytest

from tests.torture.bench import Bench, Kill, Outcome
from tests.torture.conftest import Setup
from tests.torture.kills import EVERY, TIMEOUT, kill_everywhere, measure, run_killed, scenarios_of
from tests.torture.scenarios import FORGOTTEN, HIDING, SMALL

WRITES = (
    "acquire_lease",
    "record_intent",
    "record_created",
    "record_rows",
    "record_failures",
    "record_closed",
    "release_lease",
)
CALLS = ("check_model", "create_batch", "get_batch", "iterate_results", "ask_directly")


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("scenario", scenarios_of("anthropic"))
def test_wherever_a_process_is_killed_the_next_one_loses_no_verdict_and_pays_for_none_twice(
    scenario: str, set_up: Setup
) -> None:
    killed = kill_everywhere(scenario, set_up)
    assert killed.wrong == []
    if scenario == SMALL.name:
        places = {re.sub(r"row \d+", "a row", place) for place in killed.places}
        assert {f"after {name}" for name in (*WRITES, *CALLS)} <= places
        assert {f"before a commit of {name}" for name in WRITES} <= places
        assert "after a row of iterate_results" in places
        assert sum(outcome.adopted for outcome in killed.outcomes) >= 2


def lose_ledger(bench: Bench, settling: Kill, kept: float | None, *recovering: Kill) -> Outcome:
    """Kill a process and lose its ledger, kill those that take its replies back, and go on."""
    bench.kill(settling)
    bench.lose_ledger(kept)
    for each in recovering:
        bench.recover(each)
    return bench.finish()


@pytest.mark.timeout(TIMEOUT)
def test_a_ledger_that_is_lost_or_torn_is_filled_again_whoever_is_killed_at_it(
    set_up: Setup,
) -> None:
    rng, n_boundaries = Random(0), len(measure(FORGOTTEN.name, set_up)[0])
    deaths: list[str] = []
    for number in range(60 if EVERY else 2):
        # The more is done, the more is there to be taken back; a recovery passes some 120 places.
        settling = Kill(rng.randint(n_boundaries // 3, n_boundaries))
        kept = rng.uniform(0.3, 1.0) if number % 2 else None
        recovering = [Kill(rng.randint(1, 120)) for _ in range(rng.randint(1, 2))]
        with set_up(FORGOTTEN.name) as bench:
            outcome = lose_ledger(bench, settling, kept, *recovering, Kill())
        assert not outcome.is_wrong, outcome
        deaths += outcome.deaths
    assert any(place.startswith("recovery, ") for place in deaths)


def test_a_ledger_that_is_lost_and_not_filled_again_is_paid_for_twice_and_seen(
    set_up: Setup,
) -> None:
    with set_up(FORGOTTEN.name) as bench:
        balance = lose_ledger(bench, Kill(), None).balance
    assert (balance.batches_twice, balance.verdicts_lost) == (5, 0)
    # Three are asked directly, and read, before the others are sent.
    assert (balance.requests_twice, balance.direct_twice) == (26, 3)


def test_the_same_holds_on_postgresql(set_up: Setup) -> None:
    scenario = "a little of all, PostgreSQL"
    boundaries, _ = measure(scenario, set_up)
    places = ("before record_created", "before a commit of record_rows")
    kills = [Kill(1 + boundaries.index(place)) for place in places]
    outcome = run_killed(scenario, set_up, *kills)
    assert (len(outcome.deaths), outcome.deaths[0]) == (2, places[0])
    assert not outcome.is_wrong, outcome


def test_a_batch_that_the_list_hides_for_longer_than_is_waited_for_is_paid_for_twice_and_seen(
    set_up: Setup,
) -> None:
    boundaries, _ = measure(HIDING.name, set_up)
    at = Kill(1 + boundaries.index("before record_created"))
    outcome = run_killed(HIDING.name, set_up, at)
    assert outcome.is_wrong
    balance = outcome.balance
    assert (balance.batches_twice, balance.requests_twice, balance.verdicts_lost) == (1, 8, 0)
