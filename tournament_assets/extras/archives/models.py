"""The models of an archive: their counts, means and conditions, and their ranking.

Models are ranked by clean mean and on common support, with an interval for each gap.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tournament_assets.audits.missingness import MissingCount, measure_evenness
from tournament_assets.extras.archives.config import ArchiveChecks, ArchivedModel
from tournament_assets.extras.archives.harness import JudgeState
from tournament_assets.extras.archives.runs import ArchiveContents, ArchivedRun, LogFailure
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.foundation.formatting import format_share
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.ratings.significance import separate_entrants


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Counts and means of some planned runs; a mean over no runs is None.

    Attributes:
        archived: Runs whose file can be used.
        clean: Archived runs that scored something.
        zero: Archived runs that scored nothing.
        mean: The mean score of the archived runs.
        at_ceiling: Runs whose deciding component is at its ceiling.
        judge_failed: Runs whose judging failed and was not repeated.
        harness_failures: Runs in which the harness recorded a failure.
    """

    archived: int
    clean: int
    zero: int
    mean: float | None
    clean_mean: float | None
    at_ceiling: int
    judge_failed: int
    harness_failures: int


def count_runs(runs: Sequence[ArchivedRun]) -> dict[str, Any]:
    """Return the fields of `RunCounts` for some archived runs."""
    clean = [run.run_score for run in runs if run.is_clean]
    return {
        "archived": len(runs),
        "clean": len(clean),
        "zero": len(runs) - len(clean),
        "mean": mean_of([run.run_score for run in runs]),
        "clean_mean": mean_of(clean),
        "at_ceiling": sum(run.is_at_ceiling for run in runs),
        "judge_failed": sum(map(judging_failed, runs)),
        "harness_failures": sum(map(harness_failed, runs)),
    }


def harness_failed(run: ArchivedRun) -> bool:
    """Return whether the harness recorded a failure."""
    return bool(run.failure)


def judging_failed(run: ArchivedRun) -> bool:
    """Return whether judging failed and was not repeated."""
    return run.judge.state is JudgeState.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class TierMean(RunCounts):
    """A model's runs in one tier."""

    model_id: str
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAudit(RunCounts):
    """The counts and means of one model's runs; a mean over no runs is None.

    Attributes:
        broken: Planned runs whose file cannot be used.
        absent: Planned runs without a file.
        zero_with_response: Zero runs in which the model did something, so they may be real
            failures; None if the archive does not say.
        coverage: Clean runs divided by planned ones.
        normalised: The sum of the clean scores divided by the planned runs.
        judged: Runs that the judge scored.
        rejudged_by: The models that judged runs again, as far as the files name them.
        empty: Runs in which the model did nothing; None if the archive does not say.
        off_rule: Runs whose recorded score differs from the rule's.
        rule_checked: Runs for which the two could be compared.
    """

    model_id: str
    label: str
    planned: int
    broken: int
    absent: int
    zero_with_response: int | None
    coverage: float
    normalised: float
    judge_mean: float | None
    judged: int
    rejudged: int
    rejudged_by: tuple[str, ...]
    empty: int | None
    off_rule: int
    rule_checked: int
    tiers: tuple[TierMean, ...]

    @property
    def missing(self) -> int:
        """Planned runs without a usable file."""
        return self.broken + self.absent

    @property
    def asked(self) -> int:
        """Runs that the judge was asked about."""
        return self.judged + self.judge_failed


@dataclass(frozen=True, slots=True)
class LogComparison:
    """The failures that a sweep's logs report for one model, compared with its files.

    Attributes:
        model_id: The model; empty for lines that name none.
        failures: The number of lines of each kind of failure.
        missing_explained: Missing runs that failed according to a log.
        missing_unexplained: Missing runs that no log mentions.
        failed_and_archived: Archived runs that failed according to a log: they were retried, or a
            failed run left its file behind.
        failed_and_zero: Those of them that scored nothing.
        unplanned: Lines that name a model, a task or a run outside the plan.
    """

    model_id: str
    failures: Mapping[str, int]
    missing_explained: int
    missing_unexplained: int
    failed_and_archived: int
    failed_and_zero: int
    unplanned: int


LoggedFailures = Mapping[tuple[str, str, str], frozenset[str]]
"""The kinds of failure in the logs, by model, task and run; planned runs only."""


def audit_models(contents: ArchiveContents) -> tuple[ModelAudit, ...]:
    """Count and average every model's runs, in the order of the description."""
    return tuple(_audit(model, contents) for model in contents.models)


def find_outages(audits: Sequence[ModelAudit], checks: ArchiveChecks) -> tuple[str, ...]:
    """Return the warnings to read before any number, as sentences.

    They report failed judgings and missing runs, if there are too many or if they are more frequent
    for some models than for others.
    """
    failed = [MissingCount(each.label, each.judge_failed, each.asked) for each in audits]
    missing = [MissingCount(each.label, each.missing, each.planned) for each in audits]
    spread = checks.max_missing_spread
    return (
        *_outages("runs whose judging failed", failed, checks.max_unjudged_rate, spread),
        *_outages("missing runs", missing, checks.max_missing_rate, spread),
    )


def _outages(
    what: str, counts: Sequence[MissingCount], max_rate: float, max_spread: float
) -> Iterator[str]:
    missing, planned = sum(each.missing for each in counts), sum(each.planned for each in counts)
    if missing > max_rate * planned:
        yield (
            f"Too many {what}: {missing} of {planned} ({format_share(missing / planned)}); "
            f"expected at most {format_share(max_rate)}."
        )
    evenness = measure_evenness(counts, entrants_per_unit=1, max_spread=max_spread)
    if not evenness.is_even:
        yield (
            f"Unevenly spread {what}: {evenness.shares}; a difference of "
            f"{format_share(evenness.spread)}, where at most {format_share(max_spread)} is even "
            "and so is what chance explains. The models' scores do not compare like with like."
        )


def mean_of(scores: Sequence[float]) -> float | None:
    """Return the mean of some scores; None if there are none."""
    return fsum(scores) / len(scores) if scores else None


def _audit(model: ArchivedModel, contents: ArchiveContents) -> ModelAudit:
    runs = [run for run in contents.runs if run.model_id == model.model_id]
    clean = [run.run_score for run in runs if run.is_clean]
    zero = [run for run in runs if not run.is_clean]
    broken = sum(file.model_id == model.model_id for file in contents.broken)
    planned = contents.config.n_planned
    judged = [run.judge.score for run in runs if run.judge.score is not None]
    rule = [run.follows_rule for run in runs if run.follows_rule is not None]
    tiers = sorted({contents.config.harness.tier(task) for task in contents.tasks})
    tells = all(run.is_empty is not None for run in runs)
    return ModelAudit(
        **count_runs(runs),
        model_id=model.model_id,
        label=model.shown,
        planned=planned,
        broken=broken,
        absent=planned - len(runs) - broken,
        zero_with_response=sum(run.is_empty is False for run in zero) if tells else None,
        coverage=len(clean) / planned,
        normalised=fsum(clean) / planned,
        judge_mean=mean_of(judged),
        judged=len(judged),
        rejudged=sum(run.judge.state is JudgeState.REJUDGED for run in runs),
        rejudged_by=tuple(sorted({run.judge.rejudged_by for run in runs if run.judge.rejudged_by})),
        empty=sum(run.is_empty is True for run in runs) if tells else None,
        off_rule=rule.count(False),
        rule_checked=len(rule),
        tiers=tuple(
            TierMean(
                **count_runs([run for run in runs if run.tier == tier]),
                model_id=model.model_id,
                tier=tier,
            )
            for tier in tiers
        ),
    )


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
    return {cell: frozenset(kinds) for cell, kinds in kinds_by_cell.items()}


def _is_planned(failure: LogFailure, contents: ArchiveContents) -> bool:
    return (
        not failure.names_stranger
        and (failure.task is None or failure.task in contents.tasks)
        and (failure.run is None or failure.run in contents.config.run_names)
    )


def compare_with_logs(contents: ArchiveContents) -> tuple[LogComparison, ...]:
    """Compare the logs with the files, to see which missing runs a failure explains."""
    models: list[str | None] = [model.model_id for model in contents.models]
    if any(failure.model_id is None for failure in contents.log_failures):
        models.append(None)
    logged = find_logged_failures(contents)
    return tuple(_compare(model_id, logged, contents) for model_id in models)


def _compare(
    model_id: str | None, logged: LoggedFailures, contents: ArchiveContents
) -> LogComparison:
    failures = [each for each in contents.log_failures if each.model_id == model_id]
    runs = {run.cell: run for run in contents.runs if run.model_id == model_id}
    failed = {(task, run) for owner, task, run in logged if owner == model_id}
    # Includes runs of planned tasks whose names are unknown, which no log can explain.
    missing = 0 if model_id is None else contents.config.n_planned - len(runs)
    explained = len(failed - runs.keys())
    archived = [runs[cell] for cell in failed if cell in runs]
    return LogComparison(
        model_id=model_id or "",
        failures=dict(sorted(Counter(each.kind for each in failures).items())),
        missing_explained=explained,
        missing_unexplained=missing - explained,
        failed_and_archived=len(archived),
        failed_and_zero=sum(not run.is_clean for run in archived),
        unplanned=sum(not _is_planned(each, contents) for each in failures),
    )


@dataclass(frozen=True, slots=True)
class ConditionAudit:
    """The values of one condition over all runs.

    Attributes:
        values: The number of runs with each value, by value and model.
        silent: Runs without a value.
        stated: The value that the description states for all runs; it is not checked.
    """

    name: str
    values: Mapping[str, Mapping[str, int]]
    silent: int = 0
    stated: str = ""

    @property
    def is_different(self) -> bool:
        """Whether the runs have different values."""
        return len(self.values) > 1

    @property
    def result(self) -> str:
        """The result of the comparison, in a few words."""
        if self.stated:
            return "stated, not checked"
        if self.is_different:
            return "different"
        return "not in every run" if self.silent or not self.values else "identical"


def audit_conditions(contents: ArchiveContents) -> list[ConditionAudit]:
    """Compare every condition over all runs of all models."""
    audits = []
    for name in contents.config.conditions:
        counts: dict[str, Counter[str]] = {}
        for run in contents.runs:
            value = run.conditions[name]
            if value is not None:
                counts.setdefault(value, Counter())[run.model_id] += 1
        values = {value: dict(sorted(models.items())) for value, models in sorted(counts.items())}
        silent = sum(run.conditions[name] is None for run in contents.runs)
        audits.append(ConditionAudit(name, values, silent))
    stated = contents.config.stated.items()
    return audits + [ConditionAudit(name, {}, stated=text) for name, text in stated]


Cell = tuple[str, str]
Reading = Literal["significant", "not significant", "unknown"]
"""Whether a gap is more than noise; unknown without an interval."""


@dataclass(frozen=True, slots=True)
class CommonScore:
    """A model's scores on common support; a mean over no cells is None.

    Attributes:
        mean: Mean over the (task, run) cells that every model has archived.
        clean_mean: Mean over those in which every model scored something.
    """

    model_id: str
    mean: float | None
    clean_mean: float | None


@dataclass(frozen=True, slots=True)
class CommonSupport:
    """The ranking on the runs that every model has.

    Attributes:
        n_cells: (task, run) cells that every model has archived.
        n_clean_cells: Those in which every model scored something.
        scores: The models, the highest mean first.
    """

    n_cells: int
    n_clean_cells: int
    scores: tuple[CommonScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap(Estimate):
    """The difference between two models' clean means, with an interval from resampled tasks.

    The intervals of all gaps hold simultaneously.

    Attributes:
        higher: The model with the higher clean mean.
        is_separated: Whether the difference is significant.
    """

    higher: str
    lower: str
    is_separated: bool

    @property
    def reading(self) -> Reading:
        """Whether the gap is significant."""
        if self.is_separated:
            return "significant"
        is_open = self.low is None and self.high is None
        return "unknown" if is_open else "not significant"


def rank_models(audits: Sequence[ModelAudit]) -> tuple[ModelAudit, ...]:
    """Return the models with a clean run, the highest clean mean first."""
    ranked = [audit for audit in audits if audit.clean_mean is not None]
    return tuple(sorted(ranked, key=lambda each: (-(each.clean_mean or 0.0), each.model_id)))


def find_common_support(contents: ArchiveContents) -> CommonSupport:
    """Rank the models on the (task, run) cells that all of them have.

    Models without any run are ignored, so that the others can be compared.
    """
    by_model: dict[str, dict[Cell, ArchivedRun]] = {}
    for run in contents.runs:
        by_model.setdefault(run.model_id, {})[run.cell] = run
    if not by_model:
        return CommonSupport(0, 0, ())
    shared = sorted(set.intersection(*(set(cells) for cells in by_model.values())))
    clean = [cell for cell in shared if all(cells[cell].is_clean for cells in by_model.values())]
    scores = [
        CommonScore(
            model_id,
            mean_of([cells[cell].run_score for cell in shared]),
            mean_of([cells[cell].run_score for cell in clean]),
        )
        for model_id, cells in by_model.items()
    ]
    scores.sort(key=lambda each: (-(each.mean or 0.0), each.model_id))
    return CommonSupport(len(shared), len(clean), tuple(scores))


def measure_gaps(ranked: Sequence[ModelAudit], contents: ArchiveContents) -> tuple[Gap, ...]:
    """Measure each model's lead over every model ranked below it, with an interval.

    Whole tasks are resampled, with all their runs, because runs of a task share its difficulty. All
    models are scored on the same resamples.

    Returns:
        A gap for every pair of models, sorted by the place of the higher, then of the lower one.
    """
    if len(ranked) < 2:
        return ()
    tasks = sorted({run.task for run in contents.runs})
    resampling = contents.config.resampling
    # How often each task is drawn, shape (n_bootstraps, n_tasks).
    draws = np.random.default_rng(resampling.seed).multinomial(
        len(tasks), np.full(len(tasks), 1 / len(tasks)), size=resampling.n
    )
    means = [_resampled_means(draws, audit.model_id, tasks, contents) for audit in ranked]
    separated = separate_entrants(
        BootstrapRatings(
            entrants=tuple(audit.model_id for audit in ranked),
            ratings=np.stack(means, axis=1),
            n_prompts=len(tasks),
        ),
        ratings=[audit.clean_mean for audit in ranked],
        confidence=resampling.confidence,
    )
    return tuple(
        Gap(
            (ranked[first].clean_mean or 0.0) - (ranked[second].clean_mean or 0.0),
            *separated.differences.ends((first, second)),
            n=len(tasks),
            higher=ranked[first].model_id,
            lower=ranked[second].model_id,
            is_separated=bool(
                separated.is_above[first, second] or separated.is_above[second, first]
            ),
        )
        for first, second in combinations(range(len(ranked)), 2)
    )


def neighbours(gaps: Sequence[Gap], ranked: Sequence[ModelAudit]) -> tuple[Gap, ...]:
    """Return the gaps between each model and the next in the ranking."""
    places = {audit.model_id: place for place, audit in enumerate(ranked)}
    return tuple(gap for gap in gaps if places[gap.lower] == places[gap.higher] + 1)


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
