"""The rows of an archive's tables and the sentences about them.

JSON and CSV hold every field of a row; people see some, formatted.
"""

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from tournament_assets.foundation.formatting import ABSENT, Display, format_number, format_share
from tournament_assets.reports.rendering import render_part


def _points(value: float | None) -> str:
    return ABSENT if value is None else f"{value:+.4f}"


_mean = partial(format_number, decimals=4)
_score = partial(format_number, decimals=3)
_ratio = partial(format_number, decimals=1)

Text = Annotated[str, Display("")]
Count = Annotated[int, Display("")]
Share = Annotated[float, Display("", format_share)]
Mean = Annotated[float | None, Display("", _mean)]
"""A mean score; None over no runs."""
Points = Annotated[float | None, Display("", _points)]
"""A difference between scores, with its sign; None if unknown."""
Deviation = Annotated[float | None, Display("", _score)]
"""A standard deviation of scores; None if unknown."""


def say(macro: str, *values: Any) -> tuple[str, ...]:
    """Return the sentences that a macro of the archives' template makes of some values."""
    return tuple(render_part("archives/templates/sentences.jinja", macro, *values))


def row_values(row: Any) -> dict[str, Any]:
    """Return a row's fields for JSON and CSV, with "inf" for an infinite value."""
    cells = {column.name: getattr(row, column.name) for column in fields(row)}
    return {name: "inf" if cell == math.inf else cell for name, cell in cells.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """The counts and means of one model's runs.

    Attributes:
        archived: Planned runs whose file can be used.
        broken: Planned runs whose file cannot be used.
        absent: Planned runs without a file.
        clean: Archived runs that scored something.
        zero: Archived runs that scored nothing.
        zero_with_response: Those in which the model did something, so they may be real failures;
            None if the archive does not say.
        coverage: Clean runs divided by planned ones.
        normalised: The sum of the clean scores divided by the planned runs.
        judged: Runs that the judge scored.
        judge_failed: Runs whose judging failed and was not repeated.
        at_ceiling: Runs whose deciding component is at its ceiling.
        empty: Runs in which the model did nothing; None if the archive does not say.
        harness_failures: Runs in which the harness recorded a failure.
        off_rule: Runs whose recorded score differs from the rule's.
        rule_checked: Runs for which the two could be compared.
    """

    model_id: str
    label: Annotated[str, Display("model")]
    planned: Count
    archived: Count
    broken: Annotated[int, Display("unusable file")]
    absent: Annotated[int, Display("no file")]
    missing: Count
    clean: Count
    zero: Annotated[int, Display("zero score")]
    zero_with_response: Annotated[int | None, Display("of these with a response")]
    coverage: Share
    mean: Annotated[float | None, Display("mean of all", _mean)]
    clean_mean: Mean
    normalised: Mean
    judge_mean: Annotated[float | None, Display("judge-only", _score)]
    judged: int
    judge_failed: Annotated[int, Display("judging failed")]
    rejudged: Annotated[int, Display("judged again")]
    at_ceiling: Annotated[int, Display("at the ceiling")]
    empty: Annotated[int | None, Display("")]
    harness_failures: Annotated[int, Display("harness failed")]
    off_rule: Annotated[int, Display("off the rule")]
    rule_checked: Annotated[int, Display("of checked")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRow:
    """A model's runs in one tier."""

    model_id: str
    tier: str
    n_archived: int
    mean: Mean
    n_clean: int
    clean_mean: Mean


class FindingKind(StrEnum):
    """The kinds of findings about tasks, worst first."""

    MISSING_RUNS = "missing_runs"
    """Half of the runs are missing, or more than chance would put on one task."""
    HARNESS_FAILURES = "harness_failures"
    """The harness failed in more runs than chance would put on one task."""
    JUDGE_FAILURES = "judge_failures"
    """Judging failed in more runs than chance would put on one task."""
    ALL_ZERO = "all_zero"
    """Every run of every model scored nothing."""
    NEVER_PASSED = "never_passed"
    """The deciding component is 0 in every run although models responded."""
    MODEL_FAILS = "model_fails"
    """A model scored nothing in every run, and the others mostly scored something."""
    ALL_AT_CEILING = "all_at_ceiling"
    """The deciding component is at its ceiling in every run."""
    ONE_MODEL = "one_model"
    """Fewer than two models have a run, so nothing can be compared."""


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding about one task.

    Attributes:
        count: The number of runs concerned.
        total: The number of runs examined.
        sentence: The finding in words, with its numbers.
        models: The models concerned; empty for all.
    """

    kind: FindingKind
    task: Text
    count: int
    total: int
    sentence: Annotated[str, Display("finding")]
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """All models' runs of one task; spreads are None without two models, or two runs of one.

    Attributes:
        between_models: Estimated standard deviation of the models' true means.
        between_runs: Standard deviation of runs about their model's mean.
        signal_to_noise: What differs between models by what differs between runs of one.
        chance_level: The ratio that chance exceeds once in twenty.
        is_above_chance: Whether the ratio is higher.
    """

    task: Text
    tier: Text
    planned: Count
    archived: Count
    zero: int
    at_ceiling: int
    judge_failed: int
    harness_failures: int
    between_models: Deviation = None
    between_runs: Deviation = None
    signal_to_noise: Annotated[float | None, Display("", _ratio)] = None
    chance_level: Annotated[float | None, Display("by chance up to", _ratio)] = None
    is_above_chance: bool = False
    findings: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRow:
    """The failures that a sweep's logs report for one model, compared with its files.

    Attributes:
        model_id: The model; empty for lines that name none.
        failures: The number of lines of each kind of failure.
        missing_explained: Missing runs that failed according to a log.
        missing_unexplained: Missing runs that no log mentions.
        failed_and_archived: Archived runs that failed according to a log: they were retried, or a
            failed run left its file behind.
        failed_and_zero: Those of them that scored nothing.
        unplanned: Lines that name a model, a task or a run outside the plan.
    """

    model_id: str
    failures: dict[str, int]
    missing_explained: Annotated[int, Display("missing, log says why")]
    missing_unexplained: Annotated[int, Display("missing, log is silent")]
    failed_and_archived: Annotated[int, Display("failed in the log, archived")]
    failed_and_zero: Annotated[int, Display("of these zero score")]
    unplanned: Annotated[int, Display("names nothing planned")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """The difference between two models' clean means; the intervals of all hold together.

    Attributes:
        higher: The model with the higher clean mean.
        is_separated: Whether the difference is significant.
        n_tasks: The tasks that were resampled for the interval.
    """

    higher: str
    lower: str
    difference: Annotated[float, Display("", _points)]
    low: Points
    high: Points
    is_separated: bool
    n_tasks: int

    @property
    def reading(self) -> Text:
        """Whether the gap is more than noise; unknown without an interval."""
        if self.is_separated:
            return "significant"
        return "unknown" if self.low is None and self.high is None else "not significant"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonRow:
    """A model's means on common support.

    Attributes:
        mean: Mean over the runs (task and name) that every model has archived.
        n_cells: The number of these runs.
        clean_mean: Mean over those in which every model scored something.
        n_clean_cells: The number of those.
    """

    place: Annotated[int, Display("#")]
    model_id: str
    mean: Mean
    n_cells: int
    clean_mean: Mean
    n_clean_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRow:
    """A value of a condition, and how many of a model's runs have it.

    Attributes:
        sameness: The result of comparing the condition over all runs, in a few words.
        value: The value; None if the files do not say.
        model_id: The model; None if the description states the value for all.
    """

    condition: Text
    sameness: Annotated[str, Display("result")]
    value: Annotated[str | None, Display("")] = None
    model_id: str | None = None
    runs: Annotated[int | None, Display("")] = None
