"""The audit of an archive of scored runs, in sections."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tournament_assets.extras.archives import tables
from tournament_assets.extras.archives.models import (
    LogComparison,
    ModelAudit,
    audit_models,
    compare_with_logs,
    find_outages,
)
from tournament_assets.extras.archives.runs import ArchiveContents
from tournament_assets.extras.archives.tables import LISTED, Fact, Table
from tournament_assets.extras.archives.tasks import (
    TaskAudit,
    TierFailure,
    audit_tasks,
    find_tier_failures,
    sort_findings,
)
from tournament_assets.foundation.formatting import format_plural, join_names
from tournament_assets.reports.report_tables import ReportSection


@dataclass(frozen=True, slots=True)
class ArchiveAudit:
    """The contents of an archive and its problems.

    Attributes:
        logs: Every model's logs compared with its files.
        outages: Warnings to show first, as sentences; empty if all is well.
    """

    contents: ArchiveContents
    models: tuple[ModelAudit, ...]
    logs: tuple[LogComparison, ...]
    tasks: tuple[TaskAudit, ...]
    tier_failures: tuple[TierFailure, ...]
    outages: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether there are no outages."""
        return not self.outages


def audit_archive(contents: ArchiveContents) -> ArchiveAudit:
    """Audit an archive by model, against its logs, and by task."""
    models = audit_models(contents)
    return ArchiveAudit(
        contents=contents,
        models=models,
        logs=compare_with_logs(contents) if contents.log_files else (),
        tasks=audit_tasks(contents),
        tier_failures=tuple(find_tier_failures(models)),
        outages=find_outages(models, contents.config.checks),
    )


def archive_audit_sections(audit: ArchiveAudit) -> list[ReportSection]:
    """Return the audit's sections for people."""
    models = Table(tables.MODELS, audit.models)
    coverage = models.shown("label", "planned", "archived", "clean", "coverage", "absent", "broken")
    scores = models.shown(
        *("label", "mean", "clean_mean", "normalised", "judge_mean", "at_ceiling", "archived")
    )
    trouble = models.shown(
        *("label", "judge_failed", "rejudged", "zero", "zero_with_response", "empty"),
        *("harness_failures", "off_rule", "rule_checked"),
    )
    return [
        *([ReportSection("Read this first", audit.outages)] if audit.outages else []),
        ReportSection("Coverage", tuple(coverage_sentences(audit)), (("", coverage),)),
        ReportSection("Scores", _score_sentences(audit), (("", scores),)),
        ReportSection("Trouble", (), (("", trouble),)),
        *_file_sections(audit),
        _task_section(audit),
        *_tier_sections(audit),
    ]


def _file_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    contents = audit.contents
    if contents.broken:
        n_more = len(contents.broken) - LISTED
        more = (f"{n_more} more; --json lists all.",) if n_more > 0 else ()
        broken = Table(tables.BROKEN, contents.broken[:LISTED]).shown("path", "reason", n_labels=2)
        yield ReportSection("Files that cannot be used", more, (("", broken),))
    if contents.log_files:
        read = f"Log files read: {contents.log_files}."
        logs = tables.shown_logs(audit.logs, contents.labels)
        yield ReportSection("Logs beside files", (read,), (("", logs),))
    elif contents.config.logs:
        yield ReportSection("Logs beside files", ("No file matches logs.",))


def _tier_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    if audit.tier_failures:
        failures = Table(tables.TIER_FAILURES, audit.tier_failures, audit.contents.labels).shown(
            *("model_id", "tier", "zero", "archived", "elsewhere", "others"), n_labels=2
        )
        yield ReportSection("Models that fail one tier only", (), (("", failures),))


def coverage_sentences(audit: ArchiveAudit) -> list[str]:
    """Describe the plan, and which runs are absent or unplanned."""
    contents, config = audit.contents, audit.contents.config
    plan, labels = config.plan, contents.labels
    sentences = [
        f"Planned for every model: {plan.n_tasks} tasks × {len(config.run_names)} runs = "
        f"{config.n_planned}."
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
    config = audit.contents.config
    return (
        f"Clean: a score of at least {config.harness.zero_below:g}. Normalised: the sum of the "
        f"clean scores divided by the {config.n_planned} planned runs. At the ceiling: "
        f"{config.harness.deciding} is {config.harness.ceiling:g}.",
    )


def _task_section(audit: ArchiveAudit) -> ReportSection:
    findings = sort_findings(audit.tasks)
    signals = [task.spread.signal for task in audit.tasks if task.spread is not None]
    sentences = [
        f"{format_plural(len(findings), 'finding')} on {len(audit.tasks)} tasks, worst first."
        + (f" The first {LISTED} are shown; --json lists all." if len(findings) > LISTED else ""),
    ]
    parts = []
    if findings:
        reader = audit.contents.config.harness
        tier = Fact("tier", "tier", lambda each: reader.tier(each.task), str)
        table = Table(tables.FINDINGS, findings[:LISTED])
        parts.append(("", table.shown("task", tier, "sentence", n_labels=3)))
    if signals:
        above = sum(signal.is_above_chance for signal in signals)
        sentences += [
            f"{above} of {len(signals)} tasks tell models apart better than chance does.",
            "Between models and between runs: standard deviations. Signal to noise: what differs "
            "between models by what differs between runs of one model; where models do not differ, "
            "1 task in 20 is above the chance level.",
        ]
        parts.append(("Spread", tables.shown_spreads(audit.tasks)))
    return ReportSection("Tasks across models", tuple(sentences), tuple(parts))


def audit_tables(audit: ArchiveAudit) -> dict[str, Table]:
    """Return the tables with every number of the audit, by name."""
    contents = audit.contents
    return {
        "broken_files": Table(tables.BROKEN, contents.broken),
        "log_failures": Table(tables.LOG_LINES, contents.log_failures),
        "logs": Table(tables.LOGS, audit.logs),
        "models": Table(tables.MODELS, audit.models),
        "tiers": Table(tables.TIERS, [tier for model in audit.models for tier in model.tiers]),
        "tasks": Table(tables.TASKS, audit.tasks),
        "findings": Table(tables.FINDINGS, sort_findings(audit.tasks)),
        "tier_failures": Table(tables.TIER_FAILURES, audit.tier_failures),
        "runs": tables.runs_table(contents),
    }


def archive_audit_values(audit: ArchiveAudit) -> dict[str, Any]:
    """Return every number of the audit, for JSON."""
    contents = audit.contents
    return {
        "archive_id": contents.config.archive_id,
        "passed": audit.passed,
        "outages": list(audit.outages),
        "planned_per_model": contents.config.n_planned,
        "tasks_seen": len(contents.tasks),
        "absent_models": list(contents.absent_models),
        "unplanned_files": list(contents.unplanned),
        "log_files": contents.log_files,
        **{name: table.values for name, table in audit_tables(audit).items()},
    }
