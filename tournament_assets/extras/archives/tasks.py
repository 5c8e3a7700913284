"""The tasks of an archive: problems of a task rather than of its models.

The analysis of variance in `prompt_findings` compares how much models differ on a task with how
much runs of one model differ. Failures cluster on a task if it has more than chance explains: if
the failed runs were drawn at random from all runs, their number on a task would be hypergeometric.
The test has a Bonferroni correction for the number of tasks.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import fsum

from tournament_assets.audits.missingness import CHANCE, tail_probability
from tournament_assets.audits.prompt_findings import SignalToNoise, measure_signal
from tournament_assets.extras.archives.harness import JudgeState, Reader
from tournament_assets.extras.archives.models import (
    LoggedFailures,
    ModelAudit,
    RunCounts,
    TierMean,
    count_runs,
    find_logged_failures,
    harness_failed,
    judging_failed,
)
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun

_MOSTLY = 0.5
"""A model that never scores stands out if at most this share of the others' runs scored nothing."""
_LOST = 0.5
"""The smallest share of missing runs that is reported whatever is missing on other tasks."""
_FAILS_TIER = 0.5
"""The smallest share of zero runs at which a model fails a tier."""
_PASSES_TIER = 0.2
"""The largest share of zero runs at which it passes the tier."""


class TaskFindingKind(StrEnum):
    """The kinds of findings about tasks, worst first."""

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
    """Fewer than two models have a run, so nothing can be compared."""


@dataclass(frozen=True, slots=True)
class TaskFinding:
    """A finding about one task.

    Attributes:
        models: The models concerned; empty for all.
        count: The number of runs concerned.
        total: The number of runs examined.
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
    """The spread of scores between models, and between runs of one model.

    Attributes:
        between_models: Estimated standard deviation of the models' true means.
        between_runs: Standard deviation of runs about their model's mean.
        signal: The analysis of variance behind both.
    """

    between_models: float
    between_runs: float
    signal: SignalToNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAudit(RunCounts):
    """The counts of all models' runs of one task, and its findings.

    Attributes:
        spread: None with fewer than two models, or if no model has two runs.
    """

    task: str
    tier: str
    planned: int
    spread: Spread | None
    findings: tuple[TaskFinding, ...]


@dataclass(frozen=True, slots=True)
class TierFailure:
    """A model that fails one tier only, which the other models do not fail.

    Attributes:
        here: Its runs of the tier.
        elsewhere: The share of its runs of other tiers that scored nothing.
        others: The share of the other models' runs of this tier that scored nothing.
    """

    here: TierMean
    elsewhere: float
    others: float


def audit_tasks(contents: ArchiveContents) -> tuple[TaskAudit, ...]:
    """Audit every planned task across models, sorted by task."""
    reader, n_runs = contents.config.harness, len(contents.config.run_names)
    by_task: dict[str, list[ArchivedRun]] = {task: [] for task in contents.tasks}
    for run in contents.runs:
        by_task[run.task].append(run)
    clusters = list(_find_clusters(by_task, contents))
    audits = []
    for task, runs in sorted(by_task.items()):
        scores: dict[str, list[float]] = {}
        for run in runs:
            scores.setdefault(run.model_id, []).append(run.run_score)
        gathered = [cluster for cluster in clusters if cluster.task == task]
        audits.append(
            TaskAudit(
                **count_runs(runs),
                task=task,
                tier=reader.tier(task),
                planned=len(contents.models) * n_runs,
                spread=measure_spread(list(scores.values())),
                findings=(*gathered, *_patterns(task, runs, reader, n_runs=n_runs)),
            )
        )
    return tuple(audits)


def sort_findings(tasks: Iterable[TaskAudit]) -> list[TaskFinding]:
    """Return the findings on all tasks, worst first, by kind and then by the share of runs."""
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
) -> Iterator[TaskFinding]:
    """Find problems that one task's runs show by themselves."""

    def finding(kind: TaskFindingKind, count: int, sentence: str) -> TaskFinding:
        return TaskFinding(kind, task, (), count, len(runs), sentence)

    if len({run.model_id for run in runs}) < 2:
        sentence = "fewer than two models have a run of it"
        yield finding(TaskFindingKind.ONE_MODEL, len(runs), sentence)
        return
    if not any(run.is_clean for run in runs):
        sentence = "every run of every model scored nothing: check the task and its verifier"
        yield finding(TaskFindingKind.ALL_ZERO, len(runs), sentence)
    if all(run.is_at_ceiling for run in runs):
        sentence = f"{reader.deciding} is at the ceiling in every run of every model"
        yield finding(TaskFindingKind.ALL_AT_CEILING, len(runs), sentence)
    responded = sum(run.is_empty is False for run in runs)
    if responded and all(run.components.get(reader.deciding) == 0 for run in runs):
        sentence = (
            f"{reader.deciding} is 0 in every run although models responded in {responded} of "
            f"{len(runs)}: the verifier may reject correct work"
        )
        yield finding(TaskFindingKind.NEVER_PASSED, responded, sentence)
    yield from _failing_models(task, runs, n_runs=n_runs)


def _failing_models(
    task: str, runs: Sequence[ArchivedRun], *, n_runs: int
) -> Iterator[TaskFinding]:
    for model_id in sorted({run.model_id for run in runs}):
        of_model = [run for run in runs if run.model_id == model_id]
        others = [run for run in runs if run.model_id != model_id]
        stray = sum(not run.is_clean for run in others)
        fails = len(of_model) >= min(2, n_runs) and not any(run.is_clean for run in of_model)
        if fails and stray <= _MOSTLY * len(others):
            sentence = (
                f"{model_id} scored nothing in all {len(of_model)} of its runs; the others in "
                f"{stray} of {len(others)}"
            )
            kind = TaskFindingKind.MODEL_FAILS
            yield TaskFinding(kind, task, (model_id,), len(of_model), len(of_model), sentence)


def _find_clusters(
    by_task: Mapping[str, Sequence[ArchivedRun]], contents: ArchiveContents
) -> Iterator[TaskFinding]:
    """Find the tasks on which failures of several models cluster."""
    logged = find_logged_failures(contents)
    # A model without runs is missing on every task alike.
    models = sorted({run.model_id for run in contents.runs})
    there = {(run.model_id, *run.cell) for run in contents.runs}
    planned = {task: list(product(models, [task], contents.config.run_names)) for task in by_task}
    missing = {task: [cell for cell in planned[task] if cell not in there] for task in by_task}
    clustered = _clustered(
        {task: [model for model, _, _ in cells] for task, cells in missing.items()},
        {task: len(cells) for task, cells in planned.items()},
    )
    for task, cells in missing.items():
        n_planned = len(planned[task])
        is_shared = len({model for model, _, _ in cells}) > 1
        if task in clustered or (is_shared and len(cells) >= _LOST * n_planned):
            yield _missing_runs(task, cells, logged, n_planned)
    judged = {
        task: [run for run in runs if run.judge.state is not JudgeState.OFF]
        for task, runs in by_task.items()
    }
    yield from _gathered(TaskFindingKind.HARNESS_FAILURES, "the harness", by_task, harness_failed)
    yield from _gathered(TaskFindingKind.JUDGE_FAILURES, "judging", judged, judging_failed)


def _gathered(
    kind: TaskFindingKind,
    subject: str,
    by_task: Mapping[str, Sequence[ArchivedRun]],
    has_failed: Callable[[ArchivedRun], bool],
) -> Iterator[TaskFinding]:
    failed = {
        task: [run.model_id for run in runs if has_failed(run)] for task, runs in by_task.items()
    }
    for task in _clustered(failed, {task: len(runs) for task, runs in by_task.items()}):
        count, total = len(failed[task]), len(by_task[task])
        sentence = f"{subject} failed in {count} of {total} runs"
        yield TaskFinding(kind, task, (), count, total, sentence)


def _clustered(failed: Mapping[str, Sequence[str]], totals: Mapping[str, int]) -> list[str]:
    """Return the tasks on which several models fail, and more often than chance explains.

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


def measure_spread(groups: Sequence[Sequence[float]]) -> Spread | None:
    """Separate the spread between models from the spread between runs of the same model.

    Returns:
        None with fewer than two models, or if no model has two runs.
    """
    groups = [group for group in groups if group]
    signal = measure_signal(groups)
    if signal is None:
        return None
    n_runs = sum(map(len, groups))
    size = (n_runs - fsum(len(group) ** 2 for group in groups) / n_runs) / (len(groups) - 1)
    return Spread(
        between_models=math.sqrt(max(0.0, signal.between - signal.within) / size),
        between_runs=math.sqrt(signal.within),
        signal=signal,
    )


def find_tier_failures(models: Iterable[ModelAudit]) -> list[TierFailure]:
    """Find models that score nothing in one tier only, where the others score something."""
    tiers = [tier for model in models for tier in model.tiers]
    tiers.sort(key=lambda each: (each.model_id, each.tier))
    failures = []
    for here in tiers:
        of_model = [tier for tier in tiers if tier.model_id == here.model_id]
        elsewhere = _zero_share(tier for tier in of_model if tier.tier != here.tier)
        same = [each for each in tiers if each.tier == here.tier]
        others = _zero_share(each for each in same if each.model_id != here.model_id)
        share = _zero_share([here])
        if share is None or elsewhere is None or others is None:
            continue
        if share >= _FAILS_TIER and elsewhere <= _PASSES_TIER and others <= _PASSES_TIER:
            failures.append(TierFailure(here, elsewhere, others))
    return failures


def _zero_share(tiers: Iterable[TierMean]) -> float | None:
    """Return the share of the archived runs that scored nothing; None if there are no runs."""
    counts = [(each.zero, each.archived) for each in tiers]
    archived = sum(count for _, count in counts)
    return sum(zero for zero, _ in counts) / archived if archived else None
