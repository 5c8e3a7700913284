"""The tables of an archive, each declared once as a list of columns.

Files and JSON contain every column with exact values; reports show some of them, formatted.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import Any

from tournament_assets.extras.archives.models import (
    CommonSupport,
    ConditionAudit,
    Gap,
    LogComparison,
    ModelAudit,
)
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun, BrokenFile
from tournament_assets.extras.archives.tasks import TaskAudit
from tournament_assets.foundation.formatting import ABSENT, format_share, join_names
from tournament_assets.reports.report_tables import ReportTable, table_csv

LISTED = 50
"""The most rows of a list that a report shows; `--json` and the CSV files hold all."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A column of a table.

    Attributes:
        name: Its name in files.
        words: Its header for people.
        value: Returns its value for a row; None if absent.
        show: Formats the value for people; None for a model, which is shown by its label.
    """

    name: str
    words: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str] | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, and the columns of their file.

    Attributes:
        labels: The models' names for people, by id.
    """

    columns: tuple[Fact, ...]
    things: Sequence[Any]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def csv(self) -> bytes:
        """The rows as CSV."""
        rows = [[column.value(thing) for column in self.columns] for thing in self.things]
        return table_csv([column.name for column in self.columns], rows)

    @property
    def values(self) -> list[dict[str, Any]]:
        """The rows for JSON, with "inf" for infinite values."""
        rows = [{each.name: each.value(thing) for each in self.columns} for thing in self.things]
        return [
            {name: "inf" if cell == math.inf else cell for name, cell in row.items()}
            for row in rows
        ]

    def shown(self, *columns: str | Fact, n_labels: int = 1) -> ReportTable:
        """Return some columns, formatted for people.

        Args:
            columns: Names of columns, or columns that files lack.
            n_labels: How many leading columns label the row.
        """
        by_name = {column.name: column for column in self.columns}
        chosen = [by_name[column] if isinstance(column, str) else column for column in columns]
        rows = (tuple(self._cell(thing, column) for column in chosen) for thing in self.things)
        return ReportTable(tuple(column.words for column in chosen), tuple(rows), n_labels)

    def _cell(self, thing: Any, column: Fact) -> str:
        value = column.value(thing)
        if column.show is not None:
            return column.show(value)
        return self.labels.get(value, value) or "(no planned model)"


def _plain(value: Any) -> str:
    return ABSENT if value is None else str(value)


def format_score(value: float | None, *, decimals: int = 3) -> str:
    """Format a score for people; an absent one never looks like a number."""
    if value == math.inf:
        return "no bound"
    return ABSENT if value is None else f"{value:.{decimals}f}"


_exact, _ratio = partial(format_score, decimals=4), partial(format_score, decimals=1)


def _points(value: float | None) -> str:
    return ABSENT if value is None else f"{value:+.4f}"


def fact(
    name: str, words: str = "", show: Callable[[Any], str] | None = _plain, *, at: str = ""
) -> Fact:
    """Return the column of an attribute; rows that lack the attribute have no value.

    Args:
        name: Its name in files, and its header if `words` is empty.
        show: Formats the value for people; None for a model.
        at: The attribute, if it is not `name`; dots lead into nested attributes.
    """

    def value(thing: Any) -> Any:
        for part in (at or name).split("."):
            thing = getattr(thing, part, None)
        return thing

    return Fact(name, words or name.replace("_", " "), value, show)


MODELS = (
    *(fact("model_id"), fact("label", "model"), fact("planned"), fact("archived")),
    fact("broken", "unusable file"),
    fact("absent", "no file"),
    *(fact("missing"), fact("clean")),
    fact("zero", "zero score"),
    fact("zero_with_response", "of these with a response"),
    fact("coverage", show=format_share),
    fact("mean", "mean of all", _exact),
    fact("clean_mean", show=_exact),
    fact("normalised", show=_exact),
    fact("judge_mean", "judge-only", format_score),
    fact("judged"),
    fact("judge_failed", "judging failed"),
    fact("rejudged", "judged again"),
    fact("at_ceiling", "at the ceiling"),
    fact("empty"),
    fact("harness_failures", "harness failed"),
    fact("off_rule", "off the rule"),
    fact("rule_checked", "of checked"),
)
"""One row per model: its counts and means."""
TIERS = (
    *(fact("model_id"), fact("tier"), fact("n_archived", at="archived"), fact("mean")),
    *(fact("n_clean", at="clean"), fact("clean_mean")),
)
"""One row per model and tier."""
TASKS = (
    *map(fact, ("task", "tier", "planned", "archived", "zero", "at_ceiling", "judge_failed")),
    fact("harness_failures"),
    fact("between_models", show=format_score, at="spread.between_models"),
    fact("between_runs", show=format_score, at="spread.between_runs"),
    fact("signal_to_noise", show=_ratio, at="spread.signal.ratio"),
    fact("chance_level", "by chance up to", _ratio, at="spread.signal.chance_level"),
    Fact("findings", "", lambda task: "; ".join(each.sentence for each in task.findings), _plain),
)
"""One row per task: the counts of all models' runs, and its findings."""
FINDINGS = (
    fact("kind", at="kind.value"),
    fact("task"),
    Fact("models", "", lambda finding: ", ".join(finding.models), _plain),
    *(fact("count"), fact("total"), fact("sentence", "finding")),
)
"""One row per finding about a task."""
TIER_FAILURES = (
    fact("model_id", "model", None, at="here.model_id"),
    fact("tier", at="here.tier"),
    fact("zero", "zero there", at="here.zero"),
    fact("archived", "of", at="here.archived"),
    fact("elsewhere", "zero elsewhere", format_share),
    fact("others", "others' zero there", format_share),
)
"""One row per model that fails one tier only."""
BROKEN = (
    *map(fact, ("model_id", "task", "run")),
    *(fact("path", "file"), fact("reason", "why it counts as missing", at="problem")),
)
"""One row per unusable file."""
LOG_LINES = tuple(map(fact, ("model_id", "kind", "task", "run", "place", "names_stranger")))
"""One row per line of a log that reports a failure."""
LOGS = (
    *(fact("model_id", "model", None), fact("failures")),
    fact("missing_explained", "missing, log says why"),
    fact("missing_unexplained", "missing, log is silent"),
    fact("failed_and_archived", "failed in the log, archived"),
    fact("failed_and_zero", "of these zero score"),
    fact("unplanned", "names nothing planned"),
)
"""One row per model: its logs compared with its files."""
GAPS = (
    *(fact("higher", "ahead", None), fact("lower", "of", None)),
    fact("difference", show=_points, at="value"),
    fact("low", show=_points),
    fact("high", show=_points),
    *(fact("is_separated"), fact("n_tasks", at="n")),
)
"""One row per pair of models."""


def place_by(name: str, words: str, models: Sequence[ModelAudit]) -> Fact:
    """Return the column of each model's place by a mean; equal means share a place."""

    def place(model: ModelAudit) -> int:
        return 1 + sum(bool(getattr(other, name) > getattr(model, name)) for other in models)

    return Fact("place", words, place, _plain)


def shown_tiers(models: Sequence[ModelAudit]) -> tuple[tuple[str, ReportTable], ...]:
    """The models' means with one column per tier, over all runs and over the clean ones."""

    def mean(name: str, place: int, model: ModelAudit) -> Any:
        return getattr(model.tiers[place], name)

    def means(name: str) -> list[Fact]:
        return [
            Fact("", tier.tier, partial(mean, name, place), format_score)
            for place, tier in enumerate(models[0].tiers)
        ]

    titles = {"mean": "Mean of all archived runs", "clean_mean": "Clean mean"}
    return tuple(
        (title, Table(MODELS, models).shown("label", *means(name)))
        for name, title in titles.items()
        if models
    )


def shown_gaps(gaps: Sequence[Gap], labels: Mapping[str, str]) -> ReportTable:
    """Pairs of models for people, with the result in words."""
    names = ("higher", "lower", "difference", "low", "high")
    return Table(GAPS, gaps, labels).shown(*names, fact("reading"), n_labels=2)


def common_table(support: CommonSupport, labels: Mapping[str, str]) -> Table:
    """The models by their mean on common support."""
    columns = (
        Fact("place", "#", lambda score: 1 + support.scores.index(score), _plain),
        fact("model_id", "model", None),
        fact("mean", show=_exact),
        Fact("n_cells", "", lambda _: support.n_cells, _plain),
        fact("clean_mean", show=_exact),
        Fact("n_clean_cells", "", lambda _: support.n_clean_cells, _plain),
    )
    return Table(columns, support.scores, labels)


def conditions_table(conditions: Iterable[ConditionAudit]) -> Table:
    """Every value of every condition, with the number of each model's runs that have it."""
    rows: list[dict[str, Any]] = []
    for audit in conditions:
        value_rows: list[dict[str, Any]] = [
            {"value": value, "model_id": model_id, "runs": runs}
            for value, models in audit.values.items()
            for model_id, runs in models.items()
        ]
        if audit.stated or audit.silent:
            value_rows.append({"value": audit.stated or None, "runs": audit.silent or None})
        rows += [{"condition": audit.name, "sameness": audit.result, **row} for row in value_rows]
    names = ("condition", "sameness", "value", "model_id", "runs")
    return Table(tuple(Fact(name, "", methodcaller("get", name), _plain) for name in names), rows)


def shown_conditions(
    conditions: Sequence[ConditionAudit], labels: Mapping[str, str]
) -> ReportTable:
    """The conditions for people, one row each, with the result and the values."""

    def said(audit: ConditionAudit) -> str:
        texts = [audit.stated] if audit.stated else list(audit.values)
        if audit.is_different:
            texts = [
                f"{value} ({join_names([labels[model] for model in models])})"
                for value, models in audit.values.items()
            ]
        if audit.silent:
            texts.append(f"{audit.silent} runs do not say")
        return "; ".join(texts) or ABSENT

    rows = tuple((audit.name, audit.result, said(audit)) for audit in conditions)
    return ReportTable(("condition", "result", "value"), rows, 3)


def shown_spreads(tasks: Sequence[TaskAudit]) -> ReportTable:
    """The spread between models and between runs on each task, best signal first."""
    spreads = [(task.spread.signal, task) for task in tasks if task.spread is not None]
    spreads.sort(key=lambda pair: (pair[0].ratio is None, -(pair[0].ratio or 0.0), pair[1].task))
    return Table(TASKS, [task for _, task in spreads[:LISTED]]).shown(
        *("task", "tier", "archived", "planned", "between_models", "between_runs"),
        *("signal_to_noise", "chance_level"),
        n_labels=2,
    )


def shown_logs(logs: Sequence[LogComparison], labels: Mapping[str, str]) -> ReportTable:
    """The logs for people, with one column per kind of failure."""
    kinds = sorted({kind for log in logs for kind in log.failures})
    counts = [Fact("", kind, partial(_count_of, kind), _plain) for kind in kinds]
    others = [column.name for column in LOGS[2:]]
    return Table(LOGS, logs, labels).shown("model_id", *counts, *others)


def _count_of(kind: str, log: LogComparison) -> int:
    return log.failures.get(kind, 0)


def runs_table(contents: ArchiveContents) -> Table:
    """Every planned run that has a file; all means are computed from these."""
    components = dict.fromkeys(name for run in contents.runs for name in run.components)
    columns = (
        *map(fact, ("model_id", "task", "tier", "run", "path", "run_score", "rule_score")),
        # A component may have the name of another column.
        *(Fact(f"score_{each}", "", partial(_score, each), _plain) for each in components),
        fact("weighting", at="weighting.name"),
        fact("judge_score", at="judge.score"),
        fact("judge_state", at="judge.state.value"),
        *map(fact, ("is_clean", "is_at_ceiling", "is_empty", "problem")),
    )
    rows = [*contents.runs, *contents.broken]
    return Table(columns, sorted(rows, key=lambda run: (run.model_id, run.task, run.run)))


def _score(component: str, run: ArchivedRun | BrokenFile) -> float | None:
    return run.components.get(component) if isinstance(run, ArchivedRun) else None
