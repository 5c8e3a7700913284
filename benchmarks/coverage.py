"""How often nominal 95 % intervals contain what they should: `python -m benchmarks.coverage`.

Draws tournaments from known strengths, computes every interval the project can compute, and counts
how often each contains its estimand, one at a time: for Elo the mean of permutation-averaged Elo
over tournaments of the same design, for Bradley-Terry the ratings it tends to as prompts are added.
Then draws tournaments with equals in them and counts in how many anything false is told of who is
above whom, all pairs together. Prints two tables in Markdown; the same options print the same.
"""

import argparse
import math
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import (
    INITIAL_RATING,
    K_FACTOR,
    Design,
    by_battle,
    draw_tournament,
    expected_elo,
    limit_of_bradley_terry,
)
from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry
from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.intervals import (
    PercentileInterval,
    bootstrap_elo,
    expanded_percentile_interval,
    percentile_interval,
)
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.sandwich import (
    SamplingUnit,
    sandwich_bradley_terry,
)
from tournament_assets.ratings.significance import separate_judged
from tournament_assets.tournament.estimates import Resampling

CONFIDENCE = 0.95
_WORLDS = {
    "4 equals": (0.0,) * 4,
    "10 equals": (0.0,) * 10,
    "2 × 2 equals": (0.0, 0.0, 1.0, 1.0),
    "5 × 2 equals": tuple(float(level) for level in range(5) for _ in range(2)),
}
TOGETHER = tuple(
    (world, Design(n_prompts, 1.0, strengths=strengths, undecided=undecided))
    for world, strengths in _WORLDS.items()
    for n_prompts in (50, 143)
    for undecided in (0.0, 0.85)
)
"""Worlds in which some entrants are equal, by name."""

N_PERMUTATIONS = 500
_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
DESIGNS = tuple(Design(n, sigma) for n in (50, 143) for sigma in (0.0, 1.0, 2.0))


def elo_intervals(
    tournament: Matches, *, n_bootstraps: int, seed: int
) -> dict[str, PercentileInterval]:
    """Return every interval of permutation-averaged Elo, by name."""
    n_prompts = len(tournament.prompts)
    traces = compute_elo_permutation(
        tournament,
        k_factor=K_FACTOR,
        n_permutations=N_PERMUTATIONS,
        seed=seed,
        initial_rating=INITIAL_RATING,
    ).ratings
    mean = traces.mean(axis=0)
    reach = 1.96 * traces.std(axis=0, ddof=1) / math.sqrt(N_PERMUTATIONS)
    of_battles = bootstrap_elo(
        by_battle(tournament),
        k_factor=K_FACTOR,
        resampling=Resampling(n_bootstraps, seed),
    ).ratings
    by_prompt = bootstrap_elo(
        tournament, k_factor=K_FACTOR, resampling=Resampling(n_bootstraps, seed)
    ).ratings
    return {
        "Elo, permutation SEM × 1.96": PercentileInterval(mean - reach, mean + reach),
        "Elo, battles resampled": percentile_interval(of_battles, confidence=CONFIDENCE),
        "Elo, prompts resampled, percentile": percentile_interval(by_prompt, confidence=CONFIDENCE),
        "Elo, prompts resampled, expanded percentile": expanded_percentile_interval(
            by_prompt, confidence=CONFIDENCE, n_units=n_prompts
        ),
    }


def bradley_terry_intervals(
    tournament: Matches, *, n_bootstraps: int, seed: int
) -> dict[str, PercentileInterval]:
    """Return every interval of Bradley-Terry ratings, by name."""
    n_prompts = len(tournament.prompts)
    by_prompt = bootstrap_bradley_terry(
        tournament, resampling=Resampling(n_bootstraps, seed)
    ).ratings
    return {
        "Bradley–Terry, prompts resampled, percentile": percentile_interval(
            by_prompt, confidence=CONFIDENCE
        ),
        "Bradley–Terry, prompts resampled, expanded percentile": expanded_percentile_interval(
            by_prompt, confidence=CONFIDENCE, n_units=n_prompts
        ),
        "Bradley–Terry, sandwich per battle": _sandwich(tournament, SamplingUnit.BATTLE),
        "Bradley–Terry, sandwich per prompt": _sandwich(tournament, SamplingUnit.PROMPT),
    }


def _sandwich(tournament: Matches, unit: SamplingUnit) -> PercentileInterval:
    found = sandwich_bradley_terry(tournament, unit=unit, confidence=CONFIDENCE).ratings
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


@dataclass(frozen=True, slots=True)
class FalseClaims:
    """What was said of who is above whom, in shares.

    Attributes:
        one_at_a_time: Tournaments in which equals, or the worse of two, were told apart by the
            interval of one difference at a time, as if no other pair had been looked at.
        together: The same by the intervals that hold together.
        places: Tournaments in which the places of everybody hold all true ones.
        shown: Pairs told apart, of those that differ; NaN where none do.
    """

    one_at_a_time: float
    together: float
    places: float
    shown: float


def measure_claims(
    design: Design, *, n_tournaments: int, n_bootstraps: int, seed: int
) -> FalseClaims:
    """Count what is falsely said of who is above whom.

    Args:
        design: How tournaments are drawn.
        n_tournaments: How many to draw.
        n_bootstraps: Resamples of each.
        seed: Seeds everything.
    """
    generator = np.random.default_rng(seed)
    strengths = np.array(design.strengths)
    is_better = strengths[:, None] > strengths[None, :]
    best = 1 + is_better.sum(axis=0)
    worst = strengths.size - is_better.sum(axis=1)
    ratings = [0.0] * strengths.size
    found = []
    for index in range(n_tournaments):
        tournament = draw_tournament(design, generator)
        together = separate_judged(
            tournament,
            ratings=ratings,
            resampling=Resampling(n_bootstraps, index, CONFIDENCE),
        )
        by_prompt = bootstrap_bradley_terry(
            tournament, resampling=Resampling(n_bootstraps, index)
        ).ratings
        with np.errstate(invalid="ignore"):
            differences = by_prompt[:, :, None] - by_prompt[:, None, :]
        single = expanded_percentile_interval(
            differences.reshape(n_bootstraps, -1), confidence=CONFIDENCE, n_units=design.n_prompts
        )
        is_above = (single.low > 0).reshape(is_better.shape)
        places = {each.entrant: each for each in together.ranks}
        ranks = [places[name] for name in design.entrants]
        found.append(
            (
                (is_above & ~is_better).any(),
                (together.is_above & ~is_better).any(),
                all(
                    rank.best <= first and rank.worst >= last
                    for rank, first, last in zip(ranks, best, worst, strict=True)
                ),
                together.is_above[is_better].mean() if is_better.any() else np.nan,
            )
        )
    return FalseClaims(*np.array(found, dtype=np.float64).mean(axis=0).tolist())


def _share(share: float, n_tournaments: int) -> str:
    error = math.sqrt(share * (1 - share) / n_tournaments)
    return f"{100 * share:.1f} ± {100 * error:.1f} %"


def print_claims(*, n_tournaments: int, n_bootstraps: int, seed: int) -> None:
    """Measure every world with equals in it, and print one table."""
    print(
        f"\n{n_tournaments} tournaments, {n_bootstraps} resamples each, {_SIGMA} = 1; something "
        "false is told of who is above whom, in\n"
    )
    heads = ("entrants", "prompts", "ties", "one at a time", "together", "places hold", "shown")
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for world, design in TOGETHER:
        claims = measure_claims(
            design, n_tournaments=n_tournaments, n_bootstraps=n_bootstraps, seed=seed
        )
        shares = (claims.one_at_a_time, claims.together, claims.places)
        cells = (
            world,
            str(design.n_prompts),
            f"{100 * design.undecided:.0f} %",
            *(_share(share, n_tournaments) for share in shares),
            "–" if math.isnan(claims.shown) else f"{100 * claims.shown:.0f} %",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Measure every design and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=1000, help="drawn per design")
    parser.add_argument(
        "--bootstraps",
        type=int,
        help="resamples of each; unless given 499, and 999 for who is above whom, as a run draws",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--together", action="store_true", help="only what is told of who is above whom"
    )
    options = parser.parse_args()
    if not options.together:
        print_coverage(
            n_tournaments=options.tournaments,
            n_bootstraps=options.bootstraps or 499,
            seed=options.seed,
        )
    print_claims(
        n_tournaments=options.tournaments,
        n_bootstraps=options.bootstraps or 999,
        seed=options.seed,
    )


def print_coverage(*, n_tournaments: int, n_bootstraps: int, seed: int) -> None:
    """Measure every design, interval by interval, and print one table."""
    results = []
    for design in DESIGNS:
        start = time.perf_counter()
        results.append(
            measure(
                design,
                n_tournaments=n_tournaments,
                n_bootstraps=n_bootstraps,
                seed=seed,
            )
        )
        seconds = time.perf_counter() - start
        print(
            f"{design.n_prompts} prompts, {_SIGMA} = {design.sigma:g}: {seconds:.0f} s", flush=True
        )
    print(f"\n{n_tournaments} tournaments, {n_bootstraps} resamples each\n")
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
