"""What showing each pair once costs: bias and coverage of ratings with the slot effect fitted.

Run: python -m benchmarks.one_presentation [--tournaments 4000] [--prompts 143]

Tournaments of one judge that likes the first slot by 1.9 log odds, each pair shown once with the
side drawn; what is true is known. Printed are the largest bias of a rating with its error, the
share of intervals that hold the truth, and the mean width of an interval, beside those of the same
judge shown every pair in both orders, which costs twice as much.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.ratings.judge_aware import fit_judge_aware
from tournament_assets.ratings.matches import Matches

SLOT = 1.9


@dataclass(frozen=True, slots=True)
class SimulatedJudge:
    """A judge as the model has it, and how often it calls a tie whatever it was shown."""

    discrimination: float
    slot: float
    tied_share: float = 0.0


def simulate_presentations(
    strengths: Sequence[float],
    judges: Sequence[SimulatedJudge],
    *,
    n_prompts: int,
    seed: int,
    presentations: int = 1,
) -> tuple[Matches, NDArray[np.float64]]:
    """Judge every pair on every prompt, once with the side drawn or twice; return the slots too."""
    generator = np.random.default_rng(seed)
    n = len(strengths)
    above, below = np.triu_indices(n, 1)
    size = above.size * n_prompts
    first, second = np.tile(above, n_prompts), np.tile(below, n_prompts)
    prompts = np.repeat(np.arange(n_prompts), above.size)
    columns = []
    for index, judge in enumerate(judges):
        drawn = generator.choice([-1.0, 1.0], size=size)
        for slots in (drawn, -drawn)[:presentations]:
            gaps = np.array(strengths)[first] - np.array(strengths)[second]
            odds = judge.discrimination * gaps + judge.slot * slots
            wins = (generator.random(size) < 1 / (1 + np.exp(-odds))).astype(np.float64)
            wins[generator.random(size) < judge.tied_share] = 0.5
            columns.append((wins, slots, np.full(size, index)))
    times = len(columns)
    return Matches(
        entrants=tuple(f"entrant_{index}" for index in range(n)),
        prompts=tuple(f"p{index}" for index in range(n_prompts)),
        first=np.tile(first, times),
        second=np.tile(second, times),
        prompt_index=np.tile(prompts, times),
        preference=np.concatenate([each[0] for each in columns]),
        weight=np.ones(size * times),
        judges=tuple(f"judge_{index}" for index in range(len(judges))),
        judge_index=np.concatenate([each[2] for each in columns]),
    ), np.concatenate([each[1] for each in columns])


def measure(n_entrants: int, *, presentations: int, tournaments: int, prompts: int) -> str:
    """Return a line of the table for tournaments of some entrants, 277 Elo points from end to end.

    Args:
        n_entrants: How many entrants meet.
        presentations: Once with the side drawn, or twice.
        tournaments: How many are simulated.
        prompts: Judged prompts of each.
    """
    strengths = np.linspace(-0.8, 0.8, n_entrants).tolist()
    truth = np.array(strengths) * ELO_PER_NAT
    found = np.empty((tournaments, 3, n_entrants))
    slots_held = 0
    for seed in range(tournaments):
        matches, slots = simulate_presentations(
            strengths,
            (SimulatedJudge(1.0, SLOT),),
            n_prompts=prompts,
            seed=seed,
            presentations=presentations,
        )
        fit = fit_judge_aware(matches, slots, confidence=0.95, initial_rating=0.0)
        for place, rating in enumerate(fit.ratings):
            found[seed, :, place] = (rating.rating, rating.low, rating.high)
        effect = fit.judges[0].slot_logits
        if effect is not None and effect.low is not None and effect.high is not None:
            slots_held += effect.low <= SLOT <= effect.high
    ratings, low, high = found[:, 0], found[:, 1], found[:, 2]
    bias = ratings.mean(axis=0) - truth
    worst = int(np.argmax(np.abs(bias)))
    noise = ratings[:, worst].std() / np.sqrt(tournaments)
    held = np.mean((low <= truth) & (truth <= high))
    return (
        f"{n_entrants:>8} {presentations:>13} {bias[worst]:>9.2f} ± {noise:.2f} {held:>8.1%} "
        f"{slots_held / tournaments:>8.1%} {np.mean(high - low):>8.1f}"
    )


def main() -> None:
    """Print a line for each number of entrants and presentations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=4000)
    parser.add_argument("--prompts", type=int, default=143)
    chosen = parser.parse_args()
    print("entrants presentations      bias (Elo)  ratings     slot    width")
    for n_entrants in (4, 6, 8):
        for presentations in (1, 2):
            line = measure(
                n_entrants,
                presentations=presentations,
                tournaments=chosen.tournaments,
                prompts=chosen.prompts,
            )
            print(line, flush=True)


if __name__ == "__main__":
    main()
