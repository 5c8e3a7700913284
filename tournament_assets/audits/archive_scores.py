"""The rule by which an archived run's score is made of its parts."""

from collections.abc import Mapping
from math import fsum

from tournament_assets.tournament.archive_scoring import ScoreRules
from tournament_assets.tournament.archived_runs import ArchivedRun

_ROUNDING = 5e-4
"""How far a recorded score may be off the rule: harnesses write three or four decimals."""


def is_at_ceiling(components: Mapping[str, float | None], rules: ScoreRules) -> bool:
    """Whether the deciding component is as high as it can be."""
    score = components.get(rules.deciding)
    return score is not None and score >= rules.ceiling - rules.tolerance


def weighted_score(
    components: Mapping[str, float | None], judge_score: float | None, rules: ScoreRules
) -> float | None:
    """Return the score that a run has by the rule.

    It is the mean of the components, weighted; the judge is one of them only where the deciding
    component is at its ceiling and the judge gave a score, and otherwise the other weights make
    up the whole.

    Args:
        components: The components' scores, by name.
        judge_score: The judge's score; None where there is none.
        rules: The weights.

    Returns:
        The score; None where a component is missing, since nobody knows what it would be.
    """
    parts = [(each.weight, components.get(each.name)) for each in rules.components]
    if judge_score is not None and is_at_ceiling(components, rules):
        parts.append((rules.judge.weight, judge_score))
    scores = [weight * score for weight, score in parts if score is not None]
    if len(scores) < len(parts):
        return None
    # Summed exactly, so that weights that make up a whole do.
    return fsum(scores) / fsum(weight for weight, _ in parts)


def follows_rule(run: ArchivedRun, rules: ScoreRules) -> bool | None:
    """Whether a run's recorded score is the one that the rule gives; None where nobody can say.

    Where judging failed nobody knows what the harness put in the judge's place.
    """
    if run.judge_state == "failed" and is_at_ceiling(run.components, rules):
        return None
    score = weighted_score(run.components, run.judge_score, rules)
    return None if score is None else abs(score - run.run_score) <= _ROUNDING


def wrong_weights(run: ArchivedRun, rules: ScoreRules) -> tuple[str, ...]:
    """Return the components whose recorded weight is another than the configured one."""
    return tuple(
        component.name
        for component in rules.components
        if abs(run.weights.get(component.name, component.weight) - component.weight) > 1e-9
    )


def is_clean(run: ArchivedRun, rules: ScoreRules) -> bool:
    """Whether a run scored anything at all."""
    return run.run_score >= rules.zero_below
