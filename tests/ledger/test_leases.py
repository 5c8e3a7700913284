import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from tournament_assets.judging.settlement.records import JudgingScope, Lease
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.leases import has_died, own_identity

from .at_once import N_WORKERS, pass_lease_on, run_at_once, run_in_workers, try_for_lease
from .builders import OTHER_SCOPES, SCOPE, acquire, change, intent, just_before, select

HOLD_LEASE = """
import sys
from tournament_assets.ledger import Ledger
from tournament_assets.judging.settlement.records import JudgingScope, Lease
ledger = Ledger(sys.argv[1])
lease = ledger.acquire_lease(JudgingScope("tiny", "pilot", "factuality"))
print(isinstance(lease, Lease), flush=True)
input()
"""


@contextmanager
def run_that_holds_the_lease(url: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_LEASE, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def let_expire(url: str) -> None:
    just_over = datetime.now(UTC) - timedelta(milliseconds=1)
    moment = just_over.isoformat(timespec="microseconds")
    change(url, "UPDATE judge_leases SET expires_at = :moment", moment=moment)


def expiry(url: str) -> datetime:
    ((expires_at,),) = select(url, "SELECT expires_at FROM judge_leases")
    return datetime.fromisoformat(expires_at)


@contextmanager
def two_minutes_from_now(url: str) -> Iterator[None]:
    """Hold that something lets the lease last two minutes from when it is done."""
    before = datetime.now(UTC)
    yield
    assert before <= expiry(url) - timedelta(minutes=2) <= datetime.now(UTC)


def test_the_second_run_is_told_who_holds_the_lease(ledger: Ledger, other_ledger: Ledger) -> None:
    lease = ledger.acquire_lease(SCOPE)
    assert isinstance(lease, Lease)
    assert lease.scope == SCOPE
    assert other_ledger.acquire_lease(SCOPE) == own_identity()
    assert ledger.acquire_lease(SCOPE) == own_identity()
    assert ledger.renew_lease(lease)


def test_a_lease_that_was_given_back_can_be_had_again(ledger: Ledger, other_ledger: Ledger) -> None:
    first = acquire(ledger)
    ledger.release_lease(first)
    second = acquire(other_ledger)
    assert second.token != first.token
    assert not ledger.renew_lease(first)


def test_a_lease_can_be_given_back_twice(ledger: Ledger) -> None:
    lease = acquire(ledger)
    ledger.release_lease(lease)
    ledger.release_lease(lease)
    assert ledger.leased_scopes() == set()


@pytest.mark.parametrize("other", OTHER_SCOPES)
def test_every_scope_has_a_lease_of_its_own(ledger: Ledger, other: JudgingScope) -> None:
    first = acquire(ledger)
    second = acquire(ledger, other)
    assert ledger.leased_scopes() == {SCOPE, other}
    ledger.release_lease(second)
    assert ledger.leased_scopes() == {SCOPE}
    assert ledger.renew_lease(first)


def test_a_lease_lasts_two_minutes_from_its_last_renewal(ledger: Ledger, ledger_url: str) -> None:
    with two_minutes_from_now(ledger_url):
        lease = acquire(ledger)
    let_expire(ledger_url)
    with two_minutes_from_now(ledger_url):
        assert ledger.renew_lease(lease)


def test_writing_down_an_intent_renews_the_lease(ledger: Ledger, ledger_url: str) -> None:
    lease = acquire(ledger)
    let_expire(ledger_url)
    with two_minutes_from_now(ledger_url):
        ledger.record_intent(lease, intent("n1"))


def test_a_lease_that_ended_goes_to_who_asks_next(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    first = acquire(ledger)
    let_expire(ledger_url)
    assert ledger.leased_scopes() == set()
    with two_minutes_from_now(ledger_url):
        second = acquire(other_ledger)
    assert not ledger.renew_lease(first)
    assert other_ledger.renew_lease(second)
    assert ledger.leased_scopes() == {SCOPE}


def test_the_former_holder_does_not_give_back_what_is_another_s(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    first = acquire(ledger)
    let_expire(ledger_url)
    second = acquire(other_ledger)
    ledger.release_lease(first)
    assert ledger.acquire_lease(SCOPE) == own_identity()
    assert other_ledger.renew_lease(second)


def test_the_lease_of_a_process_that_was_killed_is_free_at_once(
    ledger: Ledger, ledger_url: str
) -> None:
    with run_that_holds_the_lease(ledger_url) as run:
        assert ledger.leased_scopes() == {SCOPE}
        run.kill()
        run.wait()
        assert expiry(ledger_url) > datetime.now(UTC)
        assert ledger.leased_scopes() == set()
        assert ledger.renew_lease(acquire(ledger))


def test_the_lease_of_a_process_that_runs_is_its_own(ledger: Ledger, ledger_url: str) -> None:
    with run_that_holds_the_lease(ledger_url) as run:
        holder = ledger.acquire_lease(SCOPE)
        assert isinstance(holder, str)
        assert f"/{run.pid}/" in holder
        assert ledger.leased_scopes() == {SCOPE}


def test_a_process_of_another_machine_keeps_its_lease_until_it_ends(
    ledger: Ledger, ledger_url: str
) -> None:
    acquire(ledger)
    no_process = f"elsewhere/{os.getpid()}/1"
    change(ledger_url, "UPDATE judge_leases SET holder = :holder", holder=no_process)
    assert ledger.acquire_lease(SCOPE) == no_process
    assert ledger.leased_scopes() == {SCOPE}
    let_expire(ledger_url)
    acquire(ledger)


LONG_AGO = "UPDATE judge_leases SET expires_at = '2026-01-01T00:00:00.000000+00:00'"
A_DEAD_PROCESS = "UPDATE judge_leases SET holder = :holder"
JUST_BEGUN = "a run that began just now"


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
    assert {result for result in results if isinstance(result, str)} <= {own_identity(), JUST_BEGUN}
    ((token,),) = select(ledger_url, "SELECT token FROM judge_leases")
    assert token == winner.token
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
    assert select(ledger_url, "SELECT * FROM judge_leases") == []


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
        assert ledger.acquire_lease(SCOPE) == JUST_BEGUN
    assert other_ledger.renew_lease(taken[0])


def test_this_process_is_alive() -> None:
    assert not has_died(own_identity())


def test_a_process_that_was_killed_has_died() -> None:
    script = (
        "from tournament_assets.ledger.leases import own_identity\n"
        "print(own_identity(), flush=True)\n"
        "input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        identity = process.stdout.readline().strip()
        assert not has_died(identity)
        process.kill()
    assert has_died(identity)


def test_a_new_process_with_the_id_of_an_old_one_is_another_process() -> None:
    machine, pid, _ = own_identity().split("/")
    assert has_died(f"{machine}/{pid}/1")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux numbers threads as processes")
def test_a_thread_with_the_id_of_an_old_process_is_no_process() -> None:
    machine, _, _ = own_identity().split("/")
    ends = Event()
    thread = Thread(target=ends.wait)
    thread.start()
    try:
        stat = Path(f"/proc/{thread.native_id}/stat").read_text()
        started = stat.rpartition(")")[2].split()[19]
        assert has_died(f"{machine}/{thread.native_id}/{started}")
    finally:
        ends.set()
        thread.join()


def test_of_a_process_on_another_machine_nothing_is_known() -> None:
    assert not has_died(f"elsewhere/{os.getpid()}/1")
    assert not has_died("nonsense")
