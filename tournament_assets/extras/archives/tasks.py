"""The tasks of an archive: problems of a task rather than of its models.

The analysis of variance in `prompt_findings` compares how much models differ on a task with how
much runs of one model differ. Failures cluster on a task if it has more than chance explains: if
the failed runs were drawn at random from all runs, their number on a task would be hypergeometric.
The test has a Bonferroni correction for the number of tasks.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import fsum
from operator import attrgetter
from typing import Any

from tournament_assets.audits.missingness import CHANCE, tail_probability
from tournament_assets.audits.prompt_findings import measure_signal
from tournament_assets.extras.archives.harness import JudgeState, Reader
from tournament_assets.extras.archives.models import (
    LoggedFailures,
    count_runs,
    find_logged_failures,
)
from tournament_assets.extras.archives.rows import FindingKind, FindingRow, TaskRow
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun

_MOSTLY = 0.5
"""A model that never scores stands out if at most this share of the others' runs scored nothing."""
_LOST = 0.5
"""The smallest share of missing runs that is reported whatever is missing on other tasks."""


def find_task_problems(contents: ArchiveContents) -> list[FindingRow]:
    """Find the problems of every planned task, worst first: by kind, then by the share of runs."""
    reader, n_runs = contents.config.harness, len(contents.config.run_names)
    by_task = _by_task(contents)
    findings = list(_find_clusters(by_task, contents))
    for task, runs in by_task.items():
        findings += _patterns(task, runs, reader, n_runs=n_runs)
    kinds = list(FindingKind)
    return sorted(
        findings,
        key=lambda row: (
            kinds.index(row.kind),
            -row.count / max(1, row.total),
            row.task,
            row.models,
        ),
    )


def audit_tasks(contents: ArchiveContents, findings: Sequence[FindingRow]) -> list[TaskRow]:
    """Count the runs of every planned task across models, and measure their spread."""
    rows = []
    for task, runs in _by_task(contents).items():
        scores: dict[str, list[float]] = {}
        for run in runs:
            scores.setdefault(run.model_id, []).append(run.run_score)
        rows.append(
            TaskRow(
                **count_runs(runs),
                **measure_spread(list(scores.values())),
                task=task,
                tier=contents.config.harness.tier(task),
                planned=len(contents.models) * len(contents.config.run_names),
                findings="; ".join(row.sentence for row in findings if row.task == task),
            )
        )
    return rows


def _by_task(contents: ArchiveContents) -> dict[str, list[ArchivedRun]]:
    by_task: dict[str, list[ArchivedRun]] = {task: [] for task in contents.tasks}
    for run in contents.runs:
        by_task[run.task].append(run)
    return by_task


def _patterns(
    task: str, runs: Sequence[ArchivedRun], reader: Reader, *, n_runs: int
) -> Iterator[FindingRow]:
    """Find problems that one task's runs show by themselves."""
    total = len(runs)
    if len({run.model_id for run in runs}) < 2:
        sentence = "fewer than two models have a run of it"
        yield FindingRow(FindingKind.ONE_MODEL, task, total, total, sentence)
        return
    if not any(run.is_clean for run in runs):
        sentence = "every run of every model scored nothing: check the task and its verifier"
        yield FindingRow(FindingKind.ALL_ZERO, task, total, total, sentence)
    if all(run.is_at_ceiling for run in runs):
        sentence = f"{reader.deciding} is at the ceiling in every run of every model"
        yield FindingRow(FindingKind.ALL_AT_CEILING, task, total, total, sentence)
    responded = sum(run.is_empty is False for run in runs)
    if responded and all(run.components.get(reader.deciding) == 0 for run in runs):
        sentence = (
            f"{reader.deciding} is 0 in every run although models responded in {responded} of "
            f"{total}: the verifier may reject correct work"
        )
        yield FindingRow(FindingKind.NEVER_PASSED, task, responded, total, sentence)
    zero = Counter(run.model_id for run in runs if not run.is_clean)
    for model_id, count in Counter(run.model_id for run in runs).items():
        others, stray = total - count, zero.total() - zero[model_id]
        if min(2, n_runs) <= count == zero[model_id] and stray <= _MOSTLY * others:
            sentence = (
                f"{model_id} scored nothing in all {count} of its runs; the others in {stray} of "
                f"{others}"
            )
            yield FindingRow(FindingKind.MODEL_FAILS, task, count, count, sentence, (model_id,))


def _find_clusters(
    by_task: Mapping[str, Sequence[ArchivedRun]], contents: ArchiveContents
) -> Iterator[FindingRow]:
    """Find the tasks on which failures of several models cluster."""
    logged = find_logged_failures(contents)
    # A model without runs is missing on every task alike.
    models = sorted({run.model_id for run in contents.runs})
    there = {(run.model_id, *run.cell) for run in contents.runs}
    planned = {task: list(product(models, [task], contents.config.run_names)) for task in by_task}
    missing = {task: [cell for cell in planned[task] if cell not in there] for task in by_task}
    lacking = {task: [model for model, _, _ in cells] for task, cells in missing.items()}
    clustered = _clustered(lacking, planned)
    for task, cells in missing.items():
        count, total = len(cells), len(planned[task])
        if task in clustered or (len(set(lacking[task])) > 1 and count >= _LOST * total):
            sentence = f"{count} of {total} runs are missing; {_reasons(cells, logged)}"
            yield FindingRow(FindingKind.MISSING_RUNS, task, count, total, sentence)
    judged = {
        task: [run for run in runs if run.judge.state is not JudgeState.OFF]
        for task, runs in by_task.items()
    }
    for kind, subject, among, has_failed in (
        (FindingKind.HARNESS_FAILURES, "the harness", by_task, attrgetter("failure")),
        (FindingKind.JUDGE_FAILURES, "judging", judged, attrgetter("judging_failed")),
    ):
        failed = {task: [r.model_id for r in runs if has_failed(r)] for task, runs in among.items()}
        for task in _clustered(failed, among):
            count, total = len(failed[task]), len(among[task])
            sentence = f"{subject} failed in {count} of {total} runs"
            yield FindingRow(kind, task, count, total, sentence)


def _clustered(
    failed: Mapping[str, Sequence[str]], among: Mapping[str, Sequence[object]]
) -> list[str]:
    """Return the tasks on which several models fail, and more often than chance explains.

    Args:
        failed: The models of the failed runs, by task.
        among: The runs that could have failed, by task.
    """
    total, drawn = sum(map(len, among.values())), sum(map(len, failed.values()))
    return [
        task
        for task, models in failed.items()
        if len(set(models)) > 1
        and len(failed)
        * tail_probability(len(models), total=total, marked=len(among[task]), drawn=drawn)
        <= CHANCE
    ]


def _reasons(cells: Sequence[tuple[str, str, str]], logged: LoggedFailures) -> str:
    """Say how many of some missing runs the logs explain, and how."""
    reasons = Counter(kind for cell in cells for kind in sorted(logged.get(cell, ())))
    explained = sum(cell in logged for cell in cells)
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(reasons.items()))
    return f"the logs explain {explained} of them ({listed})" if explained else "no log says why"


def measure_spread(groups: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Separate the spread between models from the spread between runs of the same model.

    Args:
        groups: The scores of each model's runs.

    Returns:
        The fields of `TaskRow` about it; none with fewer than two models, or if none has two runs.
    """
    groups = [group for group in groups if group]
    signal = measure_signal(groups)
    if signal is None:
        return {}
    n_runs = sum(map(len, groups))
    size = (n_runs - fsum(len(group) ** 2 for group in groups) / n_runs) / (len(groups) - 1)
    return {
        "between_models": math.sqrt(max(0.0, signal.between - signal.within) / size),
        "between_runs": math.sqrt(signal.within),
        "signal_to_noise": signal.ratio,
        "chance_level": signal.chance_level,
        "is_above_chance": signal.is_above_chance,
    }
