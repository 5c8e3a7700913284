"""What an archive holds: runs, files that hold none, and what logs say."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tournament_assets.extras.archives.config import ArchiveConfig, ArchivedModel
from tournament_assets.extras.archives.harness import ScoredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRun(ScoredRun):
    """One planned run, as its file tells it.

    Attributes:
        model_id: Whose run it is.
        run: The run's name.
        tier: The task's tier.
        path: The file, relative to the archive's folder.
        is_clean: Whether it scored anything at all.
        follows_rule: Whether its score is the one that the rule gives; None where nobody can say.
        conditions: What the file says of each condition, by name; None where it does not.
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
        """What the harness says went wrong; None if nothing."""
        return self.failure or None

    @property
    def cell(self) -> tuple[str, str]:
        """The task and the run's name: what every model was to do."""
        return self.task, self.run


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that should hold a run and cannot be used; the run counts as missing.

    Attributes:
        model_id: Whose run it is.
        run: The run's name.
        tier: The task's tier.
        path: The file, relative to the archive's folder.
        reason: What was found, and what was expected.
    """

    model_id: str
    task: str
    run: str
    tier: str
    path: str
    reason: str

    @property
    def problem(self) -> str:
        """Why it cannot be used."""
        return self.reason


@dataclass(frozen=True, slots=True)
class LogFailure:
    """A line of a sweep's log that tells of a failure.

    Attributes:
        model_id: Whose failure it is; None where the line does not say.
        kind: The kind of failure.
        task: The task; None where the line does not say.
        run: The run's name; None where the line does not say.
        place: `file:line`.
        names_stranger: Whether the line names a model that the archive does not have.
    """

    model_id: str | None
    kind: str
    task: str | None
    run: str | None
    place: str
    names_stranger: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """An archive as it was read.

    Attributes:
        config: The archive's description.
        models: The models that were not left out, in the description's order.
        runs: The planned runs that can be used, by model, task and run.
        broken: Files of planned runs that cannot be used.
        unplanned: Files of runs that nobody planned, relative to the archive's folder; no number
            counts them.
        tasks: The planned tasks: those that are named, or else those that any model has or a log
            names.
        absent_models: Models whose folder is not there.
        log_files: How many log files were read.
        log_failures: What they tell of.
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
        """What people call each model."""
        return {model.model_id: model.shown for model in self.models}
