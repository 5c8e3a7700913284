"""Dagster's own records, written by a process that keeps what it needs for them.

For every statement Dagster makes a database engine, which compiles the statement anew; for every
run it reads its whole history of tables to make an empty file of events; and for every run it
starts four processes that repeat a step's output on the terminal. Here the engines, the empty file
and one thread are kept. The records are the same, in the same places, and others read them as they
read all records. A home that names another database keeps it.
"""

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Self

import dagster as dg
from dagster._core.execution.compute_logs import redirect_to_file
from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.compute_log_manager import CapturedLogContext, ComputeIOType
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.local_compute_log_manager import (
    IO_TYPE_EXTENSION,
    LocalComputeLogManager,
)
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from filelock import FileLock
from sqlalchemy import Connection, Engine, create_engine

_BUSY_SECONDS = 30.0
_FOLLOW_SECONDS = 0.2
_INDEX = "index"


def open_instance(home: Path) -> dg.DagsterInstance:
    """Open the instance of a home for a process that writes many records.

    One process at a time: Dagster does not expect that two make the tables of one home.
    """
    with FileLock(home / "opening.lock"):
        return dg.DagsterInstance.from_ref(_kept(InstanceRef.from_dir(str(home))))


def _kept(ref: InstanceRef) -> InstanceRef:
    if ref.storage_data is not None and _is(ref.storage_data, DagsterSqliteStorage):
        ref = ref._replace(storage_data=_as(ref.storage_data, KeptStorage))
    if _is(ref.compute_logs_data, LocalComputeLogManager):
        ref = ref._replace(compute_logs_data=_as(ref.compute_logs_data, KeptOutput))
    return ref


def _is(data: ConfigurableClassData, kind: type) -> bool:
    return data.class_name == kind.__name__


def _as(data: ConfigurableClassData, kind: type) -> ConfigurableClassData:
    return ConfigurableClassData(__name__, kind.__name__, data.config_yaml)


def _engine(url: str) -> Engine:
    return create_engine(url, connect_args={"timeout": _BUSY_SECONDS})


class _Events(SqliteEventLogStorage):
    """Events in SQLite, by engines that are kept."""

    def __init__(self, base_dir: str) -> None:
        self._engines: dict[str, Engine] = {}
        self._one_at_a_time = threading.Lock()
        self._empty: bytes | None = None
        super().__init__(base_dir)

    def run_connection(self, run_id: str | None = None) -> Any:
        return super().run_connection(run_id) if run_id is None else self._connected(run_id)

    def index_connection(self) -> Any:
        return self._connected(_INDEX)

    def dispose(self) -> None:
        super().dispose()
        for engine in self._engines.values():
            engine.dispose()
        self._engines.clear()

    @contextmanager
    def _connected(self, shard: str) -> Iterator[Connection]:
        with self._one_at_a_time:
            if shard not in self._engines:
                self._make(shard)
                self._engines[shard] = _engine(self.conn_string_for_shard(shard))
            with self._engines[shard].begin() as connection:
                yield connection

    def _make(self, shard: str) -> None:
        """Make the file of a run that has none; what is there was made by Dagster or here."""
        path = Path(self.path_for_shard(shard))
        if path.exists():
            return
        if self._empty is None:
            with super().run_connection(shard):
                pass
            self._empty = _content(path)
        else:
            path.write_bytes(self._empty)


def _content(path: Path) -> bytes:
    connection = sqlite3.connect(path)
    try:
        return connection.serialize()
    finally:
        connection.close()


class _Runs(SqliteRunStorage):
    """Runs in SQLite, by an engine that is kept."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = _engine(conn_string)
        super().__init__(conn_string, inst_data)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        super().dispose()
        self._engine.dispose()


class KeptStorage(DagsterSqliteStorage):
    """Dagster's storage in SQLite, in its own files, by engines that are kept."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._run_storage = _Runs(self._run_storage._conn_string)
        self._event_log_storage = _Events(self._event_log_storage._base_dir)

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> Self:
        """Make it of its settings, as Dagster does."""
        return cls.from_local(inst_data=inst_data, **config_value)


class KeptOutput(LocalComputeLogManager):
    """Keeps what steps write to the terminal, and shows it there too."""

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """Make it of its settings, as Dagster does."""
        return cls(inst_data=inst_data, **config_value)

    @contextmanager
    def capture_logs(self, log_key: Sequence[str]) -> Iterator[CapturedLogContext]:
        """Write what is printed into the files of a step, and repeat it on the terminal."""
        with ExitStack() as stack:
            for kind, stream in (
                (ComputeIOType.STDOUT, sys.stdout),
                (ComputeIOType.STDERR, sys.stderr),
            ):
                path = Path(self.get_captured_local_path(log_key, IO_TYPE_EXTENSION[kind]))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                stack.enter_context(_repeated(path, stream))
                stack.enter_context(redirect_to_file(stream, str(path)))
            yield CapturedLogContext(log_key)
        complete = self.complete_artifact_path(log_key)  # type: ignore[no-untyped-call]
        Path(complete).touch()


@contextmanager
def _repeated(path: Path, stream: IO[str]) -> Iterator[None]:
    """Repeat what is appended to a file where a stream leads now; nowhere if it has no file."""
    try:
        terminal = os.dup(stream.fileno())
    except (OSError, ValueError):
        yield
        return
    ended = threading.Event()

    def follow() -> None:
        with path.open("rb") as file, os.fdopen(terminal, "wb", buffering=0) as shown:
            is_last = False
            while not is_last:
                is_last = ended.wait(_FOLLOW_SECONDS)
                shown.write(file.read())

    thread = threading.Thread(target=follow, name=f"shows {path.name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
