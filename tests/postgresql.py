"""A PostgreSQL server of the tests' own, where PostgreSQL is installed."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.browser.servers import free_port

_START_SECONDS = 120
_STOP_SECONDS = 60
# Initialisation and the server refuse to run as root; Debian's package makes the first of these.
_ACCOUNTS = ("postgres", "nobody")


class PostgresServer:
    """A server in a folder of its own, on a free port of 127.0.0.1.

    Args:
        programs: The folder with `initdb` and `postgres`.
        folder: An empty folder that the server's account can enter.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._data = folder / "data"
        self._log = folder / "log"
        self._password = secrets.token_hex(16)
        self._names = (f"ledger_{number}" for number in count(1))
        self._as_account = _as_another_account(folder)
        password_file = folder / "password"
        password_file.write_text(self._password)
        password_file.chmod(0o644)
        subprocess.run(
            [
                *(self._programs / "initdb", "--pgdata", self._data, "--username", "postgres"),
                *("--auth", "scram-sha-256", "--pwfile", password_file),
                *("--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **self._as_account,
        )
        self._port = free_port()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self._data, "-p", str(self._port)),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                    *("-c", "fsync=off"),  # nothing of this has to survive a power cut
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the keyboard is for the tests alone
                **self._as_account,
            )
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._connect().close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no PostgreSQL:\n{self._log.read_text()[-3000:]}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Disconnect everybody and stop the server."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Be away for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def database(self) -> Iterator[str]:
        """Make an empty database and yield its URL as people write it."""
        name = next(self._names)
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        yield f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/{name}"
        with self._connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def _connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return psycopg.connect(
            host="127.0.0.1",
            port=self._port,
            user="postgres",
            password=self._password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=60,
        )


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Run a server for a while; skip where there is none to run, unless in CI."""
    programs = _find_programs()
    if programs is None:
        reason = "PostgreSQL is not installed: apt-get install postgresql"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; make test does so as root")
        pytest.skip(reason)
    # Not in pytest's own folder, which only the tests' account can enter.
    folder = Path(tempfile.mkdtemp(prefix="tournament-postgresql-"))
    try:
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _find_programs() -> Path | None:
    on_path = shutil.which("initdb")
    found = [
        *([Path(on_path).resolve().parent] if on_path else []),
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major_version, reverse=True),
    ]
    return next((folder for folder in found if (folder / "postgres").exists()), None)


def _major_version(folder: Path) -> float:
    return float(folder.parent.name)


def _as_another_account(folder: Path) -> dict[str, Any]:
    """Give a folder to an account that is not root, and return how a program is run as it."""
    if os.getuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    account = next(known[name] for name in _ACCOUNTS if name in known)
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {
        "user": account.pw_uid,
        "group": account.pw_gid,
        "extra_groups": [],
        "cwd": folder,
        "env": {"PATH": os.environ["PATH"], "LC_ALL": "C"},
    }
