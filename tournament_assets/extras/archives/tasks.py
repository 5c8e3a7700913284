"""An archive task by task: findings that concern a task rather than its models.

How far models differ on a task against how far runs of one model do is the analysis of variance in
`signal_noise`. Failures that cluster on a task are distinguished from chance as those of prompts
are: were the failed runs drawn from all runs without looking at tasks, a task's number of them
would be hypergeometric; Bonferroni's factor for looking at every task.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from tournament_assets.audits.missingness import CHANCE, tail_probability
from tournament_assets.audits.prompt_findings import SignalToNoise, measure_signal
from tournament_assets.extras.archives.harness import JudgeState, Reader
from tournament_assets.extras.archives.models import LoggedFailures, find_logged_failures, mean_of
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun

_MOSTLY = 0.5
"""Up to this share of zero runs elsewhere, a model that never scores fails where others do not."""
_LOST = 0.5
"""From this share of missing runs on, a task is lost, however many are missing elsewhere."""
_FAILS_TIER = 0.5
"""From this share of zero runs on, a model fails a tier."""
_PASSES_TIER = 0.2
"""Up to this share of zero runs, it does not."""


class TaskFindingKind(StrEnum):
    """What is said of a task, worst first."""

    MISSING_RUNS = "missing_runs"
    """Half of the runs are missing, or more than chance would put on one task."""
    HARNESS_FAILURES = "harness_failures"
    """The harness failed in more runs than chance would put on one task."""
    JUDGE_FAILURES = "judge_failures"
    """Judging failed in more runs than chance would put on one task."""
    ALL_ZERO = "all_zero"
    """Every run of every model scored nothing."""
    NEVER_PASSED = "never_passed"
    """The deciding component is 0 in every run although models responded."""
    MODEL_FAILS = "model_fails"
    """A model scored nothing in every run, and the others mostly scored something."""
    ALL_AT_CEILING = "all_at_ceiling"
    """The deciding component is at its ceiling in every run."""
    ONE_MODEL = "one_model"
    """Fewer than two models have a run, so that nothing can be compared."""


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """One thing about one task.

    Attributes:
        models: Whom it is about; empty where it is about all.
        count: Runs that it is about.
        total: Out of how many.
        sentence: The finding in words, with its numbers.
    """

    kind: TaskFindingKind
    task: str
    models: tuple[str, ...]
    count: int
    total: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Spread:
    """How far scores differ between models, and how far between runs of the same model.

    Attributes:
        between_models: Standard deviation of the models' true means, as estimated.
        between_runs: Standard deviation of runs about their model's mean.
        signal: The analysis of variance behind both.

    All are None with fewer than two models, or where no model has two runs.
    """

    between_models: float | None
    between_runs: float | None
    signal: SignalToNoise | None


@dataclass(frozen=True, slots=True)
class TaskAudit:
    """What all models made of one task.

    Attributes:
        planned: Runs that all models were to have.
        archived: Those whose file can be used.
        zero: Those that scored nothing.
        at_ceiling: Those whose deciding component is at its ceiling.
        judge_failed: Those whose judging failed.
        harness_failures: Those of which the harness says that it failed.
        spread: How far scores differ.
        findings: What is wrong with it.
    """

    task: str
    tier: str
    planned: int
    archived: int
    zero: int
    at_ceiling: int
    judge_failed: int
    harness_failures: int
    spread: Spread
    findings: tuple[TaskFinding, ...]


@dataclass(frozen=True, slots=True)
class TierFailure:
    """A model that fails one tier, which others do not fail, and no other tier.

    Attributes:
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


def audit_tasks(contents: ArchiveContents) -> tuple[TaskAudit, ...]:
    """Look at every planned task across models, in the tasks' order."""
    planned = len(contents.models) * len(contents.config.run_names)
    by_task: dict[str, list[ArchivedRun]] = {task: [] for task in contents.tasks}
    for run in contents.runs:
        by_task[run.task].append(run)
    clusters = _find_clusters(by_task, contents)
    return tuple(
        _audit(
            task,
            runs,
            contents.config.harness,
            n_runs=len(contents.config.run_names),
            planned=planned,
            clusters=[cluster for cluster in clusters if cluster.task == task],
        )
        for task, runs in sorted(by_task.items())
    )


def _audit(
    task: str,
    runs: Sequence[ArchivedRun],
    reader: Reader,
    *,
    n_runs: int,
    planned: int,
    clusters: Sequence[TaskFinding],
) -> TaskAudit:
    scores: dict[str, list[float]] = {}
    for run in runs:
        scores.setdefault(run.model_id, []).append(run.run_score)
    return TaskAudit(
        task=task,
        tier=reader.tier(task),
        planned=planned,
        archived=len(runs),
        zero=sum(not run.is_clean for run in runs),
        at_ceiling=sum(run.is_at_ceiling for run in runs),
        judge_failed=sum(run.judge.state is JudgeState.FAILED for run in runs),
        harness_failures=sum(bool(run.failure) for run in runs),
        spread=measure_spread(list(scores.values())),
        findings=(*clusters, *_patterns(task, runs, reader, n_runs=n_runs)),
    )


def sort_findings(tasks: Iterable[TaskAudit]) -> list[TaskFinding]:
    """Return the findings on all tasks, worst first: by kind, then by the share of runs."""
    kinds = list(TaskFindingKind)
    return sorted(
        (finding for task in tasks for finding in task.findings),
        key=lambda each: (
            kinds.index(each.kind),
            -each.count / max(1, each.total),
            each.task,
            each.models,
        ),
    )


def _patterns(
    task: str, runs: Sequence[ArchivedRun], reader: Reader, *, n_runs: int
) -> list[TaskFinding]:
    """Look at a task's runs alone."""

    def finding(
        kind: TaskFindingKind, count: int, sentence: str, *models: str, total: int = len(runs)
    ) -> TaskFinding:
        return TaskFinding(kind, task, models, count, total, sentence)

    if len({run.model_id for run in runs}) < 2:
        return [
            finding(TaskFindingKind.ONE_MODEL, len(runs), "fewer than two models have a run of it")
        ]
    found = []
    zero = [run for run in runs if not run.is_clean]
    if len(zero) == len(runs):
        found.append(
            finding(
                TaskFindingKind.ALL_ZERO,
                len(zero),
                "every run of every model scored nothing: check the task and its verifier",
            )
        )
    if all(run.is_at_ceiling for run in runs):
        found.append(
            finding(
                TaskFindingKind.ALL_AT_CEILING,
                len(runs),
                f"{reader.deciding} is at the ceiling in every run of every model",
            )
        )
    responded = [run for run in runs if run.is_empty is False]
    if responded and all(run.components.get(reader.deciding) == 0 for run in runs):
        found.append(
            finding(
                TaskFindingKind.NEVER_PASSED,
                len(responded),
                f"{reader.deciding} is 0 in every run although models responded in "
                f"{len(responded)} of {len(runs)}: the verifier may reject correct work",
            )
        )
    for model_id in sorted({run.model_id for run in zero}):
        own = [run for run in runs if run.model_id == model_id]
        others = [run for run in runs if run.model_id != model_id]
        stray = sum(not run.is_clean for run in others)
        if (
            len(own) >= min(2, n_runs)
            and not any(run.is_clean for run in own)
            and stray <= _MOSTLY * len(others)
        ):
            found.append(
                finding(
                    TaskFindingKind.MODEL_FAILS,
                    len(own),
                    f"{model_id} scored nothing in all {len(own)} of its runs; the others in "
                    f"{stray} of {len(others)}",
                    model_id,
                    total=len(own),
                )
            )
    return found


def _find_clusters(
    by_task: Mapping[str, Sequence[ArchivedRun]], contents: ArchiveContents
) -> list[TaskFinding]:
    """Find the tasks on which failures of several models gather."""
    logged = find_logged_failures(contents)
    # A model without any run at all is missing on every task alike.
    models = sorted({run.model_id for run in contents.runs})
    there = {(run.model_id, *run.cell) for run in contents.runs}
    missing = {
        task: [
            cell
            for model_id in models
            for name in contents.config.run_names
            if (cell := (model_id, task, name)) not in there
        ]
        for task in by_task
    }
    asked = {
        task: [run for run in runs if run.judge.state is not JudgeState.OFF]
        for task, runs in by_task.items()
    }
    judging = {
        task: [run.model_id for run in runs if run.judge.state is JudgeState.FAILED]
        for task, runs in asked.items()
    }
    harness = {
        task: [run.model_id for run in runs if run.failure] for task, runs in by_task.items()
    }
    n_planned = len(models) * len(contents.config.run_names)
    found = []
    owners = {task: [cell[0] for cell in cells] for task, cells in missing.items()}
    clustered = _clustered(owners, dict.fromkeys(by_task, n_planned))
    for task, cells in missing.items():
        is_lost = len(set(owners[task])) > 1 and len(cells) >= _LOST * n_planned
        if is_lost or task in clustered:
            found.append(_missing_runs(task, cells, logged, n_planned))
    for kind, subject, failed, runs in (
        (TaskFindingKind.HARNESS_FAILURES, "the harness", harness, by_task),
        (TaskFindingKind.JUDGE_FAILURES, "judging", judging, asked),
    ):
        for task in _clustered(failed, {name: len(each) for name, each in runs.items()}):
            count, total = len(failed[task]), len(runs[task])
            sentence = f"{subject} failed in {count} of {total} runs"
            found.append(TaskFinding(kind, task, (), count, total, sentence))
    return found


def _clustered(failed: Mapping[str, Sequence[str]], totals: Mapping[str, int]) -> list[str]:
    """Return the tasks with more failures, of several models, than chance would put on one.

    Args:
        failed: The models of the failed runs, by task.
        totals: How many runs could have failed, by task.
    """
    total, drawn = sum(totals.values()), sum(map(len, failed.values()))
    return [
        task
        for task, models in failed.items()
        if len(set(models)) > 1
        and len(failed)
        * tail_probability(len(models), total=total, marked=totals[task], drawn=drawn)
        <= CHANCE
    ]


def _missing_runs(
    task: str, cells: Sequence[tuple[str, str, str]], logged: LoggedFailures, n_planned: int
) -> TaskFinding:
    reasons = Counter(kind for cell in cells for kind in sorted(logged.get(cell, ())))
    explained = sum(cell in logged for cell in cells)
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(reasons.items()))
    why = f"the logs explain {explained} of them ({listed})" if explained else "no log says why"
    return TaskFinding(
        TaskFindingKind.MISSING_RUNS,
        task,
        (),
        len(cells),
        n_planned,
        f"{len(cells)} of {n_planned} runs are missing; {why}",
    )


def measure_spread(groups: Sequence[Sequence[float]]) -> Spread:
    """Separate the spread between models from the spread between runs of the same model.

    Args:
        groups: The scores of each model's runs.
    """
    groups = [group for group in groups if group]
    signal = measure_signal(groups)
    if signal is None:
        return Spread(None, None, None)
    n_runs = sum(map(len, groups))
    size = (n_runs - fsum(len(group) ** 2 for group in groups) / n_runs) / (len(groups) - 1)
    return Spread(
        between_models=math.sqrt(max(0.0, signal.between - signal.within) / size),
        between_runs=math.sqrt(signal.within),
        signal=signal,
    )


def find_tier_failures(contents: ArchiveContents) -> list[TierFailure]:
    """Find models that score nothing in one tier only, where the others score something."""
    models = sorted({run.model_id for run in contents.runs})
    tiers = sorted({run.tier for run in contents.runs})

    def zero_share(runs: Sequence[ArchivedRun]) -> float | None:
        return mean_of([float(not run.is_clean) for run in runs])

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
                zero = sum(not run.is_clean for run in here)
                found.append(TierFailure(model_id, tier, zero, len(here), elsewhere, others))
    return found
