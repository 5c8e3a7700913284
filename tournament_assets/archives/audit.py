"""The audit of an archive of scored runs, in sections."""

from dataclasses import asdict, dataclass
from typing import Any

from tournament_assets.archives import tables
from tournament_assets.archives.config import ArchiveConfig
from tournament_assets.archives.models import (
    LogComparison,
    ModelAudit,
    audit_models,
    compare_with_logs,
    find_outages,
)
from tournament_assets.archives.runs import ArchiveContents
from tournament_assets.archives.tables import LISTED
from tournament_assets.archives.tasks import (
    TaskAudit,
    TierFailure,
    audit_tasks,
    find_tier_failures,
    sort_findings,
)
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.tournament.formatting import join_names


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
        outages: What must be said first, in sentences; empty if all is well.
    """

    config: ArchiveConfig
    contents: ArchiveContents
    models: tuple[ModelAudit, ...]
    logs: tuple[LogComparison, ...]
    tasks: tuple[TaskAudit, ...]
    tier_failures: tuple[TierFailure, ...]
    outages: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is missing that a reader would have to be told of first."""
        return not self.outages


def audit_archive(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> ArchiveAudit:
    """Audit an archive: by model, beside its logs, by task."""
    models = audit_models(contents, config, exclude=exclude)
    return ArchiveAudit(
        config=config,
        contents=contents,
        models=models,
        logs=compare_with_logs(contents, config, exclude=exclude) if contents.log_files else (),
        tasks=audit_tasks(contents, config, exclude=exclude),
        tier_failures=tuple(find_tier_failures(contents, config)),
        outages=find_outages(models, config.checks),
    )


def archive_audit_sections(audit: ArchiveAudit) -> list[ReportSection]:
    """Return the audit for people."""
    models = audit.models
    sections = [ReportSection("Read this first", audit.outages)] if audit.outages else []
    sections += [
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
        sentences.append(f"The folder of {names} does not exist: every run counts as missing.")
    seen = {run.task for run in contents.runs} | {file.task for file in contents.broken}
    if len(seen) < plan.n_tasks:
        named = [task for task in contents.tasks if task not in seen]
        listed = f" ({', '.join(named[:5])}{' …' if len(named) > 5 else ''})" if named else ""
        sentences.append(
            f"No model has any file of {plan.n_tasks - len(seen)} planned tasks{listed}."
        )
    if contents.unplanned:
        sentences.append(
            f"Files of unplanned runs, counted nowhere else: {len(contents.unplanned)}; "
            f"{', '.join(contents.unplanned[:5])}{' …' if len(contents.unplanned) > 5 else ''}."
        )
    return sentences


def _score_sentences(audit: ArchiveAudit) -> tuple[str, ...]:
    rules = audit.config.scores
    return (
        f"Clean: a score of at least {rules.zero_below:g}. Normalised: the sum of the clean scores "
        f"divided by the {audit.config.plan.n_cells} planned runs. At the ceiling: "
        f"{rules.deciding} is {rules.ceiling:g}.",
    )


def _task_section(audit: ArchiveAudit) -> ReportSection:
    findings = sort_findings(audit.tasks)
    signals = [task.spread.signal for task in audit.tasks if task.spread.signal is not None]
    sentences = [
        f"{len(findings)} findings on {len(audit.tasks)} tasks, worst first."
        + (f" The first {LISTED} are shown; --json lists all." if len(findings) > LISTED else ""),
    ]
    shown = []
    if findings:
        shown.append(("", tables.finding_table(findings, audit.config.tier_of)))
    if signals:
        above = sum(signal.is_above_chance for signal in signals)
        sentences += [
            f"{above} of {len(signals)} tasks tell models apart better than chance does.",
            "Between models and between runs: standard deviations. Signal to noise: what differs "
            "between models by what differs between runs of one model; where models do not differ, "
            "1 task in 20 is above the chance level.",
        ]
        shown.append(("Spread", tables.spread_table(audit.tasks)))
    return ReportSection("Tasks across models", tuple(sentences), tuple(shown))


def archive_audit_values(audit: ArchiveAudit) -> dict[str, Any]:
    """Return every number of the audit, for JSON."""
    contents = audit.contents
    return {
        "archive_id": audit.config.archive_id,
        "passed": audit.passed,
        "outages": list(audit.outages),
        "planned_per_model": audit.config.plan.n_cells,
        "tasks_seen": len(contents.tasks),
        "absent_models": list(contents.absent_models),
        "unplanned_files": list(contents.unplanned),
        "broken_files": [asdict(file) for file in contents.broken],
        "log_files": contents.log_files,
        "log_failures": [asdict(failure) for failure in contents.log_failures],
        "logs": [asdict(log) for log in audit.logs],
        **tables.table_values(
            {
                "models": tables.model_rows(audit.models),
                "tiers": tables.tier_rows(audit.models),
                "tasks": tables.task_rows(audit.tasks),
                "findings": tables.finding_rows(audit.tasks),
                "tier_failures": tables.tier_failure_rows(audit.tier_failures),
                "runs": tables.run_rows(contents, audit.config),
            }
        ),
    }
