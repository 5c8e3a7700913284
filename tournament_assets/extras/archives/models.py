"""The models of an archive: their counts, means and conditions, and their ranking.

Models are ranked by clean mean and on common support, with an interval for each gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.audits.missingness import MissingCount, measure_evenness
from tournament_assets.extras.archives.config import ArchiveChecks, ArchivedModel
from tournament_assets.extras.archives.harness import JudgeState
from tournament_assets.extras.archives.rows import (
    CommonRow,
    ConditionRow,
    GapRow,
    LogRow,
    ModelRow,
    TierRow,
    say,
)
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun, LogFailure
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.ratings.significance import separate_entrants


def count_runs(runs: Sequence[ArchivedRun]) -> dict[str, Any]:
    """Return the counts of archived runs that the rows of models and of tasks have in common."""
    return {
        "archived": len(runs),
        "zero": sum(not run.is_clean for run in runs),
        "at_ceiling": sum(run.is_at_ceiling for run in runs),
        "judge_failed": sum(run.judging_failed for run in runs),
        "harness_failures": sum(bool(run.failure) for run in runs),
    }


def mean_of(scores: Sequence[float]) -> float | None:
    """Return the mean of some scores; None if there are none."""
    return fsum(scores) / len(scores) if scores else None


def audit_models(contents: ArchiveContents) -> list[ModelRow]:
    """Count and average every model's runs, in the order of the description."""
    return [_audit(model, contents) for model in contents.models]


def _audit(model: ArchivedModel, contents: ArchiveContents) -> ModelRow:
    runs = [run for run in contents.runs if run.model_id == model.model_id]
    clean = [run.run_score for run in runs if run.is_clean]
    broken = sum(file.model_id == model.model_id for file in contents.broken)
    planned = contents.config.n_planned
    judged = [run.judge.score for run in runs if run.judge.score is not None]
    rule = [run.follows_rule for run in runs if run.follows_rule is not None]
    tells = all(run.is_empty is not None for run in runs)
    responded = sum(run.is_empty is False for run in runs if not run.is_clean)
    return ModelRow(
        **count_runs(runs),
        model_id=model.model_id,
        label=model.label,
        planned=planned,
        broken=broken,
        absent=planned - len(runs) - broken,
        missing=planned - len(runs),
        clean=len(clean),
        zero_with_response=responded if tells else None,
        coverage=len(clean) / planned,
        mean=mean_of([run.run_score for run in runs]),
        clean_mean=mean_of(clean),
        normalised=fsum(clean) / planned,
        judge_mean=mean_of(judged),
        judged=len(judged),
        rejudged=sum(run.judge.state is JudgeState.REJUDGED for run in runs),
        empty=sum(run.is_empty is True for run in runs) if tells else None,
        off_rule=rule.count(False),
        rule_checked=len(rule),
    )


def audit_tiers(contents: ArchiveContents) -> list[TierRow]:
    """Average every model's runs of each tier."""
    tiers = sorted({contents.config.harness.tier(task) for task in contents.tasks})
    rows = []
    for model, tier in product(contents.models, tiers):
        runs = [run for run in contents.runs if (run.model_id, run.tier) == (model.model_id, tier)]
        clean = [run.run_score for run in runs if run.is_clean]
        rows.append(
            TierRow(
                model_id=model.model_id,
                tier=tier,
                n_archived=len(runs),
                mean=mean_of([run.run_score for run in runs]),
                n_clean=len(clean),
                clean_mean=mean_of(clean),
            )
        )
    return rows


def find_outages(models: Sequence[ModelRow], checks: ArchiveChecks) -> Iterator[str]:
    """Yield the warnings to read before any number, as sentences.

    They report failed judgings and missing runs, if there are too many or if they are more frequent
    for some models than for others.
    """
    failed = [
        MissingCount(row.label, row.judge_failed, row.judged + row.judge_failed) for row in models
    ]
    missing = [MissingCount(row.label, row.missing, row.planned) for row in models]
    for what, counts, max_rate in (
        ("runs whose judging failed", failed, checks.max_unjudged_rate),
        ("missing runs", missing, checks.max_missing_rate),
    ):
        most = checks.max_missing_spread
        evenness = measure_evenness(counts, entrants_per_unit=1, max_spread=most)
        yield from say("outages", what, evenness, max_rate, most)


LoggedFailures = Mapping[tuple[str, str, str], set[str]]
"""The kinds of failure in the logs, by model, task and run; planned runs only."""


def find_logged_failures(contents: ArchiveContents) -> LoggedFailures:
    """Return the planned runs that failed according to a log.

    A line that names a task but no run applies to all runs of the task.
    """
    kinds_by_cell: dict[tuple[str, str, str], set[str]] = {}
    for failure in contents.log_failures:
        if failure.model_id is None or failure.task is None or not _is_planned(failure, contents):
            continue
        for run in [failure.run] if failure.run is not None else contents.config.run_names:
            kinds_by_cell.setdefault((failure.model_id, failure.task, run), set()).add(failure.kind)
    return kinds_by_cell


def _is_planned(failure: LogFailure, contents: ArchiveContents) -> bool:
    return (
        not failure.names_stranger
        and (failure.task is None or failure.task in contents.tasks)
        and (failure.run is None or failure.run in contents.config.run_names)
    )


def compare_with_logs(contents: ArchiveContents) -> list[LogRow]:
    """Compare the logs with the files, to see which missing runs a failure explains."""
    models: list[str | None] = [model.model_id for model in contents.models]
    if any(failure.model_id is None for failure in contents.log_failures):
        models.append(None)
    logged = find_logged_failures(contents)
    return [_compare(model_id, logged, contents) for model_id in models]


def _compare(model_id: str | None, logged: LoggedFailures, contents: ArchiveContents) -> LogRow:
    failures = [failure for failure in contents.log_failures if failure.model_id == model_id]
    runs = {run.cell: run for run in contents.runs if run.model_id == model_id}
    failed = {(task, run) for owner, task, run in logged if owner == model_id}
    # Includes runs of planned tasks whose names are unknown, which no log can explain.
    missing = 0 if model_id is None else contents.config.n_planned - len(runs)
    explained = len(failed - runs.keys())
    archived = [runs[cell] for cell in failed if cell in runs]
    return LogRow(
        model_id=model_id or "",
        failures=dict(sorted(Counter(failure.kind for failure in failures).items())),
        missing_explained=explained,
        missing_unexplained=missing - explained,
        failed_and_archived=len(archived),
        failed_and_zero=sum(not run.is_clean for run in archived),
        unplanned=sum(not _is_planned(failure, contents) for failure in failures),
    )


IDENTICAL, DIFFERENT = "identical", "different"
SILENT, STATED = "not in every run", "stated, not checked"


def audit_conditions(contents: ArchiveContents) -> list[ConditionRow]:
    """Compare every condition over all runs of all models."""
    rows = []
    for name in contents.config.conditions:
        counts = Counter((run.conditions[name] or "", run.model_id) for run in contents.runs)
        values = {value for value, _ in counts if value}
        says_all = bool(counts) and all(value for value, _ in counts)
        sameness = DIFFERENT if len(values) > 1 else IDENTICAL if says_all else SILENT
        row = ConditionRow(condition=name, sameness=sameness)
        rows += [
            replace(row, value=value or None, model_id=model_id, runs=count)
            for (value, model_id), count in sorted(counts.items())
        ] or [row]
    stated = contents.config.stated.items()
    return rows + [
        ConditionRow(condition=name, sameness=STATED, value=text) for name, text in stated
    ]


def rank_models(models: Sequence[ModelRow]) -> list[ModelRow]:
    """Return the models with a clean run, the highest clean mean first."""
    ranked = [row for row in models if row.clean_mean is not None]
    return sorted(ranked, key=lambda row: (-(row.clean_mean or 0.0), row.model_id))


def find_common_support(contents: ArchiveContents) -> list[CommonRow]:
    """Rank the models on the runs (task and name) that all of them have.

    Models without any run are ignored, so that the others can be compared.
    """
    by_model: dict[str, dict[tuple[str, str], ArchivedRun]] = {}
    for run in contents.runs:
        by_model.setdefault(run.model_id, {})[run.cell] = run
    if not by_model:
        return []
    shared = sorted(set.intersection(*(set(cells) for cells in by_model.values())))
    clean = [cell for cell in shared if all(cells[cell].is_clean for cells in by_model.values())]
    means = {
        model_id: mean_of([cells[cell].run_score for cell in shared])
        for model_id, cells in by_model.items()
    }
    ranked = sorted(means, key=lambda model_id: (-(means[model_id] or 0.0), model_id))
    return [
        CommonRow(
            place=place,
            model_id=model_id,
            mean=means[model_id],
            n_cells=len(shared),
            clean_mean=mean_of([by_model[model_id][cell].run_score for cell in clean]),
            n_clean_cells=len(clean),
        )
        for place, model_id in enumerate(ranked, start=1)
    ]


def measure_gaps(ranked: Sequence[ModelRow], contents: ArchiveContents) -> list[GapRow]:
    """Measure each model's lead over every model ranked below it, with an interval.

    Whole tasks are resampled, with all their runs, because runs of a task share its difficulty. All
    models are scored on the same resamples.

    Returns:
        A gap for every pair of models, sorted by the place of the higher, then of the lower one.
    """
    if len(ranked) < 2:
        return []
    tasks = sorted({run.task for run in contents.runs})
    resampling = contents.config.resampling
    # How often each task is drawn, shape (n_bootstraps, n_tasks).
    draws = np.random.default_rng(resampling.seed).multinomial(
        len(tasks), np.full(len(tasks), 1 / len(tasks)), size=resampling.n
    )
    means = [_resampled_means(draws, row.model_id, tasks, contents) for row in ranked]
    separated = separate_entrants(
        BootstrapRatings(
            entrants=tuple(row.model_id for row in ranked),
            ratings=np.stack(means, axis=1),
            n_prompts=len(tasks),
        ),
        ratings=[row.clean_mean for row in ranked],
        confidence=resampling.confidence,
    )
    gaps = []
    for first, second in combinations(range(len(ranked)), 2):
        low, high = separated.differences.ends((first, second))
        gaps.append(
            GapRow(
                higher=ranked[first].model_id,
                lower=ranked[second].model_id,
                difference=(ranked[first].clean_mean or 0.0) - (ranked[second].clean_mean or 0.0),
                low=low,
                high=high,
                is_separated=bool(
                    separated.is_above[first, second] or separated.is_above[second, first]
                ),
                n_tasks=len(tasks),
            )
        )
    return gaps


def neighbours(gaps: Sequence[GapRow], ranked: Sequence[ModelRow]) -> list[GapRow]:
    """Return the gaps between each model and the next in the ranking."""
    places = {row.model_id: place for place, row in enumerate(ranked)}
    return [gap for gap in gaps if places[gap.lower] == places[gap.higher] + 1]


def _resampled_means(
    draws: NDArray[np.int64], model_id: str, tasks: Sequence[str], contents: ArchiveContents
) -> NDArray[np.float64]:
    """Return a model's clean mean on every resample; NaN if none of its tasks has a clean run."""
    scores: Mapping[str, list[float]] = {task: [] for task in tasks}
    for run in contents.runs:
        if run.model_id == model_id and run.is_clean:
            scores[run.task].append(run.run_score)
    sums = np.array([fsum(scores[task]) for task in tasks])
    n_runs = draws @ np.array([float(len(scores[task])) for task in tasks])
    means = np.full(len(draws), np.nan)
    np.divide(draws @ sums, n_runs, out=means, where=n_runs > 0)
    return means
