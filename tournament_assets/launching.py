"""Run a tournament through Dagster from the command line, and read the tables that it stored.

The runs are recorded in the same Dagster home that the UI shows.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import pandas as pd
import upath

from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.assets.publishing import run_artifacts
from tournament_assets.graph.automation.scheduled_reruns import (
    diagnose_automation,
    refuse_bad_schedules,
)
from tournament_assets.graph.automation.stage_runs import StageListener, StageRunner
from tournament_assets.graph.local_runs import (
    PROCESS_TAG,
    close_runs_of_dead_processes,
    noticed_interrupts,
    open_instance,
)
from tournament_assets.graph.outputs import read_stored
from tournament_assets.graph.partitions import asset_key, recorded_of
from tournament_assets.graph.plain_runs import open_engine, path_of
from tournament_assets.graph.rows import axis_names
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.graph.table import row_of
from tournament_assets.ledger.leases import own_identity
from tournament_assets.preparing import preflight
from tournament_assets.preparing.preflight import Finding
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.project.project_files import Project, prepare_dagster_home
from tournament_assets.provenance.origins import rerun_command
from tournament_assets.storage.tables import StoredTable
from tournament_assets.tournament.config import Mode


def run_tournament(
    plan: TournamentPlan,
    options: RunOptions,
    *,
    on_start: StageListener,
    on_done: StageListener,
    on_fresh: StageListener = lambda _stage, _label: None,
) -> RunSummary:
    """Materialise a mode of a tournament, from the prompt bank to the run directory.

    Whatever is stored and up to date is skipped, unless `options.everything`.

    Args:
        options: What to run.
        on_start: Called before each stage and partition begins.
        on_done: Called when one has succeeded.
        on_fresh: Called for each stage and partition that is skipped.
    """
    plan = replace(plan, no_budget=options.no_budget)
    refuse_bad_schedules(plan)
    options.refuse_bad_input(plan)
    project = plan.project
    home = prepare_dagster_home(project.folder, project.environment.get("DAGSTER_HOME"))
    with (
        open_instance(home) as instance,
        noticed_interrupts() as was_interrupted,
        open_engine(
            plan,
            options,
            folder=upath.UPath(project.storage),
            records=partial(recorded_of, plan, instance),
        ) as engine,
    ):
        close_runs_of_dead_processes(instance)
        runner = StageRunner(plan, options, engine, instance, was_interrupted=was_interrupted)
        runner.run(on_start, on_done, on_fresh, tags={PROCESS_TAG: own_identity()})
        return runner.summary()


class StoredTables:
    """The stored tables of one mode of a tournament; one that is missing is refused."""

    def __init__(self, plan: TournamentPlan, mode: Mode) -> None:
        """Prepare to read; nothing is read yet."""
        self._plan, self._mode = plan, mode
        home = plan.project.environment.get("DAGSTER_HOME")
        self._home = prepare_dagster_home(plan.project.folder, home)

    def of_mode(self, name: str) -> pd.DataFrame:
        """Return a table that has one partition per mode."""
        return self._load(name, self._mode, label="")

    def by_name(self, table: str, only: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
        """Return a table by dimension or entrant, whichever it has.

        Args:
            table: Its asset.
            only: Dimensions or entrants; all by default.
        """
        (axis,) = (axis for axis in row_of(table).axes if axis != "mode")
        return {
            name: self._load(table, f"{name}|{self._mode}", label=f" of {name}")
            for name in only or axis_names(self._plan.config, axis)
        }

    def page(self) -> str:
        """Return where the newest run's page is, or why there is none."""
        command = rerun_command(self._plan, self._mode)
        with open_instance(self._home) as instance:
            found = instance.fetch_materializations(
                dg.AssetRecordsFilter(
                    asset_key(self._plan, run_artifacts.__name__), asset_partitions=[self._mode]
                ),
                limit=1,
            ).records
        event = found[0].asset_materialization if found else None
        if event is None:
            return f"no run has finished; {command} makes one"
        path = Path(str(event.metadata["report"].value))
        return str(path) if path.exists() else f"{path} is gone; {command} makes another"

    def _load(self, name: str, partition: str, *, label: str) -> pd.DataFrame:
        row, root = row_of(name), upath.UPath(self._plan.project.storage)
        try:
            loaded = read_stored(row, path_of(root, self._plan, row, partition))
        except FileNotFoundError:
            raise InputError(
                f"nothing is stored of {name}{label}, mode {self._mode!r}; run "
                f"{rerun_command(self._plan, self._mode)} first"
            ) from None
        except ValueError as error:
            raise InputError(f"{name}{label}: {error}") from None
        frame: pd.DataFrame = loaded.frame() if isinstance(loaded, StoredTable) else loaded
        return frame


def diagnose_project(
    project: Path, environment: Mapping[str, str], *, config_paths: Sequence[Path] = ()
) -> Iterator[Finding]:
    """Check everything that a project's runs need, at no cost.

    Args:
        config_paths: The configs to check; by default all in `configs/`.
    """
    yield from preflight.diagnose_packages()
    yield from preflight.diagnose_extensions()
    plans: list[TournamentPlan] = []
    paths = config_paths or sorted((project / "configs").glob("*.yaml"))
    for path in paths:
        try:
            plan = load_plan(path, environment)
            refuse_bad_schedules(plan)
        except InputError as error:
            for problem in error.problems:
                yield preflight.Finding(str(path), preflight.Health.BROKEN, problem)
        else:
            plans.append(plan)
    if not paths:
        yield preflight.Finding(
            "configs",
            preflight.Health.BROKEN,
            f"{project / 'configs'} holds no .yaml file",
            "start in a project's folder, or write a project here: `tournament init`",
        )
    yield preflight.diagnose_device(plans, environment.get("TOURNAMENT_DEVICE", ""))
    yield preflight.diagnose_ledger(Project(project, environment).ledger_url, plans)
    yield preflight.diagnose_storage(Project(project, environment).storage)
    for plan in plans:
        yield from preflight.diagnose_tournament(plan, is_wanted=bool(config_paths))
    home = prepare_dagster_home(project, environment.get("DAGSTER_HOME"))
    with open_instance(home) as instance:
        yield from diagnose_automation(plans, instance)
