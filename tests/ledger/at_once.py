"""What several threads and processes do to one ledger at once.

Importable, so that a new process can find it.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tournament_assets.judging.settlement.records import JudgingScope, Lease
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.prompts import GeneratedResponse

from .builders import SCOPE, begin_batch, failure, numbered_keys, success

N_WORKERS = 3
KEYS = tuple(numbered_keys(15))

_barriers: list[Any] = []


def keep_barrier(barrier: Any) -> None:
    """Prepare a worker process."""
    _barriers[:] = [barrier]


def run_in_workers(
    workers: ProcessPoolExecutor, function: Callable[..., Any], arguments: Sequence[Any]
) -> list[Any]:
    """Call a function with each argument, in as many processes, all at once."""
    assert len(arguments) == N_WORKERS
    futures = [workers.submit(_run_with_others, function, argument) for argument in arguments]
    return [future.result(timeout=120) for future in futures]


def _run_with_others(function: Callable[..., Any], argument: Any) -> Any:
    _barriers[0].wait(60)
    return function(argument)


def run_at_once(actions: Sequence[Callable[[], object]]) -> list[object]:
    """Run some actions in threads of their own, and raise the first of their errors."""
    start = threading.Barrier(len(actions))
    results: dict[int, object] = {}
    errors: list[BaseException] = []

    def run(number: int, action: Callable[[], object]) -> None:
        start.wait()
        try:
            results[number] = action()
        except BaseException as error:  # noqa: BLE001  # it is raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=numbered) for numbered in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(actions))]


def write_everything(url_and_writer: tuple[str, str]) -> int:
    """Open a ledger and write every key, one transaction each, as fast as it goes.

    Returns:
        How many replies somebody else had written before.
    """
    url, writer = url_and_writer
    ledger = Ledger(url)
    begin_batch(ledger, writer, KEYS, scope=JudgingScope("tiny", "pilot", writer))
    ledger.record_created(writer, f"batch of {writer}")
    wasted = 0
    for key in KEYS:
        wasted += ledger.record_rows(writer, [(key, success(f"{writer} on {key}"))])
        ledger.record_failures(writer, [(key, failure("overloaded_error"))])
        ledger.keep_responses("entrant", [(key, GeneratedResponse(key, writer, "stop"))])
    ledger.record_closed(writer, state="harvested")
    ledger.close()
    return wasted


def try_for_lease(url: str) -> bool:
    """Open a ledger and say whether its lease could be had; it is not given back."""
    ledger = Ledger(url)
    lease = ledger.acquire_lease(SCOPE)
    ledger.close()
    return isinstance(lease, Lease)


def pass_lease_on(url: str) -> int:
    """Acquire and give back a lease many times, and say how often that worked."""
    ledger = Ledger(url)
    leases = 0
    for _ in range(50):
        lease = ledger.acquire_lease(SCOPE)
        if isinstance(lease, Lease):
            leases += 1
            ledger.release_lease(lease)
    ledger.close()
    return leases
