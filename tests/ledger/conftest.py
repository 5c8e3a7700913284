import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.postgresql import PostgresServer
from tournament_assets.ledger import Ledger

from .at_once import N_WORKERS, keep_barrier


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.sqlite"


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Make an empty database, of each kind in turn."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
    else:
        server: PostgresServer = request.getfixturevalue("postgresql")
        with server.database() as url:
            yield url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = Ledger(ledger_url)
    yield opened
    opened.close()


@pytest.fixture
def other_ledger(ledger: Ledger, ledger_url: str) -> Iterator[Ledger]:
    """Open the same database as another run does."""
    opened = Ledger(ledger_url)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def workers() -> Iterator[ProcessPoolExecutor]:
    """Start processes that can be made to do something at the same time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        N_WORKERS,
        mp_context=context,
        initializer=keep_barrier,
        initargs=(context.Barrier(N_WORKERS),),
    ) as executor:
        yield executor
