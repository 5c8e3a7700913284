"""Several runs with one ledger and one judge: everything is sent once, and all of them end well."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tests.judging.builders import keys_of
from tests.judging.runners import run_judging
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.ledger import Ledger

N_PAIRS = 10
_PROCESSES = multiprocessing.get_context("forkserver")
# What takes seconds to import is imported once, by the process that the others are forked from.
_PROCESSES.set_forkserver_preload(["tests.judging.runners"])


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def answered(ledger_url: str) -> int:
    ledger = Ledger(ledger_url)
    found = ledger.answered_keys(keys_of(N_PAIRS))
    ledger.close()
    return len(found)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_threads_send_everything_once_and_both_end_well(ledger_url: str) -> None:
    start = Barrier(2)
    with (
        FaultyServer(processing_seconds=0.3) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        runs = [pool.submit(run_judging, ledger_url, server.url, N_PAIRS, start) for _ in range(2)]
        tallies = [run.result() for run in runs]
        assert (server.log.batches, server.log.requests) == (1, 2 * N_PAIRS)
    assert sorted(tally.submitted for tally in tallies) == [0, 2 * N_PAIRS]
    assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 2
    assert answered(ledger_url) == 2 * N_PAIRS


def test_runs_that_want_different_things_send_their_union_once(ledger_url: str) -> None:
    wanted = [N_PAIRS, 4, 7, 1]
    start = Barrier(len(wanted))
    with (
        FaultyServer(processing_seconds=0.1) as server,
        ThreadPoolExecutor(len(wanted)) as pool,
    ):
        runs = [pool.submit(run_judging, ledger_url, server.url, n, start) for n in wanted]
        assert [run.result().answered for run in runs] == [2 * n for n in wanted]
        assert server.log.requests == 2 * N_PAIRS


@pytest.mark.e2e
def test_two_processes_send_everything_once_and_both_end_well(ledger_url: str) -> None:
    start = _PROCESSES.Barrier(2)
    with FaultyServer(processing_seconds=0.3) as server:
        processes = [
            _PROCESSES.Process(target=run_judging, args=(ledger_url, server.url, N_PAIRS, start))
            for _ in range(2)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
        assert [process.exitcode for process in processes] == [0, 0]
        assert (server.log.batches, server.log.requests) == (1, 2 * N_PAIRS)
    assert answered(ledger_url) == 2 * N_PAIRS


@pytest.mark.e2e
@pytest.mark.parametrize("fault", ["create_hang:60", "poll_404"], ids=["not heard", "heard"])
def test_what_a_killed_process_had_submitted_is_found_and_paid_once(
    ledger_url: str, fault: str
) -> None:
    with FaultyServer(processing_seconds=0.3, faults=[fault]) as server:
        # It hears nothing, or looks once, in vain, and would look again in a minute.
        waiting = (ledger_url, server.url, N_PAIRS, None, 60.0)
        process = _PROCESSES.Process(target=run_judging, args=waiting)
        process.start()
        wait_for(lambda: server.log.batches == 1)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        # Its lease has minutes to live, and nobody waits for it.
        tally = run_judging(ledger_url, server.url, N_PAIRS)
        assert (tally.answered, tally.submitted, tally.resumed) == (2 * N_PAIRS, 0, 1)
        assert (server.log.batches, server.log.requests) == (1, 2 * N_PAIRS)
