"""The audit and the fair comparison of an archive's models, as sections, JSON and CSV."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from math import fsum
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives.audit import ArchiveAudit, archive_tables
from tournament_assets.extras.archives.config import ArchiveConfig
from tournament_assets.extras.archives.harness import Weighting
from tournament_assets.extras.archives.models import DIFFERENT, STATED, neighbours
from tournament_assets.extras.archives.rows import (
    CommonRow,
    ConditionRow,
    FindingRow,
    GapRow,
    LogRow,
    ModelRow,
    TaskRow,
    TierFailureRow,
)
from tournament_assets.extras.archives.runs import BrokenFile
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_number,
    format_plural,
    format_share,
    join_names,
    list_first,
)
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    select_columns,
    table_csv,
)
from tournament_assets.storage.atomic_files import write_bytes_atomically

_LISTED = 50
"""The most rows of a list that a report shows; `--json` and the CSV files hold all."""
_UNEVEN = 0.02
"""The largest difference between coverages that counts as even."""
_FEW_TASKS = 6
"""A mean over fewer tasks says little."""


def archive_audit_document(audit: ArchiveAudit) -> Document:
    """Return the audit as a document: first any warnings, last the tasks."""
    config = audit.config
    columns = select_columns(
        ModelRow,
        *("label", "judge_failed", "rejudged", "zero", "zero_with_response", "empty"),
        *("harness_failures", "off_rule", "rule_checked"),
    )
    clean = (
        f"Clean: a score of at least {config.harness.zero_below:g}. Normalised: the sum of the "
        f"clean scores divided by the {config.n_planned} planned runs. At the ceiling: "
        f"{config.harness.deciding} is {config.harness.ceiling:g}."
    )
    sections = [
        *([ReportSection("Read this first", audit.outages)] if audit.outages else []),
        _coverage_section(audit),
        _ranking_section(audit, clean),
        ReportSection("Trouble", (), (("", ReportTable.of(audit.models, columns)),)),
        *_file_sections(audit),
        _task_section(audit),
        *_tier_failure_sections(audit),
    ]
    return Document(config.shown_title, sections)


def archive_report_document(audit: ArchiveAudit, *, tables_folder: str = "") -> Document:
    """Return the comparison as a document: first the verdict, which begins with any warnings.

    Args:
        tables_folder: The folder of the CSV tables, relative to the page; empty if there is none.
    """
    left_out = [f"Left out on request: {', '.join(audit.excluded)}."] if audit.excluded else []
    verdict = (*audit.outages, *verdict_sentences(audit), *left_out)
    unranked = [row.label for row in audit.models if row.clean_mean is None]
    note = [f"Not ranked, without a clean run: {', '.join(unranked)}."] if unranked else []
    sections = [
        ReportSection("Verdict", verdict),
        _ranking_section(audit, *note),
        *_gap_sections(audit),
        _common_section(audit),
        _sameness_section(audit),
        _coverage_section(audit),
        ReportSection("Means by tier", (), tuple(_tier_tables(audit))),
        ReportSection("Glossary", _glossary(audit.config)),
        ReportSection("Caveats", _caveats(audit)),
    ]
    if tables_folder:
        where = (
            f"Every number of this page is a cell of a table in the folder {tables_folder}: of "
            "models.csv (ranking, coverage), gaps.csv, common_support.csv, conditions.csv or "
            "tiers.csv. Every mean is that of rows of runs.csv."
        )
        sections.append(ReportSection("Where the numbers are", (where,)))
    return Document(audit.config.shown_title, sections)


def _coverage_section(audit: ArchiveAudit) -> ReportSection:
    columns = select_columns(
        ModelRow,
        *("label", "planned", "archived", "clean", "coverage", "missing", "broken", "zero"),
        *("rejudged", "judge_failed"),
    )
    table = ReportTable.of(audit.models, columns)
    return ReportSection("Coverage in detail", tuple(_coverage_sentences(audit)), (("", table),))


def _coverage_sentences(audit: ArchiveAudit) -> Iterator[str]:
    """Describe the plan, and which runs are absent or unplanned."""
    contents, config = audit.contents, audit.config
    plan, labels = config.plan, contents.labels
    yield (
        f"Planned for every model: {plan.n_tasks} tasks × {len(config.run_names)} runs = "
        f"{config.n_planned}."
    )
    if contents.absent_models:
        names = join_names([labels[model_id] for model_id in contents.absent_models])
        yield f"The folder of {names} does not exist: every run counts as missing."
    seen = {run.task for run in contents.runs} | {file.task for file in contents.broken}
    if len(seen) < plan.n_tasks:
        names = list_first([task for task in contents.tasks if task not in seen], 5)
        listed = f" ({names})" if names else ""
        yield f"No model has any file of {plan.n_tasks - len(seen)} planned tasks{listed}."
    if contents.unplanned:
        yield (
            f"Files of unplanned runs, counted nowhere else: {len(contents.unplanned)}; "
            f"{list_first(contents.unplanned, 5)}."
        )


def _ranking_section(audit: ArchiveAudit, *sentences: str) -> ReportSection:
    ranked = audit.ranked

    def place(name: str, row: ModelRow) -> int:
        """Return a model's place by a mean; equal means share a place."""
        return 1 + sum(getattr(other, name) > getattr(row, name) for other in ranked)

    columns = {
        "#": partial(place, "clean_mean"),
        **select_columns(
            ModelRow,
            *("label", "clean_mean", "judge_mean", "at_ceiling", "archived", "planned"),
            *("coverage", "mean", "normalised"),
        ),
        "its #": partial(place, "normalised"),
    }
    table = ReportTable.of(ranked, columns, n_labels=2)
    return ReportSection("Ranking by clean mean", sentences, (("", table),))


def _gap_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    if not audit.gaps:
        return
    labels, resampling = audit.contents.labels, audit.config.resampling
    columns = {
        "ahead": lambda gap: labels[gap.higher],
        "of": lambda gap: labels[gap.lower],
        **select_columns(GapRow, "difference", "low", "high", "reading"),
    }
    sentence = (
        f"Difference of the clean means, with its {format_confidence(resampling.confidence)} "
        f"interval: whole tasks resampled {resampling.n} times (seed {resampling.seed}), all runs "
        "of a task together, both models on the same tasks."
    )
    behind = [gap for gap in audit.gaps if gap.higher == audit.ranked[0].model_id]
    tables = (
        ("Neighbours", ReportTable.of(neighbours(audit.gaps, audit.ranked), columns, n_labels=2)),
        ("Behind the first", ReportTable.of(behind, columns, n_labels=2)),
    )
    yield ReportSection("Gaps and significance", (sentence,), tables)


def _common_section(audit: ArchiveAudit) -> ReportSection:
    labels, first = audit.contents.labels, next(iter(audit.support), None)
    columns = {
        **select_columns(CommonRow, "place"),
        "model": lambda row: labels[row.model_id],
        **select_columns(CommonRow, "mean", "clean_mean"),
    }
    without = [row.label for row in audit.models if not row.archived]
    sentences = [f"{join_names(without)} has no run and is left out here."] if without else []
    if first is not None:
        words = (
            f"Only the {first.n_cells} runs (task and number) that every model has. The clean mean "
            f"here is over the {first.n_clean_cells} in which every model scored anything."
        )
        sentences.insert(0, words if first.n_cells else "There is no run that every model has.")
    table = ReportTable.of(audit.support, columns, n_labels=2)
    return ReportSection("On common support", tuple(sentences), (("", table),))


def _sameness_section(audit: ArchiveAudit) -> ReportSection:
    by_name: dict[str, list[ConditionRow]] = {}
    for row in audit.conditions:
        by_name.setdefault(row.condition, []).append(row)
    sameness = {name: rows[0].sameness for name, rows in by_name.items()}
    sentences = [_rule_sentence(audit.config)]
    different = [name for name, result in sameness.items() if result == DIFFERENT]
    if different:
        sentences.append(
            f"NOT THE SAME for all runs: {join_names(different)}. The models were not compared "
            "like for like."
        )
    elif sameness:
        counts = Counter(sameness.values()).items()
        sentences.append(f"Conditions: {'; '.join(f'{what} {count}' for what, count in counts)}.")

    def values(name: str) -> str:
        """Return every value of a condition, with the models that have it."""
        models: dict[str, list[str]] = {}
        for row in by_name[name]:
            label = audit.contents.labels.get(row.model_id or "", "all")
            models.setdefault(row.value or "unknown", []).append(label)
        is_same = len(models) == 1 or sameness[name] == STATED
        return "; ".join(
            value if is_same else f"{value} ({join_names(labels)})"
            for value, labels in models.items()
        )

    rows = tuple((name, result, values(name)) for name, result in sameness.items())
    table = ReportTable(("condition", "result", "value"), rows, 3)
    return ReportSection("The same for all", tuple(sentences), (("", table),) if rows else ())


def _tier_tables(audit: ArchiveAudit) -> Iterator[tuple[str, ReportTable]]:
    """Yield the means with one column per tier, over all archived runs and over the clean ones."""
    by_cell = {(row.model_id, row.tier): row for row in audit.tiers}
    tiers = dict.fromkeys(row.tier for row in audit.tiers)

    def mean(name: str, tier: str, row: ModelRow) -> str:
        return format_number(getattr(by_cell[row.model_id, tier], name), decimals=3)

    for name, title in (("mean", "Mean of all archived runs"), ("clean_mean", "Clean mean")):
        columns = {tier: partial(mean, name, tier) for tier in tiers}
        labels = select_columns(ModelRow, "label")
        if audit.ranked:
            yield title, ReportTable.of(audit.ranked, {**labels, **columns})


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
    labels = audit.contents.labels

    def count(kind: str, row: LogRow) -> int:
        return row.failures.get(kind, 0)

    kinds = sorted({kind for row in audit.logs for kind in row.failures})
    names = ("missing_explained", "missing_unexplained", "failed_and_archived", "failed_and_zero")
    columns = {
        "model": lambda row: labels.get(row.model_id, "(no planned model)"),
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
    sentences = [
        f"{format_plural(len(findings), 'finding')} on {len(audit.tasks)} tasks, worst first."
        + (f" The first {_LISTED} are shown; --json lists all." if len(findings) > _LISTED else ""),
    ]
    tables = []
    if findings:
        columns = {
            **select_columns(FindingRow, "task"),
            "tier": lambda row: reader.tier(row.task),
            **select_columns(FindingRow, "sentence"),
        }
        tables.append(("", ReportTable.of(findings[:_LISTED], columns, n_labels=3)))
    if spreads:
        above = sum(row.is_above_chance is True for row in spreads)
        sentences += [
            f"{above} of {len(spreads)} tasks tell models apart better than chance does.",
            "Between models and between runs: standard deviations. Signal to noise: what differs "
            "between models by what differs between runs of one model; where models do not differ, "
            "1 task in 20 is above the chance level.",
        ]
        columns = select_columns(
            TaskRow,
            *("task", "tier", "archived", "planned", "between_models", "between_runs"),
            *("signal_to_noise", "chance_level"),
        )
        tables.append(("Spread", ReportTable.of(spreads[:_LISTED], columns, n_labels=2)))
    return ReportSection("Tasks across models", tuple(sentences), tuple(tables))


def _tier_failure_sections(audit: ArchiveAudit) -> Iterator[ReportSection]:
    if audit.tier_failures:
        labels = audit.contents.labels
        columns = {
            "model": lambda row: labels[row.model_id],
            **select_columns(TierFailureRow, "tier", "zero", "archived", "elsewhere", "others"),
        }
        table = ReportTable.of(audit.tier_failures, columns, n_labels=2)
        yield ReportSection("Models that fail one tier only", (), (("", table),))


def archive_values(audit: ArchiveAudit) -> dict[str, Any]:
    """Return every number of the audit and of the comparison, for JSON."""
    contents = audit.contents
    return {
        "archive_id": audit.config.archive_id,
        "excluded": audit.excluded,
        "passed": not audit.outages,
        "outages": list(audit.outages),
        "verdict": verdict_sentences(audit),
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


def verdict_sentences(audit: ArchiveAudit) -> list[str]:
    """Describe which model leads, and whether its lead is significant."""
    ranked, gaps, labels = audit.ranked, audit.gaps, audit.contents.labels
    if not ranked:
        return ["No model has a run that scored anything, so there is nothing to rank."]
    if not gaps:
        return [f"Only {ranked[0].label} has a run that scored anything."]
    sentences = [f"{ranked[0].label} has the highest clean mean, {ranked[0].clean_mean:.4f}."]
    for sentence, reading in (
        ("Its lead is not significant over {}.", "not significant"),
        ("The tasks cannot tell it from {}.", "unknown"),
        ("Its lead is significant over {}.", "significant"),
    ):
        names = [
            f"{labels[gap.lower]} ({_interval(gap, audit.config.resampling)})"
            for gap in gaps
            if gap.higher == ranked[0].model_id and gap.reading == reading
        ]
        sentences += [sentence.format(join_names(names))] if names else []
    between = neighbours(gaps, ranked)
    for sentence, reading in (
        ("Neighbours without a significant difference: {}.", "not significant"),
        ("Neighbours that the tasks cannot tell apart: {}.", "unknown"),
    ):
        pairs = [
            f"{labels[gap.higher]} and {labels[gap.lower]}"
            for gap in between
            if gap.reading == reading
        ]
        sentences += [sentence.format("; ".join(pairs))] if pairs else []
    if all(gap.is_separated for gap in between):
        sentences.append("All neighbours differ significantly.")
    return sentences


def _interval(gap: GapRow, resampling: Resampling) -> str:
    share = format_confidence(resampling.confidence)
    if gap.low is None and gap.high is None:
        return f"{gap.difference:+.4f}; {gap.n_tasks} tasks set no {share} interval"
    low, high = (ABSENT if end is None else f"{end:+.4f}" for end in (gap.low, gap.high))
    return f"{gap.difference:+.4f}; {share} interval {low} to {high}"


def _rule_sentence(config: ArchiveConfig) -> str:
    """Return the formulas for a run's score, in the order in which they are tried."""
    cases = [f"{weighting.when}: {_formula(weighting)}" for weighting in config.harness.weightings]
    return f"The first that fits: {'; '.join(cases)}."


def _formula(weighting: Weighting) -> str:
    terms = " + ".join(f"{weight:g} · {name}" for name, weight in weighting.weights.items())
    whole = fsum(weighting.weights.values())
    return terms if whole == 1 else f"({terms}) / {whole:g}"


def _glossary(config: ArchiveConfig) -> tuple[str, ...]:
    """Explain the columns."""
    return render_sentences(
        "archives/templates/glossary.jinja",
        reader=config.harness,
        planned=config.n_planned,
        rule=_rule_sentence(config),
    )


def _caveats(audit: ArchiveAudit) -> tuple[str, ...]:
    """Describe the limits of the numbers."""
    harness, models = audit.config.harness, audit.models
    tier_counts = Counter(harness.tier(task) for task in audit.contents.tasks)
    judges = {run.judge.rejudged_by for run in audit.contents.runs if run.judge.rejudged_by}

    def counts(number: str) -> str:
        return join_names([_count(row, number) for row in models if getattr(row, number)])

    return render_sentences(
        "archives/templates/caveats.jinja",
        models=models,
        counts=counts,
        uneven=_UNEVEN,
        judges=join_names(sorted(judges)),
        shares=join_names(
            [
                f"{format_share(weighting.judge_share, decimals=0)} ({weighting.name})"
                for weighting in harness.weightings
                if weighting.judge_share
            ]
        ),
        common=next((row.n_clean_cells for row in audit.support), 0),
        planned=audit.config.n_planned,
        small_tiers=join_names([tier for tier, n in tier_counts.items() if n < _FEW_TASKS]),
    )


def _count(row: ModelRow, number: str) -> str:
    with_response = number == "zero" and row.zero_with_response
    note = f" ({row.zero_with_response} with a response)" if with_response else ""
    return f"{row.label} {getattr(row, number)}{note}"
