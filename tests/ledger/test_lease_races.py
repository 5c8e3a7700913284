from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from tournament_assets.judging.settlement.records import Lease
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.leases import own_identity

from .at_once import N_WORKERS, pass_lease_on, run_at_once, run_in_workers, try_for_lease
from .builders import SCOPE, acquire, change, just_before, select

LONG_AGO = "UPDATE judge_leases SET expires_at = '2026-01-01T00:00:00.000000+00:00'"
A_DEAD_PROCESS = "UPDATE judge_leases SET holder = :holder"


@pytest.mark.parametrize("state", ["free", "expired", "dead"])
def test_only_one_of_several_threads_gets_the_lease(
    ledger: Ledger, ledger_url: str, state: str
) -> None:
    if state != "free":
        acquire(ledger)
    if state == "expired":
        change(ledger_url, LONG_AGO)
    if state == "dead":
        change(ledger_url, A_DEAD_PROCESS, holder=f"{own_identity()}0")
    ledgers = [Ledger(ledger_url) for _ in range(6)]
    results = run_at_once([partial(one.acquire_lease, SCOPE) for one in ledgers])
    (winner,) = [result for result in results if isinstance(result, Lease)]
    assert {result for result in results if isinstance(result, str)} <= {
        own_identity(),
        "a run that began just now",
    }
    assert select(ledger_url, "SELECT token FROM judge_leases") == [(winner.token,)]
    for opened in ledgers:
        opened.close()


def test_only_one_of_several_processes_gets_the_lease(
    ledger_url: str, workers: ProcessPoolExecutor
) -> None:
    for _ in range(3):
        results = run_in_workers(workers, try_for_lease, [ledger_url] * N_WORKERS)
        assert results.count(True) == 1
        change(ledger_url, "DELETE FROM judge_leases")


def test_a_lease_that_is_passed_on_quickly_confuses_nobody(
    ledger_url: str, workers: ProcessPoolExecutor
) -> None:
    results = run_in_workers(workers, pass_lease_on, [ledger_url] * N_WORKERS)
    assert sum(results) > 0
    assert select(ledger_url, "SELECT count(*) FROM judge_leases") == [(0,)]


def test_a_lease_that_is_given_back_while_somebody_asks_goes_to_them(
    ledger: Ledger, other_ledger: Ledger
) -> None:
    lease = acquire(other_ledger)
    with just_before("SELECT judge_leases", lambda: other_ledger.release_lease(lease)):
        assert ledger.renew_lease(acquire(ledger))


def test_a_holder_that_renews_at_the_last_moment_keeps_the_lease(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    lease = acquire(other_ledger)
    change(ledger_url, LONG_AGO)
    with just_before("UPDATE judge_leases", lambda: other_ledger.renew_lease(lease)):
        assert isinstance(ledger.acquire_lease(SCOPE), str)
    assert other_ledger.renew_lease(lease)


def test_of_two_that_take_a_lease_over_the_first_one_has_it(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    acquire(ledger)
    change(ledger_url, LONG_AGO)
    taken: list[Lease] = []
    with just_before("UPDATE judge_leases", lambda: taken.append(acquire(other_ledger))):
        assert ledger.acquire_lease(SCOPE) == "a run that began just now"
    assert other_ledger.renew_lease(taken[0])
