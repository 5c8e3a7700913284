"""The contents of an archive: its runs, unusable files, and failures found in logs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tournament_assets.extras.archives.config import ArchiveConfig, ArchivedModel
from tournament_assets.extras.archives.harness import LogLine, ScoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRun(ScoredRun):
    """A planned run, as recorded in its file.

    Attributes:
        path: The file, relative to the archive's folder.
        is_clean: Whether it scored anything at all.
        follows_rule: Whether its score is the rule's; None if that is unknown.
        conditions: The file's value of each condition, by name; None if the file has no value.
    """

    model_id: str
    task: str
    run: str
    tier: str
    path: str
    is_clean: bool
    follows_rule: bool | None
    conditions: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def problem(self) -> str | None:
        """The failure that the harness recorded; None if there was none."""
        return self.failure or None

    @property
    def cell(self) -> tuple[str, str]:
        """The task and the run's name, by which runs of different models are matched."""
        return self.task, self.run


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """The unusable file of a planned run, which counts as missing.

    Attributes:
        path: The file, relative to the archive's folder.
        problem: Why it cannot be used: what was found, and what was expected.
    """

    model_id: str
    task: str
    run: str
    tier: str
    path: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailure(LogLine):
    """A failure that a line of a sweep's log reports.

    Attributes:
        model_id: The archive's model; None if the line names none that the archive has.
        place: `file:line`.
    """

    model_id: str | None
    place: str

    @property
    def names_stranger(self) -> bool:
        """Whether the line names a model that the archive does not have."""
        return self.model is not None and self.model_id is None


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The contents of an archive.

    Attributes:
        models: The models that were not excluded, in the description's order.
        runs: The planned runs that can be used, sorted by model, task and run.
        broken: Unusable files of planned runs.
        unplanned: Files of runs outside the plan, relative to the archive's folder; not counted.
        tasks: The planned tasks: those listed in the plan, or else all tasks found in any model's
            folder or in a log.
        absent_models: Models without a folder.
        log_files: How many log files were read.
    """

    config: ArchiveConfig
    models: tuple[ArchivedModel, ...]
    runs: tuple[ArchivedRun, ...]
    broken: tuple[BrokenFile, ...]
    unplanned: tuple[str, ...]
    tasks: tuple[str, ...]
    absent_models: tuple[str, ...]
    log_files: int
    log_failures: tuple[LogFailure, ...]

    @property
    def labels(self) -> dict[str, str]:
        """The models' names in reports, by id."""
        return {model.model_id: model.shown for model in self.models}
