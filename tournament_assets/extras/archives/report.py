"""The audit and the fair comparison of an archive's models, as sections, JSON and CSV."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.audit import ArchiveAudit, archive_tables
from tournament_assets.extras.archives.models import DIFFERENT, neighbours
from tournament_assets.extras.archives.rows import (
    CommonRow,
    ConditionRow,
    FindingRow,
    GapRow,
    LogRow,
    ModelRow,
    TaskRow,
    say,
)
from tournament_assets.extras.archives.runs import BrokenFile
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_number,
)
from tournament_assets.reports.report_tables import (
    Cell,
    Document,
    ReportSection,
    ReportTable,
    select_columns,
    table_csv,
)
from tournament_assets.storage.atomic_files import write_bytes_atomically

_LISTED = 50
"""The most rows of a list that a report shows; `--json` and the CSV files hold all."""
_FEW_TASKS = 6
"""A mean over fewer tasks says little."""


def archive_audit_document(audit: ArchiveAudit) -> Document:
    """Return the audit as a document: first any warnings, last the tasks."""
    columns = select_columns(
        ModelRow,
        *("label", "judge_failed", "rejudged", "zero", "zero_with_response", "empty"),
        *("harness_failures", "off_rule", "rule_checked"),
    )
    sections = [
        *([ReportSection("Read this first", audit.outages)] if audit.outages else []),
        _coverage_section(audit),
        _ranking_section(audit, *say("clean", audit.config)),
        ReportSection("Trouble", (), (("", ReportTable.of(audit.models, columns)),)),
        *_file_sections(audit),
        _task_section(audit),
    ]
    return Document(audit.config.shown_title, sections)


def archive_report_document(audit: ArchiveAudit, *, tables_folder: str = "") -> Document:
    """Return the comparison as a document: first the verdict, which begins with any warnings.

    Args:
        tables_folder: The folder of the CSV tables, relative to the page; empty if there is none.
    """
    config, contents = audit.config, audit.contents
    judges = {run.judge.rejudged_by for run in contents.runs if run.judge.rejudged_by}
    tier_counts = Counter(config.harness.tier(task) for task in contents.tasks)
    small_tiers = [tier for tier, count in tier_counts.items() if count < _FEW_TASKS]
    verdict = (*audit.outages, *verdict_sentences(audit), *say("left_out", audit))
    sections = [
        ReportSection("Verdict", verdict),
        _ranking_section(audit),
        *_gap_sections(audit),
        _common_section(audit),
        _sameness_section(audit),
        _coverage_section(audit),
        ReportSection("Means by tier", (), tuple(_tier_tables(audit))),
        ReportSection("Glossary", say("glossary", config.harness, config.n_planned)),
        ReportSection("Caveats", say("caveats", audit, sorted(judges), small_tiers)),
    ]
    if tables_folder:
        sections.append(ReportSection("Where the numbers are", say("places", tables_folder)))
    return Document(config.shown_title, sections)


def verdict_sentences(audit: ArchiveAudit) -> tuple[str, ...]:
    """Describe which model leads, and whether its lead is significant."""
    labels = audit.contents.labels
    behind: Mapping[str, list[str]] = defaultdict(list)
    for gap in audit.gaps:
        if gap.higher == audit.ranked[0].model_id:
            lead = _interval(gap, format_confidence(audit.config.confidence))
            behind[gap.reading].append(f"{labels[gap.lower]} ({lead})")
    between: Mapping[str, list[str]] = defaultdict(list)
    for gap in neighbours(audit.gaps, audit.ranked):
        between[gap.reading].append(f"{labels[gap.higher]} and {labels[gap.lower]}")
    return say("verdict", audit.ranked, behind, between)


def _interval(gap: GapRow, share: str) -> str:
    if gap.low is None and gap.high is None:
        return f"{gap.difference:+.4f}; {gap.n_tasks} tasks set no {share} interval"
    low, high = (ABSENT if end is None else f"{end:+.4f}" for end in (gap.low, gap.high))
    return f"{gap.difference:+.4f}; {share} interval {low} to {high}"


def _coverage_section(audit: ArchiveAudit) -> ReportSection:
    columns = select_columns(
        ModelRow,
        *("label", "planned", "archived", "clean", "coverage", "missing", "broken", "zero"),
        *("rejudged", "judge_failed"),
    )
    table = ReportTable.of(audit.models, columns)
    absent = [audit.contents.labels[model_id] for model_id in audit.contents.absent_models]
    sentences = say("coverage", audit.contents, absent)
    return ReportSection("Coverage in detail", sentences, (("", table),))


def _ranking_section(audit: ArchiveAudit, *sentences: str) -> ReportSection:
    def place(name: str, row: ModelRow) -> int:
        """Return a model's place by a mean; equal means share a place."""
        return 1 + sum(bool(getattr(other, name) > getattr(row, name)) for other in audit.ranked)

    columns: dict[str, Cell[Any]] = {
        "#": partial(place, "clean_mean"),
        **select_columns(
            ModelRow,
            *("label", "clean_mean", "judge_mean", "at_ceiling", "archived", "planned"),
            *("coverage", "mean", "normalised"),
        ),
        "its #": partial(place, "normalised"),
    }
    table = ReportTable.of(audit.ranked, columns, n_labels=2)
    return ReportSection("Ranking by clean mean", sentences, (("", table),))


def _gap_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    labels = audit.contents.labels
    columns = {
        "ahead": lambda gap: labels[gap.higher],
        "of": lambda gap: labels[gap.lower],
        **select_columns(GapRow, "difference", "low", "high", "reading"),
    }
    behind = [gap for gap in audit.gaps if gap.higher == audit.ranked[0].model_id]
    tables = (
        ("Neighbours", ReportTable.of(neighbours(audit.gaps, audit.ranked), columns, n_labels=2)),
        ("Behind the first", ReportTable.of(behind, columns, n_labels=2)),
    )
    if behind:
        yield ReportSection("Gaps and significance", say("gaps", audit.config.resampling), tables)


def _models_of(audit: ArchiveAudit) -> Mapping[str, Cell[Any]]:
    """Return the column of the models' names."""
    labels = audit.contents.labels
    return {"model": lambda row: labels.get(row.model_id, row.model_id and "(not planned)")}


def _common_section(audit: ArchiveAudit) -> ReportSection:
    columns = {
        **select_columns(CommonRow, "place"),
        **_models_of(audit),
        **select_columns(CommonRow, "mean", "clean_mean"),
    }
    table = ReportTable.of(audit.support, columns, n_labels=2)
    return ReportSection("On common support", say("common", audit), (("", table),))


def _sameness_section(audit: ArchiveAudit) -> ReportSection:
    results = {row.condition: row.sameness for row in audit.conditions}
    columns = {
        **select_columns(ConditionRow, "condition", "sameness", "value"),
        **_models_of(audit),
        **select_columns(ConditionRow, "runs"),
    }
    different = [name for name, result in results.items() if result == DIFFERENT]
    sentences = (
        *say("rule", audit.config.harness.weightings),
        *say("conditions", different, Counter(results.values())),
    )
    table = ReportTable.of(audit.conditions, columns, n_labels=4)
    return ReportSection("The same for all", sentences, (("", table),) if results else ())


def _tier_tables(audit: ArchiveAudit) -> Iterator[tuple[str, ReportTable]]:
    """Yield the means with one column per tier, over all archived runs and over the clean ones."""
    by_cell = {(row.model_id, row.tier): row for row in audit.tiers}
    tiers = dict.fromkeys(row.tier for row in audit.tiers)

    def mean(name: str, tier: str, row: ModelRow) -> str:
        return format_number(getattr(by_cell[row.model_id, tier], name), decimals=3)

    for name, title in (("mean", "Mean of all archived runs"), ("clean_mean", "Clean mean")):
        columns = {tier: partial(mean, name, tier) for tier in tiers}
        if audit.ranked:
            yield title, ReportTable.of(audit.ranked, {**_models_of(audit), **columns})


def _file_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    contents = audit.contents
    if contents.broken:
        n_more = len(contents.broken) - _LISTED
        more = (f"{n_more} more; --json lists all.",) if n_more > 0 else ()
        columns = select_columns(BrokenFile, "path", "reason")
        broken = ReportTable.of(contents.broken[:_LISTED], columns, n_labels=2)
        yield ReportSection("Files that cannot be used", more, (("", broken),))
    if contents.config.logs:
        read = f"Log files read: {contents.log_files}."
        tables = (("", _log_table(audit)),) if audit.logs else ()
        yield ReportSection("Logs beside files", (read,), tables)


def _log_table(audit: ArchiveAudit) -> ReportTable:
    """Return the logs for people, with one column per kind of failure."""

    def count(kind: str, row: LogRow) -> int:
        return row.failures.get(kind, 0)

    kinds = sorted({kind for row in audit.logs for kind in row.failures})
    names = ("missing_explained", "missing_unexplained", "failed_and_archived", "failed_and_zero")
    columns: dict[str, Cell[Any]] = {
        **_models_of(audit),
        **{kind: partial(count, kind) for kind in kinds},
        **select_columns(LogRow, *names, "unplanned"),
    }
    return ReportTable.of(audit.logs, columns)


def _task_section(audit: ArchiveAudit) -> ReportSection:
    findings, reader = audit.findings, audit.config.harness
    spreads = sorted(
        (row for row in audit.tasks if row.chance_level is not None),
        key=lambda row: (row.signal_to_noise is None, -(row.signal_to_noise or 0.0), row.task),
    )
    above = [row.is_above_chance for row in spreads]
    tables = []
    if findings:
        columns = {
            **select_columns(FindingRow, "task"),
            "tier": lambda row: reader.tier(row.task),
            **select_columns(FindingRow, "sentence"),
        }
        tables.append(("", ReportTable.of(findings[:_LISTED], columns, n_labels=3)))
    if spreads:
        columns = select_columns(
            TaskRow,
            *("task", "tier", "archived", "planned", "between_models", "between_runs"),
            *("signal_to_noise", "chance_level"),
        )
        tables.append(("Spread", ReportTable.of(spreads[:_LISTED], columns, n_labels=2)))
    sentences = say("tasks", len(findings), len(audit.tasks), _LISTED, above)
    return ReportSection("Tasks across models", sentences, tuple(tables))


def archive_values(audit: ArchiveAudit) -> dict[str, Any]:
    """Return every number of the audit and of the comparison, for JSON."""
    contents = audit.contents
    return {
        "archive_id": audit.config.archive_id,
        "excluded": audit.excluded,
        "passed": not audit.outages,
        "outages": list(audit.outages),
        "verdict": list(verdict_sentences(audit)),
        "planned_per_model": audit.config.n_planned,
        "tasks_seen": len(contents.tasks),
        "absent_models": list(contents.absent_models),
        "unplanned_files": list(contents.unplanned),
        "log_files": contents.log_files,
        "ranking": [row.model_id for row in audit.ranked],
        **archive_tables(audit),
    }


def write_archive_tables(page: Path, audit: ArchiveAudit) -> str:
    """Write all tables as CSV into a folder beside the page; return the folder's name."""
    folder = page.with_name(f"{re.sub(r'[.](md|markdown)$', '', page.name)}_tables")
    try:
        for name, rows in archive_tables(audit).items():
            columns = list(rows[0]) if rows else []
            content = table_csv(columns, [list(row.values()) for row in rows])
            write_bytes_atomically(folder / f"{name}.csv", content)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from error
    return folder.name
