"""What an archive of scored runs looks like: a configuration, so that no archive is in the code.

Scores are what a harness wrote: for each model, task and run one JSON file with the scores of
several components, a judge's opinion, and a weighted score of the run. The project folder is that
of the configuration, or the one above it where that is `configs/`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tournament_assets.archives.rules import (
    FromList,
    ScoreRules,
    pattern_with,
)
from tournament_assets.project.config_files import find_project
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judge_services import ServiceName, expected_model
from tournament_assets.tournament.judges import ConfiguredPrice
from tournament_assets.tournament.places import Frozen
from tournament_assets.tournament.yaml_files import read_yaml


class ArchivedModel(Frozen):
    """A model whose runs the archive holds.

    Attributes:
        model_id: Its short name, for `--exclude` and for columns.
        label: What people call it; the short name by default.
        folder: Its folder inside the archive's; the short name by default.
    """

    model_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    label: str = ""
    folder: str = ""

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.label or self.model_id

    @property
    def folder_name(self) -> str:
        """Its folder inside the archive's."""
        return self.folder or self.model_id


class ArchivePlan(Frozen):
    """What every model was to do; the denominator of every coverage.

    Attributes:
        tasks: The ids of the tasks, or how many there are.
        runs: The names of the runs without `.json`, or how many there are: 3 means run1 to run3.
    """

    tasks: int | tuple[str, ...]
    runs: int | tuple[str, ...]

    @field_validator("tasks", "runs", mode="before")
    @classmethod
    def _number_or_names(cls, value: object) -> object:
        if isinstance(value, list) and all(isinstance(name, str) and name for name in value):
            return tuple(value)
        if isinstance(value, tuple | int) and not isinstance(value, bool):
            return value
        raise ValueError(f"it is {value!r}; expected a number, or a list of names")

    @field_validator("tasks", "runs")
    @classmethod
    def _some(cls, value: int | tuple[str, ...]) -> int | tuple[str, ...]:
        count = value if isinstance(value, int) else len(value)
        if count < 1:
            raise ValueError("the list is empty or 0; expected at least one")
        if not isinstance(value, int) and len(set(value)) < len(value):
            raise ValueError("a name is given twice; expected each once")
        return value

    @property
    def n_tasks(self) -> int:
        """How many tasks each model was to do."""
        return self.tasks if isinstance(self.tasks, int) else len(self.tasks)

    @property
    def run_names(self) -> tuple[str, ...]:
        """The runs of every task."""
        if isinstance(self.runs, int):
            return tuple(f"run{number}" for number in range(1, self.runs + 1))
        return self.runs

    @property
    def n_cells(self) -> int:
        """How many runs each model was to have."""
        return self.n_tasks * len(self.run_names)


class TierRules(Frozen):
    """How a task's id tells its tier.

    Attributes:
        pattern: A regular expression with a group named `tier`, searched in the id.
        label: What a tier is called; `{tier}` is what the group matched.
        other: The tier of tasks whose id does not match.
    """

    pattern: str
    label: str = "tier {tier}"
    other: str = "other"

    @field_validator("pattern")
    @classmethod
    def _has_the_group(cls, value: str) -> str:
        return pattern_with(value, required=("tier",))

    @field_validator("label")
    @classmethod
    def _has_the_place(cls, value: str) -> str:
        if "{tier}" not in value:
            raise ValueError(f"it is {value!r}; expected a text with {{tier}} in it")
        return value

    def tier_of(self, task: str) -> str:
        """Return a task's tier."""
        match = re.search(self.pattern, task)
        found = match["tier"] if match is not None else None
        return self.label.replace("{tier}", found) if found is not None else self.other


class Condition(Frozen):
    """Something that is to be the same for all models.

    Attributes:
        name: What it is, such as `Docker image`.
        key: Where a file says it; it is then compared over all runs.
        stated: What it is said to be, where no file says it; nothing can be compared then.
    """

    name: str = Field(min_length=1)
    key: str | None = None
    stated: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "Condition":
        if (self.key is None) == (self.stated is None):
            given = "nothing" if self.key is None else "key and stated"
            raise ValueError(f"{given} is given; expected exactly one of key and stated")
        return self


class LogPattern(Frozen):
    """A kind of failure that a sweep's log tells of.

    Attributes:
        name: What it is called.
        pattern: A regular expression, searched in every line. Groups named `task` and `run` say
            what it was that failed, `model` whose it was: a model's id, label or folder.
        first_run: The same as in the logs' own rules, for the lines of this pattern alone.
    """

    name: str = Field(min_length=1)
    pattern: str
    first_run: int | None = Field(default=None, ge=0)

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        return pattern_with(value)


class SweepLogs(Frozen):
    """The logs of the sweep that made the archive.

    Attributes:
        files: Patterns of file names, relative to the project folder. `{model}` and
            `{folder}` stand for a model's short name and folder; a pattern with neither is of all
            models, and its lines name the model by a group.
        patterns: What is looked for.
        first_run: The number by which a line calls the first planned run: with 1, `run 3` is the
            third one, whatever its name. By default number 3 means the run named run3.
    """

    files: Annotated[tuple[str, ...], FromList] = Field(min_length=1)
    patterns: Annotated[tuple[LogPattern, ...], FromList] = Field(min_length=1)
    first_run: int | None = Field(default=None, ge=0)

    @field_validator("files")
    @classmethod
    def _are_relative(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        bad = [name for name in value if not name.strip() or name.startswith("/")]
        if bad:
            raise ValueError(
                f"{bad[0]!r} is not a relative pattern; expected one such as logs/*.log"
            )
        return value


class JudgeInput(Frozen):
    """Where something stands that is about a run: in its file, or in a file beside it.

    Attributes:
        key: Where it stands; dots lead into objects. Without it the whole `file` is meant.
        file: A pattern of file names relative to the project folder, which must match one file;
            `{task}`, `{run}`, `{model}` and `{folder}` stand for the run's. None is the run's own.
        max_chars: What is longer is cut in the middle.
    """

    key: str | None = Field(default=None, min_length=1)
    file: str | None = Field(default=None, min_length=1)
    max_chars: int | None = Field(default=None, ge=100)

    @field_validator("file")
    @classmethod
    def _is_relative(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith("/") or ".." in value.split("/")):
            raise ValueError(f"{value!r} is not relative to the project folder; expected that")
        return value

    @model_validator(mode="after")
    def _stands_somewhere(self) -> "JudgeInput":
        if self.key is None and self.file is None:
            raise ValueError("neither key nor file is given; expected one of them, or both")
        return self


_FromKey = BeforeValidator(lambda value: {"key": value} if isinstance(value, str) else value)
"""Lets a key stand for what is under it in the run's file."""


class Rejudging(Frozen):
    """How the judge is asked again.

    Attributes:
        service: `loopback`, the lexical judge on 127.0.0.1, or another one, such as `anthropic`.
        judge_model: The model that is asked.
        prompt: The file with what the judge is told to do, relative to the project folder.
        parts: What it is shown, by name.
        passing_threshold: The score from which on a run passes, where a file records whether it
            does and not from where on: a number, or where one stands.
        max_tokens: The most tokens of one reply, thinking included.
        budget_usd: The most dollars that one call of the command may spend; None sets no limit.
        prices: Prices by model id, for models that the price list does not name.
    """

    service: Annotated[str, AfterValidator(ServiceName.check), ServiceName()]
    judge_model: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    parts: Mapping[str, Annotated[JudgeInput, _FromKey]] = Field(min_length=1)
    passing_threshold: float | Annotated[JudgeInput, _FromKey] | None = None
    max_tokens: int = Field(default=8192, ge=64)
    budget_usd: float | None = Field(default=None, ge=0)
    prices: Mapping[str, ConfiguredPrice] = Field(default_factory=dict)

    @field_validator("parts")
    @classmethod
    def _names_are_tags(cls, value: Mapping[str, JudgeInput]) -> Mapping[str, JudgeInput]:
        bad = [name for name in value if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]
        if bad:
            raise ValueError(
                f"{bad[0]!r} is not a name for a part; expected lower-case letters, such as task"
            )
        return value

    @model_validator(mode="after")
    def _model_goes_with_service(self) -> "Rejudging":
        expected = expected_model(self.service, self.judge_model)
        if expected is not None:
            raise ValueError(
                f"judge_model is {self.judge_model!r} and service is {self.service!r}; expected "
                f"{expected}"
            )
        return self


class ArchiveChecks(Frozen):
    """What an archive may lack without `tournament archive audit` failing.

    Attributes:
        max_unjudged_rate: Share of the runs put to the judge whose judging failed.
        max_missing_rate: Share of the planned runs that are missing.
        max_missing_spread: Difference between the shares that two models miss, of runs or of the
            judge's scores; a larger one that chance does not explain fails.
    """

    max_unjudged_rate: float = Field(default=0.02, ge=0, le=1)
    max_missing_rate: float = Field(default=0.05, ge=0, le=1)
    max_missing_spread: float = Field(default=0.02, ge=0, le=1)


class ArchiveConfig(Frozen):
    """An archive of scored runs, and what is asked of it.

    Attributes:
        archive_id: Names the archive.
        title: The heading of its report; the id by default.
        folder: Where the models' folders are, relative to the project folder.
        run_files: The pattern of a run's file name.
        models: Whose runs there are.
        plan: What every model was to do.
        scores: How a run's score is made.
        tiers: How a task's id tells its tier; None where there are no tiers.
        responses: Where a file holds what the model did; a run in which all of them are absent or
            blank is empty.
        failure: Where a file says that the harness failed, if it does.
        conditions: What is to be the same for all models.
        logs: The logs of the sweep, if there are any.
        rejudging: How the judge is asked again; None where it never is.
        checks: What may be missing.
        confidence: Coverage of the intervals.
        n_bootstraps: How often the tasks are resampled.
        bootstrap_seed: Seeds it.
    """

    archive_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    folder: str = Field(min_length=1)
    run_files: str = "run*.json"
    models: Annotated[tuple[ArchivedModel, ...], FromList] = Field(min_length=1)
    plan: ArchivePlan
    scores: ScoreRules
    tiers: TierRules | None = None
    responses: Annotated[tuple[str, ...], FromList] = ()
    failure: str | None = None
    conditions: Annotated[tuple[Condition, ...], FromList] = ()
    logs: SweepLogs | None = None
    rejudging: Rejudging | None = None
    checks: ArchiveChecks = ArchiveChecks()
    confidence: float = Field(default=0.95, gt=0, lt=1)
    n_bootstraps: int = Field(default=4000, ge=100)
    bootstrap_seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _models_differ(self) -> "ArchiveConfig":
        for what in ("model_id", "shown", "folder_name"):
            values = [getattr(model, what) for model in self.models]
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"two models have {what} {twice[0]!r}; expected each once")
        return self

    @property
    def shown_title(self) -> str:
        """The heading of its report."""
        return self.title or self.archive_id

    def tier_of(self, task: str) -> str:
        """Return a task's tier; all tasks are of one where there are none."""
        return self.tiers.tier_of(task) if self.tiers is not None else "all tasks"

    def iterate_models(self, exclude: frozenset[str] = frozenset()) -> Iterator[ArchivedModel]:
        """Yield the models that are not left out, in the configuration's order."""
        return (model for model in self.models if model.model_id not in exclude)


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A validated description of an archive, and where it came from.

    Attributes:
        config: The description.
        path: The file.
    """

    config: ArchiveConfig
    path: Path

    @property
    def base(self) -> Path:
        """The folder that relative paths start from: as with tournaments, that above `configs/`."""
        return find_project(self.path)

    @property
    def folder(self) -> Path:
        """The folder with the models' folders."""
        return self.base / self.config.folder


def load_archive_config(path: Path) -> ArchiveFile:
    """Read and validate the description of an archive.

    Raises:
        InputError: With every problem of the file, each with its line.
    """
    document = read_yaml(path, what="the description of the archive")
    return ArchiveFile(document.validate(ArchiveConfig, what="the description"), path)


def check_excluded(config: ArchiveConfig, exclude: frozenset[str]) -> None:
    """Return if every model that is to be left out exists, and some are left.

    Raises:
        InputError: If not.
    """
    known = [model.model_id for model in config.models]
    unknown = sorted(exclude - set(known))
    if unknown:
        raise InputError(
            f"--exclude names {', '.join(map(repr, unknown))}; expected some of {', '.join(known)}"
        )
    if exclude >= set(known):
        raise InputError("--exclude names every model; expected at least one to be left")
