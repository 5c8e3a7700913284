"""Runs that this process executes itself: what they need of it, and what others left behind.

Connections to what Dagster records are kept open, what a step prints is repeated by threads, memory
is searched for cycles more rarely, runs of processes that died are ended, and an interrupt is
noticed whatever else is done with it.
"""

import gc
import os
import signal
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import copyfileobj
from typing import IO

import dagster as dg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection

from tournament_assets.ledger.leases import has_died

PROCESS_TAG = "tournament/process"
"""Whose run it is: what `own_identity` says."""
_KEPT_DATABASES = 8
"""Each run has a database of its own, which nothing asks for once the next stages run."""
_SECONDS_BETWEEN_LOOKS = 0.5
"""How soon the terminal shows what a step has printed."""
_OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""Python's own 700 are a few rows of one table."""


@contextmanager
def kept_connections(instance: dg.DagsterInstance) -> Iterator[None]:
    """Keep the connections to what Dagster records in SQLite open while something runs.

    Dagster opens a connection for every event, compiles its statements anew, and closes it, which
    writes the log back into its file: a sixth of a run's processor time. Nor is every event waited
    for until the disk has it: a power cut may take the last ones, for which stages run again, and
    nothing else. What is recorded elsewhere is recorded as before.
    """
    from dagster._core.storage.event_log import SqliteEventLogStorage
    from dagster._core.storage.runs import SqliteRunStorage

    events, runs = instance.event_log_storage, instance.run_storage
    with _KeptEngines() as engines, ExitStack() as changed:
        if type(events) is SqliteEventLogStorage:
            connect_first = events._connect

            @contextmanager
            def connect(shard: str) -> Iterator[Connection]:
                if shard not in events._initialized_dbs:
                    with connect_first(shard) as connection:
                        yield connection
                    return
                with (
                    events._db_lock,
                    engines.begin(events.conn_string_for_shard(shard)) as connection,
                ):
                    yield connection

            events._connect = connect  # type: ignore[method-assign]
            changed.callback(vars(events).pop, "_connect")
            changed.enter_context(_migrations_read_once())
        if type(runs) is SqliteRunStorage:

            @contextmanager
            def connect_runs() -> Iterator[Connection]:
                with engines.begin(runs._conn_string) as connection:
                    yield connection

            runs.connect = connect_runs  # type: ignore[method-assign]
            changed.callback(vars(runs).pop, "connect")
        yield


@contextmanager
def _migrations_read_once() -> Iterator[None]:
    """Read Dagster's migrations once.

    They lie in 90 files. Dagster reads them for every run whose database it opens, and twice for
    one that it makes, only to know which of them is the newest.
    """
    from alembic.script import ScriptDirectory

    read = vars(ScriptDirectory)["from_config"]
    # Dagster has one configuration for the events of all runs, so that all share what was read.
    ScriptDirectory.from_config = cache(ScriptDirectory.from_config)  # type: ignore[method-assign]
    try:
        yield
    finally:
        ScriptDirectory.from_config = read  # type: ignore[method-assign]


def _wait_for_no_disk(connection: DBAPIConnection, _: object) -> None:
    connection.cursor().execute("PRAGMA synchronous=NORMAL")


class _KeptEngines:
    """Engines of the databases that were asked for last, each with its connections."""

    def __init__(self) -> None:
        self._engines: OrderedDict[str, Engine] = OrderedDict()
        self._lock = threading.Lock()

    def __enter__(self) -> "_KeptEngines":
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines.values():
            engine.dispose()

    def begin(self, url: str) -> AbstractContextManager[Connection]:
        """Begin a transaction, which is committed where it ends well."""
        from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS

        with self._lock:
            if url not in self._engines:
                patience = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
                self._engines[url] = create_engine(url, connect_args=patience)
                event.listen(self._engines[url], "connect", _wait_for_no_disk)
            self._engines.move_to_end(url)
            if len(self._engines) > _KEPT_DATABASES:
                # Who is still at it there keeps the connection until it is given back.
                self._engines.popitem(last=False)[1].dispose()
            return self._engines[url].begin()


@contextmanager
def output_repeated_by_threads() -> Iterator[None]:
    """Repeat what a step prints on the terminal by two threads of this process.

    Dagster writes it to files, which the UI shows, and starts four processes a run that repeat the
    files: two of `tail`, and two of Python that look whether they are still needed. It has no
    setting for that. Dagster's files are written as before.
    """
    from dagster._core.execution import compute_logs

    repeat_first = compute_logs.tail_to_stream
    compute_logs.tail_to_stream = _repeated
    try:
        yield
    finally:
        compute_logs.tail_to_stream = repeat_first


@contextmanager
def _repeated(path: str, stream: IO[str]) -> Iterator[tuple[None, None]]:
    """Repeat a file on what a stream writes to now, until all of it is repeated at the end."""
    try:
        terminal = os.dup(stream.fileno())
    except (OSError, ValueError):
        # A stream of Python alone; Dagster leaves it alone, too, and redirects nothing.
        yield None, None
        return
    ended = threading.Event()

    def repeat() -> None:
        # Whoever listened may have gone; the step goes on, and the file has it all.
        with suppress(OSError), os.fdopen(terminal, "wb") as out, Path(path).open("rb") as printed:
            is_last = False
            while not is_last:
                is_last = ended.wait(_SECONDS_BETWEEN_LOOKS)
                copyfileobj(printed, out)
                out.flush()

    follower = threading.Thread(target=repeat, name=f"repeat {path}", daemon=True)
    follower.start()
    try:
        # The processes that Dagster would record; there are none.
        yield None, None
    finally:
        ended.set()
        follower.join()


@contextmanager
def rare_collections() -> Iterator[None]:
    """Search for unused cycles of objects more rarely, and not in what is loaded already.

    Modules and definitions are a million objects that stay; searching them again and again is a
    fourteenth of a rerun's processor time.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def close_runs_of_dead_processes(instance: dg.DagsterInstance) -> None:
    """End the runs whose process was killed: they would hold their place in a pool for ever.

    Dagster's daemon does this for runs that it has launched itself; nobody does it for runs of
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
    """Notice every interrupt from the keyboard, whatever else is done with it.

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

        before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        report_before, sys.unraisablehook = sys.unraisablehook, report
        try:
            yield has_come
        finally:
            sys.unraisablehook = report_before
            signal.set_wakeup_fd(before)
            has_come()
