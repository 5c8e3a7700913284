"""Runs that this process executes itself: what they need from it, and what others left behind.

Runs of processes that died are ended, and no interrupt goes unnoticed.
"""

import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg
from filelock import FileLock

from tournament_assets.ledger.leases import has_died
from tournament_assets.project.project_files import hide_databases

PROCESS_TAG = ".dagster/tournament_process"
"""Whose run it is: what `own_identity` says. The UI shows no tag that begins like this."""

_POOLS = ("NullPool", "QueuePool", "SingletonThreadPool", "StaticPool")
"""SQLAlchemy's pools log whatever arrives while they close a connection, and raise it."""


@contextmanager
def open_instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """Open the instance of a home, one process at a time, and close it again.

    Dagster does not expect two processes to create a fresh home's tables at once.
    """
    with FileLock(home / "opening.lock"):
        opened = dg.DagsterInstance.from_config(str(home))
    try:
        with opened as instance:
            yield instance
    finally:
        hide_databases(home)


def close_runs_of_dead_processes(instance: dg.DagsterInstance) -> None:
    """End the runs whose process was killed: they would hold their place in a pool forever.

    Dagster's daemon does this for runs that it has launched itself; nothing does it for runs of
    the command line.
    """
    unfinished = dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
    for run in instance.get_runs(unfinished):
        identity = run.tags.get(PROCESS_TAG)
        if identity is not None and has_died(identity):
            instance.report_run_failed(run, "the process of this run was killed")
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


@contextmanager
def noticed_interrupts() -> Iterator[Callable[[], bool]]:
    """Notice every interrupt from the keyboard, even if other code handles it.

    Yields:
        Says whether one has come, then and afterwards. Outside the main thread none does.
    """
    came = bytearray()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    receiver, sender = socket.socketpair()
    with receiver, sender:
        receiver.setblocking(False)
        sender.setblocking(False)

        def has_come() -> bool:
            # Nothing arrives once the sockets are closed.
            with suppress(OSError):
                came.extend(receiver.recv(4096))
            return signal.SIGINT in came

        def report(unraisable: "sys.UnraisableHookArgs") -> None:
            # One that comes while an object is collected cannot be raised; it is noticed here.
            if unraisable.exc_type is not KeyboardInterrupt:
                report_before(unraisable)

        def is_reported(record: logging.LogRecord) -> bool:
            return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)

        loggers = [logging.getLogger(f"sqlalchemy.pool.impl.{each}") for each in _POOLS]
        for logger in loggers:
            logger.addFilter(is_reported)
        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        report_before, sys.unraisablehook = sys.unraisablehook, report
        try:
            yield has_come
        finally:
            sys.unraisablehook = report_before
            for logger in loggers:
                logger.removeFilter(is_reported)
            signal.set_wakeup_fd(before)
            has_come()
