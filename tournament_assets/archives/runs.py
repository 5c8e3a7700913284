"""What an archive holds: runs, files that are none, what logs say; and the rule of their scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum

from tournament_assets.archives.rules import JUDGE, ScoreRules, Weighting


class JudgeState(StrEnum):
    """What became of asking the judge about a run."""

    OFF = "off"
    """The judge was not asked."""
    SCORED = "scored"
    """The judge gave a score."""
    REJUDGED = "rejudged"
    """The judge gave a score when it was asked again."""
    FAILED = "failed"
    """Something on the way to the judge failed; there is no score."""


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """One run as its file tells it.

    Attributes:
        model_id: Whose run it is.
        task: The task.
        run: The run's name.
        tier: The task's tier.
        path: The file, relative to the archive's folder.
        run_score: The run's score.
        components: The components' scores, by name; None where the file has none.
        judge_state: What became of asking the judge.
        judge_score: The judge's score; None unless there is one.
        judge_reason: What the judge, or what failed, said.
        rejudged_by: The model that judged it again; None where the file does not say.
        is_empty: Whether the model did nothing; None where the archive does not tell.
        failure: What the harness says went wrong; empty if nothing.
        conditions: What the file says of each condition, by name; None where it does not.
        weights: The weights that the file records, by component.
        weightings: The configured weightings that are for this run, by name.
    """

    model_id: str
    task: str
    run: str
    tier: str
    path: str
    run_score: float
    components: Mapping[str, float | None]
    judge_state: JudgeState
    judge_score: float | None = None
    judge_reason: str = ""
    rejudged_by: str | None = None
    is_empty: bool | None = None
    failure: str = ""
    conditions: Mapping[str, str | None] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    weightings: tuple[str, ...] = ()

    @property
    def cell(self) -> tuple[str, str]:
        """The task and the run's name: what every model was to do."""
        return self.task, self.run


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file that should hold a run and cannot be used; the run counts as missing.

    Attributes:
        model_id: Whose run it is.
        task: The task.
        run: The run's name.
        path: The file, relative to the archive's folder.
        reason: What was found, and what was expected.
    """

    model_id: str
    task: str
    run: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LogFailure:
    """A line of a sweep's log that tells of a failure.

    Attributes:
        model_id: Whose failure it is; None where the line does not say.
        pattern: The kind of failure.
        task: The task; None where the line does not say.
        run: The run's name, or its number if no planned run has it; None where the line does not
            say.
        place: `file:line`.
        names_stranger: Whether the line names a model that the archive does not have.
    """

    model_id: str | None
    pattern: str
    task: str | None
    run: str | None
    place: str
    names_stranger: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """An archive as it was read.

    Attributes:
        runs: The planned runs that can be used, by model, task and run.
        broken: Files of planned runs that cannot be used.
        unplanned: Files of runs that nobody planned, relative to the archive's folder; no number
            counts them.
        tasks: The planned tasks: those that are named, or else those that any model has or a log
            names.
        absent_models: Models whose folder is not there.
        log_files: How many log files were read.
        log_failures: What they tell of.
    """

    runs: tuple[ArchivedRun, ...]
    broken: tuple[BrokenFile, ...] = ()
    unplanned: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    absent_models: tuple[str, ...] = ()
    log_files: int = 0
    log_failures: tuple[LogFailure, ...] = ()


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
