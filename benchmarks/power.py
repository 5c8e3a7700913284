"""Whether the predicted power is the realised one: `python -m benchmarks.power`.

Draws a pilot of four entrants from known strengths, learns from it, and predicts how often two of
them, so many Elo points apart, are separated on 50, 143 and 500 prompts. Beside it stands in how
many tournaments of the same design `stand_entrants`, the leaderboard's own rule, calls the first
better. Prints a table in Markdown; the same options print the same.
"""

import argparse

import numpy as np

from benchmarks.simulated_tournaments import Design, draw_tournament, limit_of_bradley_terry
from tournament_assets.extras.planning.power import PowerCurve, learn_noise
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import ResampledWins
from tournament_assets.ratings.standings import Claim, stand_entrants

GAPS = {50: 1.0, 143: 0.6, 500: 0.32}
"""By prompts, logits between the best and the worst; the other two lie between."""
CONFIDENCE = 0.95


def design_of(n_prompts: int, sigma: float = 1.0) -> Design:
    """Return tournaments in which the two are about to be separated."""
    gap = GAPS[n_prompts]
    return Design(n_prompts, sigma, strengths=(gap / 2, -gap / 2, 0.0, 0.0))


def predicted_power(design: Design, *, pilot_prompts: int, seed: int) -> tuple[float, float, float]:
    """Return the gap in Elo points, and what simulation and the formula predict from a pilot."""
    ratings = limit_of_bradley_terry(design)
    elo = float(ratings[0] - ratings[1])
    pilot = Design(pilot_prompts, design.sigma, design.strengths, design.undecided)
    noise = learn_noise(draw_tournament(pilot, np.random.default_rng((seed, 1))), split=0.0)
    curve = PowerCurve(noise, elo, confidence=CONFIDENCE, seed=seed)
    return elo, curve.simulate(design.n_prompts), curve.formula_power(design.n_prompts)


def realised_power(design: Design, *, n_tournaments: int, n_bootstraps: int, seed: int) -> float:
    """Return the share of tournaments in which the leaderboard calls the first better."""
    generator = np.random.default_rng((seed, 2))
    separated = 0
    for _ in range(n_tournaments):
        found = stand_entrants(
            ResampledWins.of(
                draw_tournament(design, generator), Resampling(n_bootstraps, seed, CONFIDENCE)
            )
        )
        separated += found.claims[0].claim is Claim.FIRST_BETTER
    return separated / n_tournaments


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=500)
    parser.add_argument("--bootstraps", type=int, default=299)
    parser.add_argument("--pilot", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| prompts | prompt sd | Elo apart | predicted | by the formula | realised |")
    print("|---|---|---|---|---|---|")
    for n_prompts in GAPS:
        for sigma in (0.0, 1.0):
            design = design_of(n_prompts, sigma)
            elo, simulated, formula = predicted_power(
                design, pilot_prompts=options.pilot, seed=options.seed
            )
            realised = realised_power(
                design,
                n_tournaments=options.tournaments,
                n_bootstraps=options.bootstraps,
                seed=options.seed,
            )
            print(
                f"| {n_prompts} | {sigma:g} | {elo:.0f} | {simulated:.1%} | {formula:.1%} "
                f"| {realised:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
