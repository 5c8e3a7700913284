"""The fair comparison of an archive's models: Markdown, terminal, JSON and CSV from one source."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tournament_assets.adapters.atomic_files import write_bytes_atomically
from tournament_assets.audits.archive_conditions import ConditionAudit, audit_conditions
from tournament_assets.audits.archive_models import ModelAudit
from tournament_assets.audits.archive_ranking import (
    CommonSupport,
    Gap,
    find_common_support,
    measure_gaps,
    neighbours,
    rank_models,
)
from tournament_assets.reports import archive_rows, archive_words
from tournament_assets.reports.archive_audit import (
    ArchiveAudit,
    audit_archive,
    coverage_sentences,
)
from tournament_assets.reports.archive_ranking_tables import (
    common_table,
    condition_table,
    coverage_detail_table,
    gap_table,
    ranking_table,
    tier_tables,
)
from tournament_assets.reports.archive_rows import DataTable
from tournament_assets.reports.csv_text import csv_bytes
from tournament_assets.reports.rendering import ReportSection, render_template
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig
from tournament_assets.tournament.errors import InputError


@dataclass(frozen=True, slots=True)
class ArchiveComparison:
    """The models of an archive, compared.

    Attributes:
        audit: What the archive holds.
        ranked: The models that have a clean run, the highest clean mean first.
        gaps: How far each is ahead of every one below it.
        support: The ranking on what every model has.
        conditions: Whether what was to be the same was.
        excluded: Models that were left out on request.
    """

    audit: ArchiveAudit
    ranked: tuple[ModelAudit, ...]
    gaps: tuple[Gap, ...]
    support: CommonSupport
    conditions: tuple[ConditionAudit, ...]
    excluded: tuple[str, ...]

    @property
    def config(self) -> ArchiveConfig:
        """The archive's description."""
        return self.audit.config


def compare_archive(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> ArchiveComparison:
    """Compare the models of an archive that are not left out."""
    audit = audit_archive(contents, config, exclude=exclude)
    ranked = rank_models(audit.models)
    return ArchiveComparison(
        audit=audit,
        ranked=ranked,
        gaps=measure_gaps(ranked, contents, config),
        support=find_common_support(contents, config),
        conditions=tuple(audit_conditions(contents, config)),
        excluded=tuple(sorted(exclude)),
    )


def archive_report_sections(comparison: ArchiveComparison) -> list[ReportSection]:
    """Return the comparison for people, the verdict first."""
    audit, config = comparison.audit, comparison.config
    ranked, models = comparison.ranked, audit.models
    labels = {model.model_id: model.label for model in models}
    verdict = [
        *audit.outages,
        *archive_words.verdict_sentences(ranked, comparison.gaps, config),
    ]
    if comparison.excluded:
        verdict.append(f"Left out on request: {', '.join(comparison.excluded)}.")
    tier_counts = Counter(config.tier_of(task) for task in audit.contents.tasks)
    unranked = [model.label for model in models if model.clean_mean is None]
    rank_note = f"Not ranked, without a clean run: {', '.join(unranked)}." if unranked else ""
    sections = [
        ReportSection("Verdict", tuple(verdict)),
        ReportSection(
            "Ranking by clean mean",
            (rank_note,) if rank_note else (),
            (("", ranking_table(ranked)),),
        ),
    ]
    if comparison.gaps:
        sections.append(
            ReportSection(
                "Gaps and noise",
                archive_words.gap_sentences(config),
                (
                    ("Neighbours", gap_table(neighbours(comparison.gaps, ranked), labels)),
                    (
                        "Behind the first",
                        gap_table(
                            [gap for gap in comparison.gaps if gap.higher == ranked[0].model_id],
                            labels,
                        ),
                    ),
                ),
            )
        )
    sections += [
        ReportSection(
            "On common support",
            archive_words.common_sentences(comparison.support, audit.contents, models),
            (("", common_table(comparison.support, labels)),),
        ),
        ReportSection(
            "The same for all",
            (
                *coverage_sentences(audit)[:1],
                archive_words.rule_sentence(config),
                *archive_words.condition_sentences(comparison.conditions, models),
            ),
            (("", condition_table(comparison.conditions, labels)),)
            if comparison.conditions
            else (),
        ),
        ReportSection(
            "Coverage in detail",
            tuple(coverage_sentences(audit)[1:]),
            (("", coverage_detail_table(models)),),
        ),
        ReportSection("Means by tier", (), tier_tables(ranked)),
        ReportSection(
            "Glossary",
            tuple(f"{term}: {text}" for term, text in archive_words.glossary(config)),
        ),
        ReportSection(
            "Caveats",
            tuple(archive_words.caveats(models, comparison.support, config, tier_counts)),
        ),
    ]
    return sections


def archive_data_tables(comparison: ArchiveComparison) -> dict[str, DataTable]:
    """Return the tables that every number of the report is from, by name."""
    audit = comparison.audit
    return {
        "models": archive_rows.model_table(audit.models),
        "gaps": archive_rows.gap_table(comparison.gaps),
        "common_support": archive_rows.common_table(comparison.support),
        "tiers": archive_rows.tier_table(audit.models),
        "conditions": archive_rows.condition_table(comparison.conditions),
        "tasks": archive_rows.task_table(audit.tasks),
        "findings": archive_rows.finding_table(audit.tasks),
        "runs": archive_rows.run_table(audit.contents, audit.config),
    }


def archive_report_markdown(comparison: ArchiveComparison, *, tables_folder: str) -> str:
    """Return the comparison as a Markdown page.

    Args:
        comparison: The models, compared.
        tables_folder: Where the tables lie as CSV, as seen from the page.
    """
    config = comparison.config
    return render_template(
        "archive_report.md.jinja",
        title=config.shown_title,
        sections=archive_report_sections(comparison),
        tables_folder=tables_folder,
        sources=SOURCES,
    )


SOURCES = (
    ("Ranking by clean mean", "models.csv", "clean_mean, judge_mean, at_ceiling, coverage, …"),
    ("Gaps and noise", "gaps.csv", "difference, low, high"),
    ("On common support", "common_support.csv", "mean, clean_mean"),
    ("The same for all", "conditions.csv", "value, model_id, runs"),
    ("Coverage in detail", "models.csv", "archived, absent, broken, rejudged, judge_failed"),
    ("Means by tier", "tiers.csv", "mean, clean_mean"),
    ("each of these", "runs.csv", "run_score and is_clean of every run"),
)
"""Where the numbers of each section stand: the section, the file, its columns."""


def archive_report_values(comparison: ArchiveComparison) -> dict[str, Any]:
    """Return every number of the comparison, for JSON."""
    return {
        "archive_id": comparison.config.archive_id,
        "excluded": list(comparison.excluded),
        "outages": list(comparison.audit.outages),
        "verdict": archive_words.verdict_sentences(
            comparison.ranked, comparison.gaps, comparison.config
        ),
        "ranking": [model.model_id for model in comparison.ranked],
        **archive_rows.table_values(archive_data_tables(comparison)),
    }


def write_archive_report(path: Path, comparison: ArchiveComparison) -> Path:
    """Write the page, and the tables behind it as CSV into a folder beside it.

    Returns:
        The folder of the tables.

    Raises:
        InputError: If nothing can be written there.
    """
    folder = path.with_name(f"{re.sub(r'[.](md|markdown)$', '', path.name)}_tables")
    try:
        for name, table in archive_data_tables(comparison).items():
            write_bytes_atomically(folder / f"{name}.csv", csv_bytes(table.rows, table.columns))
        markdown = archive_report_markdown(comparison, tables_folder=folder.name)
        write_bytes_atomically(path, markdown.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    return folder
