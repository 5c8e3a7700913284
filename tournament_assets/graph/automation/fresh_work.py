"""Which parts of a requested run are stored already and need not be made again.

Recipes show what an edit made out of date. A requested run also depends on what a recipe does not
record: that the stored file still exists, that the same program with the same options made it, and
that another attempt could settle nothing more. When in doubt, it runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import dagster as dg
import upath

from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.assets.publishing import run_artifacts
from tournament_assets.graph.automation.failed_runs import recorded_check
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.automation.reruns import (
    PartitionKey,
    WorkOfStage,
    find_out_of_date,
)
from tournament_assets.graph.outputs import Check
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.plain_runs import path_of
from tournament_assets.graph.recipe_book import MADE_WITH_TAG, UP_TO_DATE, RecipeBook, made_with
from tournament_assets.graph.recipes import Place
from tournament_assets.graph.rows import AssetRow
from tournament_assets.graph.table import rows_of
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode

_LEFT_OPEN = ("replies_pending", "requests_unread", "pairs_unjudged")
"""Counts, in the metadata, of what another attempt might settle."""
_ASKED_AGAIN = frozenset({"response_coverage", "no_empty_response"})
"""Checks of what another attempt might settle."""


@dataclass(frozen=True)
class FreshWork:
    """The parts of a mode that have to run.

    Attributes:
        instance: Where materialisations are recorded.
        storage: Where assets are kept: a folder or a URL.
        options: The run's options that differ from their defaults, by asset.
        always: Assets that always run.
    """

    plan: TournamentPlan
    mode: Mode
    instance: dg.DagsterInstance
    storage: str
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    _found: dict[str, Sequence[dg.EventLogEntry]] = field(default_factory=dict)

    @cached_property
    def book(self) -> RecipeBook:
        """The tournament's recipes; call `note` when something was made."""
        return RecipeBook(self.plan, self.instance, known=read_inputs(self.plan))

    def to_run(self, stage: Stage) -> WorkOfStage:
        """Return the assets of a stage that have to run, by partition; empty means all."""
        return find_out_of_date(self.book, stage, self.mode, distrusts=self._distrusts)

    def warnings(self, names: Iterable[str], partition: PartitionKey) -> list[Check]:
        """Return the checks of assets that failed when they were made."""
        return [
            recorded_check(check)
            for name in names
            if self._rows[name].stored_as != "file"
            and (record := self.book.newest(Place(name, str(partition)))) is not None
            for check in self._failed_checks(name, record)
        ]

    def path_of(self, name: str, partition: PartitionKey) -> "Path | upath.UPath":
        """Return where an asset's partition is stored."""
        return path_of(upath.UPath(self.storage), self.plan, self._rows[name], str(partition))

    def directory(self) -> Path | None:
        """Return the newest run directory that is recorded; None if there is none."""
        record = self.book.newest(Place(run_artifacts.__name__, self.mode))
        return None if record is None else _directory_of(_made(record))

    @cached_property
    def _rows(self) -> Mapping[str, AssetRow]:
        return rows_of(self.plan)

    def _distrusts(self, name: str, record: dg.EventLogRecord) -> bool:
        row, event = self._rows[name], _made(record)
        if name in self.always or not (row.reads or row.after):
            return True
        tag = made_with(self.plan, row, self.options.get(name, {}))
        return (
            (event.tags or {}).get(MADE_WITH_TAG) != tag
            or any(name in event.metadata and event.metadata[name].value for name in _LEFT_OPEN)
            or any(
                check.severity is dg.AssetCheckSeverity.ERROR or check.check_name in _ASKED_AGAIN
                for check in self._failed_checks(name, record)
            )
            or not self._is_stored(row, event)
        )

    def _is_stored(self, row: AssetRow, event: dg.AssetMaterialization) -> bool:
        if row.stored_as != "folder":
            return self.path_of(row.name, str(event.partition)).exists()
        folder = _directory_of(event)
        chosen = self.options.get(run_artifacts.__name__, {}).get("output_dir")
        if folder.parent != self.plan.project.folder / (chosen or "runs"):
            return False
        return event.metadata["files"].value == sum(path.is_file() for path in folder.rglob("*"))

    def _failed_checks(
        self, name: str, record: dg.EventLogRecord
    ) -> Iterable[dg.AssetCheckEvaluation]:
        """Return what the step that made something found."""
        if record.run_id not in self._found:
            self._found[record.run_id] = [
                each.event_log_entry
                for each in self.instance.get_records_for_run(
                    record.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
                ).records
            ]
        key, step = asset_key(self.plan, name), record.event_log_entry.step_key
        evaluations = [
            cast("dg.AssetCheckEvaluation", entry.asset_check_evaluation)
            for entry in self._found[record.run_id]
            if entry.step_key == step
        ]
        return [
            each
            for each in evaluations
            if each.asset_key == key and not each.passed and each.check_name != UP_TO_DATE
        ]


def _made(record: dg.EventLogRecord) -> dg.AssetMaterialization:
    return cast("dg.AssetMaterialization", record.asset_materialization)


def _directory_of(event: dg.AssetMaterialization) -> Path:
    return Path(str(event.metadata["directory"].value))
