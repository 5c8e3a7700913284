"""The rule by which an archived run's score is made of its parts."""

from math import fsum

from tournament_assets.tournament.archive_scoring import JUDGE, ScoreRules, Weighting
from tournament_assets.tournament.archived_runs import ArchivedRun, JudgeState

_ROUNDING = 5e-4
"""How far, as a share of the ceiling, a recorded score may be off the rule: harnesses round."""


def weighting_of(run: ArchivedRun, rules: ScoreRules, *, has_judge: bool) -> Weighting:
    """Return the weighting by which a run is scored with, or without, a score of the judge."""
    return rules.weighting_of(run.components, has_judge=has_judge, fitting=run.weightings)


def counts_judge(run: ArchivedRun, rules: ScoreRules) -> bool:
    """Whether a score of the judge's is part of the run's score."""
    return weighting_of(run, rules, has_judge=True).has_judge


def weighted_score(run: ArchivedRun, judge_score: float | None, rules: ScoreRules) -> float | None:
    """Return the score that a run has by the rule.

    Args:
        run: The run.
        judge_score: The judge's score; None where there is none.
        rules: The weights.

    Returns:
        The score; None where a component is missing, since nobody knows what it would be.
    """
    weights = weighting_of(run, rules, has_judge=judge_score is not None).weights
    scores = {**run.components, JUDGE: judge_score}
    parts = [(weight, scores.get(name)) for name, weight in weights.items()]
    known = [weight * score for weight, score in parts if score is not None]
    if len(known) < len(parts):
        return None
    # Summed exactly, so that weights that make up a whole do.
    return fsum(known) / fsum(weights.values())


def is_close(score: float | None, recorded: float, rules: ScoreRules) -> bool:
    """Whether a recorded score is another one, rounded."""
    return score is not None and abs(score - recorded) <= _ROUNDING * rules.ceiling


def follows_rule(run: ArchivedRun, rules: ScoreRules) -> bool | None:
    """Whether a run's recorded score is the one that the rule gives; None where nobody can say.

    Where judging failed nobody knows what the harness put in the judge's place.
    """
    if run.judge_state is JudgeState.FAILED and counts_judge(run, rules):
        return None
    score = weighted_score(run, run.judge_score, rules)
    return None if score is None else is_close(score, run.run_score, rules)


def wrong_weights(run: ArchivedRun, rules: ScoreRules) -> tuple[str, ...]:
    """Return the components whose recorded weight is another than the configured one.

    Where judging failed the harness may have weighed with or without the judge.
    """
    failed = run.judge_state is JudgeState.FAILED
    states = (True, False) if failed else (run.judge_score is not None,)
    wrong = [
        tuple(
            name
            for name, weight in run.weights.items()
            if abs(weighting.weights.get(name, 0.0) - weight) > 1e-9
        )
        for weighting in (weighting_of(run, rules, has_judge=state) for state in states)
    ]
    return min(wrong, key=len)


def is_at_ceiling(run: ArchivedRun, rules: ScoreRules) -> bool:
    """Whether the deciding component is as high as it can be."""
    return rules.is_at_ceiling(run.components)


def is_clean(run: ArchivedRun, rules: ScoreRules) -> bool:
    """Whether a run scored anything at all."""
    return run.run_score >= rules.zero_below
