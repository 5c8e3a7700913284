"""The tables of an archive: as people read them, and as rows with every number for CSV and JSON."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tournament_assets.archives.config import ArchiveConfig
from tournament_assets.archives.models import (
    CommonSupport,
    ConditionAudit,
    Gap,
    LogComparison,
    ModelAudit,
)
from tournament_assets.archives.runs import (
    ArchiveContents,
    is_at_ceiling,
    is_clean,
    weighted_score,
    weighting_of,
)
from tournament_assets.archives.tasks import TaskAudit, TaskFinding, TierFailure, sort_findings
from tournament_assets.reports.report_tables import ReportTable
from tournament_assets.tournament.formatting import ABSENT, format_share, join_names

LISTED = 50
"""The most lines of one list; `--json` and the CSV files hold all."""

_Thing = TypeVar("_Thing")
_Columns = Mapping[str, Callable[[_Thing], str]]
"""What each column shows of a thing, by its header."""

_MODEL: _Columns[ModelAudit] = {"model": lambda model: model.label}
_ARCHIVED: _Columns[ModelAudit] = {"archived": lambda model: f"{model.archived} of {model.planned}"}
_AT_CEILING: _Columns[ModelAudit] = {
    "at the ceiling": lambda model: f"{model.at_ceiling} of {model.archived}"
}
_MEANS: _Columns[ModelAudit] = {
    "mean of all": lambda model: format_score(model.mean, decimals=4),
    "clean mean": lambda model: format_score(model.clean_mean, decimals=4),
    "normalised": lambda model: format_score(model.normalised, decimals=4),
    "judge-only": lambda model: format_score(model.judge_mean),
}


def format_score(value: float | None, *, decimals: int = 3) -> str:
    """Return a score; what is absent never looks like a number."""
    if value == math.inf:
        return "no bound"
    return ABSENT if value is None else f"{value:.{decimals}f}"


def _table(
    things: Iterable[_Thing], columns: _Columns[_Thing], *, n_labels: int = 1
) -> ReportTable:
    rows = tuple(tuple(show(thing) for show in columns.values()) for thing in things)
    return ReportTable(tuple(columns), rows, n_labels)


def coverage_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What is there of every model, and what is missing."""
    return _table(
        models,
        {
            **_MODEL,
            "planned": lambda model: str(model.planned),
            "archived": lambda model: str(model.archived),
            "clean": lambda model: str(model.clean),
            "coverage": lambda model: format_share(model.coverage),
            "no file": lambda model: str(model.absent),
            "unusable file": lambda model: str(model.broken),
        },
    )


def score_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What every model's runs come to."""
    return _table(models, {**_MODEL, **_MEANS, **_AT_CEILING})


def trouble_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What went wrong with every model's runs."""
    return _table(
        models,
        {
            **_MODEL,
            "judging failed": lambda model: str(model.judge_failed),
            "judged again": lambda model: str(model.rejudged),
            "zero score": lambda model: str(model.zero),
            "of these with a response": lambda model: _count(model.zero_with_response),
            "empty": lambda model: _count(model.empty),
            "harness failed": lambda model: str(model.harness_failures),
            "off the rule": lambda model: f"{model.off_rule} of {model.rule_checked}",
            "other weights": lambda model: str(model.wrong_weights),
        },
    )


def _count(value: int | None) -> str:
    return ABSENT if value is None else str(value)


def log_table(logs: Sequence[LogComparison], models: Sequence[ModelAudit]) -> ReportTable:
    """What the logs say, beside what the files say."""
    labels = {model.model_id: model.label for model in models}
    kinds = sorted({name for log in logs for name in log.failures})

    def count_of(kind: str) -> Callable[[LogComparison], str]:
        return lambda log: str(log.failures.get(kind, 0))

    def of_model(count: Callable[[LogComparison], int]) -> Callable[[LogComparison], str]:
        return lambda log: str(count(log)) if log.model_id else ABSENT

    return _table(
        logs,
        {
            "model": lambda log: labels.get(log.model_id, "(no planned model)"),
            **{kind: count_of(kind) for kind in kinds},
            "missing, log says why": of_model(lambda log: log.missing_explained),
            "missing, log is silent": of_model(lambda log: log.missing_unexplained),
            "failed in the log, archived": of_model(lambda log: log.failed_and_archived),
            "of these zero score": of_model(lambda log: log.failed_and_zero),
            "names nothing planned": lambda log: str(log.unplanned),
        },
    )


def broken_table(contents: ArchiveContents) -> ReportTable:
    """The files that cannot be used, each with its reason."""
    return _table(
        contents.broken[:LISTED],
        {"file": lambda file: file.path, "why it counts as missing": lambda file: file.reason},
        n_labels=2,
    )


def finding_table(findings: Sequence[TaskFinding], tier_of: Callable[[str], str]) -> ReportTable:
    """What is wrong with tasks, whichever model."""
    return _table(
        findings[:LISTED],
        {
            "task": lambda finding: finding.task,
            "tier": lambda finding: tier_of(finding.task),
            "finding": lambda finding: finding.sentence,
        },
        n_labels=3,
    )


def spread_table(tasks: Sequence[TaskAudit]) -> ReportTable:
    """How far models differ on each task, and how far runs of one model; clearest first."""
    known = [(task, task.spread.signal) for task in tasks if task.spread.signal is not None]
    known.sort(key=lambda each: (each[1].ratio is None, -(each[1].ratio or 0.0), each[0].task))
    return _table(
        known[:LISTED],
        {
            "task": lambda each: each[0].task,
            "tier": lambda each: each[0].tier,
            "archived": lambda each: f"{each[0].archived} of {each[0].planned}",
            "between models": lambda each: format_score(each[0].spread.between_models),
            "between runs": lambda each: format_score(each[0].spread.between_runs),
            "signal to noise": lambda each: format_score(each[1].ratio, decimals=1),
            "by chance up to": lambda each: format_score(each[1].chance_level, decimals=1),
        },
        n_labels=2,
    )


def tier_failure_table(
    failures: Sequence[TierFailure], models: Sequence[ModelAudit]
) -> ReportTable:
    """Models that fail one tier only."""
    labels = {model.model_id: model.label for model in models}
    return _table(
        failures,
        {
            "model": lambda each: labels[each.model_id],
            "tier": lambda each: each.tier,
            "zero there": lambda each: f"{each.zero} of {each.archived}",
            "zero elsewhere": lambda each: format_share(each.elsewhere),
            "others' zero there": lambda each: format_share(each.others),
        },
        n_labels=2,
    )


def ranking_table(ranked: Sequence[ModelAudit]) -> ReportTable:
    """The models by clean mean, with what else orders them; equal means share a place."""

    def place_by(value: Callable[[ModelAudit], float]) -> Callable[[ModelAudit], str]:
        return lambda model: str(1 + sum(value(other) > value(model) for other in ranked))

    return _table(
        ranked,
        {
            "#": place_by(lambda model: model.clean_mean or 0.0),
            **_MODEL,
            "clean mean": _MEANS["clean mean"],
            "judge-only": _MEANS["judge-only"],
            **_AT_CEILING,
            **_ARCHIVED,
            "coverage": lambda model: format_share(model.coverage),
            "mean of all": _MEANS["mean of all"],
            "normalised": _MEANS["normalised"],
            "its #": place_by(lambda model: model.normalised),
        },
        n_labels=2,
    )


def gap_table(gaps: Sequence[Gap], labels: Mapping[str, str]) -> ReportTable:
    """Pairs of models, and whether they differ by more than noise."""

    def points(value: float | None) -> str:
        return ABSENT if value is None else f"{value:+.4f}"

    return _table(
        gaps,
        {
            "ahead": lambda gap: labels[gap.higher],
            "of": lambda gap: labels[gap.lower],
            "difference": lambda gap: points(gap.difference),
            "low": lambda gap: points(gap.low),
            "high": lambda gap: points(gap.high),
            "reading": _reading,
        },
        n_labels=2,
    )


def _reading(gap: Gap) -> str:
    if gap.is_separated:
        return "significant"
    return "not significant" if gap.is_within_noise else "unknown"


def common_table(support: CommonSupport, labels: Mapping[str, str]) -> ReportTable:
    """The models by their mean on what every model has."""
    return _table(
        enumerate(support.scores, start=1),
        {
            "#": lambda each: str(each[0]),
            "model": lambda each: labels[each[1].model_id],
            "mean": lambda each: format_score(each[1].mean, decimals=4),
            "clean mean": lambda each: format_score(each[1].clean_mean, decimals=4),
        },
        n_labels=2,
    )


def condition_table(conditions: Sequence[ConditionAudit], labels: Mapping[str, str]) -> ReportTable:
    """What was to be the same for all, and what the files say."""
    return _table(
        conditions,
        {
            "condition": lambda audit: audit.name,
            "result": lambda audit: audit.sameness.value,
            "value": lambda audit: _condition_text(audit, labels),
        },
        n_labels=3,
    )


def _condition_text(audit: ConditionAudit, labels: Mapping[str, str]) -> str:
    if audit.stated:
        return audit.stated
    texts = list(audit.values)
    if len(texts) > 1:
        texts = [
            f"{value} ({join_names([labels[model] for model in models])})"
            for value, models in audit.values.items()
        ]
    if audit.silent:
        texts.append(f"{audit.silent} runs do not say")
    return "; ".join(texts) or ABSENT


def coverage_detail_table(models: Sequence[ModelAudit]) -> ReportTable:
    """What is archived, missing and judged again of every model."""
    return _table(
        models,
        {
            **_MODEL,
            **_ARCHIVED,
            "missing": lambda model: str(model.missing),
            "of these unusable": lambda model: str(model.broken),
            "zero score": lambda model: str(model.zero),
            "judged again": lambda model: str(model.rejudged),
            "judging failed": lambda model: str(model.judge_failed),
        },
    )


def tier_tables(models: Sequence[ModelAudit]) -> tuple[tuple[str, ReportTable], ...]:
    """The models' means in every tier: of all runs, and of the clean ones."""
    names = [tier.tier for tier in models[0].tiers] if models else []

    def mean_in(place: int, *, clean: bool) -> Callable[[ModelAudit], str]:
        return lambda model: format_score(
            model.tiers[place].clean_mean if clean else model.tiers[place].mean
        )

    return tuple(
        (
            title,
            _table(
                models,
                {**_MODEL, **{name: mean_in(at, clean=clean) for at, name in enumerate(names)}},
            ),
        )
        for title, clean in (("Mean of all archived runs", False), ("Clean mean", True))
        if models
    )


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows that all have the same columns.

    Attributes:
        columns: Their names.
        rows: The rows.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def cells(self) -> list[list[Any]]:
        """The values of every row, in the order of the columns."""
        return [[row[name] for name in self.columns] for row in self.rows]


_MODEL_FIELDS = (
    *("model_id", "label", "planned", "archived", "broken", "absent", "missing", "clean", "zero"),
    *("zero_with_response", "coverage", "mean", "clean_mean", "normalised", "judge_mean", "judged"),
    *("judge_failed", "rejudged", "at_ceiling", "empty", "harness_failures", "off_rule"),
    *("rule_checked", "wrong_weights"),
)


def model_rows(models: Iterable[ModelAudit]) -> DataTable:
    """Return one row for each model."""
    return _fields(_MODEL_FIELDS, models)


def tier_rows(models: Iterable[ModelAudit]) -> DataTable:
    """Return one row for each model and tier."""
    columns = ("model_id", "tier", "n_archived", "mean", "n_clean", "clean_mean")
    rows = [
        {"model_id": model.model_id, **{name: getattr(tier, name) for name in columns[1:]}}
        for model in models
        for tier in model.tiers
    ]
    return DataTable(columns, tuple(rows))


def gap_rows(gaps: Iterable[Gap]) -> DataTable:
    """Return one row for each two models."""
    return _fields(
        ("higher", "lower", "difference", "low", "high", "is_separated", "n_tasks"), gaps
    )


def common_rows(support: CommonSupport) -> DataTable:
    """Return one row for each model, the highest mean first."""
    rows = [
        {
            "place": place,
            "model_id": score.model_id,
            "mean": score.mean,
            "n_cells": support.n_cells,
            "clean_mean": score.clean_mean,
            "n_clean_cells": support.n_clean_cells,
        }
        for place, score in enumerate(support.scores, start=1)
    ]
    columns = ("place", "model_id", "mean", "n_cells", "clean_mean", "n_clean_cells")
    return DataTable(columns, tuple(rows))


def condition_rows(conditions: Iterable[ConditionAudit]) -> DataTable:
    """Return one row for each thing that a condition is said to be, with the models."""
    columns = ("condition", "sameness", "value", "model_id", "runs")
    rows: list[Row] = []
    for audit in conditions:
        common = {"condition": audit.name, "sameness": audit.sameness.value}
        if audit.stated:
            rows.append({**common, "value": audit.stated, "model_id": None, "runs": None})
        rows.extend(
            {**common, "value": value, "model_id": model_id, "runs": runs}
            for value, models in audit.values.items()
            for model_id, runs in models.items()
        )
        if audit.silent:
            rows.append({**common, "value": None, "model_id": None, "runs": audit.silent})
    return DataTable(columns, tuple(rows))


def task_rows(tasks: Iterable[TaskAudit]) -> DataTable:
    """Return one row for each task."""
    counts = (
        *("task", "tier", "planned", "archived", "zero", "at_ceiling", "judge_failed"),
        "harness_failures",
    )
    spread = ("between_models", "between_runs", "signal_to_noise", "chance_level")
    rows = []
    for task in tasks:
        signal = task.spread.signal
        rows.append(
            {
                **{name: getattr(task, name) for name in counts},
                "between_models": task.spread.between_models,
                "between_runs": task.spread.between_runs,
                "signal_to_noise": None if signal is None else signal.ratio,
                "chance_level": None if signal is None else signal.chance_level,
                "findings": "; ".join(finding.sentence for finding in task.findings),
            }
        )
    return DataTable((*counts, *spread, "findings"), tuple(rows))


def finding_rows(tasks: Iterable[TaskAudit]) -> DataTable:
    """Return one row for each finding, worst first."""
    columns = ("kind", "task", "models", "count", "total", "sentence")
    rows = [
        {
            **{name: getattr(finding, name) for name in columns},
            "kind": finding.kind.value,
            "models": ", ".join(finding.models),
        }
        for finding in sort_findings(tasks)
    ]
    return DataTable(columns, tuple(rows))


def tier_failure_rows(failures: Iterable[TierFailure]) -> DataTable:
    """Return one row for each model that fails one tier only."""
    return _fields(("model_id", "tier", "zero", "archived", "elsewhere", "others"), failures)


def run_rows(contents: ArchiveContents, config: ArchiveConfig) -> DataTable:
    """Return one row for each planned run that has a file: what every mean is made of."""
    names = [component.name for component in config.scores.components]
    # A component may bear the name of another column.
    scores = [f"score_{name}" for name in names]
    columns = (
        *("model_id", "task", "tier", "run", "path", "run_score", "rule_score", *scores),
        *("weighting", "judge_score", "judge_state", "is_clean", "is_at_ceiling", "is_empty"),
        "problem",
    )
    rows: list[Row] = [
        {
            "model_id": run.model_id,
            "task": run.task,
            "tier": run.tier,
            "run": run.run,
            "path": run.path,
            "run_score": run.run_score,
            "rule_score": weighted_score(run, run.judge_score, config.scores),
            **{f"score_{name}": run.components[name] for name in names},
            "weighting": weighting_of(
                run, config.scores, has_judge=run.judge_score is not None
            ).name,
            "judge_score": run.judge_score,
            "judge_state": run.judge_state.value,
            "is_clean": is_clean(run, config.scores),
            "is_at_ceiling": is_at_ceiling(run, config.scores),
            "is_empty": run.is_empty,
            "problem": run.failure or None,
        }
        for run in contents.runs
    ]
    for file in contents.broken:
        known = {
            "model_id": file.model_id,
            "task": file.task,
            "tier": config.tier_of(file.task),
            "run": file.run,
            "path": file.path,
            "problem": file.reason,
        }
        rows.append({name: known.get(name) for name in columns})
    rows.sort(key=lambda row: (row["model_id"], row["task"], row["run"]))
    return DataTable(columns, tuple(rows))


def _fields(columns: tuple[str, ...], things: Iterable[object]) -> DataTable:
    rows = [{name: getattr(thing, name) for name in columns} for thing in things]
    return DataTable(columns, tuple(rows))


def table_values(tables: Mapping[str, DataTable]) -> dict[str, Any]:
    """Return tables for JSON: by name, each a list of rows; what has no bound is "inf"."""
    return {
        name: [
            {column: "inf" if value == math.inf else value for column, value in row.items()}
            for row in table.rows
        ]
        for name, table in tables.items()
    }
