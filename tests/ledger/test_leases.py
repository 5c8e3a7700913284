import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tournament_assets.judging.settlement.records import JudgingScope, Lease
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.leases import own_identity

from .builders import SCOPE, acquire, change, intent, select

HOLD_LEASE = """
import sys
from tournament_assets.ledger import Ledger
from tournament_assets.judging.settlement.records import JudgingScope, Lease
ledger = Ledger(sys.argv[1])
lease = ledger.acquire_lease(JudgingScope("tiny", "pilot", "factuality"))
print(isinstance(lease, Lease), flush=True)
input()
"""
OTHER_SCOPES = [
    replace(SCOPE, tournament_id="other"),
    replace(SCOPE, mode="headline"),
    replace(SCOPE, dimension="calibration"),
    replace(SCOPE, purpose="agreement"),
]


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


def seconds_left(url: str) -> float:
    ((expires_at,),) = select(url, "SELECT expires_at FROM judge_leases")
    return (datetime.fromisoformat(expires_at) - datetime.now(UTC)).total_seconds()


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
    lease = acquire(ledger)
    assert 100 < seconds_left(ledger_url) <= 120
    let_expire(ledger_url)
    assert ledger.renew_lease(lease)
    assert 100 < seconds_left(ledger_url) <= 120


def test_writing_down_an_intent_renews_the_lease(ledger: Ledger, ledger_url: str) -> None:
    lease = acquire(ledger)
    let_expire(ledger_url)
    ledger.record_intent(lease, intent("n1"))
    assert 100 < seconds_left(ledger_url) <= 120


def test_a_lease_that_ended_goes_to_who_asks_next(
    ledger: Ledger, other_ledger: Ledger, ledger_url: str
) -> None:
    first = acquire(ledger)
    let_expire(ledger_url)
    assert ledger.leased_scopes() == set()
    second = acquire(other_ledger)
    assert not ledger.renew_lease(first)
    assert other_ledger.renew_lease(second)
    assert 100 < seconds_left(ledger_url) <= 120
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
        assert seconds_left(ledger_url) > 60
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
