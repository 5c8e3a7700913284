"""What of a run that somebody asked for is there already, and would only be made again.

Dagster says what an edit made out of date. A person who asks for a run also relies on what Dagster
does not look at: that the stored file is still there, that the same program with the same options
made it, and that nothing was left open which another attempt might settle. In doubt it runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import dagster as dg
import upath

from tournament_assets.graph.assets.freshness import CHECKS, LEADERBOARD_CHECK
from tournament_assets.graph.assets.observed_inputs import InputVersion, read_inputs
from tournament_assets.graph.automation.jobs import Stage, not_yet_observed
from tournament_assets.graph.automation.reruns import (
    PartitionKey,
    WorkOfStage,
    find_out_of_date,
)
from tournament_assets.graph.partitions import RECIPE_TAG, asset_key, recipe
from tournament_assets.graph.rows import AssetRow
from tournament_assets.graph.table import rows_of
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.fingerprints import short
from tournament_assets.workflows.plan import TournamentPlan

_ARTIFACTS = "run_artifacts"
_LEFT_OPEN = ("replies_pending", "requests_unread", "pairs_unjudged")
"""Counts, in the metadata, of what another attempt might settle."""
_ASKED_AGAIN = frozenset({"response_coverage", "no_empty_response"})
"""Checks of what another attempt might settle."""
_OF_THE_MOMENT = frozenset({LEADERBOARD_CHECK, *(check.name for check in CHECKS)})
"""Checks that compare with the inputs of a moment: what is fresh passes them."""


@dataclass(frozen=True)
class FreshWork:
    """Tells what of a mode has to run.

    Attributes:
        plan: The tournament.
        mode: The mode.
        graph: The asset graph, which Dagster has no public type for.
        instance: Where materialisations are recorded.
        storage: Where assets are kept: a folder or a URL.
        options: By asset the options of the run that differ from their defaults.
        always: Assets that run whatever is recorded of them.
    """

    plan: TournamentPlan
    mode: Mode
    graph: Any
    instance: dg.DagsterInstance
    storage: str
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    always: frozenset[str] = frozenset()
    _found: dict[str, Sequence[dg.AssetCheckEvaluation]] = field(default_factory=dict)

    def to_run(self, stage: Stage) -> WorkOfStage:
        """Return by partition what of a stage has to run; no assets are all of them."""
        if any(self._rows[name].stored_as == "file" for name in stage.assets):
            return {None: ()} if self._has_news else {}
        return find_out_of_date(
            self.graph, self.instance, self.plan, stage, self.mode, distrusts=self._distrusts
        )

    def warnings(self, names: Iterable[str], partition: PartitionKey) -> list[str]:
        """Return what the checks of assets found when they were made, a sentence each."""
        return [
            f"{check.check_name}: {check.description}"
            for name in names
            if self._rows[name].stored_as != "file"
            and (record := self._newest(name, _text(partition))) is not None
            for check in self._failed_checks(name, record)
            if check.check_name not in _OF_THE_MOMENT
        ]

    def path_of(self, name: str, partition: PartitionKey) -> upath.UPath:
        """Return where an asset's partition is stored."""
        suffix = ".npz" if self._rows[name].stored_as == "arrays" else ".parquet"
        parts = [] if partition is None else str(partition).split("|")
        *folders, last = [self.plan.tournament_id, name, *parts]
        return upath.UPath(self.storage).joinpath(*folders, f"{last}{suffix}")

    def directory(self) -> Path | None:
        """Return the newest run directory that is recorded; None if there is none."""
        record = self._newest(_ARTIFACTS, self.mode)
        return None if record is None else _directory_of(record)

    @cached_property
    def _rows(self) -> Mapping[str, AssetRow]:
        return rows_of(self.plan)

    @cached_property
    def _inputs(self) -> Sequence[InputVersion]:
        return read_inputs(self.plan)

    @cached_property
    def _has_news(self) -> bool:
        """Whether Dagster has not observed the inputs as they are; observing says what is wrong."""
        unreadable = any(each.problem for each in self._inputs)
        return unreadable or bool(not_yet_observed(self.plan, self._inputs, self.instance))

    def _distrusts(self, name: str, partition: str | None) -> bool:
        row, record = self._rows[name], self._newest(name, partition)
        if record is None or name in self.always or not (row.inputs or row.after):
            return True
        made = _made(record)
        wanted = recipe(self.plan, row, self.options.get(name, {}))
        return (
            (made.tags or {}).get(RECIPE_TAG) != wanted
            or any(each in made.metadata and made.metadata[each].value for each in _LEFT_OPEN)
            or any(
                check.severity is dg.AssetCheckSeverity.ERROR or check.check_name in _ASKED_AGAIN
                for check in self._failed_checks(name, record)
            )
            or not self._is_stored(row, partition, record)
            or not self._rests_on_inputs(row, partition, made)
        )

    def _is_stored(self, row: AssetRow, partition: str | None, record: dg.EventLogRecord) -> bool:
        if row.stored_as != "folder":
            return self.path_of(row.name, partition).exists()
        folder = _directory_of(record)
        if folder.parent != self._runs_folder:
            return False
        return _made(record).metadata["files"].value == sum(
            path.is_file() for path in folder.rglob("*")
        )

    @property
    def _runs_folder(self) -> Path:
        chosen = self.options.get(_ARTIFACTS, {}).get("output_dir")
        return self.plan.project.folder / (chosen or "runs")

    def _rests_on_inputs(
        self, row: AssetRow, partition: str | None, made: dg.AssetMaterialization
    ) -> bool:
        """Whether an input was not edited between its observation and its use."""
        of = None if partition is None else partition.split("|")[0]
        return all(
            short(each.version or "") == made.metadata[check.hash_key].value
            for check in CHECKS
            if check.asset == row.name and check.hash_key in made.metadata
            for each in self._inputs
            if each.asset == check.input_asset and each.partition in (None, of)
        )

    def _newest(self, name: str, partition: str | None) -> dg.EventLogRecord | None:
        if not self._rows[name].axes:
            partition = None
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(
                asset_key=asset_key(self.plan, name),
                asset_partitions=None if partition is None else [partition],
            ),
            limit=1,
        ).records
        return records[0] if records else None

    def _failed_checks(
        self, name: str, record: dg.EventLogRecord
    ) -> Iterable[dg.AssetCheckEvaluation]:
        """Return what the run that made something found; a check's own record has no partition."""
        if record.run_id not in self._found:
            self._found[record.run_id] = [
                cast("dg.AssetCheckEvaluation", each.event_log_entry.asset_check_evaluation)
                for each in self.instance.get_records_for_run(
                    record.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
                ).records
            ]
        key = asset_key(self.plan, name)
        return [
            each for each in self._found[record.run_id] if each.asset_key == key and not each.passed
        ]


def _made(record: dg.EventLogRecord) -> dg.AssetMaterialization:
    return cast("dg.AssetMaterialization", record.asset_materialization)


def _directory_of(record: dg.EventLogRecord) -> Path:
    return Path(str(_made(record).metadata["directory"].value))


def _text(partition: PartitionKey) -> str | None:
    return None if partition is None else str(partition)
