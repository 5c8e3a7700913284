"""Empty ledgers: SQLite files, and PostgreSQL databases where there is a server."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.postgresql import PostgresServer, running_server


class Databases:
    """Makes ledgers, and runs a PostgreSQL server if one is wanted and installed.

    Args:
        postgresql: A server that runs already.
        wants_postgresql: Whether to start one.

    Attributes:
        has_postgresql: Whether there is a server.
    """

    def __init__(
        self, postgresql: PostgresServer | None = None, *, wants_postgresql: bool = False
    ) -> None:
        self._postgresql = postgresql
        self._wants_postgresql = wants_postgresql
        self._stack = ExitStack()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._wants_postgresql and self._postgresql is None:
            try:
                self._postgresql = self._stack.enter_context(running_server())
            except pytest.skip.Exception:
                self._postgresql = None
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def has_postgresql(self) -> bool:
        return self._postgresql is not None

    @contextmanager
    def make(self, kind: str, folder: Path) -> Iterator[str]:
        """Make an empty ledger and yield its URL."""
        if kind == "sqlite":
            yield f"sqlite:///{folder / 'ledger.sqlite'}"
            return
        assert self._postgresql is not None
        # The server numbers its databases; two threads must not ask it at once.
        with ExitStack() as stack:
            with self._lock:
                url = stack.enter_context(self._postgresql.database())
            yield url
