import threading
from dataclasses import replace
from typing import Any

import pytest

from tournament_assets.foundation.errors import JudgeError, JudgeWaitingError, LedgerError
from tournament_assets.judging.settlement import sessions
from tournament_assets.judging.settlement.records import Lease
from tournament_assets.judging.settlement.sessions import JudgingSession, hold_lease

from .bench import Bench
from .builders import SCOPE, Clock, Progress, requests_for
from .fake_ledger import FakeLedger


class Watched(FakeLedger):
    """Tells when its leases were renewed some times, and may go wrong."""

    def __init__(self, *, times: int = 3, error: Exception | None = None) -> None:
        super().__init__()
        self.was_renewed = threading.Event()
        self.times = times
        self.error = error

    def renew_lease(self, lease: Lease) -> bool:
        is_ours = super().renew_lease(lease)
        if self.renewed >= self.times:
            self.was_renewed.set()
        if self.error is not None:
            raise self.error
        return is_ours


def session_of(
    ledger: FakeLedger, clock: Clock, progress: Progress | None = None, **waiting: Any
) -> JudgingSession:
    bench = Bench()
    bench.ledger, bench.clock, bench.progress = ledger, clock, progress or Progress()
    return bench.unbegun(**waiting)


def renewal_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lease renewal"]


def test_a_lease_is_held_and_given_back() -> None:
    ledger, clock, progress = FakeLedger(), Clock(), Progress()
    session = session_of(ledger, clock, progress)
    with hold_lease(session):
        assert ledger.leases == {SCOPE: session.lease.token}
        assert len(renewal_threads()) == 1
    assert ledger.leases == {}
    assert renewal_threads() == []
    assert progress.notes == []


def test_a_lease_is_given_back_when_the_work_fails() -> None:
    ledger, clock = FakeLedger(), Clock()
    with (
        pytest.raises(JudgeError),
        hold_lease(session_of(ledger, clock)),
    ):
        raise JudgeError("refused")
    assert ledger.leases == {}
    assert renewal_threads() == []


def test_somebody_elses_lease_is_waited_for() -> None:
    ledger, clock, progress = FakeLedger(), Clock(), Progress()
    other = ledger.acquire_lease(SCOPE)
    assert isinstance(other, Lease)

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        if clock.seconds > 10:
            ledger.release_lease(other)

    session = session_of(ledger, clock, progress, sleep=sleep)
    with hold_lease(session):
        assert session.lease.token != other.token
    assert clock.naps == [1.0, 2.0, 4.0, 4.0]
    assert progress.heard("factuality (pilot)")


def test_somebody_elses_lease_is_not_waited_for_beyond_the_deadline() -> None:
    ledger, clock = FakeLedger(), Clock()
    ledger.acquire_lease(SCOPE)
    with (
        pytest.raises(JudgeWaitingError, match="within 9 s;"),
        hold_lease(session_of(ledger, clock, deadline_seconds=9.0)),
    ):
        raise AssertionError("it was not to be had")
    assert clock.naps == [1.0, 2.0, 4.0, 2.0]
    assert len(ledger.leases) == 1


def test_nothing_is_asked_while_somebody_else_is_at_work(bench: Bench) -> None:
    bench.ledger.acquire_lease(SCOPE)
    with pytest.raises(JudgeWaitingError):
        bench.settle(requests_for(1))
    assert bench.events == []


def test_scopes_do_not_get_in_each_others_way(bench: Bench) -> None:
    bench.ledger.acquire_lease(replace(SCOPE, dimension="calibration"))
    assert bench.settle(requests_for(1)).answered == 2


def test_a_lease_is_renewed_while_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_RENEW_SECONDS", 0.001)
    ledger = Watched()
    with hold_lease(session_of(ledger, Clock())):
        assert ledger.was_renewed.wait(60)
    renewed = ledger.renewed
    assert renewal_threads() == []
    assert ledger.renewed == renewed


def test_a_ledger_that_is_busy_does_not_end_the_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_RENEW_SECONDS", 0.001)
    ledger = Watched(error=LedgerError("database is locked"))
    with hold_lease(session_of(ledger, Clock())):
        assert ledger.was_renewed.wait(60)


def test_a_lease_that_is_lost_is_not_renewed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_RENEW_SECONDS", 0.001)
    ledger = Watched(times=1)
    with hold_lease(session_of(ledger, Clock())):
        ledger.leases[SCOPE] = "somebody else's"
        (thread,) = renewal_threads()
        thread.join(60)
        assert not thread.is_alive()
    assert ledger.leases == {SCOPE: "somebody else's"}
