"""The description of an archive of scored runs: what differs between archives of one harness.

Its reader knows which files the harness wrote and how it scored runs. The project folder is the
configuration's folder, or its parent if that folder is named `configs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tournament_assets.extras.archives.harness import Reader
from tournament_assets.extras.archives.readers import find_reader
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.yaml_files import read_yaml
from tournament_assets.judging.costs.prices import PriceList, load_newest_prices
from tournament_assets.project.config_files import find_project
from tournament_assets.tournament.judges import ConfiguredPrice, Judge
from tournament_assets.tournament.places import FROM_LIST, Frozen


class ArchivedModel(Frozen):
    """A model whose runs the archive holds.

    Attributes:
        model_id: Its short name, for `--exclude` and for columns.
        label: Its name in reports; the short name by default.
        folder: Its folder inside the archive's; the short name by default.
    """

    model_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    label: str = Field(default="", min_length=1)
    folder: str = Field(default="", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _is_called_by_its_id(cls, value: Any) -> Any:
        name = value.get("model_id") if isinstance(value, Mapping) else None
        return value if name is None else {"label": name, "folder": name, **value}

    def fill(self, pattern: str, **values: str) -> str:
        """Return a pattern of file names with `{model}`, `{folder}` and others filled in."""
        for name, value in {"model": self.model_id, "folder": self.folder, **values}.items():
            pattern = pattern.replace(f"{{{name}}}", escape(value))
        return pattern


class ArchivePlan(Frozen):
    """What was planned for every model: the denominator of every coverage.

    Attributes:
        tasks: The ids of the tasks, or how many there are.
        runs: The names of a task's runs, or how many there are, which the reader names.
    """

    tasks: int | tuple[str, ...]
    runs: int | tuple[str, ...]

    @field_validator("tasks", "runs", mode="before")
    @classmethod
    def _number_or_names(cls, value: object) -> object:
        if type(value) is int and value > 0:
            return value
        names = value if isinstance(value, list | tuple) else ()
        if names and all(isinstance(n, str) and n and names.count(n) == 1 for n in names):
            return tuple(names)
        raise ValueError(f"it is {value!r}; expected a number from 1 on, or a list of unique names")

    @property
    def n_tasks(self) -> int:
        """How many tasks were planned for each model."""
        return self.tasks if isinstance(self.tasks, int) else len(self.tasks)


def _check_relative(pattern: str) -> str:
    if not pattern.strip() or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError(f"{pattern!r} is not relative to the project folder; expected that")
    return pattern


Relative = Annotated[str, AfterValidator(_check_relative)]
"""A path, or a pattern of paths, relative to the project folder."""


class JudgeInput(Frozen):
    """Where to find something about a run: in its file, or in a file beside it.

    Attributes:
        key: The key of its value; dots lead into objects. Without a key, it is the whole `file`.
        file: A pattern of file names relative to the project folder, which must match one file;
            `{task}`, `{run}`, `{model}` and `{folder}` stand for the run's. None is the run's own.
        max_chars: The most characters; longer text is cut in the middle.
    """

    key: str | None = Field(default=None, min_length=1)
    file: Relative | None = None
    max_chars: int | None = Field(default=None, ge=100)

    @model_validator(mode="after")
    def _stands_somewhere(self) -> "JudgeInput":
        if self.key is None and self.file is None:
            raise ValueError("neither key nor file is given; expected one of them, or both")
        return self


_FromKey = BeforeValidator(lambda value: {"key": value} if isinstance(value, str) else value)
"""Accepts a bare key for a value in the run's own file."""
_PartName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Rejudging(Frozen):
    """How the judge is asked again.

    Attributes:
        judge: Who is asked.
        prompt: The file with the judge's instructions, relative to the project folder.
        parts: What the judge is shown, by name.
        budget_usd: The most dollars that one call of the command may spend; None sets no limit.
        prices: Prices by model id, for models that the price list does not name.
    """

    judge: Judge
    prompt: str = Field(min_length=1)
    parts: Mapping[_PartName, Annotated[JudgeInput, _FromKey]] = Field(min_length=1)
    budget_usd: float | None = Field(default=None, ge=0)
    prices: Mapping[str, ConfiguredPrice] = Field(default_factory=dict)

    @property
    def price_list(self) -> PriceList:
        """The prices of all models."""
        prices = load_newest_prices(self.prices)
        return prices.with_free(self.judge.model) if self.judge.is_free else prices


class ArchiveChecks(Frozen):
    """How much may be missing before `tournament archive audit` fails.

    Attributes:
        max_unjudged_rate: Share of the runs put to the judge whose judging failed.
        max_missing_rate: Share of the planned runs that are missing.
        max_missing_spread: Difference between the shares that two models miss, of runs or of the
            judge's scores; a larger one that chance does not explain fails.
    """

    max_unjudged_rate: float = Field(default=0.02, ge=0, le=1)
    max_missing_rate: float = Field(default=0.05, ge=0, le=1)
    max_missing_spread: float = Field(default=0.02, ge=0, le=1)


def _check_reader(name: str) -> str:
    find_reader(name)
    return name


class ArchiveConfig(Frozen):
    """An archive of scored runs, and how it is audited, judged again and compared.

    Attributes:
        archive_id: The archive's name.
        title: The heading of its report; the id by default.
        reader: Who reads the runs: `clawbench`, or a reader of an installed package.
        folder: The folder with the models' folders, relative to the project folder.
        models: The models whose runs it holds.
        plan: What was planned for every model.
        conditions: What should be the same for all models, each with its key in every run's file;
            dots lead into objects.
        stated: Conditions that no file records, each with its value; they cannot be compared.
        logs: Patterns of the names of the sweep's logs, relative to the project folder. `{model}`
            and `{folder}` stand for a model's short name and folder; a pattern with neither is of
            all models.
        rejudging: How the judge is asked again; None where it never is.
        checks: What may be missing.
        confidence: Coverage of the intervals.
        n_bootstraps: How often the tasks are resampled.
        bootstrap_seed: Seeds it.
    """

    archive_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    title: str = ""
    reader: Annotated[str, AfterValidator(_check_reader)]
    folder: str = Field(min_length=1)
    models: Annotated[tuple[ArchivedModel, ...], FROM_LIST] = Field(min_length=1)
    plan: ArchivePlan
    conditions: Mapping[str, str] = Field(default_factory=dict)
    stated: Mapping[str, str] = Field(default_factory=dict)
    logs: Annotated[tuple[Relative, ...], FROM_LIST] = ()
    rejudging: Rejudging | None = None
    checks: ArchiveChecks = ArchiveChecks()
    confidence: float = Field(default=0.95, gt=0, lt=1)
    n_bootstraps: int = Field(default=4000, ge=100)
    bootstrap_seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _models_differ(self) -> "ArchiveConfig":
        for what in ("model_id", "label", "folder"):
            values = [getattr(model, what) for model in self.models]
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"two models have {what} {twice[0]!r}; expected each once")
        return self

    @property
    def shown_title(self) -> str:
        """The heading of its report."""
        return self.title or self.archive_id

    @cached_property
    def harness(self) -> Reader:
        """The reader."""
        return find_reader(self.reader)

    @cached_property
    def run_names(self) -> tuple[str, ...]:
        """The names of every task's runs."""
        runs = self.plan.runs
        return self.harness.run_names(runs) if isinstance(runs, int) else runs

    @property
    def resampling(self) -> Resampling:
        """How whole tasks are resampled."""
        return Resampling(self.n_bootstraps, self.bootstrap_seed, self.confidence)

    @property
    def n_planned(self) -> int:
        """How many runs were planned for each model."""
        return self.plan.n_tasks * len(self.run_names)


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A validated description of an archive, its file, and where relative paths start from."""

    config: ArchiveConfig
    path: Path
    project: Path

    @property
    def folder(self) -> Path:
        """The folder with the models' folders."""
        return self.project / self.config.folder


def load_archive_config(path: Path) -> ArchiveFile:
    """Read and validate the description of an archive."""
    document = read_yaml(path, what="the description of the archive")
    config = document.validate(ArchiveConfig, what="the description")
    return ArchiveFile(config, path, find_project(path))
