import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock
from hypothesis import settings
from sqlalchemy import Engine, create_engine, event

from tests.demo import DemoRun, copy_project, finish_once, run_demo, shorten_pilot
from tests.portable import NUMERIC

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.chat_server import ChatServer
    from tests.postgresql import PostgresServer
    from tests.projects import FinishedPilot


END_TO_END = (
    "daemon",
    "fuzz",
    "machines",
    "torture",
    "test_demo.py",
    "test_demo_edits.py",
    "test_real_model.py",
)
"""Folders and files whose tests are all marked `e2e`."""
LONGEST = (
    "test_demo.py",
    "test_demo_edits.py",
    "test_real_model.py",
    "torture/test_real_runs.py",
    "extras/stopping/test_dagster_ui_button.py",
    "browser/test_dagster_ui.py",
    "browser/test_dagster_ui_automation.py",
    "daemon/test_schedule.py",
    "torture/test_anthropic_kills.py",
    "torture/test_openai_kills.py",
    "machines/test_celery.py",
    "machines/test_two_people.py",
    "machines/test_postgresql.py",
    "graph/test_reruns.py",
    "extras/test_added.py",
)
"""Files that take longest. They come first, so that no process ends with one alone."""

# What hypothesis draws is bounded by examples, never by a clock.
settings.register_profile("local", max_examples=25, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        for mark, names in ((pytest.mark.e2e, END_TO_END), (pytest.mark.numeric, NUMERIC)):
            if any(item.path.is_relative_to(tests / name) for name in names):
                item.add_marker(mark)
    places = {tests / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(scope="session")
def short_demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """Run the demo's pilot on few prompts once, for all processes; who changes it takes a copy."""

    def run(project: Path) -> str:
        shorten_pilot(copy_project(project))
        return run_demo(project)

    folder = folder_of_all_processes(tmp_path_factory) / "short_demo"
    with FileLock(folder.with_suffix(".lock")):
        return finish_once(folder, run)


def folder_of_all_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of this session of pytest, which all of its processes see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def finished_pilot(tmp_path_factory: pytest.TempPathFactory) -> "FinishedPilot":
    """Run a small project's pilot through Dagster once, for all processes.

    Whoever goes on with it takes a copy.
    """
    from tests.projects import finish_pilot

    folder = folder_of_all_processes(tmp_path_factory) / "finished_pilot"
    with FileLock(folder.with_suffix(".lock")):
        return finish_pilot(folder)


@pytest.fixture(scope="session")
def postgresql() -> "Iterator[PostgresServer]":
    """Run a PostgreSQL server for all tests that write to one."""
    from tests.postgresql import running_server

    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Run a browser for the tests of a module that look at pages."""
    from tests.browser.pages import running_browser

    with running_browser() as launched:
        yield launched


@pytest.fixture(scope="session")
def _running_chat_server() -> "Iterator[ChatServer]":
    from tests.chat_server import chat_server

    with chat_server() as chat:
        yield chat


@pytest.fixture
def chat(_running_chat_server: "ChatServer") -> "ChatServer":
    """Let a chat server be as if it had just been started."""
    _running_chat_server.forget()
    return _running_chat_server


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Let Dagster's records wait for no disk; a ledger asks for it anew, after this.

    A commit that waits takes a hundred times as long, a run has a thousand, and no test cuts power.
    """

    def connected(connection: object, _: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", connected)
    yield
    event.remove(Engine, "connect", connected)


@pytest.fixture(scope="session", autouse=True)
def _dagster_does_once_what_it_does_for_every_event() -> Iterator[None]:
    """Let Dagster keep what it makes anew for every event, and follow the output of no step.

    For every statement it makes an engine, which compiles it anew, and for every file it reads the
    history of its tables: a third of a run. Four processes a step repeat its file of the step's
    output on the terminal: an eighth.
    """
    if "dagster" not in sys.modules:
        yield
        return
    from alembic.script import ScriptDirectory
    from dagster._core.execution import compute_logs
    from dagster._core.storage.event_log.sqlite import sqlite_event_log
    from dagster._core.storage.runs.sqlite import sqlite_run_storage
    from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage

    @contextmanager
    def follow_nothing(path: str, stream: object) -> Iterator[tuple[None, None]]:
        yield None, None

    @lru_cache(maxsize=64)
    def engine_of(url: str, timeout: float, **options: Any) -> Engine:
        return create_engine(url, connect_args={"timeout": timeout}, **options)

    def kept_engine(url: str, connect_args: Mapping[str, float] = {}, **options: Any) -> Engine:
        return engine_of(url, connect_args.get("timeout", 5.0), **options)

    with pytest.MonkeyPatch.context() as dagster:
        dagster.setattr(compute_logs, "tail_to_stream", follow_nothing)
        dagster.setattr(ScriptDirectory, "from_config", cache(ScriptDirectory.from_config))
        for storage in (sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
            dagster.setattr(storage, "create_engine", kept_engine)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """Keep what a developer has exported out of the tests."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [*os.environ]:
            if name.startswith(("ANTHROPIC_", "DAGSTER_", "OPENAI_", "TOURNAMENT_")):
                environment.delenv(name)
        environment.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield
