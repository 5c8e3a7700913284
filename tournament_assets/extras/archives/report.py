"""The fair comparison of an archive's models: Markdown, terminal, JSON and CSV from one source."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from tournament_assets.extras.archives import tables
from tournament_assets.extras.archives.audit import (
    ArchiveAudit,
    audit_archive,
    audit_tables,
    coverage_sentences,
)
from tournament_assets.extras.archives.config import ArchiveConfig
from tournament_assets.extras.archives.harness import Weighting
from tournament_assets.extras.archives.models import (
    CommonSupport,
    ConditionAudit,
    Gap,
    ModelAudit,
    audit_conditions,
    find_common_support,
    measure_gaps,
    neighbours,
    rank_models,
)
from tournament_assets.extras.archives.runs import ArchiveContents
from tournament_assets.extras.archives.tables import Table, place_by
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_share,
    join_names,
)
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
)
from tournament_assets.storage.atomic_files import write_bytes_atomically


@dataclass(frozen=True, slots=True)
class ArchiveComparison:
    """The fair comparison of an archive's models.

    Attributes:
        ranked: The models with a clean run, the highest clean mean first.
        gaps: The gap between each model and every one below it.
    """

    audit: ArchiveAudit
    ranked: tuple[ModelAudit, ...]
    gaps: tuple[Gap, ...]
    support: CommonSupport
    conditions: tuple[ConditionAudit, ...]

    @property
    def config(self) -> ArchiveConfig:
        """The archive's description."""
        return self.audit.contents.config

    @property
    def excluded(self) -> list[str]:
        """The ids of models left out on request."""
        labels = self.audit.contents.labels
        return sorted({model.model_id for model in self.config.models} - labels.keys())


def compare_archive(contents: ArchiveContents) -> ArchiveComparison:
    """Compare the models of an archive."""
    audit = audit_archive(contents)
    ranked = rank_models(audit.models)
    return ArchiveComparison(
        audit=audit,
        ranked=ranked,
        gaps=measure_gaps(ranked, contents),
        support=find_common_support(contents),
        conditions=tuple(audit_conditions(contents)),
    )


def archive_report_document(comparison: ArchiveComparison, *, tables_folder: str = "") -> Document:
    """Return the comparison as a document: first the verdict, which begins with any warnings.

    Args:
        tables_folder: The folder of the CSV tables, relative to the page; empty if there is none.
    """
    audit, config = comparison.audit, comparison.config
    labels = audit.contents.labels
    common = tables.common_table(comparison.support, labels)
    detail = Table(tables.MODELS, audit.models).shown(
        *("label", "planned", "archived", "missing", "broken", "zero", "rejudged", "judge_failed")
    )
    sections = [
        ReportSection("Verdict", tuple(_verdict(comparison))),
        _ranking_section(comparison),
        *_gap_sections(comparison),
        ReportSection(
            "On common support",
            common_sentences(comparison.support, audit.contents, audit.models),
            (("", common.shown("place", "model_id", "mean", "clean_mean", n_labels=2)),),
        ),
        _sameness_section(comparison),
        ReportSection("Coverage in detail", tuple(coverage_sentences(audit)[1:]), (("", detail),)),
        ReportSection("Means by tier", (), tables.shown_tiers(comparison.ranked)),
        ReportSection("Glossary", glossary(config)),
        ReportSection("Caveats", caveats(comparison)),
    ]
    if tables_folder:
        where = f"Every table of this page is made of the files in the folder {tables_folder}:"
        sources = [f"{section}: {file} ({columns})" for section, file, columns in _SOURCES]
        sections.append(ReportSection("Where the numbers are", (where, *sources)))
    return Document(config.shown_title, sections)


def _verdict(comparison: ArchiveComparison) -> list[str]:
    resampling, left_out = comparison.config.resampling, ", ".join(comparison.excluded)
    return [
        *comparison.audit.outages,
        *verdict_sentences(comparison.ranked, comparison.gaps, resampling),
        *([f"Left out on request: {left_out}."] if left_out else []),
    ]


def _ranking_section(comparison: ArchiveComparison) -> ReportSection:
    ranked = comparison.ranked
    unranked = [each.label for each in comparison.audit.models if each.clean_mean is None]
    note = f"Not ranked, without a clean run: {', '.join(unranked)}."
    table = Table(tables.MODELS, ranked).shown(
        place_by("clean_mean", "#", ranked),
        *("label", "clean_mean", "judge_mean", "at_ceiling", "archived", "planned", "coverage"),
        *("mean", "normalised"),
        place_by("normalised", "its #", ranked),
        n_labels=2,
    )
    return ReportSection("Ranking by clean mean", (note,) if unranked else (), (("", table),))


def _gap_sections(comparison: ArchiveComparison) -> list[ReportSection]:
    gaps, ranked = comparison.gaps, comparison.ranked
    if not gaps:
        return []
    labels = comparison.audit.contents.labels
    behind = [gap for gap in gaps if gap.higher == ranked[0].model_id]
    parts = (
        ("Neighbours", tables.shown_gaps(neighbours(gaps, ranked), labels)),
        ("Behind the first", tables.shown_gaps(behind, labels)),
    )
    sentence = gap_sentence(comparison.config.resampling)
    return [ReportSection("Gaps and significance", (sentence,), parts)]


def _sameness_section(comparison: ArchiveComparison) -> ReportSection:
    audit, conditions = comparison.audit, comparison.conditions
    sentences = (
        *coverage_sentences(audit)[:1],
        rule_sentence(comparison.config),
        *condition_sentences(conditions, audit.models),
    )
    table = tables.shown_conditions(conditions, audit.contents.labels)
    return ReportSection("The same for all", sentences, (("", table),) if conditions else ())


def archive_tables(comparison: ArchiveComparison) -> dict[str, Table]:
    """Return the tables with every number of the report, by name."""
    audit = comparison.audit
    shared = ("models", "tiers", "tasks", "findings", "runs")
    return {
        **{name: table for name, table in audit_tables(audit).items() if name in shared},
        "gaps": Table(tables.GAPS, comparison.gaps),
        "common_support": tables.common_table(comparison.support, audit.contents.labels),
        "conditions": tables.conditions_table(comparison.conditions),
    }


_SOURCES = (
    ("Ranking by clean mean", "models.csv", "clean_mean, judge_mean, at_ceiling, coverage, …"),
    ("Gaps and significance", "gaps.csv", "difference, low, high"),
    ("On common support", "common_support.csv", "mean, clean_mean"),
    ("The same for all", "conditions.csv", "value, model_id, runs"),
    ("Coverage in detail", "models.csv", "archived, absent, broken, rejudged, judge_failed"),
    ("Means by tier", "tiers.csv", "mean, clean_mean"),
    ("each of these", "runs.csv", "run_score and is_clean of every run"),
)
"""Where each section's numbers are stored: section, file, columns."""


def archive_report_values(comparison: ArchiveComparison) -> dict[str, Any]:
    """Return every number of the comparison, for JSON."""
    return {
        "archive_id": comparison.config.archive_id,
        "excluded": comparison.excluded,
        "outages": list(comparison.audit.outages),
        "verdict": verdict_sentences(
            comparison.ranked, comparison.gaps, comparison.config.resampling
        ),
        "ranking": [model.model_id for model in comparison.ranked],
        **{name: table.values for name, table in archive_tables(comparison).items()},
    }


def write_archive_tables(page: Path, comparison: ArchiveComparison) -> str:
    """Write the report's tables as CSV into a folder beside the page; return the folder's name."""
    folder = page.with_name(f"{re.sub(r'[.](md|markdown)$', '', page.name)}_tables")
    try:
        for name, table in archive_tables(comparison).items():
            write_bytes_atomically(folder / f"{name}.csv", table.csv)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from error
    return folder.name


_UNEVEN = 0.02
"""The largest difference between coverages that counts as even."""


def verdict_sentences(
    ranked: Sequence[ModelAudit], gaps: Sequence[Gap], resampling: Resampling
) -> list[str]:
    """Describe which model leads, and whether its lead is significant."""
    if not ranked:
        return ["No model has a run that scored anything, so there is nothing to rank."]
    first = ranked[0]
    if not gaps:
        return [f"Only {first.label} has a run that scored anything."]
    behind = [gap for gap in gaps if gap.higher == first.model_id]
    between = neighbours(gaps, ranked)
    labels = {model.model_id: model.label for model in ranked}

    def with_interval(gap: Gap) -> str:
        return f"{labels[gap.lower]} ({_with_interval(gap, resampling)})"

    def both(gap: Gap) -> str:
        return f"{labels[gap.higher]} and {labels[gap.lower]}"

    listed = (
        ("Its lead is not significant over {}.", behind, "not significant", with_interval),
        ("The tasks cannot tell it from {}.", behind, "unknown", with_interval),
        ("Its lead is significant over {}.", behind, "significant", with_interval),
        ("Neighbours without a significant difference: {}.", between, "not significant", both),
        ("Neighbours that the tasks cannot tell apart: {}.", between, "unknown", both),
    )
    sentences = [f"{first.label} has the highest clean mean, {first.clean_mean:.4f}."]
    for sentence, among, reading, spell in listed:
        names = [spell(gap) for gap in among if gap.reading == reading]
        if names:
            joined = join_names(names) if spell is with_interval else "; ".join(names)
            sentences.append(sentence.format(joined))
    if all(gap.is_separated for gap in between):
        sentences.append("All neighbours differ significantly.")
    return sentences


def _with_interval(gap: Gap, resampling: Resampling) -> str:
    share = format_confidence(resampling.confidence)
    if gap.low is None and gap.high is None:
        return f"{gap.value:+.4f}; {gap.n} tasks set no {share} interval"
    low, high = (ABSENT if end is None else f"{end:+.4f}" for end in (gap.low, gap.high))
    return f"{gap.value:+.4f}; {share} interval {low} to {high}"


def gap_sentence(resampling: Resampling) -> str:
    """Describe how the intervals of the gaps are computed."""
    return (
        f"Difference of the clean means, with its {format_confidence(resampling.confidence)} "
        f"interval: whole tasks resampled {resampling.n} times (seed {resampling.seed}), all runs "
        "of a task together, both models on the same tasks."
    )


def common_sentences(
    support: CommonSupport, contents: ArchiveContents, models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Describe the runs behind the ranking on common support."""
    without = [model.label for model in models if not model.archived]
    sentences = [
        f"Only the {support.n_cells} runs (task and number) that every model has. The clean mean "
        f"here is over the {support.n_clean_cells} in which every model scored anything."
    ]
    if without:
        sentences.append(f"{join_names(without)} has no run and is left out here.")
    if contents.runs and not support.n_cells:
        sentences.append("No run does, so nothing can be compared like for like.")
    return tuple(sentences)


def rule_sentence(config: ArchiveConfig) -> str:
    """Return the formulas for a run's score, in the order in which they are tried."""
    cases = [f"{each.when}: {_formula(each)}" for each in config.harness.weightings]
    return f"The first that fits: {'; '.join(cases)}."


def _formula(weighting: Weighting) -> str:
    terms = " + ".join(f"{weight:g} · {name}" for name, weight in weighting.weights.items())
    whole = fsum(weighting.weights.values())
    return terms if whole == 1 else f"({terms}) / {whole:g}"


def condition_sentences(
    conditions: Sequence[ConditionAudit], models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Describe whether the conditions were the same for all runs."""
    different = [each.name for each in conditions if each.is_different]
    if different:
        return (
            f"NOT THE SAME for all runs: {join_names(different)}. The models were not compared "
            "like for like.",
        )
    meanings = {
        f"identical in every run of {len(models)} models": "identical",
        "identical, but not in every file": "not in every run",
        "stated by the archive's description, which cannot be checked": "stated, not checked",
    }
    listed = [
        f"{what}: {count}"
        for what, result in meanings.items()
        if (count := sum(each.result == result for each in conditions))
    ]
    return (f"Conditions {'; '.join(listed)}.",) if listed else ()


def glossary(config: ArchiveConfig) -> tuple[str, ...]:
    """Explain the columns."""
    return render_sentences(
        "archives/templates/glossary.jinja",
        reader=config.harness,
        planned=config.n_planned,
        rule=rule_sentence(config),
    )


def caveats(comparison: ArchiveComparison) -> tuple[str, ...]:
    """Describe the limits of the numbers."""
    config, models = comparison.config, comparison.audit.models
    tier_counts = Counter(config.harness.tier(task) for task in comparison.audit.contents.tasks)

    def counts(number: str) -> str:
        return join_names([_count(model, number) for model in models if getattr(model, number)])

    shares = [
        f"{format_share(each.judge_share, decimals=0)} ({each.name})"
        for each in config.harness.weightings
        if each.judge_share
    ]
    return render_sentences(
        "archives/templates/caveats.jinja",
        models=models,
        counts=counts,
        uneven=_UNEVEN,
        judges=join_names(sorted({judge for model in models for judge in model.rejudged_by})),
        shares=join_names(shares),
        support=comparison.support,
        planned=config.n_planned,
        small_tiers=join_names([tier for tier, count in tier_counts.items() if count < 6]),
    )


def _count(model: ModelAudit, number: str) -> str:
    with_response = number == "zero" and model.zero_with_response
    note = f" ({model.zero_with_response} with a response)" if with_response else ""
    return f"{model.label} {getattr(model, number)}{note}"
