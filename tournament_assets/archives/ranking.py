"""Ranking the models of an archive: by clean mean, on common support, and how sure of each gap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum, isfinite

import numpy as np
from numpy.typing import NDArray

from tournament_assets.archives.config import ArchiveConfig
from tournament_assets.archives.models import ModelAudit, mean_of
from tournament_assets.archives.runs import ArchiveContents, ArchivedRun, is_clean
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.ratings.significance import SeparatedEntrants, separate_entrants

Cell = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CommonScore:
    """A model's scores on what every model has.

    Attributes:
        model_id: The model.
        mean: Mean over the (task, run) cells that every model has archived; None where there is
            none.
        clean_mean: Mean over those in which every model scored anything.
    """

    model_id: str
    mean: float | None
    clean_mean: float | None


@dataclass(frozen=True, slots=True)
class CommonSupport:
    """The ranking on what every model has.

    Attributes:
        n_cells: (task, run) cells that every model has archived.
        n_clean_cells: Those in which every model scored anything.
        scores: The models, the highest mean first.
    """

    n_cells: int
    n_clean_cells: int
    scores: tuple[CommonScore, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """How far a model is ahead of another one.

    Attributes:
        higher: The model.
        lower: The other one.
        difference: Of their clean means.
        low: Lower end of its interval, which holds together with those of all other gaps; None
            where the tasks set none.
        high: Upper end of its interval; None where the tasks set none.
        n_tasks: Tasks that were resampled.
        is_separated: Whether the tasks tell the two apart.
    """

    higher: str
    lower: str
    difference: float
    low: float | None
    high: float | None
    n_tasks: int
    is_separated: bool

    @property
    def is_within_noise(self) -> bool:
        """Whether there is an interval, and it holds zero."""
        return not self.is_separated and (self.low is not None or self.high is not None)


def rank_models(audits: Sequence[ModelAudit]) -> tuple[ModelAudit, ...]:
    """Return the models that have a clean run, the highest clean mean first."""
    ranked = [audit for audit in audits if audit.clean_mean is not None]
    return tuple(sorted(ranked, key=lambda each: (-(each.clean_mean or 0.0), each.model_id)))


def find_common_support(contents: ArchiveContents, config: ArchiveConfig) -> CommonSupport:
    """Rank the models on the (task, run) cells that every one of them has.

    A model that has no run at all is no reason to compare the others on nothing.
    """
    by_model: dict[str, dict[Cell, ArchivedRun]] = {}
    for run in contents.runs:
        by_model.setdefault(run.model_id, {})[run.cell] = run
    if not by_model:
        return CommonSupport(0, 0, ())
    shared = sorted(set.intersection(*(set(cells) for cells in by_model.values())))
    clean = [
        cell
        for cell in shared
        if all(is_clean(cells[cell], config.scores) for cells in by_model.values())
    ]
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


def measure_gaps(
    ranked: Sequence[ModelAudit], contents: ArchiveContents, config: ArchiveConfig
) -> tuple[Gap, ...]:
    """Measure how far each model is ahead of every one below it, and how sure that is.

    Whole tasks are resampled, all runs of a task together: runs of a task share its difficulty.
    All models are scored on the same resamples.

    Returns:
        A gap for every two models, by the place of the higher and then of the lower one.
    """
    tasks = sorted({run.task for run in contents.runs})
    if len(ranked) < 2:
        return ()
    generator = np.random.default_rng(config.bootstrap_seed)
    # How often each task is drawn, shape (n_bootstraps, n_tasks).
    draws = generator.multinomial(
        len(tasks), np.full(len(tasks), 1 / len(tasks)), size=config.n_bootstraps
    )
    means = [
        _resampled_means(draws, *_clean_totals(audit.model_id, tasks, contents, config))
        for audit in ranked
    ]
    separated = separate_entrants(
        BootstrapRatings(
            entrants=tuple(audit.model_id for audit in ranked),
            ratings=np.stack(means, axis=1),
            n_prompts=len(tasks),
            n_degenerate=0,
            seed=config.bootstrap_seed,
        ),
        ratings=[audit.clean_mean for audit in ranked],
        confidence=config.confidence,
    )
    return tuple(
        _gap(ranked, separated, first, second, n_tasks=len(tasks))
        for first, second in combinations(range(len(ranked)), 2)
    )


def neighbours(gaps: Sequence[Gap], ranked: Sequence[ModelAudit]) -> tuple[Gap, ...]:
    """Return the gaps between each model and the next one."""
    places = {audit.model_id: place for place, audit in enumerate(ranked)}
    return tuple(gap for gap in gaps if places[gap.lower] == places[gap.higher] + 1)


def _clean_totals(
    model_id: str, tasks: Sequence[str], contents: ArchiveContents, config: ArchiveConfig
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the number of a model's clean scores, by task."""
    scores: Mapping[str, list[float]] = {task: [] for task in tasks}
    for run in contents.runs:
        if run.model_id == model_id and is_clean(run, config.scores):
            scores[run.task].append(run.run_score)
    sums = np.array([fsum(scores[task]) for task in tasks])
    counts = np.array([float(len(scores[task])) for task in tasks])
    return sums, counts


def _resampled_means(
    draws: NDArray[np.int64], sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the clean mean on every resample; NaN where none of its tasks has a clean run."""
    n_runs = draws @ counts
    means = np.full(len(draws), np.nan)
    np.divide(draws @ sums, n_runs, out=means, where=n_runs > 0)
    return means


def _gap(
    ranked: Sequence[ModelAudit],
    separated: SeparatedEntrants,
    first: int,
    second: int,
    *,
    n_tasks: int,
) -> Gap:
    low, high = float(separated.low[first, second]), float(separated.high[first, second])
    return Gap(
        higher=ranked[first].model_id,
        lower=ranked[second].model_id,
        difference=(ranked[first].clean_mean or 0.0) - (ranked[second].clean_mean or 0.0),
        low=low if isfinite(low) else None,
        high=high if isfinite(high) else None,
        n_tasks=n_tasks,
        is_separated=bool(separated.is_above[first, second] or separated.is_above[second, first]),
    )
