"""Runs the graph's table in this process: every row's function, called in the jobs' order.

The same functions get the same inputs, options and resources as the assets' steps in the UI, so
every table has the same contents. What is paid for goes to the same ledger, by the same settlement
and within the same budget. Nothing here records a run; `automation/stage_runs.py` does, in Dagster.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tournament_assets.foundation.errors import InputError, TournamentError, WorkError
from tournament_assets.graph.assets.publishing import run_artifacts
from tournament_assets.graph.outputs import (
    Check,
    Made,
    Markdown,
    as_stored,
    read_stored,
    write_stored,
)
from tournament_assets.graph.rows import (
    AssetRow,
    Axis,
    Input,
    JobRow,
    Log,
    Step,
    axis_loaded_over,
    axis_names,
)
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.graph.run_summaries import RunSummary, summarise_run
from tournament_assets.graph.table import JOBS, jobs_of, rows_of
from tournament_assets.ledger import Ledger
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import load_rubrics
from tournament_assets.provenance.origins import Records
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.responses.entrant_responses import Resources
from tournament_assets.responses.local_responses import Generator, release_models
from tournament_assets.storage.tables import StoredTable, WrittenTable, make_table, write_table
from tournament_assets.storage.tables import rows_of as rows_of_table
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from upath import UPath

_LOG = logging.getLogger(__name__)

StepListener = Callable[[str, str], object]
"""Called with what a step does, and its partition's readable name."""


def path_of(
    root: "Path | UPath", plan: TournamentPlan, row: AssetRow, partition: str
) -> "Path | UPath":
    """Return where an asset's partition is stored.

    Args:
        root: Where assets are kept.
        partition: As Dagster writes it, such as `factuality|pilot`.
    """
    *names, last = partition.split("|")
    return root.joinpath(plan.tournament_id, row.name, *names, f"{last}{row.suffix}")


def refuse_blocked(row: AssetRow, plan: TournamentPlan, made: Made[Any]) -> None:
    """Raise a `WorkError` if a check failed that stops what comes next."""
    blocking = row.blocking_checks(plan)
    failed = [each for each in made.checks if each.is_error and not each.passed]
    if stops := [each.sentence for each in failed if each.name in blocking]:
        raise WorkError("; ".join(stops))


@dataclass(frozen=True)
class PlainRun:
    """What a run made, by asset and by the partition's entrant or dimension, empty without one.

    Attributes:
        mode: The mode that ran.
        values: Tables as data frames, large ones as files to read from, traces as arrays.
        metadata: Metadata of each, by asset and partition likewise.
        checks: What the checks of each found.
    """

    mode: Mode
    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    metadata: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    checks: dict[tuple[str, str], tuple[Check, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        """List what was made; `frame` returns each."""
        return f"PlainRun({self.mode}: {', '.join(' '.join(key).strip() for key in self.values)})"

    def frame(self, asset: str, name: str = "") -> pd.DataFrame:
        """Return a whole table.

        Args:
            asset: The asset that made it.
            name: Its partition's entrant or dimension.
        """
        if (asset, name) not in self.values:
            names = ", ".join(sorted({f"{row} {part}".strip() for row, part in self.values}))
            raise InputError(f"{asset} {name} was not made; expected one of {names or 'nothing'}")
        value = self.values[asset, name]
        frame: pd.DataFrame = value.frame() if isinstance(value, StoredTable) else value
        return frame

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the checks found, a sentence each."""
        return tuple(check.sentence for check in self.failed)

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [check for checks in self.checks.values() for check in checks if not check.passed]


def run_unrecorded(
    plan: TournamentPlan,
    options: RunOptions,
    *,
    folder: Path | None = None,
    on_done: StepListener = lambda _title, _label: None,
) -> RunSummary:
    """Run a mode of a tournament from the prompt bank to the run directory, without Dagster.

    Args:
        options: What to run; everything runs.
        folder: Where tables are kept, in the layout in which Dagster keeps them; nowhere unless
            given. The run directory is written in any case.
        on_done: Called when a partition of a step has succeeded.
    """
    options.refuse_bad_input(plan)
    done = run_plainly(plan, options, folder=folder, on_done=on_done)
    metadata: dict[str, list[Mapping[str, Any]]] = {}
    for (asset, _), facts in done.metadata.items():
        metadata.setdefault(asset, []).append(facts)
    return summarise_run(
        plan,
        options.mode,
        table=lambda asset, partition: done.frame(asset, partition.rpartition("|")[0]),
        directory=Path(metadata[run_artifacts.__name__][0]["directory"]),
        metadata=metadata,
        failed=done.failed,
    )


def run_plainly(
    plan: TournamentPlan,
    options: RunOptions,
    *,
    until: str | None = None,
    values: Mapping[tuple[str, str], Any] | None = None,
    folder: Path | None = None,
    on_done: StepListener = lambda _title, _label: None,
) -> PlainRun:
    """Make the tables of a mode, in memory or into a folder.

    Args:
        until: Make only this asset and what it needs; by default everything.
        values: Values to use instead of making them, by asset and the partition's entrant or
            dimension: a list of rows, a data frame, a stored table or traces. Whatever only they
            would have needed is not made either.
        folder: Where tables are kept, in the layout in which Dagster keeps them; nowhere unless
            given.
        on_done: Called when a partition of a step has succeeded.
    """
    with open_engine(plan, options, folder=folder) as engine:
        engine.take(values or {})
        needed = engine.needed(until)
        for job in jobs_of(plan):
            rows = [row for row in needed if row.job == job.name]
            for name in engine.names_of(rows[0]) if rows else ():
                engine.run(job, rows, name, on_done)
            if not any(row.where.on_gpu(plan) for row in rows):
                # The judge can take hours; nobody should wait for the GPU meanwhile.
                release_models()
    return engine.done


@dataclass(frozen=True)
class _OpenLedger:
    """Leads to a ledger that is open for as long as the run takes; satisfies `LedgerAccess`."""

    ledger: Ledger

    @contextmanager
    def open(self) -> Iterator[Ledger]:
        yield self.ledger


@contextmanager
def open_engine(
    plan: TournamentPlan,
    options: RunOptions,
    *,
    folder: "Path | UPath | None",
    records: Records | None = None,
) -> "Iterator[Engine]":
    """Open the ledger and a temporary folder for the time of a run.

    Args:
        options: The run's.
        folder: Where tables are kept, in the layout in which Dagster keeps them; nowhere unless
            given.
        records: What is recorded of assets; by default what this engine makes.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tournament-") as temporary,
        closing(Ledger(plan.project.ledger_url)) as ledger,
    ):
        yield Engine(plan, options, folder, Path(temporary), ledger, records)


class Engine:
    """Calls the functions of rows with what they ask for, and keeps what they make.

    Attributes:
        told: The options that it passes to the assets' functions, by name.
        done: What was made.
    """

    def __init__(
        self,
        plan: TournamentPlan,
        options: RunOptions,
        folder: "Path | UPath | None",
        temporary: Path,
        ledger: Ledger,
        records: Records | None = None,
    ) -> None:
        self._plan, self._options = plan, options
        self._records = records or self._recorded
        self._rows = rows_of(plan)
        environment = plan.project.environment
        self._folder, self._temporary = folder, temporary
        self._resources = Resources(
            ledger=_OpenLedger(ledger),
            generator=Generator(environment.get("TOURNAMENT_DEVICE") or "auto"),
            judge=JudgeConnection.from_environment(environment, plan.project.folder),
        )
        self._started_at = datetime.now(UTC).replace(microsecond=0)
        rubrics = load_rubrics(plan.config, plan.project)
        self.told = options.told(plan, rubrics, self._started_at)
        self.done = PlainRun(options.mode)

    def names_of(self, row: AssetRow) -> tuple[str, ...]:
        """Return the entrants or dimensions that a row has a partition for."""
        axis = next((axis for axis in row.axes if axis != "mode"), None)
        return ("",) if axis is None else axis_names(self._plan.config, axis)

    def take(self, values: Mapping[tuple[str, str], Any]) -> None:
        """Use given values instead of making them."""
        for (asset, name), value in values.items():
            if (row := self._rows.get(asset)) is None or name not in self.names_of(row):
                raise InputError(
                    f"{asset!r} with partition {name!r} is given; expected an asset of "
                    f"{self._plan.tournament_id} and one of its entrants or dimensions"
                )
            self.done.values[asset, name] = self._kept(row, name, self._as_made(row, value))

    def _as_made(self, row: AssetRow, value: Any) -> Any:
        """Return a given value in the form in which its asset would have made it."""
        if not row.is_table or (
            row.stored_as == "stream" and isinstance(value, StoredTable) and self._folder is None
        ):
            return value
        rows = value if isinstance(value, list) else rows_of_table(row.row_type, value)
        if row.stored_as == "stream":
            return write_table(row.row_type, rows)
        return make_table(row.row_type, list(rows))

    def needed(self, until: str | None) -> list[AssetRow]:
        """Return the rows that have to run, in the order of the table."""
        if until is None:
            jobs = {job.name for job in jobs_of(self._plan) if job.part_of == "run"}
            names = {name for name, row in self._rows.items() if row.job in jobs}
        elif until in self._rows:
            names = self._ancestors(until)
        else:
            raise InputError(
                f"{until!r} is not an asset of {self._plan.tournament_id}; expected one of "
                f"{', '.join(self._rows)}"
            )
        passed_over = {job.name for job in JOBS if self._options.passes_over(job.prepares)}
        return [
            row
            for name, row in self._rows.items()
            if name in names
            and row.stored_as != "file"
            and row.job not in passed_over
            and any((name, each) not in self.done.values for each in self.names_of(row))
        ]

    def _ancestors(self, name: str) -> set[str]:
        row = self._rows[name]
        if all((name, each) in self.done.values for each in self.names_of(row)):
            return set()
        inputs = row.inputs_among(self._rows)
        needs = [each for each, how in inputs.items() if not how.may_be_missing]
        above = [each for each in (*needs, *row.after) if each in self._rows]
        return {name}.union(*(self._ancestors(each) for each in above))

    def run(self, job: JobRow, rows: list[AssetRow], name: str, done: StepListener) -> None:
        """Make a partition of every row of a job, and of none after a check that stops the rest."""
        title = job.title
        label = f"{name} · {self._options.mode}" if name else self._options.mode
        try:
            for row in rows:
                if (row.name, name) not in self.done.values:
                    refuse_blocked(row, self._plan, self.make(row, name))
        except TournamentError as error:
            raise WorkError(f"{title} ({label}) failed: {error}") from error
        done(title, label)

    def make(
        self, row: AssetRow, name: str, *, log: Log = _LOG, tags: Mapping[str, str] | None = None
    ) -> Made[Any]:
        """Make a partition of a row, keep it, and return it as it is stored.

        Args:
            name: The partition's entrant or dimension; empty without one.
            log: Where the function writes what it says.
            tags: The tags of the run.
        """
        stored = as_stored(self._call(row, name, log, tags or {}), row)
        place = (row.name, name)
        self.done.values[place] = self._kept(row, name, stored.value)
        self.done.metadata[place] = {
            each: value.text if isinstance(value, Markdown) else value
            for each, value in stored.metadata.items()
        }
        self.done.checks[place] = tuple(stored.checks)
        return stored

    def _kept(self, row: AssetRow, name: str, value: Any) -> Any:
        """Write a value where values are kept, and return what is read of it."""
        path = self._path(row, name, self._options.mode)
        is_written = isinstance(value, WrittenTable)
        is_file = row.is_table or row.stored_as == "arrays"
        if is_written or (is_file and self._folder is not None):
            write_stored(row, value, path)
        return read_stored(row, path) if is_written else value

    def _path(self, row: AssetRow, name: str, mode: Mode) -> "Path | UPath":
        root = self._folder or self._temporary
        return path_of(root, self._plan, row, f"{name}|{mode}" if name else mode)

    def _call(self, row: AssetRow, name: str, log: Log, tags: Mapping[str, str]) -> Made[Any]:
        """Call a row's function with what it asks for."""
        assets = {
            asset: self._input(row, self._rows[asset], how, name)
            for asset, how in row.inputs_among(self._rows).items()
        }
        plan = replace(self._plan, no_budget=self._options.no_budget)
        supplies: dict[str, Callable[[], Any]] = {
            "plan": lambda: self._plan,
            "config": lambda: self._plan.config,
            "mode": lambda: self._options.mode,
            "dimension": lambda: name,
            "step": lambda: Step(plan, self._options.mode, name, log, self._records, tags),
            "started_at": lambda: self._started_at,
            "upstream": dict,
            "options": lambda: row.told(self.told),
            "resources": lambda: self._resources,
            "ledger": lambda: self._resources.ledger,
            "judge": lambda: self._resources.judge,
        }
        made: Made[Any] = row.call(supplies, assets)
        return made

    def _recorded(self, asset: str, partition: str | None) -> Mapping[str, Any] | None:
        name, _, mode = (partition or self._options.mode).rpartition("|")
        metadata = self.done.metadata.get((asset, name)) if mode == self._options.mode else None
        return metadata and {
            key: str(value) if isinstance(value, Path) else value for key, value in metadata.items()
        }

    def _input(self, row: AssetRow, upstream: AssetRow, how: Input, name: str) -> Any:
        over = axis_loaded_over(upstream.axes, row.axes, over=how.over)
        find = partial(self._value, upstream, may_be_missing=how.may_be_missing)
        if over is None:
            return find(name if len(upstream.axes) > 1 else "", self._options.mode)
        return {
            other: value
            for other in axis_names(self._plan.config, over)
            if (value := find(*self._place(over, other, name))) is not None
        }

    def _place(self, over: Axis, other: str, name: str) -> tuple[str, Mode]:
        return (name, other) if over == "mode" else (other, self._options.mode)

    def _value(self, row: AssetRow, name: str, mode: Mode, *, may_be_missing: bool) -> Any:
        """Return what was made now, or what an earlier run left in the folder if it is optional."""
        if mode == self._options.mode and (row.name, name) in self.done.values:
            return self.done.values[row.name, name]
        path = self._path(row, name, mode)
        if self._folder is not None and path.exists():
            return read_stored(row, path)
        if may_be_missing:
            return None
        raise InputError(
            f"{row.name} {name} is neither made nor given; expected it in {path}"
            if self._folder
            else f"{row.name} {name} is neither made nor given"
        )
