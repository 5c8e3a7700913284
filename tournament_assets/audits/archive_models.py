"""An archive of scored runs, model by model: what is there, what is missing, what it comes to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from tournament_assets.audits.archive_scores import (
    follows_rule,
    is_at_ceiling,
    is_clean,
    wrong_weights,
)
from tournament_assets.tournament.archived_runs import ArchiveContents, ArchivedRun, JudgeState
from tournament_assets.tournament.archives import ArchiveConfig, ArchivedModel


@dataclass(frozen=True, slots=True)
class TierMean:
    """A model's scores in one tier.

    Attributes:
        tier: The tier.
        n_archived: Runs in it.
        mean: Their mean score; None where there is none.
        n_clean: Runs that scored anything.
        clean_mean: The mean score of those.
    """

    tier: str
    n_archived: int
    mean: float | None
    n_clean: int
    clean_mean: float | None


@dataclass(frozen=True, slots=True)
class ModelAudit:
    """What an archive holds of one model.

    Attributes:
        model_id: The model.
        label: What people call it.
        planned: Runs it was to have.
        archived: Planned runs whose file can be used.
        broken: Planned runs whose file is there and cannot be used.
        absent: Planned runs without a file.
        clean: Archived runs that scored anything.
        zero: Archived runs that scored nothing.
        zero_with_response: Those among them in which the model did something: they may be real
            failures. None where the archive does not tell.
        coverage: Clean runs by planned ones.
        mean: The mean score of the archived runs; None where there is none.
        clean_mean: The mean score of the clean runs.
        normalised: The clean runs' scores by the planned runs: whatever is missing counts nothing.
        judge_mean: The judge's mean score.
        judged: Runs it is the mean of.
        judge_failed: Runs whose judging failed and was not mended.
        rejudged: Runs that were judged again.
        rejudged_by: The models that did it, as far as the files say.
        at_ceiling: Runs whose deciding component is at its ceiling.
        empty: Runs in which the model did nothing; None where the archive does not tell.
        harness_failures: Runs of which the harness says that it failed.
        off_rule: Runs whose recorded score is not the one that the rule gives.
        rule_checked: Runs of which that could be said.
        wrong_weights: Runs that record other weights than the configured ones.
        tiers: Scores by tier.
    """

    model_id: str
    label: str
    planned: int
    archived: int
    broken: int
    absent: int
    clean: int
    zero: int
    zero_with_response: int | None
    coverage: float
    mean: float | None
    clean_mean: float | None
    normalised: float
    judge_mean: float | None
    judged: int
    judge_failed: int
    rejudged: int
    rejudged_by: tuple[str, ...]
    at_ceiling: int
    empty: int | None
    harness_failures: int
    off_rule: int
    rule_checked: int
    wrong_weights: int
    tiers: tuple[TierMean, ...]

    @property
    def missing(self) -> int:
        """Planned runs that no number is made of."""
        return self.broken + self.absent


@dataclass(frozen=True, slots=True)
class LogComparison:
    """What the sweep's logs say of one model, beside its files.

    Attributes:
        model_id: The model; empty for lines that name none.
        failures: Lines by the kind of failure.
        missing_explained: Missing runs that a log says failed.
        missing_unexplained: Missing runs of which no log says anything.
        failed_and_archived: Archived runs that a log says failed: they were tried again, or are
            what a failure left behind.
        failed_and_zero: Those among them that scored nothing.
    """

    model_id: str
    failures: Mapping[str, int]
    missing_explained: int
    missing_unexplained: int
    failed_and_archived: int
    failed_and_zero: int


def audit_models(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> tuple[ModelAudit, ...]:
    """Count and average every model's runs, in the order of the configuration."""
    return tuple(_audit(model, contents, config) for model in config.iterate_models(exclude))


def mean_of(scores: Sequence[float]) -> float | None:
    """Return the mean of some scores; None if there is none."""
    return fsum(scores) / len(scores) if scores else None


def _audit(model: ArchivedModel, contents: ArchiveContents, config: ArchiveConfig) -> ModelAudit:
    rules = config.scores
    runs = [run for run in contents.runs if run.model_id == model.model_id]
    clean = [run.run_score for run in runs if is_clean(run, rules)]
    zero = [run for run in runs if not is_clean(run, rules)]
    broken = sum(file.model_id == model.model_id for file in contents.broken)
    planned = config.plan.n_cells
    judged = [run.judge_score for run in runs if run.judge_score is not None]
    rule = [follows for run in runs if (follows := follows_rule(run, rules)) is not None]
    tells = bool(config.responses)
    return ModelAudit(
        model_id=model.model_id,
        label=model.shown,
        planned=planned,
        archived=len(runs),
        broken=broken,
        absent=planned - len(runs) - broken,
        clean=len(clean),
        zero=len(zero),
        zero_with_response=sum(run.is_empty is False for run in zero) if tells else None,
        coverage=len(clean) / planned,
        mean=mean_of([run.run_score for run in runs]),
        clean_mean=mean_of(clean),
        normalised=fsum(clean) / planned,
        judge_mean=mean_of(judged),
        judged=len(judged),
        judge_failed=sum(run.judge_state is JudgeState.FAILED for run in runs),
        rejudged=sum(run.judge_state is JudgeState.REJUDGED for run in runs),
        rejudged_by=tuple(sorted({run.rejudged_by for run in runs if run.rejudged_by})),
        at_ceiling=sum(is_at_ceiling(run.components, rules) for run in runs),
        empty=sum(run.is_empty is True for run in runs) if tells else None,
        harness_failures=sum(bool(run.failure) for run in runs),
        off_rule=rule.count(False),
        rule_checked=len(rule),
        wrong_weights=sum(bool(wrong_weights(run, rules)) for run in runs),
        tiers=tuple(_tier_mean(tier, runs, config) for tier in planned_tiers(contents, config)),
    )


def planned_tiers(contents: ArchiveContents, config: ArchiveConfig) -> tuple[str, ...]:
    """Return the tiers of the planned tasks, in order."""
    return tuple(sorted({config.tier_of(task) for task in contents.tasks}))


def _tier_mean(tier: str, runs: Sequence[ArchivedRun], config: ArchiveConfig) -> TierMean:
    members = [run for run in runs if run.tier == tier]
    clean = [run.run_score for run in members if is_clean(run, config.scores)]
    return TierMean(
        tier=tier,
        n_archived=len(members),
        mean=mean_of([run.run_score for run in members]),
        n_clean=len(clean),
        clean_mean=mean_of(clean),
    )


def compare_with_logs(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> tuple[LogComparison, ...]:
    """Lay what the logs say beside the files: which failures explain what is missing.

    A line that names a task and no run speaks of all runs of the task.
    """
    models: list[str | None] = [model.model_id for model in config.iterate_models(exclude)]
    if any(failure.model_id is None for failure in contents.log_failures):
        models.append(None)
    return tuple(_compare(model_id, contents, config) for model_id in models)


def _compare(
    model_id: str | None, contents: ArchiveContents, config: ArchiveConfig
) -> LogComparison:
    failures = [each for each in contents.log_failures if each.model_id == model_id]
    counts = Counter(each.pattern for each in failures)
    runs = {run.cell: run for run in contents.runs if run.model_id == model_id}
    planned = {(task, run) for task in contents.tasks for run in config.plan.run_names}
    failed = {
        (each.task, run)
        for each in failures
        if each.task is not None
        for run in ([each.run] if each.run is not None else config.plan.run_names)
    } & planned
    # Of tasks that no model has and nobody named, not even the log can explain the absence.
    missing = 0 if model_id is None else config.plan.n_cells - len(runs)
    explained = 0 if model_id is None else len(failed - runs.keys())
    archived = [runs[cell] for cell in failed if cell in runs]
    return LogComparison(
        model_id=model_id or "",
        failures=dict(sorted(counts.items())),
        missing_explained=explained,
        missing_unexplained=missing - explained,
        failed_and_archived=len(archived),
        failed_and_zero=sum(not is_clean(run, config.scores) for run in archived),
    )
