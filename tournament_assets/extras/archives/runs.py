"""The contents of an archive: its runs, unusable files, and failures found in logs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from tournament_assets.extras.archives.config import ArchiveConfig, ArchivedModel
from tournament_assets.extras.archives.harness import JudgeState, ScoredRun
from tournament_assets.foundation.formatting import Display


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
    def judging_failed(self) -> bool:
        """Whether judging failed and was not repeated."""
        return self.judge.state is JudgeState.FAILED

    @property
    def cell(self) -> tuple[str, str]:
        """The task and the run's name, by which runs of different models are matched."""
        return self.task, self.run


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """The unusable file of a planned run, which counts as missing."""

    model_id: Annotated[str, "the model"]
    task: Annotated[str, "the task"]
    run: Annotated[str, "the run's name"]
    tier: Annotated[str, "the task's tier"]
    path: Annotated[str, "the file, relative to the archive's folder", Display("file")]
    reason: Annotated[str, "what was found and expected", Display("why it counts as missing")]


@dataclass(frozen=True, slots=True)
class LogFailure:
    """A failure that a line of a sweep's log reports."""

    model_id: Annotated[str | None, "the model; absent if the archive has none of the line's name"]
    kind: Annotated[str, "the kind of failure, in a few words"]
    task: Annotated[str | None, "the task, if the line names one"]
    run: Annotated[str | None, "the run's name, if the line names one"]
    place: Annotated[str, "file:line"]
    names_stranger: Annotated[bool, "whether the line names a model that the archive does not have"]


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
        return {model.model_id: model.label for model in self.models}

    @property
    def seen_tasks(self) -> set[str]:
        """The tasks of which any model has a file."""
        return {run.task for run in self.runs} | {file.task for file in self.broken}
