"""Draws what judges with a taste for the first slot say of entrants of known strength."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import Matches


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
