"""How often nominal 95 % intervals contain what they should: `python -m benchmarks.coverage`.

Draws tournaments from known strengths, computes every interval the project can compute, and counts
how often each contains its estimand, one at a time: for Bradley-Terry the ratings it tends to as
prompts are added, and for the order noise of Elo, which is no sampling error, the mean of
permutation-averaged Elo over tournaments of the same design. Then draws tournaments with equals in
them and counts in how many anything false is claimed of two entrants, all pairs together. Prints
tables in Markdown; the same options print the same.
"""

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    rate_resamples,
)
from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.intervals import (
    PercentileInterval,
    expanded_percentile_interval,
    percentile_interval,
)
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.ratings.standings import Claim, PairClaim, stand_entrants

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
_UNEVEN = tuple(0.8 * place / 11 for place in range(12))
UNEVEN = tuple(
    (world, Design(n_prompts, 1.0, strengths=strengths, ties_of=_UNEVEN, missing=0.3))
    for world, strengths in (
        ("12 equals", (0.0,) * 12),
        ("6 × 2 equals", tuple(float(level) for level in range(6) for _ in range(2))),
    )
    for n_prompts in (50, 143)
)
"""Larger worlds: 30 % of the pairs are missing, and 0 to 80 % of an entrant's are undecided."""

N_PERMUTATIONS = 500
_SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
DESIGNS = tuple(Design(n, sigma) for n in (50, 143) for sigma in (0.0, 1.0, 2.0))


def order_noise(tournament: Matches, *, seed: int) -> PercentileInterval:
    """Return how far permutation-averaged Elo strays over orderings of the same matches."""
    traces = compute_elo_permutation(
        tournament,
        k_factor=K_FACTOR,
        n_permutations=N_PERMUTATIONS,
        seed=seed,
        initial_rating=INITIAL_RATING,
    ).ratings
    mean = traces.mean(axis=0)
    reach = 1.96 * traces.std(axis=0, ddof=1) / math.sqrt(N_PERMUTATIONS)
    return PercentileInterval(mean - reach, mean + reach)


def bradley_terry_intervals(
    tournament: Matches, *, n_bootstraps: int, seed: int
) -> dict[str, PercentileInterval]:
    """Return every interval of Bradley-Terry ratings, by name."""
    by_prompt, of_battles = (
        rate_resamples(ResampledWins.of(matches, Resampling(n_bootstraps, seed))).ratings
        for matches in (tournament, by_battle(tournament))
    )
    return {
        "Bradley–Terry, battles resampled": percentile_interval(of_battles, confidence=CONFIDENCE),
        "Bradley–Terry, prompts resampled, percentile": percentile_interval(
            by_prompt, confidence=CONFIDENCE
        ),
        "Bradley–Terry, prompts resampled, expanded percentile": expanded_percentile_interval(
            by_prompt, confidence=CONFIDENCE, n_units=len(tournament.prompts)
        ),
        "Bradley–Terry, sandwich per battle": _sandwich(by_battle(tournament)),
        "Bradley–Terry, sandwich per prompt": _sandwich(tournament),
    }


def _sandwich(tournament: Matches) -> PercentileInterval:
    found = sandwich_bradley_terry(tournament, confidence=CONFIDENCE).ratings
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
        intervals = {"Elo, permutation SEM × 1.96": order_noise(tournament, seed=index)}
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
    """What was claimed of every two entrants, in shares.

    Attributes:
        one_at_a_time: Tournaments in which equals, or the worse of two, were told apart by the
            interval of one difference at a time, as if no other pair had been looked at.
        together: Tournaments in which an entrant was called better than an equal or better one.
        equivalent: Tournaments in which two were called equivalent whose difference matters.
        places: Tournaments in which the places of everybody hold all true ones.
        shown: Pairs of which the better was called better, of those that differ; NaN where none do.
    """

    one_at_a_time: float
    together: float
    equivalent: float
    places: float
    shown: float


def measure_claims(
    design: Design,
    *,
    n_tournaments: int,
    n_bootstraps: int,
    seed: int,
    equivalent_within: float = 20.0,
) -> FalseClaims:
    """Count what is falsely claimed of every two entrants.

    Args:
        design: How tournaments are drawn.
        n_tournaments: How many to draw.
        n_bootstraps: Resamples of each.
        seed: Seeds everything.
        equivalent_within: The largest difference that does not matter, in Elo points.
    """
    generator = np.random.default_rng(seed)
    limits = limit_of_bradley_terry(design)
    truth = limits[:, None] - limits[None, :]
    is_better = np.array(design.strengths)[:, None] > np.array(design.strengths)[None, :]
    best, worst = 1 + is_better.sum(axis=0), limits.size - is_better.sum(axis=1)
    found = []
    for index in range(n_tournaments):
        tournament = draw_tournament(design, generator)
        resampling = Resampling(n_bootstraps, index, CONFIDENCE)
        together = stand_entrants(
            ResampledWins.of(tournament, resampling), equivalent_within=equivalent_within
        )
        called, alike = claimed_tables(design.entrants, together.claims)
        single = _single_differences(tournament, resampling)
        found.append(
            (
                ((single.low > 0) & ~is_better).any(),
                (called & ~is_better).any(),
                (alike & (np.abs(truth) > equivalent_within)).any(),
                all(
                    (each.best or 0) <= first and (each.worst or 0) >= last
                    for each, first, last in zip(together.entrants, best, worst, strict=True)
                ),
                called[is_better].mean() if is_better.any() else np.nan,
            )
        )
    return FalseClaims(*np.array(found, dtype=np.float64).mean(axis=0).tolist())


def claimed_tables(
    entrants: Sequence[str], claims: Iterable[PairClaim]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whether the row's entrant was called better than the column's, and equivalent to it.

    Args:
        entrants: Rows and columns.
        claims: What is claimed of every two.
    """
    index_of = {name: index for index, name in enumerate(entrants)}
    better, equivalent = np.zeros((2, len(entrants), len(entrants)), dtype=np.bool_)
    for claim in claims:
        for each in (claim, claim.turned):
            pair = index_of[each.first], index_of[each.second]
            better[pair] = each.claim is Claim.FIRST_BETTER
            equivalent[pair] = each.claim is Claim.EQUIVALENT
    return better, equivalent


def _single_differences(tournament: Matches, resampling: Resampling) -> PercentileInterval:
    """Return the interval of each difference, as if no other were looked at, shape (n, n)."""
    ratings = rate_resamples(ResampledWins.of(tournament, resampling)).ratings
    n = ratings.shape[1]
    with np.errstate(invalid="ignore"):
        differences = ratings[:, :, None] - ratings[:, None, :]
    found = expanded_percentile_interval(
        differences.reshape(resampling.n, -1),
        confidence=CONFIDENCE,
        n_units=len(tournament.prompts),
    )
    return PercentileInterval(found.low.reshape(n, n), found.high.reshape(n, n))


def _share(share: float, n_tournaments: int) -> str:
    error = math.sqrt(share * (1 - share) / n_tournaments)
    return f"{100 * share:.1f} ± {100 * error:.1f} %"


def print_claims(
    worlds: Sequence[tuple[str, Design]], *, n_tournaments: int, n_bootstraps: int, seed: int
) -> None:
    """Measure every world with equals in it, and print one table."""
    print(
        f"\n{n_tournaments} tournaments, {n_bootstraps} resamples each, {_SIGMA} = 1; something "
        "false is claimed of two entrants in\n"
    )
    heads = ("entrants", "prompts", "ties", "one at a time", "together", "equivalent", "places")
    print("| " + " | ".join([*heads, "shown"]) + " |")
    print("|---" * 8 + "|")
    for world, design in worlds:
        claims = measure_claims(
            design, n_tournaments=n_tournaments, n_bootstraps=n_bootstraps, seed=seed
        )
        shares = (claims.one_at_a_time, claims.together, claims.equivalent, claims.places)
        cells = (
            world,
            str(design.n_prompts),
            f"{100 * design.tied.mean():.0f} %",
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
        help="resamples of each; unless given 499, and 999 for claims, as a run draws",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", action="store_true", help="only what is claimed of every two")
    parser.add_argument(
        "--uneven", action="store_true", help="only of twelve, with missing pairs and unequal ties"
    )
    options = parser.parse_args()
    if not options.together and not options.uneven:
        print_coverage(
            n_tournaments=options.tournaments,
            n_bootstraps=options.bootstraps or 499,
            seed=options.seed,
        )
    print_claims(
        UNEVEN if options.uneven else TOGETHER,
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
