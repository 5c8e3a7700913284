"""An archive of scored runs, task by task across models: what says more of the task than of them.

Source of the variance components: Searle, Casella and McCulloch, "Variance Components",
https://doi.org/10.1002/9780470316856, section 3.6 (one-way classification, unbalanced data).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from tournament_assets.audits.archive_models import mean_of
from tournament_assets.audits.archive_scores import is_at_ceiling, is_clean
from tournament_assets.tournament.archive_scoring import ScoreRules
from tournament_assets.tournament.archived_runs import ArchiveContents, ArchivedRun, JudgeState
from tournament_assets.tournament.archives import ArchiveConfig

_CLUSTER_SHARE = 0.5
"""From this share of a task's runs on, failures that are no model's doing are a cluster."""
_FAILS_TIER = 0.5
"""From this share of zero runs on, a model fails a tier."""
_PASSES_TIER = 0.2
"""Up to this share of zero runs, it does not."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How far scores differ between models, and how far between runs of the same model.

    Attributes:
        between_models: Standard deviation of the models' true means, as estimated.
        between_runs: Standard deviation of runs about their model's mean; None where no model has
            two runs.
        ratio: The variance of the models' means by what runs alone would give it (the F statistic);
            about 1 where the task tells models apart no better than chance does.
    """

    between_models: float | None
    between_runs: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class TaskAudit:
    """What all models made of one task.

    Attributes:
        task: The task.
        tier: Its tier.
        planned: Runs that all models were to have.
        archived: Those whose file can be used.
        zero: Those that scored nothing.
        at_ceiling: Those whose deciding component is at its ceiling.
        judge_failed: Those whose judging failed.
        harness_failures: Those of which the harness says that it failed.
        means: Mean scores, by model.
        spread: How far scores differ.
        findings: What is wrong with it, in words.
    """

    task: str
    tier: str
    planned: int
    archived: int
    zero: int
    at_ceiling: int
    judge_failed: int
    harness_failures: int
    means: Mapping[str, float]
    spread: Spread
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TierFailure:
    """A model that fails one tier, which others do not fail, and no other tier.

    Attributes:
        model_id: The model.
        tier: The tier.
        zero: Its runs of the tier that scored nothing.
        archived: Its runs of the tier.
        elsewhere: The share of its runs of other tiers that scored nothing.
        others: The share of the other models' runs of this tier that scored nothing.
    """

    model_id: str
    tier: str
    zero: int
    archived: int
    elsewhere: float
    others: float


def audit_tasks(
    contents: ArchiveContents, config: ArchiveConfig, *, exclude: frozenset[str] = frozenset()
) -> tuple[TaskAudit, ...]:
    """Look at every planned task across models, in the tasks' order."""
    n_models = len(list(config.iterate_models(exclude)))
    planned = n_models * len(config.plan.run_names)
    by_task: dict[str, list[ArchivedRun]] = {task: [] for task in contents.tasks}
    for run in contents.runs:
        by_task[run.task].append(run)
    return tuple(
        _audit(task, runs, config, planned=planned) for task, runs in sorted(by_task.items())
    )


def _audit(
    task: str, runs: Sequence[ArchivedRun], config: ArchiveConfig, *, planned: int
) -> TaskAudit:
    rules = config.scores
    scores: dict[str, list[float]] = {}
    for run in runs:
        scores.setdefault(run.model_id, []).append(run.run_score)
    return TaskAudit(
        task=task,
        tier=config.tier_of(task),
        planned=planned,
        archived=len(runs),
        zero=sum(not is_clean(run, rules) for run in runs),
        at_ceiling=sum(is_at_ceiling(run.components, rules) for run in runs),
        judge_failed=sum(run.judge_state is JudgeState.FAILED for run in runs),
        harness_failures=sum(bool(run.failure) for run in runs),
        means={model: fsum(values) / len(values) for model, values in sorted(scores.items())},
        spread=measure_spread(list(scores.values())),
        findings=tuple(_findings(runs, rules)),
    )


def _findings(runs: Sequence[ArchivedRun], rules: ScoreRules) -> list[str]:
    models = {run.model_id for run in runs}
    if len(models) < 2:
        return ["fewer than two models have it"]
    found = []
    if not any(is_clean(run, rules) for run in runs):
        found.append("every run of every model scored nothing: look at the task and its verifier")
    if all(is_at_ceiling(run.components, rules) for run in runs):
        found.append(f"every run of every model has {rules.deciding} at the ceiling")
    answered = [run for run in runs if run.is_empty is False]
    if answered and all(run.components.get(rules.deciding) == 0 for run in runs):
        found.append(
            f"{rules.deciding} is 0 in every run, and the models did something in "
            f"{len(answered)} of {len(runs)}: the verifier may refuse what is right"
        )
    zero = {run.model_id for run in runs if not is_clean(run, rules)}
    if len(zero) == 1 and not any(is_clean(run, rules) for run in runs if run.model_id in zero):
        found.append(f"only {zero.pop()} scored nothing, and did so in every run")
    failed = [run for run in runs if run.judge_state is JudgeState.FAILED]
    if _is_cluster(failed, runs):
        found.append(f"judging failed in {len(failed)} of {len(runs)} runs")
    broken = [run for run in runs if run.failure]
    if _is_cluster(broken, runs):
        found.append(f"the harness failed in {len(broken)} of {len(runs)} runs")
    return found


def _is_cluster(failed: Sequence[ArchivedRun], runs: Sequence[ArchivedRun]) -> bool:
    return len({run.model_id for run in failed}) > 1 and len(failed) >= _CLUSTER_SHARE * len(runs)


def measure_spread(groups: Sequence[Sequence[float]]) -> Spread:
    """Tell the spread between models from the spread between runs of the same model.

    Args:
        groups: The scores of each model's runs.
    """
    groups = [group for group in groups if group]
    n_runs = sum(map(len, groups))
    if len(groups) < 2:
        return Spread(None, None, None)
    means = [fsum(group) / len(group) for group in groups]
    if n_runs == len(groups):
        return Spread(None, None, None)
    within = fsum(
        (score - mean) ** 2 for group, mean in zip(groups, means, strict=True) for score in group
    ) / (n_runs - len(groups))
    overall = fsum(fsum(group) for group in groups) / n_runs
    between = fsum(
        len(group) * (mean - overall) ** 2 for group, mean in zip(groups, means, strict=True)
    ) / (len(groups) - 1)
    size = (n_runs - fsum(len(group) ** 2 for group in groups) / n_runs) / (len(groups) - 1)
    return Spread(
        between_models=math.sqrt(max(0.0, between - within) / size),
        between_runs=math.sqrt(within),
        ratio=between / within if within > 0 else None,
    )


def find_tier_failures(contents: ArchiveContents, config: ArchiveConfig) -> list[TierFailure]:
    """Find models that score nothing in one tier only, where the others score something."""
    rules = config.scores
    models = sorted({run.model_id for run in contents.runs})
    tiers = sorted({run.tier for run in contents.runs})

    def zero_share(runs: Sequence[ArchivedRun]) -> float | None:
        return mean_of([float(not is_clean(run, rules)) for run in runs])

    found = []
    for model_id in models:
        own = [run for run in contents.runs if run.model_id == model_id]
        for tier in tiers:
            here = [run for run in own if run.tier == tier]
            share = zero_share(here)
            elsewhere = zero_share([run for run in own if run.tier != tier])
            others = zero_share(
                [run for run in contents.runs if run.tier == tier and run.model_id != model_id]
            )
            if share is None or elsewhere is None or others is None:
                continue
            if share >= _FAILS_TIER and elsewhere <= _PASSES_TIER and others <= _PASSES_TIER:
                zero = sum(not is_clean(run, rules) for run in here)
                found.append(TierFailure(model_id, tier, zero, len(here), elsewhere, others))
    return found
