"""The audit of an archive of scored runs and the comparison of its models, as numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tournament_assets.extras.archives.config import ArchiveConfig
from tournament_assets.extras.archives.models import (
    audit_conditions,
    audit_models,
    audit_tiers,
    compare_with_logs,
    find_common_support,
    find_outages,
    measure_gaps,
    rank_models,
)
from tournament_assets.extras.archives.rows import (
    CommonRow,
    ConditionRow,
    FindingRow,
    GapRow,
    LogRow,
    ModelRow,
    TaskRow,
    TierRow,
    row_values,
)
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun, BrokenFile
from tournament_assets.extras.archives.tasks import audit_tasks, find_task_problems


@dataclass(frozen=True, slots=True)
class ArchiveAudit:
    """The contents of an archive, its problems, and the fair comparison of its models.

    Attributes:
        logs: Every model's logs compared with its files.
        findings: The problems of tasks, worst first.
        outages: Warnings to show first, as sentences; empty if all is well.
        ranked: The models with a clean run, the highest clean mean first.
        gaps: The gap between each model and every one below it.
    """

    contents: ArchiveContents
    models: Sequence[ModelRow]
    tiers: Sequence[TierRow]
    logs: Sequence[LogRow]
    findings: Sequence[FindingRow]
    tasks: Sequence[TaskRow]
    outages: tuple[str, ...]
    ranked: Sequence[ModelRow]
    gaps: Sequence[GapRow]
    support: Sequence[CommonRow]
    conditions: Sequence[ConditionRow]

    @property
    def config(self) -> ArchiveConfig:
        """The archive's description."""
        return self.contents.config

    @property
    def excluded(self) -> list[str]:
        """The ids of models left out on request."""
        return sorted(
            {model.model_id for model in self.config.models} - self.contents.labels.keys()
        )


def audit_archive(contents: ArchiveContents) -> ArchiveAudit:
    """Audit an archive by model, against its logs, and by task, and compare its models."""
    models, findings = audit_models(contents), find_task_problems(contents)
    ranked = rank_models(models)
    return ArchiveAudit(
        contents=contents,
        models=models,
        tiers=audit_tiers(contents),
        logs=compare_with_logs(contents) if contents.log_files else (),
        findings=findings,
        tasks=audit_tasks(contents, findings),
        outages=tuple(find_outages(models, contents.config.checks)),
        ranked=ranked,
        gaps=measure_gaps(ranked, contents),
        support=find_common_support(contents),
        conditions=audit_conditions(contents),
    )


def archive_tables(audit: ArchiveAudit) -> dict[str, list[dict[str, Any]]]:
    """Return the tables with every number of the audit and of the comparison, by name."""
    tables: dict[str, Sequence[Any]] = {
        "broken_files": audit.contents.broken,
        "log_failures": audit.contents.log_failures,
        "logs": audit.logs,
        "models": audit.models,
        "tiers": audit.tiers,
        "tasks": audit.tasks,
        "findings": audit.findings,
        "gaps": audit.gaps,
        "common_support": audit.support,
        "conditions": audit.conditions,
    }
    return {
        **{name: [row_values(row) for row in rows] for name, rows in tables.items()},
        "runs": list(_run_values(audit.contents)),
    }


def _run_values(contents: ArchiveContents) -> Iterator[dict[str, Any]]:
    """Yield every planned run that has a file; all means are computed from these."""
    components = dict.fromkeys(name for run in contents.runs for name in run.components)
    of_both = ("model_id", "task", "tier", "run", "path", "run_score", "rule_score")
    of_runs = ("is_clean", "is_at_ceiling", "is_empty")
    rows: list[ArchivedRun | BrokenFile] = [*contents.runs, *contents.broken]
    for row in sorted(rows, key=lambda row: (row.model_id, row.task, row.run)):
        run = row if isinstance(row, ArchivedRun) else None
        yield {
            **{name: getattr(row, name, None) for name in of_both},
            # A component may have the name of another column.
            **{f"score_{name}": run and run.components.get(name) for name in components},
            "weighting": run and run.weighting.name,
            "judge_score": run and run.judge.score,
            "judge_state": run and run.judge.state,
            **{name: getattr(row, name, None) for name in of_runs},
            "problem": row.failure or None if isinstance(row, ArchivedRun) else row.reason,
        }
