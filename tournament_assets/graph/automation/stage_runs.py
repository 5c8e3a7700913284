"""Runs of a mode's stages in this process, one Dagster run per partition, and what came of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

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
from tournament_assets.graph.local_runs import PROCESS_TAG
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.run_options import RunOptions, asks_again
from tournament_assets.graph.run_summaries import RunSummary, summarise_run
from tournament_assets.graph.table import row_of, rows_of
from tournament_assets.ledger.leases import own_identity
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.responses.local_responses import release_models
from tournament_assets.storage.tables import decode_parquet

StageListener = Callable[[Stage, str], object]
"""Called with a stage and the readable name of its partition."""


class StageRunner:
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
