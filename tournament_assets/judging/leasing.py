"""Holding the right to submit a scope's work, so that two runs never send the same requests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tournament_assets.judging.records import JudgingLedger, JudgingScope, Lease
from tournament_assets.judging.sessions import JudgingProgress, WaitingPolicy, Waits
from tournament_assets.tournament.errors import JudgeWaitingError, LedgerError

_RENEW_SECONDS = 20.0


@contextmanager
def hold_lease(
    ledger: JudgingLedger,
    scope: JudgingScope,
    *,
    policy: WaitingPolicy,
    progress: JudgingProgress,
) -> Iterator[Lease]:
    """Wait for a scope's lease, keep it, and give it back.

    While it is held a thread renews it. Should it go to somebody else nevertheless, because this
    process was stopped for too long, the ledger refuses the next intent.

    Raises:
        JudgeWaitingError: If somebody else holds it until the deadline.
    """
    lease = _wait_for_lease(ledger, scope, policy=policy, progress=progress)
    is_over = threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(ledger, lease, is_over), name="lease renewal", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        is_over.set()
        renewing.join()
        ledger.release_lease(lease)


def _wait_for_lease(
    ledger: JudgingLedger,
    scope: JudgingScope,
    *,
    policy: WaitingPolicy,
    progress: JudgingProgress,
) -> Lease:
    waits = Waits(policy)
    while True:
        lease = ledger.acquire_lease(scope)
        if isinstance(lease, Lease):
            return lease
        progress.note(f"{scope.activity} by {lease}; waiting")
        remaining = policy.deadline_seconds - waits.waited
        if remaining <= 0:
            raise JudgeWaitingError(
                f"{scope.activity} by {lease}; expected it to finish within "
                f"{policy.deadline_seconds:.0f} s; run again later: what it pays for is in the "
                "ledger"
            )
        waits.sleep(at_most=remaining)


def _renew(ledger: JudgingLedger, lease: Lease, is_over: threading.Event) -> None:
    while not is_over.wait(_RENEW_SECONDS):
        try:
            if not ledger.renew_lease(lease):
                return
        except LedgerError:
            # A ledger that is busy now may be free in a while; the lease outlives a few misses.
            continue
