"""How often nominal 95 % intervals contain what they should: `python -m benchmarks.coverage`.

Draws tournaments from known strengths, computes every interval the project can compute, and counts
how often each contains its estimand: for Elo the mean of permutation-averaged Elo over tournaments
of the same design, for Bradley-Terry the ratings it tends to as prompts are added. Prints a table
in Markdown; the same options print the same table.
"""

import argparse
import math
import time
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import (
    INITIAL_RATING,
    K_FACTOR,
    Design,
    decisive,
    draw_tournament,
    expected_elo,
    limit_of_bradley_terry,
)
from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry, fit_bradley_terry
from tournament_assets.ratings.corrected_intervals import (
    bca_interval,
    expanded_percentile_interval,
)
from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.elo_jackknife import jackknife_elo
from tournament_assets.ratings.intervals import (
    PercentileInterval,
    bootstrap_elo,
    percentile_interval,
)
from tournament_assets.ratings.preferences import Preferences
from tournament_assets.ratings.sandwich import (
    SamplingUnit,
    prompt_influence,
    sandwich_bradley_terry,
)

CONFIDENCE = 0.95
N_PERMUTATIONS = 500
_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
DESIGNS = tuple(Design(n, sigma) for n in (50, 143) for sigma in (0.0, 1.0, 2.0))


def elo_intervals(
    tournament: Preferences, *, n_bootstraps: int, seed: int
) -> dict[str, PercentileInterval]:
    """Return every interval of permutation-averaged Elo, by name."""
    matches = decisive(tournament)
    n_prompts = len(tournament.prompts)
    traces = compute_elo_permutation(
        matches,
        k_factor=K_FACTOR,
        n_permutations=N_PERMUTATIONS,
        seed=seed,
        initial_rating=INITIAL_RATING,
    ).ratings
    mean = traces.mean(axis=0)
    reach = 1.96 * traces.std(axis=0, ddof=1) / math.sqrt(N_PERMUTATIONS)
    by_battle = bootstrap_elo(
        decisive(tournament, by_battle=True),
        k_factor=K_FACTOR,
        n_bootstraps=n_bootstraps,
        seed=seed,
    ).ratings
    by_prompt = bootstrap_elo(
        matches, k_factor=K_FACTOR, n_bootstraps=n_bootstraps, seed=seed
    ).ratings
    influence = -jackknife_elo(matches, k_factor=K_FACTOR, seed=seed)
    return {
        "Elo, permutation SEM × 1.96": PercentileInterval(mean - reach, mean + reach),
        "Elo, battles resampled": percentile_interval(by_battle, confidence=CONFIDENCE),
        "Elo, prompts resampled, percentile": percentile_interval(by_prompt, confidence=CONFIDENCE),
        "Elo, prompts resampled, expanded percentile": expanded_percentile_interval(
            by_prompt, confidence=CONFIDENCE, n_units=n_prompts
        ),
        "Elo, prompts resampled, BCa": bca_interval(
            by_prompt, estimate=mean, influence=influence, confidence=CONFIDENCE
        ),
    }


def bradley_terry_intervals(
    tournament: Preferences, *, n_bootstraps: int, seed: int
) -> dict[str, PercentileInterval]:
    """Return every interval of Bradley-Terry ratings, by name."""
    cells = tournament.cells()
    n_prompts = len(tournament.prompts)
    fits = fit_bradley_terry(cells, initial_rating=INITIAL_RATING)
    estimate = np.array([np.nan if fit.rating is None else fit.rating for fit in fits])
    by_prompt = bootstrap_bradley_terry(cells, n_bootstraps=n_bootstraps, seed=seed).ratings
    return {
        "Bradley–Terry, prompts resampled, percentile": percentile_interval(
            by_prompt, confidence=CONFIDENCE
        ),
        "Bradley–Terry, prompts resampled, expanded percentile": expanded_percentile_interval(
            by_prompt, confidence=CONFIDENCE, n_units=n_prompts
        ),
        "Bradley–Terry, prompts resampled, BCa": bca_interval(
            by_prompt,
            estimate=estimate,
            influence=prompt_influence(tournament),
            confidence=CONFIDENCE,
        ),
        "Bradley–Terry, sandwich per battle": _sandwich(tournament, SamplingUnit.BATTLE),
        "Bradley–Terry, sandwich per prompt": _sandwich(tournament, SamplingUnit.PROMPT),
    }


def _sandwich(tournament: Preferences, unit: SamplingUnit) -> PercentileInterval:
    found = sandwich_bradley_terry(tournament, unit=unit, confidence=CONFIDENCE).intervals
    return PercentileInterval(
        low=np.array([-np.inf if each.low is None else each.low for each in found]),
        high=np.array([np.inf if each.high is None else each.high for each in found]),
    )


def measure(
    design: Design, *, n_tournaments: int, n_bootstraps: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """Return every interval's coverage, its standard error, and the interval's mean half width.

    Args:
        design: How tournaments are drawn.
        n_tournaments: How many to draw.
        n_bootstraps: Resamples of each.
        seed: Seeds everything.
    """
    truth = {
        "Elo": expected_elo(design, n_tournaments=10 * n_tournaments, seed=seed + 1),
        "Bradley–Terry": limit_of_bradley_terry(design),
    }
    generator = np.random.default_rng(seed)
    hits: dict[str, list[float]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    for index in range(n_tournaments):
        tournament = draw_tournament(design, generator)
        intervals = elo_intervals(tournament, n_bootstraps=n_bootstraps, seed=index)
        intervals |= bradley_terry_intervals(tournament, n_bootstraps=n_bootstraps, seed=index)
        for name, interval in intervals.items():
            target: NDArray[np.float64] = truth[name.split(",")[0]]
            hits[name].append(float(((interval.low <= target) & (target <= interval.high)).mean()))
            widths[name].append(float((interval.high - interval.low).mean() / 2))
    return {
        name: (
            float(np.mean(found)),
            # Entrants of one tournament are not independent, tournaments are.
            float(np.std(found, ddof=1) / math.sqrt(len(found))),
            float(np.mean(widths[name])),
        )
        for name, found in hits.items()
    }


def main() -> None:
    """Measure every design and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=1000, help="drawn per design")
    parser.add_argument("--bootstraps", type=int, default=499, help="resamples of each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results = []
    for design in DESIGNS:
        start = time.perf_counter()
        results.append(
            measure(
                design,
                n_tournaments=options.tournaments,
                n_bootstraps=options.bootstraps,
                seed=options.seed,
            )
        )
        seconds = time.perf_counter() - start
        print(
            f"{design.n_prompts} prompts, {_SIGMA} = {design.sigma:g}: {seconds:.0f} s", flush=True
        )
    print(f"\n{options.tournaments} tournaments, {options.bootstraps} resamples each\n")
    heads = [f"{design.n_prompts} prompts, {_SIGMA} = {design.sigma:g}" for design in DESIGNS]
    print("| interval | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for name in results[0]:
        cells = [
            f"{100 * share:.1f} ± {100 * error:.1f} % (± {reach:.0f})"
            for share, error, reach in (result[name] for result in results)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
