"""The fair comparison of an archive's models: Markdown, terminal, JSON and CSV from one source."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
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
from tournament_assets.extras.archives.tables import Table, format_score, place_by
from tournament_assets.reports.rendering import render_sentences
from tournament_assets.reports.report_tables import (
    Document,
    ReportSection,
    ReportTable,
    document_markdown,
)
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.formatting import (
    ABSENT,
    format_confidence,
    format_share,
    join_names,
)


@dataclass(frozen=True, slots=True)
class ArchiveComparison:
    """The models of an archive, compared.

    Attributes:
        audit: What the archive holds.
        ranked: The models that have a clean run, the highest clean mean first.
        gaps: How far each is ahead of every one below it.
        support: The ranking on what every model has.
        conditions: Whether what was to be the same was.
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
        """Models that were left out on request."""
        kept = self.audit.contents.labels
        return sorted(each.model_id for each in self.config.models if each.model_id not in kept)


def compare_archive(contents: ArchiveContents) -> ArchiveComparison:
    """Compare the models of an archive that were not left out."""
    audit = audit_archive(contents)
    ranked = rank_models(audit.models)
    return ArchiveComparison(
        audit=audit,
        ranked=ranked,
        gaps=measure_gaps(ranked, contents),
        support=find_common_support(contents),
        conditions=tuple(audit_conditions(contents)),
    )


def archive_report_sections(comparison: ArchiveComparison) -> list[ReportSection]:
    """Return the comparison for people, the verdict first."""
    audit, config = comparison.audit, comparison.config
    ranked, models = comparison.ranked, audit.models
    labels = audit.contents.labels
    verdict = [*audit.outages, *verdict_sentences(ranked, comparison.gaps, config)]
    if comparison.excluded:
        verdict.append(f"Left out on request: {', '.join(comparison.excluded)}.")
    tier_counts = Counter(config.harness.tier(task) for task in audit.contents.tasks)
    unranked = [model.label for model in models if model.clean_mean is None]
    rank_note = f"Not ranked, without a clean run: {', '.join(unranked)}." if unranked else ""
    sections = [
        ReportSection("Verdict", tuple(verdict)),
        ReportSection(
            "Ranking by clean mean",
            (rank_note,) if rank_note else (),
            (("", _ranking(ranked)),),
        ),
    ]
    if comparison.gaps:
        shown = {
            "Neighbours": neighbours(comparison.gaps, ranked),
            "Behind the first": [
                gap for gap in comparison.gaps if gap.higher == ranked[0].model_id
            ],
        }
        sections.append(
            ReportSection(
                "Gaps and significance",
                gap_sentences(config),
                tuple((title, tables.shown_gaps(gaps, labels)) for title, gaps in shown.items()),
            )
        )
    common = tables.common_table(comparison.support, labels)
    detail = Table(tables.MODELS, models).shown(
        *("label", "planned", "archived", "missing", "broken", "zero", "rejudged", "judge_failed")
    )
    sections += [
        ReportSection(
            "On common support",
            common_sentences(comparison.support, audit.contents, models),
            (("", common.shown("place", "model_id", "mean", "clean_mean", n_labels=2)),),
        ),
        ReportSection(
            "The same for all",
            (
                *coverage_sentences(audit)[:1],
                rule_sentence(config),
                *condition_sentences(comparison.conditions, models),
            ),
            (("", tables.shown_conditions(comparison.conditions, labels)),)
            if comparison.conditions
            else (),
        ),
        ReportSection("Coverage in detail", tuple(coverage_sentences(audit)[1:]), (("", detail),)),
        ReportSection("Means by tier", (), tables.shown_tiers(ranked)),
        ReportSection("Glossary", glossary(config)),
        ReportSection("Caveats", caveats(models, comparison.support, config, tier_counts)),
    ]
    return sections


def _ranking(ranked: Sequence[ModelAudit]) -> ReportTable:
    return Table(tables.MODELS, ranked).shown(
        place_by("clean_mean", "#", ranked),
        *("label", "clean_mean", "judge_mean", "at_ceiling", "archived", "planned", "coverage"),
        *("mean", "normalised"),
        place_by("normalised", "its #", ranked),
        n_labels=2,
    )


def archive_tables(comparison: ArchiveComparison) -> dict[str, Table]:
    """Return the tables that every number of the report is from, by name."""
    audit = comparison.audit
    shared = ("models", "tiers", "tasks", "findings", "runs")
    return {
        **{name: table for name, table in audit_tables(audit).items() if name in shared},
        "gaps": Table(tables.GAPS, comparison.gaps),
        "common_support": tables.common_table(comparison.support, audit.contents.labels),
        "conditions": tables.conditions_table(comparison.conditions),
    }


def archive_report_markdown(comparison: ArchiveComparison, *, tables_folder: str) -> str:
    """Return the comparison as a Markdown page.

    Args:
        comparison: The models, compared.
        tables_folder: Where the tables lie as CSV, as seen from the page.
    """
    config = comparison.config
    sources = [f"{section}: {file} ({columns})" for section, file, columns in _SOURCES]
    where = f"Every table of this page is made of the files in the folder {tables_folder}:"
    # The verdict begins with the warnings.
    sections = archive_report_sections(comparison)
    origin = ReportSection("Where the numbers are", (where, *sources))
    return document_markdown(Document(config.shown_title, [*sections, origin]))


_SOURCES = (
    ("Ranking by clean mean", "models.csv", "clean_mean, judge_mean, at_ceiling, coverage, …"),
    ("Gaps and significance", "gaps.csv", "difference, low, high"),
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
        "excluded": comparison.excluded,
        "outages": list(comparison.audit.outages),
        "verdict": verdict_sentences(comparison.ranked, comparison.gaps, comparison.config),
        "ranking": [model.model_id for model in comparison.ranked],
        **{name: table.values for name, table in archive_tables(comparison).items()},
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
        for name, table in archive_tables(comparison).items():
            write_bytes_atomically(folder / f"{name}.csv", table.csv)
        markdown = archive_report_markdown(comparison, tables_folder=folder.name)
        write_bytes_atomically(path, markdown.encode("utf-8", errors="backslashreplace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error}") from error
    return folder


_UNEVEN = 0.02
"""Coverages that differ by more than this are not alike."""


def verdict_sentences(
    ranked: Sequence[ModelAudit], gaps: Sequence[Gap], config: ArchiveConfig
) -> list[str]:
    """Describe who leads, and whether that is more than noise."""
    if not ranked:
        return ["No model has a run that scored anything, so there is nothing to rank."]
    first = ranked[0]
    if not gaps:
        return [f"Only {first.label} has a run that scored anything."]
    labels = {model.model_id: model.label for model in ranked}
    behind = [gap for gap in gaps if gap.higher == first.model_id]
    sentences = [
        f"{first.label} has the highest clean mean, {format_score(first.clean_mean, decimals=4)}."
    ]
    for what, reading in (
        ("Its lead is not significant over", "not significant"),
        ("The tasks cannot tell it from", "unknown"),
        ("Its lead is significant over", "significant"),
    ):
        names = [
            f"{labels[gap.lower]} ({interval_phrase(gap, config)})"
            for gap in behind
            if gap.reading == reading
        ]
        if names:
            sentences.append(f"{what} {join_names(names)}.")
    between = neighbours(gaps, ranked)
    for what, reading in (
        ("Neighbours without a significant difference", "not significant"),
        ("Neighbours that the tasks cannot tell apart", "unknown"),
    ):
        listed = "; ".join(
            f"{labels[gap.higher]} and {labels[gap.lower]}"
            for gap in between
            if gap.reading == reading
        )
        if listed:
            sentences.append(f"{what}: {listed}.")
    if all(gap.is_separated for gap in between):
        sentences.append("All neighbours differ significantly.")
    return sentences


def interval_phrase(gap: Gap, config: ArchiveConfig) -> str:
    """Write a difference with its interval."""
    found, share = gap.difference, format_confidence(config.confidence)
    if found.low is None and found.high is None:
        return f"{found.value:+.4f}; {found.n} tasks set no {share} interval"
    low, high = (ABSENT if end is None else f"{end:+.4f}" for end in (found.low, found.high))
    return f"{found.value:+.4f}; {share} interval {low} to {high}"


def gap_sentences(config: ArchiveConfig) -> tuple[str, ...]:
    """Describe how the intervals of the gaps are made."""
    return (
        f"Difference of the clean means, with its {format_confidence(config.confidence)} interval: "
        f"whole tasks resampled {config.n_bootstraps} times (seed {config.bootstrap_seed}), all "
        "runs of a task together, both models on the same tasks.",
    )


def common_sentences(
    support: CommonSupport, contents: ArchiveContents, models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Describe what the ranking on common support rests on."""
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
    """Write the rule of a run's score as formulas, in the order in which they are tried."""
    cases = [f"{each.when}: {_formula(each)}" for each in config.harness.weightings]
    return f"The first that fits: {'; '.join(cases)}."


def _formula(weighting: Weighting) -> str:
    terms = " + ".join(f"{weight:g} · {name}" for name, weight in weighting.weights.items())
    whole = fsum(weighting.weights.values())
    return terms if whole == 1 else f"({terms}) / {whole:g}"


def condition_sentences(
    conditions: Sequence[ConditionAudit], models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Return whether what was to be the same was."""
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
    """Explain every column."""
    return render_sentences(
        "archive_glossary.jinja",
        reader=config.harness,
        planned=config.n_planned,
        rule=rule_sentence(config),
    )


def caveats(
    models: Sequence[ModelAudit],
    support: CommonSupport,
    config: ArchiveConfig,
    tier_counts: Mapping[str, int],
) -> tuple[str, ...]:
    """Describe what the numbers do not show, with the numbers."""

    def counts(number: str) -> str:
        return join_names([_count(model, number) for model in models if getattr(model, number)])

    shares = [
        f"{format_share(each.judge_share, decimals=0)} ({each.name})"
        for each in config.harness.weightings
        if each.judge_share
    ]
    return render_sentences(
        "archive_caveats.jinja",
        models=models,
        counts=counts,
        uneven=_UNEVEN,
        judges=join_names(sorted({judge for model in models for judge in model.rejudged_by})),
        shares=join_names(shares),
        support=support,
        planned=config.n_planned,
        small_tiers=join_names([tier for tier, count in tier_counts.items() if count < 6]),
    )


def _count(model: ModelAudit, number: str) -> str:
    with_response = number == "zero" and model.zero_with_response
    note = f" ({model.zero_with_response} with a response)" if with_response else ""
    return f"{model.label} {getattr(model, number)}{note}"
