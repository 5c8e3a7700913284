"""The audit of an archive of scored runs, in sections."""

from dataclasses import asdict, dataclass
from typing import Any

from tournament_assets.audits.archive_models import (
    LogComparison,
    ModelAudit,
    audit_models,
    compare_with_logs,
)
from tournament_assets.audits.archive_tasks import (
    TaskAudit,
    TierFailure,
    audit_tasks,
    find_tier_failures,
)
from tournament_assets.reports import archive_rows, archive_tables
from tournament_assets.reports.archive_tables import LISTED
from tournament_assets.reports.formatting import join_names
from tournament_assets.reports.rendering import ReportSection
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig


@dataclass(frozen=True, slots=True)
class ArchiveAudit:
    """What an archive holds and what is wrong with it.

    Attributes:
        config: The archive's description.
        contents: The archive as it was read.
        models: Every model's counts and means.
        logs: What the logs say of every model.
        tasks: Every task across models.
        tier_failures: Models that fail one tier only.
    """

    config: ArchiveConfig
    contents: ArchiveContents
    models: tuple[ModelAudit, ...]
    logs: tuple[LogComparison, ...]
    tasks: tuple[TaskAudit, ...]
    tier_failures: tuple[TierFailure, ...]


def audit_archive(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> ArchiveAudit:
    """Audit an archive: by model, beside its logs, by task."""
    return ArchiveAudit(
        config=config,
        contents=contents,
        models=audit_models(contents, config, exclude=exclude),
        logs=compare_with_logs(contents, config, exclude=exclude) if contents.log_files else (),
        tasks=audit_tasks(contents, config, exclude=exclude),
        tier_failures=tuple(find_tier_failures(contents, config)),
    )


def archive_audit_sections(audit: ArchiveAudit) -> list[ReportSection]:
    """Return the audit for people."""
    tables, models = archive_tables, audit.models
    sections = [
        ReportSection(
            "Coverage",
            tuple(coverage_sentences(audit)),
            (("", tables.coverage_table(models)),),
        ),
        ReportSection("Scores", _score_sentences(audit), (("", tables.score_table(models)),)),
        ReportSection("Trouble", (), (("", tables.trouble_table(models)),)),
    ]
    if audit.contents.broken:
        left = len(audit.contents.broken) - LISTED
        sections.append(
            ReportSection(
                "Files that cannot be used",
                (f"{left} more; --json lists all.",) if left > 0 else (),
                (("", tables.broken_table(audit.contents)),),
            )
        )
    if audit.contents.log_files:
        sections.append(
            ReportSection(
                "Logs beside files",
                (f"{audit.contents.log_files} log files were read.",),
                (("", tables.log_table(audit.logs, models)),),
            )
        )
    elif audit.config.logs is not None:
        sections.append(ReportSection("Logs beside files", ("No file matches logs.files.",)))
    sections.append(_task_section(audit))
    if audit.tier_failures:
        sections.append(
            ReportSection(
                "Models that fail one tier only",
                (),
                (("", tables.tier_failure_table(audit.tier_failures, models)),),
            )
        )
    return sections


def coverage_sentences(audit: ArchiveAudit) -> list[str]:
    """Say what was planned, and what cannot be counted."""
    plan, contents = audit.config.plan, audit.contents
    labels = {model.model_id: model.label for model in audit.models}
    sentences = [
        f"Planned for every model: {plan.n_tasks} tasks × {len(plan.run_names)} runs = "
        f"{plan.n_cells}."
    ]
    if contents.absent_models:
        names = join_names([labels[model_id] for model_id in contents.absent_models])
        sentences.append(f"The folder of {names} is not there: every run counts as missing.")
    unseen = plan.n_tasks - len(contents.tasks)
    if unseen:
        sentences.append(f"No model has any file of {unseen} planned tasks.")
    if contents.unplanned:
        sentences.append(
            f"Files of runs that nobody planned, in no number: {len(contents.unplanned)}; "
            f"{', '.join(contents.unplanned[:5])}{' …' if len(contents.unplanned) > 5 else ''}."
        )
    return sentences


def _score_sentences(audit: ArchiveAudit) -> tuple[str, ...]:
    rules = audit.config.scores
    return (
        f"Clean: a score of at least {rules.zero_below:g}. Normalised: the sum of the clean scores "
        f"by the {audit.config.plan.n_cells} planned runs. At the ceiling: {rules.deciding} is "
        f"{rules.ceiling:g}.",
    )


def _task_section(audit: ArchiveAudit) -> ReportSection:
    findings = [finding for task in audit.tasks for finding in task.findings]
    sentences = [
        f"{len(findings)} findings on {len(audit.tasks)} tasks."
        + (f" The first {LISTED} are shown; --json lists all." if len(findings) > LISTED else ""),
        "Between models and between runs: standard deviations. Ratio: about 1 where a task tells "
        "models apart no better than chance does.",
    ]
    tables = []
    if findings:
        tables.append(("", archive_tables.finding_table(audit.tasks)))
    spread = archive_tables.spread_table(audit.tasks)
    if spread.rows:
        tables.append(("Spread", spread))
    return ReportSection("Tasks across models", tuple(sentences), tuple(tables))


def archive_audit_values(audit: ArchiveAudit) -> dict[str, Any]:
    """Return every number of the audit, for JSON."""
    contents = audit.contents
    return {
        "archive_id": audit.config.archive_id,
        "planned_per_model": audit.config.plan.n_cells,
        "tasks_seen": len(contents.tasks),
        "absent_models": list(contents.absent_models),
        "unplanned_files": list(contents.unplanned),
        "broken_files": [asdict(file) for file in contents.broken],
        "log_files": contents.log_files,
        "log_failures": [asdict(failure) for failure in contents.log_failures],
        "logs": [asdict(log) for log in audit.logs],
        **archive_rows.table_values(
            {
                "models": archive_rows.model_table(audit.models),
                "tiers": archive_rows.tier_table(audit.models),
                "tasks": archive_rows.task_table(audit.tasks),
                "tier_failures": archive_rows.tier_failure_table(audit.tier_failures),
                "runs": archive_rows.run_table(contents, audit.config),
            }
        ),
    }
