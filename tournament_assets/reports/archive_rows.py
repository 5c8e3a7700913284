"""The numbers behind an archive's audit and report, as rows: one table each, for CSV and JSON."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tournament_assets.audits.archive_conditions import ConditionAudit
from tournament_assets.audits.archive_models import LogComparison, ModelAudit
from tournament_assets.audits.archive_ranking import CommonSupport, Gap
from tournament_assets.audits.archive_scores import (
    is_at_ceiling,
    is_clean,
    weighted_score,
    weighting_of,
)
from tournament_assets.audits.archive_tasks import TaskAudit, TierFailure, sort_findings
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig

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


_MODEL_FIELDS = (
    "model_id",
    "label",
    "planned",
    "archived",
    "broken",
    "absent",
    "missing",
    "clean",
    "zero",
    "zero_with_response",
    "coverage",
    "mean",
    "clean_mean",
    "normalised",
    "judge_mean",
    "judged",
    "judge_failed",
    "rejudged",
    "at_ceiling",
    "empty",
    "harness_failures",
    "off_rule",
    "rule_checked",
    "wrong_weights",
)


def model_table(models: Iterable[ModelAudit]) -> DataTable:
    """Return one row for each model."""
    return _fields(_MODEL_FIELDS, models)


def tier_table(models: Iterable[ModelAudit]) -> DataTable:
    """Return one row for each model and tier."""
    columns = ("model_id", "tier", "n_archived", "mean", "n_clean", "clean_mean")
    rows = [
        {"model_id": model.model_id, **{name: getattr(tier, name) for name in columns[1:]}}
        for model in models
        for tier in model.tiers
    ]
    return DataTable(columns, tuple(rows))


def gap_table(gaps: Iterable[Gap]) -> DataTable:
    """Return one row for each two models."""
    return _fields(
        ("higher", "lower", "difference", "low", "high", "is_separated", "n_tasks"), gaps
    )


def common_table(support: CommonSupport) -> DataTable:
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


def condition_table(conditions: Iterable[ConditionAudit]) -> DataTable:
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


def log_table(logs: Iterable[LogComparison]) -> DataTable:
    """Return one row for each model and kind of failure that a log tells of."""
    columns = ("model_id", "failure", "lines")
    rows = [
        {"model_id": log.model_id, "failure": name, "lines": count}
        for log in logs
        for name, count in log.failures.items()
    ]
    return DataTable(columns, tuple(rows))


def task_table(tasks: Iterable[TaskAudit]) -> DataTable:
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


def finding_table(tasks: Iterable[TaskAudit]) -> DataTable:
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


def tier_failure_table(failures: Iterable[TierFailure]) -> DataTable:
    """Return one row for each model that fails one tier only."""
    return _fields(("model_id", "tier", "zero", "archived", "elsewhere", "others"), failures)


def run_table(contents: ArchiveContents, config: ArchiveConfig) -> DataTable:
    """Return one row for each planned run that has a file: what every mean is made of."""
    names = [component.name for component in config.scores.components]
    # A component may bear the name of another column.
    scores = [f"score_{name}" for name in names]
    columns = (
        *("model_id", "task", "tier", "run", "path", "run_score", "rule_score", *scores),
        *(
            "weighting",
            "judge_score",
            "judge_state",
            "is_clean",
            "is_at_ceiling",
            "is_empty",
            "problem",
        ),
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
