"""Leases: which process may submit a scope's work now, and whether it is still alive."""

import os
import secrets
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from tournament_assets.judging.settlement.records import JudgingScope, Lease
from tournament_assets.ledger import schema
from tournament_assets.ledger.database import LedgerDatabase, time_text

_LEASE_SECONDS = 120.0
_LEASES = schema.leases


class LeaseRecords(LedgerDatabase):
    """The part of the ledger that keeps two runs from submitting the same work.

    A lease that is not renewed ends after two minutes; one whose holder was a process of this
    machine that is gone ends at once.
    """

    def acquire_lease(self, scope: JudgingScope) -> Lease | str:
        """Return the right to submit a scope's work, or its present holder."""
        lease = Lease(scope, secrets.token_hex(12))
        new = {
            "token": lease.token,
            "holder": own_identity(),
            "expires_at": _expiry(),
        }
        with self._transaction() as connection:
            self._insert_new(connection, _LEASES, [{**scope_names(scope), **new}])
        with self._transaction() as connection:
            current = connection.execute(
                sa.select(_LEASES).where(*is_of(_LEASES, scope))
            ).one_or_none()
        if current is None:
            # Somebody held it when the row was to be inserted, and has released it since.
            return self.acquire_lease(scope)
        if current.token == lease.token:
            return lease
        if current.expires_at > time_text() and not has_died(current.holder):
            return str(current.holder)
        # Only if nobody was faster, not even the holder: the row is still as it was read.
        take = sa.update(_LEASES).where(
            *is_of(_LEASES, scope),
            _LEASES.c.token == current.token,
            _LEASES.c.expires_at == current.expires_at,
        )
        with self._transaction() as connection:
            taken = connection.execute(take.values(**new)).rowcount
        return lease if taken else "a run that began just now"

    def renew_lease(self, lease: Lease) -> bool:
        """Renew a lease; return False if somebody else holds it now."""
        with self._transaction() as connection:
            return self._renew(connection, lease)

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back."""
        with self._transaction() as connection:
            connection.execute(
                sa.delete(_LEASES).where(
                    *is_of(_LEASES, lease.scope), _LEASES.c.token == lease.token
                )
            )

    def leased_scopes(self) -> set[JudgingScope]:
        """Return the scopes with a live lease."""
        with self._transaction() as connection:
            return active_scopes(connection)

    def _renew(self, connection: sa.Connection, lease: Lease) -> bool:
        renew = sa.update(_LEASES).where(
            *is_of(_LEASES, lease.scope), _LEASES.c.token == lease.token
        )
        return connection.execute(renew.values(expires_at=_expiry())).rowcount == 1


def active_scopes(connection: sa.Connection) -> set[JudgingScope]:
    """Return the scopes that somebody is at work on, within a transaction."""
    rows = connection.execute(sa.select(_LEASES)).all()
    return {
        scope_of(row) for row in rows if row.expires_at > time_text() and not has_died(row.holder)
    }


def _expiry() -> str:
    return time_text(datetime.now(UTC) + timedelta(seconds=_LEASE_SECONDS))


def scope_names(scope: JudgingScope) -> dict[str, str]:
    """Return the columns that say whose work a row is."""
    return {name: getattr(scope, name) for name in schema.SCOPE}


def scope_of(row: sa.Row[Any]) -> JudgingScope:
    """Return whose work a row is."""
    return JudgingScope(*(row._mapping[name] for name in schema.SCOPE))


def is_of(table: sa.Table, scope: JudgingScope) -> list[sa.ColumnElement[bool]]:
    """Return the condition that selects the rows of a scope's work."""
    return [table.c[name] == value for name, value in scope_names(scope).items()]


def own_identity() -> str:
    """Return what identifies this process: machine, process id and, on Linux, its start time."""
    return _identity(os.getpid())


def has_died(identity: str) -> bool:
    """Whether the process of an identity is certainly gone.

    A process on another machine counts as possibly alive. The start time distinguishes a new
    process with a reused process id.
    """
    machine, _, rest = identity.partition("/")
    pid, _, _ = rest.partition("/")
    if machine != socket.gethostname() or not pid.isdigit():
        return False
    # `os.kill(pid, 0)` would end the process on Windows, and takes the id of a thread, too.
    return not psutil.pid_exists(int(pid)) or _identity(int(pid)) != identity


def _identity(pid: int) -> str:
    return f"{socket.gethostname()}/{pid}/{_start_time(pid)}"


def _start_time(pid: int) -> str:
    """Clock ticks since boot at which a process started; empty where /proc does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the command in parentheses, which may itself hold spaces.
    return stat.rpartition(")")[2].split()[19]
