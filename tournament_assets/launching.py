"""Run a tournament through Dagster from the command line, and read the tables that it stored.

The runs are recorded in the same Dagster home that the UI shows.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.definitions import (
    build_definitions,
    storage_of,
)
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.graph.assets.publishing import run_artifacts
from tournament_assets.graph.automation.failed_runs import failed_checks, raise_failure
from tournament_assets.graph.automation.fresh_work import FreshWork
from tournament_assets.graph.automation.jobs import (
    Stage,
    build_stages,
    not_yet_observed,
    observations,
    op_configs,
)
from tournament_assets.graph.automation.reruns import PartitionKey, WorkOfStage
from tournament_assets.graph.automation.scheduled_reruns import (
    diagnose_automation,
    refuse_bad_schedules,
)
from tournament_assets.graph.local_runs import (
    PROCESS_TAG,
    close_runs_of_dead_processes,
    noticed_interrupts,
    open_instance,
)
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.rows import axis_names
from tournament_assets.graph.run_options import RunOptions, asks_again
from tournament_assets.graph.run_summaries import RunSummary, summarise_run
from tournament_assets.graph.table import row_of, rows_of
from tournament_assets.ledger.leases import own_identity
from tournament_assets.preparing import preflight
from tournament_assets.preparing.preflight import Finding
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.project.project_files import Project, load_rubrics, prepare_dagster_home
from tournament_assets.provenance.origins import rerun_command
from tournament_assets.responses.local_responses import release_models
from tournament_assets.storage.tables import StoredTable, decode_parquet, derive_schema
from tournament_assets.tournament.config import Mode

StageListener = Callable[[Stage, str], object]
"""Called with a stage and the readable name of its partition."""


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
    began_at = datetime.now(UTC).replace(microsecond=0)
    plan = replace(plan, no_budget=options.no_budget)
    options.refuse_bad_input(plan)
    told = options.told(plan, load_rubrics(plan.config, plan.project), began_at)
    folder, environment = plan.project.folder, plan.project.environment
    definitions = build_definitions([plan], folder, environment)
    home = prepare_dagster_home(folder, environment.get("DAGSTER_HOME"))
    with (
        open_instance(home) as instance,
        noticed_interrupts() as was_interrupted,
    ):
        close_runs_of_dead_processes(instance)
        storage = storage_of(folder, environment)
        runner = _Runner(plan, options, told, definitions, instance, storage, was_interrupted)
        runner.run(on_start, on_done, on_fresh)
        return runner.summary()


class _Runner:
    """Runs the stages of a mode in order, with one Dagster run per partition."""

    def __init__(
        self,
        plan: TournamentPlan,
        options: RunOptions,
        told: Mapping[str, Any],
        definitions: dg.Definitions,
        instance: dg.DagsterInstance,
        storage: str,
        was_interrupted: Callable[[], bool],
    ) -> None:
        self._plan, self._options, self._told = plan, options, told
        self._definitions, self._instance = definitions, instance
        self._was_interrupted = was_interrupted
        self._rows = rows_of(plan)
        self._fresh = FreshWork(
            plan,
            options.mode,
            instance=instance,
            storage=storage,
            options={name: row.told(told) for name, row in self._rows.items()},
            always=frozenset(name for name, row in self._rows.items() if asks_again(row, told)),
        )
        self._tags = {
            "tournament": plan.tournament_id,
            "mode": options.mode,
            PROCESS_TAG: own_identity(),
        }
        self._metadata: dict[str, list[Mapping[str, Any]]] = {}
        self._failed: list[Check] = []

    def run(self, on_start: StageListener, on_done: StageListener, on_fresh: StageListener) -> None:
        """Run what has to run; an interrupt is raised once the partition under way has ended."""
        for observation in observations(self._plan, not_yet_observed(self._fresh.book)):
            self._instance.report_runless_asset_event(observation)
        for stage, work in self._stages():
            for key in stage.partition_keys(self._plan, self._options.mode):
                label = str(key).replace("|", " · ")
                if key not in work:
                    self._failed += self._fresh.warnings(stage.assets, key)
                    on_fresh(stage, label)
                    continue
                on_start(stage, label)
                self._run_partition(stage, key, work[key], label)
                on_done(stage, label)
                if self._was_interrupted():
                    # Dagster checks for an interrupt between events, and forgets a later one; one
                    # that arrives during an import may look like a failed import.
                    raise KeyboardInterrupt

    def summary(self) -> RunSummary:
        """Return what the run has to show."""
        stored = self._fresh
        return summarise_run(
            self._plan,
            self._options.mode,
            table=lambda name, part: decode_parquet(
                row_of(name).row_type, stored.path_of(name, part).read_bytes()
            ),
            directory=stored.directory(),
            metadata=self._metadata,
            failed=self._failed,
        )

    def _stages(self) -> Iterator[tuple[Stage, WorkOfStage]]:
        """Yield each stage and its work, which is known only once the earlier stages have run."""
        stages = build_stages(self._plan)
        for stage in stages:
            if self._options.passes_over(stage.prepares):
                continue
            asks = (
                key.path[-1] == stage.prepares
                for later in stages
                if stage.prepares in later.assets
                for assets in self._fresh.to_run(later).values()
                for key in assets
            )
            if self._options.everything or any(asks):
                yield stage, dict.fromkeys(stage.partition_keys(self._plan, self._options.mode), ())
            else:
                yield stage, self._fresh.to_run(stage)

    def _run_partition(
        self,
        stage: Stage,
        partition: PartitionKey,
        assets: Sequence[dg.AssetKey],
        label: str,
    ) -> None:
        names = [each.path[-1] for each in assets] or stage.assets
        result = self._definitions.resolve_job_def(stage.job_name).execute_in_process(
            instance=self._instance,
            partition_key=partition,
            # Dagster's own log would bury the progress; it is all in the UI.
            run_config={
                **op_configs(self._plan, names, self._told),
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags={**self._tags, "stage": stage.name},
            asset_selection=list(assets) or None,
            raise_on_error=False,
        )
        self._fresh.book.forget()
        if not result.success:
            raise_failure(result, stage, label)
        for event in result.get_asset_materialization_events():
            made = event.step_materialization_data.materialization
            self._metadata.setdefault(made.asset_key.path[-1], []).append(
                {name: each.value for name, each in made.metadata.items()}
            )
        kept = [name for name in stage.assets if name not in names]
        self._failed += [*self._fresh.warnings(kept, partition), *failed_checks(result)]
        if not any(self._rows[name].where.on_gpu(self._plan) for name in stage.assets):
            # The judge can take hours; do not hold the GPU meanwhile.
            release_models()


class StoredTables:
    """The stored tables of one mode of a tournament."""

    def __init__(self, plan: TournamentPlan, mode: Mode) -> None:
        """Prepare to read; nothing is read yet."""
        self._plan, self._mode = plan, mode
        folder, environment = plan.project.folder, plan.project.environment
        self._definitions = build_definitions([plan], folder, environment)
        self._home = prepare_dagster_home(folder, environment.get("DAGSTER_HOME"))
        self._problems = Problems()

    def of_mode(self, name: str) -> pd.DataFrame:
        """Return a table that has one partition per mode; see `raise_if_missing`."""
        return self._load(name, self._mode, label="")

    def by_name(self, table: str, only: Sequence[str] | None = None) -> dict[str, pd.DataFrame]:
        """Return a table by dimension or entrant, whichever it has; see `raise_if_missing`.

        Args:
            table: Its asset.
            only: Dimensions or entrants; all by default.
        """
        (axis,) = (axis for axis in row_of(table).axes if axis != "mode")
        return {
            name: self._load(
                table, dg.MultiPartitionKey({"mode": self._mode, axis: name}), label=f" of {name}"
            )
            for name in only or axis_names(self._plan.config, axis)
        }

    def raise_if_missing(self) -> None:
        """Raise an error if any table read so far was missing."""
        self._problems.raise_if_any()

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
        try:
            with _quiet():
                loaded = self._definitions.load_asset_value(
                    asset_key(self._plan, name), partition_key=partition
                )
        except FileNotFoundError:
            self._problems.add(
                f"nothing is stored of {name}{label}, mode {self._mode!r}; run "
                f"{rerun_command(self._plan, self._mode)} first"
            )
        except ValueError as error:
            self._problems.add(f"{name}{label}: {error}")
        else:
            if isinstance(loaded, StoredTable):
                return loaded.frame()
            if isinstance(loaded, pd.DataFrame):
                return loaded
        return pd.DataFrame(columns=derive_schema(row_of(name).row_type).names)


@contextmanager
def _quiet() -> Iterator[None]:
    # Dagster logs every file that it reads to stderr, with no setting for it outside a run.
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


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
    yield preflight.diagnose_storage(storage_of(project, environment))
    for plan in plans:
        yield from preflight.diagnose_tournament(plan, is_wanted=bool(config_paths))
    home = prepare_dagster_home(project, environment.get("DAGSTER_HOME"))
    with open_instance(home) as instance:
        yield from diagnose_automation(plans, instance)
