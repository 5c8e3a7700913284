"""What the report on an archive says in words: the verdict, the rule, the glossary, the caveats."""

import json
from collections.abc import Mapping, Sequence
from math import fsum

from tournament_assets.audits.archive_conditions import ConditionAudit, Sameness
from tournament_assets.audits.archive_models import ModelAudit
from tournament_assets.audits.archive_ranking import CommonSupport, Gap, neighbours
from tournament_assets.reports.archive_tables import format_score
from tournament_assets.reports.formatting import ABSENT, format_confidence, join_names
from tournament_assets.tournament.archive_scoring import JUDGE, Weighting, When
from tournament_assets.tournament.archived_runs import ArchiveContents
from tournament_assets.tournament.archives import ArchiveConfig

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
        ("It is not separated from", [gap for gap in behind if gap.is_within_noise]),
        (
            "The tasks cannot tell it from",
            [gap for gap in behind if not (gap.is_separated or gap.is_within_noise)],
        ),
        ("It is separated from", [gap for gap in behind if gap.is_separated]),
    ):
        if members:
            names = [f"{labels[gap.lower]} ({interval_phrase(gap, config)})" for gap in members]
            sentences.append(f"{what} {join_names(names)}.")
    between = neighbours(gaps, ranked)
    for what, members in (
        ("Neighbours within noise", [gap for gap in between if gap.is_within_noise]),
        (
            "Neighbours that the tasks cannot tell apart",
            [gap for gap in between if not (gap.is_separated or gap.is_within_noise)],
        ),
    ):
        listed = "; ".join(f"{labels[gap.higher]} and {labels[gap.lower]}" for gap in members)
        if listed:
            sentences.append(f"{what}: {listed}.")
    if all(gap.is_separated for gap in between):
        sentences.append("Every two neighbours are separated.")
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
        sentences.append("There is no such run, so nothing can be compared like for like.")
    return tuple(sentences)


def rule_sentence(config: ArchiveConfig) -> str:
    """Write the rule of a run's score as formulas, in the order in which they are tried."""
    rules = config.scores
    cases = [f"{_case(each, config)}: {_formula(each)}" for each in rules.all_weightings]
    return f"{'; else '.join(cases)}."


def _case(weighting: Weighting, config: ArchiveConfig) -> str:
    rules, conditions = config.scores, []
    if weighting.when is not None:
        conditions.append(f"{weighting.name} ({_condition(weighting.when)})")
    if weighting.at_ceiling:
        threshold = rules.ceiling - rules.tolerance
        conditions.append(f"{rules.deciding} is at least {threshold:g}")
    if weighting.has_judge:
        conditions.append("the judge gave a score")
    return f"Where {join_names(conditions)}" if conditions else "Everywhere"


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
        "stated by the archive's description, which nobody can check": Sameness.STATED,
    }
    listed = [
        f"{what}: {count}"
        for what, sameness in counts.items()
        if (count := sum(each.sameness is sameness for each in conditions))
    ]
    return (f"Conditions {'; '.join(listed)}.",) if listed else ()


def glossary(config: ArchiveConfig) -> tuple[tuple[str, str], ...]:
    """Explain every column."""
    rules, planned = config.scores, config.plan.n_cells
    return (
        (
            "Clean mean",
            f"Mean run score over the runs that scored at least {rules.zero_below:g}. It shows "
            "what a model does when nothing breaks, and leaves out real failures too.",
        ),
        ("Mean of all", "Mean run score over every archived run, zeros included."),
        (
            "Normalised",
            f"Sum of the clean scores by the {planned} planned runs: whatever is missing or zero "
            "counts nothing.",
        ),
        ("Coverage", f"Clean runs by the {planned} planned ones."),
        ("Judge-only", "Mean of the judge's scores, over the runs that have one."),
        (
            "At the ceiling",
            f"Archived runs in which {rules.deciding} is at least "
            f"{rules.ceiling - rules.tolerance:g}.",
        ),
        ("Run score", rule_sentence(config)),
    )


def caveats(
    models: Sequence[ModelAudit],
    support: CommonSupport,
    config: ArchiveConfig,
    tier_counts: Mapping[str, int],
) -> list[str]:
    """Say what the numbers do not show, with the numbers."""
    found = []
    missing = [model for model in models if model.missing]
    if missing:
        listed = join_names([f"{model.label} {model.missing}" for model in missing])
        found.append(
            f"Missing runs: {listed}. They are in no mean; in the normalised score they count "
            "nothing."
        )
    coverages = [model.coverage for model in models]
    if coverages and max(coverages) - min(coverages) > _UNEVEN:
        found.append(
            f"Coverage is uneven, from {min(coverages):.1%} to {max(coverages):.1%}: missing hard "
            "tasks raises a clean mean. Compare on common support as well."
        )
    zeros = [model for model in models if model.zero]
    if zeros:
        listed = join_names(
            [
                f"{model.label} {model.zero}"
                + (
                    f" ({model.zero_with_response} with a response)"
                    if model.zero_with_response
                    else ""
                )
                for model in zeros
            ]
        )
        found.append(
            f"Runs that scored nothing are left out of the clean mean: {listed}. With a response "
            "they may be real failures; the mean of all holds them."
        )
    left = [model for model in models if model.judge_failed]
    if left:
        listed = join_names([f"{model.label} {model.judge_failed}" for model in left])
        found.append(
            f"Judging failed and was not mended: {listed}. Their recorded scores may count the "
            "judge as 0; `tournament archive rejudge` asks again."
        )
    again = [model for model in models if model.rejudged]
    if again:
        listed = join_names([f"{model.label} {model.rejudged}" for model in again])
        judges = sorted({judge for model in again for judge in model.rejudged_by})
        found.append(
            f"Judged again: {listed}, by {join_names(judges) or 'a model that no file names'}; "
            "expected the judge of all other runs."
        )
    off = sum(model.off_rule for model in models)
    if off:
        checked = sum(model.rule_checked for model in models)
        found.append(
            f"{off} of {checked} recorded run scores are not what the rule gives; look at "
            "rule_score in the table of runs."
        )
    weights = sum(model.wrong_weights for model in models)
    if weights:
        found.append(f"{weights} runs record other weights than the configured ones.")
    shares = [
        f"{each.weights[JUDGE] / fsum(each.weights.values()):.0%} ({each.name})"
        for each in config.scores.all_weightings
        if each.has_judge
    ]
    found.append(
        "Judge scores come from a judge that may favour models of its own family; it has "
        f"{join_names(shares)} of a run's score."
    )
    if support.n_clean_cells < config.plan.n_cells:
        found.append(
            "Common support leaves out what one model misses for all of them; its clean mean is "
            "chosen by outcome."
        )
    small = [tier for tier, count in tier_counts.items() if count < 6]
    if small:
        found.append(
            f"Few tasks in {join_names(small)}: a mean over fewer than six tasks says little."
        )
    return found
