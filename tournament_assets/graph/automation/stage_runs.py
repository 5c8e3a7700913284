"""Runs of a mode as one Dagster run, with a step for each partition of a stage.

The engine of `graph/plain_runs.py` makes what a step is for; the step records it. Commands run all
steps in their own process; the jobs of `rerun_jobs.py` run them where Dagster's executor does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, cast

import dagster as dg

from tournament_assets.graph.adapter import (
    GPU_POOL,
    GPU_STEP_TAGS,
    check_evaluation,
    log_made,
    provenance_tags,
)
from tournament_assets.graph.assets.judging import rubrics_told
from tournament_assets.graph.automation.failed_runs import failure_of
from tournament_assets.graph.automation.fresh_work import FreshWork
from tournament_assets.graph.automation.jobs import (
    Stage,
    build_stages,
    not_yet_observed,
    observations,
)
from tournament_assets.graph.automation.reruns import PartitionKey, WorkOfStage
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.partitions import partitions_over
from tournament_assets.graph.plain_runs import Engine, refuse_blocked
from tournament_assets.graph.recipe_book import (
    MADE_WITH_TAG,
    ROOT,
    RecipeBook,
    made_with,
    up_to_date,
)
from tournament_assets.graph.recipes import Place
from tournament_assets.graph.rows import MODE, AssetRow
from tournament_assets.graph.run_options import RunOptions, asks_again
from tournament_assets.graph.run_summaries import RunSummary, summarise_run
from tournament_assets.graph.table import row_of, rows_of
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.responses.local_responses import release_models
from tournament_assets.storage.tables import decode_parquet

StageListener = Callable[[Stage, str], object]
"""Called with a stage and the readable name of its partition."""


Compute = Callable[[Stage, int, dg.OpExecutionContext], None]
"""Runs the partition of that number of a stage."""


Steps = Mapping[str, dg.OpDefinition]
"""Steps that do not wait for one another, by their names in a run."""


def build_steps(plan: TournamentPlan, stages: Iterable[Stage], compute: Compute) -> list[Steps]:
    """Build a step for each partition of some stages, by stage."""
    return [_steps(plan, stage, compute) for stage in stages]


def call_in_order(steps: Iterable[Steps]) -> None:
    """Call the steps in the body of a job: those of a stage once all of the one before are done."""
    before: list[Any] = []
    for together in steps:
        calls = [step.alias(name) for name, step in together.items()]
        before = [call(before) if before else call() for call in calls]


def _steps(plan: TournamentPlan, stage: Stage, compute: Compute) -> Steps:
    steps: dict[str, dg.OpDefinition] = {}
    on_gpu = any(row_of(name).where.on_gpu(plan) for name in stage.assets)
    for number, name in enumerate(stage.names(plan)):
        step = stage.step(name)
        if step in steps:  # Dagster takes fewer signs than entrants' ids
            step += f"_{number}"
        # Dagster wants names that no other tournament's operations have.
        build = dg.op(
            name=f"{plan.tournament_id}__step__{step}",
            description=stage.title,
            ins={"after": dg.In(dg.Nothing)},
            out=dg.Out(dg.Nothing),
            pool=GPU_POOL if on_gpu else None,
            # Dagster would order them by their names.
            tags={"dagster/priority": str(-number), **(GPU_STEP_TAGS if on_gpu else {})},
        )
        steps[step] = build(_with_context(partial(compute, stage, number)))
    return steps


def _with_context(step: Callable[..., None]) -> Callable[..., None]:
    def compute(context: dg.OpExecutionContext) -> None:
        step(context)

    return compute


def _unheard(_stage: Stage, _label: str) -> None:
    """Listen to nothing."""


class StageRunner:
    """Runs the stages of a mode in order.

    A partition that fails does not stop the others of its stage; what comes after them does not
    begin.

    Args:
        engine: Makes what is out of date.
        since: Of a rerun: see `FreshWork`.
        was_interrupted: Whether somebody asked this process to stop.
    """

    def __init__(
        self,
        plan: TournamentPlan,
        options: RunOptions,
        engine: Engine,
        instance: dg.DagsterInstance,
        *,
        since: datetime | None = None,
        was_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._plan, self._options, self._engine = plan, options, engine
        self._instance, self._was_interrupted = instance, was_interrupted
        self._rows = rows_of(plan)
        self._fresh = FreshWork(
            plan,
            options.mode,
            instance=instance,
            options={name: row.told(engine.told) for name, row in self._rows.items()},
            always=frozenset(
                name for name, row in self._rows.items() if asks_again(row, engine.told)
            ),
            since=since,
        )
        self._work: dict[str, WorkOfStage] = {}
        self._metadata: dict[str, list[Mapping[str, Any]]] = {}
        self._failed: list[Check] = []
        self._errors: list[tuple[str, BaseException]] = []
        self._on_start: StageListener = _unheard
        self._on_done: StageListener = _unheard
        self._on_fresh: StageListener = _unheard

    def run(
        self,
        on_start: StageListener,
        on_done: StageListener,
        on_fresh: StageListener,
        *,
        tags: Mapping[str, str],
    ) -> None:
        """Run what has to run; an interrupt is raised once the partition under way has ended.

        Args:
            tags: Further tags of the run.
        """
        for observation in observations(self._plan, not_yet_observed(self._fresh.book)):
            self._instance.report_runless_asset_event(observation)
        self._on_start, self._on_done, self._on_fresh = on_start, on_done, on_fresh
        stages = [
            stage
            for stage in build_stages(self._plan)
            if not self._options.passes_over(stage.prepares)
        ]
        while stages and not self._work_of(stages[0]):
            for key in self._partitions(stages[0]):
                self._pass_over(stages[0], key)
            del stages[0]
        if stages:
            self._run_recorded(stages, tags)

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

    def _partitions(self, stage: Stage) -> list[dg.MultiPartitionKey | str]:
        return stage.partition_keys(self._plan, self._options.mode)

    def _work_of(self, stage: Stage) -> WorkOfStage:
        """Return a stage's work, which is known only once the earlier stages have run."""
        if stage.name not in self._work:
            asks = (
                key.path[-1] == stage.prepares
                for later in build_stages(self._plan)
                if stage.prepares in later.assets
                for assets in self._fresh.to_run(later).values()
                for key in assets
            )
            self._work[stage.name] = (
                dict.fromkeys(self._partitions(stage), ())
                if self._options.everything or stage.part_of == "rerun" or any(asks)
                else self._fresh.to_run(stage)
            )
        return self._work[stage.name]

    def _run_recorded(self, stages: Sequence[Stage], tags: Mapping[str, str]) -> None:
        steps = build_steps(self._plan, stages, self.run_step)

        @dg.job(
            name=self._plan.job(self._options.mode),
            partitions_def=partitions_over(self._plan.config, MODE),
            executor_def=dg.in_process_executor,
        )
        def recorded() -> None:
            call_in_order(steps)

        result = recorded.execute_in_process(
            instance=self._instance,
            partition_key=self._options.mode,
            # Dagster's own log would bury the progress; it is all in the UI.
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            tags={
                "tournament": self._plan.tournament_id,
                "mode": self._options.mode,
                **tags,
            },
            raise_on_error=False,
        )
        if not result.success:
            raise failure_of(self._errors)

    def run_step(self, stage: Stage, number: int, context: dg.OpExecutionContext) -> None:
        """Make what is out of date in a partition of a stage, and record it.

        Args:
            number: Which of the stage's partitions.
            context: The step's.
        """
        key = self._partitions(stage)[number]
        label = _label(key)
        if key not in self._work_of(stage):
            self._pass_over(stage, key)
            return
        self._on_start(stage, label)
        try:
            self._make_all(stage, key, context)
        except BaseException as error:
            self._errors.append((f"{stage.title} ({label})", error))
            raise
        finally:
            self._engine.done.values.clear()
        self._on_done(stage, label)
        if not any(self._rows[name].where.on_gpu(self._plan) for name in stage.assets):
            # The judge can take hours; do not hold the GPU meanwhile.
            release_models()
        if self._was_interrupted():
            # Dagster checks for an interrupt between events, and forgets a later one; one
            # that arrives during an import may look like a failed import.
            raise KeyboardInterrupt

    def _pass_over(self, stage: Stage, key: PartitionKey) -> None:
        self._failed += self._fresh.warnings(stage.assets, key)
        self._on_fresh(stage, _label(key))

    def _make_all(self, stage: Stage, key: PartitionKey, context: dg.OpExecutionContext) -> None:
        """Make the assets of a stage that have to run, in order, and record each."""
        chosen = {asset.path[-1] for asset in self._work_of(stage)[key]} or {*stage.assets}
        self._failed += self._fresh.warnings({*stage.assets} - chosen, key)
        rows = [self._rows[name] for name in stage.assets if name in chosen]
        texts = {name: value for row in rows for name, value in row.told(self._engine.told).items()}
        told = rubrics_told(texts.get("rubrics"), texts.get("instructions"))
        # Inputs as they are now: what changes meanwhile is out of date afterwards.
        book = replace(self._fresh.book, told=told, known=None, _versions={})
        for row in rows:
            self._make(row, key, context, book)

    def _make(
        self, row: AssetRow, key: PartitionKey, context: dg.OpExecutionContext, book: RecipeBook
    ) -> None:
        plan, options, place = self._plan, row.told(self._engine.told), Place(row.name, str(key))
        pointer = self._instance.event_log_storage.get_maximum_record_id() or 0
        # What is made on request is never out of date.
        recipe, tags = None, {}
        if not row.on_request:
            recipe, run_id = book.recipe(place), context.run_id
            tags = provenance_tags(self._fresh.book, row, recipe, pointer=pointer, run_id=run_id)
            tags[MADE_WITH_TAG] = made_with(plan, row, options)
        made = self._engine.make(
            row, str(key).rpartition("|")[0], log=context.log, tags=context.run.tags
        )
        materialization = log_made(context, plan, row, key, made, recipe=recipe, tags=tags)
        for each in (book, self._fresh.book):
            each.note(place, str(made.version))
        checks = [*made.checks]
        if row.name == ROOT:
            checks.append(up_to_date(replace(book, told={}, _versions={})))
            context.log_event(cast("Any", check_evaluation(materialization.asset_key, checks[-1])))
        self._failed += [check for check in checks if not check.passed]
        self._metadata.setdefault(row.name, []).append(
            {name: each.value for name, each in materialization.metadata.items()}
        )
        refuse_blocked(row, plan, made)


def _label(key: PartitionKey) -> str:
    return str(key).replace("|", " · ")
