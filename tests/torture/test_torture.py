"""Processes are killed where they can be; `make torture` kills at every boundary, for an hour."""

import os
import re
import time
from collections.abc import Sequence
from random import Random

import pytest

from tests.torture.bench import Bench, Kill, Outcome
from tests.torture.conftest import Setup
from tests.torture.forking import Nursery
from tests.torture.real_runs import Reference, kill, real_project, run_unkilled
from tests.torture.scenarios import CHUNK_ROWS, FORGOTTEN, HIDING, SCENARIOS

EVERY = "TORTURE" in os.environ
SHORT = ("a little of all", "a little of all, OpenAI", "chat completions")
LONG = [name for name in SCENARIOS if name != HIDING.name]
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


def measure(scenario: str, set_up: Setup) -> tuple[tuple[str, ...], float]:
    """Return the boundaries that a process passes that nobody kills, and its seconds."""
    with set_up(scenario) as bench:
        return bench.measure()


def run_killed(scenario: str, set_up: Setup, *kills: Kill) -> Outcome:
    """Kill processes, one after the other, and let the next one do what is left."""
    with set_up(scenario) as bench:
        for each in kills:
            bench.kill(each)
        return bench.finish()


def pick_boundaries(names: Sequence[str], rng: Random) -> list[int]:
    """Return the numbers of all boundaries, or of one of each kind; the first is 1.

    Of each kind, those before a call are left out: nothing happens after the one before it.
    """
    if EVERY:
        return list(range(1, len(names) + 1))
    by_kind: dict[str, list[int]] = {}
    for number, name in enumerate(names, start=1):
        if name.startswith("before ") and not name.startswith("before a commit "):
            continue
        # The rows of one part are alike.
        kind = re.sub(r"row (\d+)", lambda row: f"part {(int(row[1]) - 1) // CHUNK_ROWS}", name)
        by_kind.setdefault(kind, []).append(number)
    return [rng.choice(numbers) for numbers in by_kind.values()]


@pytest.mark.timeout(3600 if EVERY else 300)
@pytest.mark.parametrize("scenario", LONG if EVERY else SHORT)
def test_wherever_a_process_is_killed_the_next_one_loses_no_verdict_and_pays_for_none_twice(
    scenario: str, set_up: Setup
) -> None:
    boundaries, seconds = measure(scenario, set_up)
    rng, n_random = Random(scenario), 20 if EVERY else 2
    numbers = pick_boundaries(boundaries, rng)
    outcomes = [run_killed(scenario, set_up, Kill(number)) for number in numbers]
    twice = [Kill(rng.randint(1, len(boundaries) // 2)) for _ in range(2)]
    outcomes.append(run_killed(scenario, set_up, *twice))
    assert [len(outcome.deaths) for outcome in outcomes] == [1] * len(numbers) + [2]
    for _ in range(n_random):
        at = Kill(seconds=rng.uniform(0.0, seconds))
        outcomes.append(run_killed(scenario, set_up, at))
    with set_up(scenario) as bench:
        bench.restart_judge(rng.uniform(0.0, seconds), rng.uniform(0.0, 1.0))
        outcomes.append(bench.finish())
    assert [outcome for outcome in outcomes if outcome.is_wrong] == []
    if scenario == SHORT[0]:
        places = {re.sub(r"row \d+", "a row", boundaries[number - 1]) for number in numbers}
        assert {f"after {name}" for name in (*WRITES, *CALLS)} <= places
        assert {f"before a commit of {name}" for name in WRITES} <= places
        assert "after a row of iterate_results" in places
        assert sum(outcome.adopted for outcome in outcomes) >= 2


def lose_ledger(bench: Bench, settling: Kill, kept: float | None, *recovering: Kill) -> Outcome:
    """Kill a process and lose its ledger, kill those that take its replies back, and go on."""
    bench.kill(settling)
    bench.lose_ledger(kept)
    for each in recovering:
        bench.recover(each)
    return bench.finish()


@pytest.mark.timeout(3600 if EVERY else 300)
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
    assert (balance.requests_twice, balance.direct_twice) == (28, 1)


@pytest.fixture(scope="module")
def unkilled(nursery: Nursery) -> Reference:
    return run_unkilled(nursery)


def test_a_run_that_is_killed_while_it_judges_leaves_the_next_one_to_end_as_if_nothing_had_been(
    nursery: Nursery, unkilled: Reference
) -> None:
    with real_project(nursery) as project:
        process = project.start()
        project.wait_for_batch(process)
        time.sleep(0.2)
        assert kill(process)
        assert not any("judge_replies" in name for name in project.project.stored_files())
        assert project.finish() == []
        assert project.compare(unkilled) == (0, 0, 0, [])


def test_a_run_whose_judge_is_killed_goes_on_or_says_so_and_nothing_is_lost(
    nursery: Nursery, unkilled: Reference
) -> None:
    with real_project(nursery) as project:
        process = project.start()
        project.wait_for_batch(process)
        project.judge.kill()
        time.sleep(0.5)
        project.judge.restart()
        assert not process.wait(400) or "the work failed" in project.said
        assert project.finish() == []
        # A judge that began again has forgotten its prompt cache: the same replies cost more.
        found = project.compare(unkilled, may_differ=("judge_replies", "report"))
        assert found == (0, 0, 0, [])


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
