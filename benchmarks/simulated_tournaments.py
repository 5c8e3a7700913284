"""Tournaments drawn from known strengths, and the ratings that their intervals should contain."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, log_strengths
from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.matches import Matches

STRENGTHS = (0.0, 0.3, 0.6, 1.0)
"""Logits: the best beats the worst in 73 % of the decided pairs."""

K_FACTOR = 16.0
INITIAL_RATING = 1400.0


@dataclass(frozen=True, slots=True)
class Design:
    """How tournaments are drawn.

    Attributes:
        n_prompts: Prompts, on each of which all pairs are judged but for the missing ones.
        sigma: Standard deviation of what a prompt adds to each entrant's logit.
        strengths: Logits of the entrants.
        undecided: Share of the pairs that are undecided, whoever plays.
        n_samples: How often each prompt is answered; what a prompt adds is the same each time.
        ties_of: What replaces `undecided` where entrants differ: a pair is undecided as often as
            the mean of its two says.
        missing: Share of the pairs that are not judged, whoever plays.
    """

    n_prompts: int
    sigma: float
    strengths: tuple[float, ...] = STRENGTHS
    undecided: float = 0.25
    n_samples: int = 1
    ties_of: tuple[float, ...] = ()
    missing: float = 0.0

    @property
    def entrants(self) -> tuple[str, ...]:
        """Names of the entrants."""
        return tuple(f"entrant_{index}" for index in range(len(self.strengths)))

    @property
    def tied(self) -> NDArray[np.float64]:
        """How often every two are undecided, shape (n, n)."""
        of = np.array(self.ties_of or (self.undecided,) * len(self.strengths))
        return np.asarray((of[:, None] + of[None, :]) / 2)


def draw_tournament(design: Design, generator: np.random.Generator) -> Matches:
    """Judge every pair on every prompt, in every sample of it, but for the missing ones."""
    pairs = np.array(list(combinations(range(len(design.strengths)), 2)))
    size = (design.n_prompts, design.n_samples, len(pairs))
    effects = design.sigma * generator.normal(size=(design.n_prompts, len(design.strengths)))
    skills = np.array(design.strengths) + effects
    gap = (skills[:, pairs[:, 0]] - skills[:, pairs[:, 1]])[:, None, :]
    first_wins = generator.random(size) < 1 / (1 + np.exp(-gap))
    is_tied = generator.random(size) < design.tied[pairs[:, 0], pairs[:, 1]]
    prompt, sample, pair = (place.ravel() for place in np.indices(size))
    preference = np.where(is_tied, 0.5, first_wins.astype(np.float64)).ravel()
    if design.missing:
        is_judged = generator.random(pair.size) >= design.missing
        prompt, sample, pair = prompt[is_judged], sample[is_judged], pair[is_judged]
        preference = preference[is_judged]
    return Matches(
        entrants=design.entrants,
        prompts=tuple(f"prompt_{index}" for index in range(design.n_prompts)),
        first=pairs[pair, 0],
        second=pairs[pair, 1],
        prompt_index=prompt,
        preference=preference,
        weight=np.ones(prompt.size),
        sample=sample + 1 if design.n_samples > 1 else sample[:0],
    )


def by_battle(matches: Matches) -> Matches:
    """Make every match a sampling unit of its own."""
    units = np.arange(matches.n_matches)
    return replace(matches, prompts=tuple(map(str, units)), prompt_index=units)


def expected_elo(design: Design, *, n_tournaments: int, seed: int) -> NDArray[np.float64]:
    """Return the mean of permutation-averaged Elo over tournaments of a design.

    That is what Elo of a tournament estimates: it depends on the number of matches, because
    ratings start level and take time to come apart.

    Args:
        design: How tournaments are drawn.
        n_tournaments: How many to average over, 16 orderings each.
        seed: Seeds the tournaments and the orderings.
    """
    generator = np.random.default_rng(seed)
    total = np.zeros(len(design.strengths))
    for index in range(n_tournaments):
        matches = draw_tournament(design, generator)
        total += compute_elo_permutation(
            matches, k_factor=K_FACTOR, n_permutations=16, seed=index, initial_rating=INITIAL_RATING
        ).ratings.mean(axis=0)
    return total / n_tournaments


def limit_of_bradley_terry(design: Design) -> NDArray[np.float64]:
    """Return the ratings that Bradley-Terry tends to as prompts are added.

    Ties as half wins, and prompts that shift strengths, are not in the model, so these are not the
    strengths that were put in but the nearest that the model can say.

    Args:
        design: How tournaments are drawn; its number of prompts does not matter.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    strengths = np.array(design.strengths)
    gaps = strengths[:, None] - strengths[None, :]
    # Two entrants' effects on one prompt are independent, so the gap's variance is twice sigma's.
    shifted = gaps[..., None] + np.sqrt(2.0) * design.sigma * nodes
    won = (1 / (1 + np.exp(-shifted))) @ (weights / weights.sum())
    wins = design.tied / 2 + (1 - design.tied) * won
    np.fill_diagonal(wins, 0.0)
    return INITIAL_RATING + ELO_PER_NAT * log_strengths(wins)
