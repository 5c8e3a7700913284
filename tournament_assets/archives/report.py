"""The fair comparison of an archive's models: Markdown, terminal, JSON and CSV from one source."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from tournament_assets.archives import tables
from tournament_assets.archives.audit import ArchiveAudit, audit_archive, coverage_sentences
from tournament_assets.archives.config import ArchiveConfig
from tournament_assets.archives.models import (
    CommonSupport,
    ConditionAudit,
    Gap,
    ModelAudit,
    Sameness,
    audit_conditions,
    find_common_support,
    measure_gaps,
    neighbours,
    rank_models,
)
from tournament_assets.archives.rules import JUDGE, Weighting, When
from tournament_assets.archives.runs import ArchiveContents
from tournament_assets.archives.tables import (
    DataTable,
    common_table,
    condition_table,
    coverage_detail_table,
    format_score,
    gap_table,
    ranking_table,
    tier_tables,
)
from tournament_assets.reports.rendering import render_sentences, render_template
from tournament_assets.reports.report_tables import ReportSection, table_csv
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
    verdict = [*audit.outages, *verdict_sentences(ranked, comparison.gaps, config)]
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
                "Gaps and significance",
                gap_sentences(config),
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
            common_sentences(comparison.support, audit.contents, models),
            (("", common_table(comparison.support, labels)),),
        ),
        ReportSection(
            "The same for all",
            (
                *coverage_sentences(audit)[:1],
                rule_sentence(config),
                *condition_sentences(comparison.conditions, models),
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
            glossary(config),
        ),
        ReportSection(
            "Caveats",
            caveats(models, comparison.support, config, tier_counts),
        ),
    ]
    return sections


def archive_data_tables(comparison: ArchiveComparison) -> dict[str, DataTable]:
    """Return the tables that every number of the report is from, by name."""
    audit = comparison.audit
    return {
        "models": tables.model_rows(audit.models),
        "gaps": tables.gap_rows(comparison.gaps),
        "common_support": tables.common_rows(comparison.support),
        "tiers": tables.tier_rows(audit.models),
        "conditions": tables.condition_rows(comparison.conditions),
        "tasks": tables.task_rows(audit.tasks),
        "findings": tables.finding_rows(audit.tasks),
        "runs": tables.run_rows(audit.contents, audit.config),
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
    return render_template(
        "sections.md.jinja",
        title=config.shown_title,
        warnings=(),  # the verdict begins with them
        sections=[
            *archive_report_sections(comparison),
            ReportSection("Where the numbers are", (where, *sources)),
        ],
    )


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
        "excluded": list(comparison.excluded),
        "outages": list(comparison.audit.outages),
        "verdict": verdict_sentences(comparison.ranked, comparison.gaps, comparison.config),
        "ranking": [model.model_id for model in comparison.ranked],
        **tables.table_values(archive_data_tables(comparison)),
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
            write_bytes_atomically(folder / f"{name}.csv", table_csv(table.columns, table.cells))
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
    """Say who leads, and whether that is more than noise."""
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
    for what, members in (
        ("Its lead is not significant over", [gap for gap in behind if gap.is_within_noise]),
        ("The tasks cannot tell it from", [gap for gap in behind if gap.is_open]),
        ("Its lead is significant over", [gap for gap in behind if gap.is_separated]),
    ):
        if members:
            names = [f"{labels[gap.lower]} ({interval_phrase(gap, config)})" for gap in members]
            sentences.append(f"{what} {join_names(names)}.")
    between = neighbours(gaps, ranked)
    for what, members in (
        (
            "Neighbours without a significant difference",
            [gap for gap in between if gap.is_within_noise],
        ),
        ("Neighbours that the tasks cannot tell apart", [gap for gap in between if gap.is_open]),
    ):
        listed = "; ".join(f"{labels[gap.higher]} and {labels[gap.lower]}" for gap in members)
        if listed:
            sentences.append(f"{what}: {listed}.")
    if all(gap.is_separated for gap in between):
        sentences.append("All neighbours differ significantly.")
    return sentences


def interval_phrase(gap: Gap, config: ArchiveConfig) -> str:
    """Write a difference with its interval."""
    share = format_confidence(config.confidence)
    if gap.low is None and gap.high is None:
        return f"{gap.difference:+.4f}; {gap.n_tasks} tasks set no {share} interval"
    low = ABSENT if gap.low is None else f"{gap.low:+.4f}"
    high = ABSENT if gap.high is None else f"{gap.high:+.4f}"
    return f"{gap.difference:+.4f}; {share} interval {low} to {high}"


def gap_sentences(config: ArchiveConfig) -> tuple[str, ...]:
    """Say how the intervals of the gaps are made."""
    return (
        f"Difference of the clean means, with its {format_confidence(config.confidence)} interval: "
        f"whole tasks resampled {config.n_bootstraps} times (seed {config.bootstrap_seed}), all "
        "runs of a task together, both models on the same tasks.",
    )


def common_sentences(
    support: CommonSupport, contents: ArchiveContents, models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Say what the ranking on common support rests on."""
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
    rules = config.scores
    cases = [f"{_case(each, config)}: {_formula(each)}" for each in rules.all_weightings]
    return f"The first that fits: {'; '.join(cases)}."


def _case(weighting: Weighting, config: ArchiveConfig) -> str:
    rules, conditions = config.scores, []
    if weighting.when is not None:
        conditions.append(f"{weighting.name} ({_condition(weighting.when)})")
    if weighting.at_ceiling:
        threshold = rules.ceiling - rules.tolerance
        conditions.append(f"{rules.deciding} is at least {threshold:g}")
    if weighting.has_judge:
        conditions.append("the judge gave a score")
    return f"where {join_names(conditions)}" if conditions else "all other runs"


def _condition(when: When) -> str:
    parts = [] if when.tasks is None else [f"tasks that match {when.tasks}"]
    if when.key is not None:
        values = " or ".join(json.dumps(value) for value in when.equals)
        parts.append(f"{when.key} is {values}")
    return ", ".join(parts)


def _formula(weighting: Weighting) -> str:
    terms = " + ".join(f"{weight:g} · {name}" for name, weight in weighting.weights.items())
    whole = fsum(weighting.weights.values())
    return terms if whole == 1 else f"({terms}) / {whole:g}"


def condition_sentences(
    conditions: Sequence[ConditionAudit], models: Sequence[ModelAudit]
) -> tuple[str, ...]:
    """Say whether what was to be the same was."""
    different = [each.name for each in conditions if each.sameness is Sameness.DIFFERENT]
    if different:
        return (
            f"NOT THE SAME for all runs: {join_names(different)}. The models were not compared "
            "like for like.",
        )
    counts = {
        f"identical in every run of {len(models)} models": Sameness.SAME,
        "identical, but not in every file": Sameness.INCOMPLETE,
        "stated by the archive's description, which cannot be checked": Sameness.STATED,
    }
    listed = [
        f"{what}: {count}"
        for what, sameness in counts.items()
        if (count := sum(each.sameness is sameness for each in conditions))
    ]
    return (f"Conditions {'; '.join(listed)}.",) if listed else ()


def glossary(config: ArchiveConfig) -> tuple[str, ...]:
    """Explain every column."""
    return render_sentences(
        "archive_glossary.jinja",
        rules=config.scores,
        planned=config.plan.n_cells,
        rule=rule_sentence(config),
    )


def caveats(
    models: Sequence[ModelAudit],
    support: CommonSupport,
    config: ArchiveConfig,
    tier_counts: Mapping[str, int],
) -> tuple[str, ...]:
    """Say what the numbers do not show, with the numbers."""

    def counts(number: str) -> str:
        return join_names([_count(model, number) for model in models if getattr(model, number)])

    shares = [
        f"{format_share(each.weights[JUDGE] / fsum(each.weights.values()), decimals=0)} "
        f"({each.name})"
        for each in config.scores.all_weightings
        if each.has_judge
    ]
    return render_sentences(
        "archive_caveats.jinja",
        models=models,
        counts=counts,
        uneven=_UNEVEN,
        judges=join_names(sorted({judge for model in models for judge in model.rejudged_by})),
        shares=join_names(shares),
        support=support,
        planned=config.plan.n_cells,
        small_tiers=join_names([tier for tier, count in tier_counts.items() if count < 6]),
    )


def _count(model: ModelAudit, number: str) -> str:
    with_response = number == "zero" and model.zero_with_response
    note = f" ({model.zero_with_response} with a response)" if with_response else ""
    return f"{model.label} {getattr(model, number)}{note}"
