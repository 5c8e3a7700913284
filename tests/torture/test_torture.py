"""A short torture; `make torture` kills at every boundary, and for many minutes."""

import pytest

from tests.postgresql import PostgresServer
from tests.torture.databases import Databases
from tests.torture.forking import Nursery
from tests.torture.planning import SHORT, SHORT_OPENAI
from tests.torture.torturing import Report, torture
from tests.torture.trials import Kill, Loss, Trial, lose_ledger, measure, run_trial

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


@pytest.fixture(scope="module")
def report() -> Report:
    return torture(SHORT, seed="0", jobs=2)


def test_wherever_a_process_is_killed_the_next_one_loses_no_verdict_and_pays_for_none_twice(
    report: Report,
) -> None:
    assert report.wrong == []
    totals = report.totals
    assert totals["kills"] >= 30
    assert totals["adopted"] >= 2
    assert len(report.of("judge killed")) == SHORT.judge_kills


def test_through_the_other_protocol_nothing_is_lost_or_paid_for_twice_either() -> None:
    report = torture(SHORT_OPENAI, seed="0", jobs=2)
    assert report.wrong == []
    assert report.totals["kills"] >= 30
    assert report.totals["adopted"] >= 2


def test_a_process_dies_after_every_call_and_within_every_write(report: Report) -> None:
    places = {place for part, place in report.rows if part.startswith("boundaries")}
    assert {f"after {name}" for name in (*WRITES, *CALLS)} <= places
    assert {f"before a commit of {name}" for name in WRITES} <= places
    assert "after a row of iterate_results" in places


def test_a_process_is_killed_at_random_times_and_so_is_the_one_after_it(report: Report) -> None:
    assert sum(len(outcome.deaths) for outcome in report.of("random times")) >= 1
    assert max(len(outcome.deaths) for outcome in report.of("two kills")) == 2


def test_a_ledger_that_is_lost_or_torn_is_filled_again_whoever_is_killed_at_it(
    report: Report,
) -> None:
    lost = report.of("ledger lost")
    assert len(lost) == SHORT.lost_ledgers
    assert any(place.startswith("recovery, ") for outcome in lost for place in outcome.deaths)


def test_a_ledger_that_is_lost_and_not_filled_again_is_paid_for_twice_and_seen(
    nursery: Nursery,
) -> None:
    with Databases() as databases:
        outcome = lose_ledger(
            "lost ledgers", Kill(), Loss(None), (), nursery, databases=databases, recovers=False
        )
    assert (outcome.batches_twice, outcome.verdicts_lost) == (5, 0)
    assert (outcome.requests_twice, outcome.direct_twice) == (28, 1)


def test_a_run_that_is_killed_while_it_judges_leaves_the_next_one_to_end_as_if_nothing_had_been(
    report: Report,
) -> None:
    (outcome,) = report.of("runs, kill -9")
    assert outcome.deaths == ("while judging",)
    assert not outcome.is_wrong


def test_the_same_holds_on_postgresql(postgresql: PostgresServer, nursery: Nursery) -> None:
    scenario = "a little of all, PostgreSQL"
    with Databases(postgresql) as databases:
        boundaries = measure(scenario, nursery, databases=databases).boundaries
        kills = tuple(
            Kill(1 + boundaries.index(name))
            for name in ("before record_created", "before a commit of record_rows")
        )
        outcome = run_trial(Trial("", scenario, kills), nursery, databases=databases)
    assert outcome.deaths[0] == "before record_created"
    assert len(outcome.deaths) == 2
    assert not outcome.is_wrong, outcome


def test_a_batch_that_the_list_hides_for_longer_than_is_waited_for_is_paid_for_twice_and_seen(
    nursery: Nursery,
) -> None:
    scenario = "hidden batches"
    with Databases() as databases:
        boundaries = measure(scenario, nursery, databases=databases).boundaries
        kill = Kill(1 + boundaries.index("before record_created"))
        outcome = run_trial(Trial("", scenario, (kill,)), nursery, databases=databases)
    assert outcome.is_wrong
    assert (outcome.batches_twice, outcome.requests_twice, outcome.verdicts_lost) == (1, 8, 0)
