"""How often as many more prompts as are named do what they were named for.

Draws entrants, whose strengths are normal, evenly spaced or equal, and tournaments of them; takes
what `find_more_prompts` names, judges as many more prompts, and looks by the leaderboard's rule
whether somebody is best, or as few may be as was said. Run it with
`python -m benchmarks.more_prompts`; `--tournaments N` draws N of each kind.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated_tournaments import Design, draw_tournament
from tournament_assets.audits.more_prompts import MorePrompts, find_more_prompts
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, ResampledWins
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.standings import Standings, stand_entrants

CONFIDENCE = 0.95
Draws = np.random.Generator
KINDS: dict[str, Callable[[Draws, int], NDArray[Any]]] = {
    "normal, 30 Elo": lambda draws, n: draws.normal(0.0, 30.0, n),
    "normal, 60 Elo": lambda draws, n: draws.normal(0.0, 60.0, n),
    "normal, 120 Elo": lambda draws, n: draws.normal(0.0, 120.0, n),
    "20 Elo apart": lambda _, n: -20.0 * np.arange(n),
    "40 Elo apart": lambda _, n: -40.0 * np.arange(n),
    "equal": lambda _, n: np.zeros(n),
}
"""Draws strengths in Elo points."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A tournament in which nobody was best.

    Attributes:
        more: What was named; None if no number of prompts.
        came_true: Whether it did what it was named for; None if none was named.
    """

    more: MorePrompts | None
    came_true: bool | None


def stand(matches: Matches, *, n_bootstraps: int) -> Standings:
    """Compare the entrants as the leaderboard does."""
    return stand_entrants(ResampledWins.of(matches, Resampling(n_bootstraps, 0, CONFIDENCE)))


def how_many_may_be_first(standings: Standings) -> int:
    """Return how many nobody is better than; 1 if somebody is better than all others."""
    may_be = sum(each.best == 1 for each in standings.entrants)
    is_best = any(each.worst == 1 for each in standings.entrants)
    return may_be if is_best else max(2, may_be)


def together(first: Matches, then: Matches) -> Matches:
    """Put two tournaments of the same entrants on different prompts together."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(then, name)])
        for name in ("first", "second", "preference", "weight")
    }
    prompts = (*first.prompts, *(f"more_{name}" for name in then.prompts))
    places = np.concatenate([first.prompt_index, then.prompt_index + len(first.prompts)])
    return replace(first, prompts=prompts, prompt_index=places, **arrays)


def try_once(
    draws: Draws, strengths: NDArray[np.float64], n_prompts: int, *, n_bootstraps: int
) -> Trial | None:
    """Draw a tournament, and do what is named; None if somebody is best at once."""
    logits = tuple((strengths / ELO_PER_NAT).tolist())
    matches = draw_tournament(Design(n_prompts, 0.5, logits), draws)
    standings = stand(matches, n_bootstraps=n_bootstraps)
    n_first = how_many_may_be_first(standings)
    ratings = np.array([each.value for each in standings.entrants], dtype=np.float64)
    reach = (standings.differences.high - standings.differences.low) / 2
    np.fill_diagonal(reach, 0.0)
    if n_first == 1 or not np.isfinite(ratings).all() or not np.isfinite(reach).all():
        return None
    more = find_more_prompts(
        ratings, reach, n_prompts=n_prompts, n_first=n_first, confidence=CONFIDENCE
    )
    if more is None:
        return Trial(None, None)
    then = draw_tournament(Design(more.prompts, 0.5, logits), draws)
    after = stand(together(matches, then), n_bootstraps=n_bootstraps)
    return Trial(more, how_many_may_be_first(after) <= more.leave)


def try_often(
    kind: str, n_entrants: int, n_prompts: int, *, n: int, n_bootstraps: int = 299, seed: int = 49
) -> list[Trial]:
    """Return trials of tournaments of a kind in which nobody is best at once."""
    draws = np.random.default_rng((seed, n_entrants, n_prompts))
    trials = (
        try_once(draws, KINDS[kind](draws, n_entrants), n_prompts, n_bootstraps=n_bootstraps)
        for _ in range(n)
    )
    return [trial for trial in trials if trial is not None]


def main(n: int) -> None:
    """Print a table in Markdown."""
    print("| strengths | nobody best | number named | it came true | somebody best, as named |")
    print("|---|--:|--:|--:|--:|")
    for kind in KINDS:
        trials = [
            trial
            for n_entrants in (2, 3, 4, 6, 10, 24)
            for n_prompts in (50, 143)
            for trial in try_often(kind, n_entrants, n_prompts, n=n)
        ]
        named = [trial for trial in trials if trial.more is not None]
        best = [trial for trial in named if trial.more is not None and trial.more.leave == 1]
        shares = (
            f"{np.mean([trial.came_true for trial in some]):.0%} of {len(some)}" if some else "–"
            for some in (named, best)
        )
        print(f"| {kind} | {len(trials)} | {len(named)} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tournaments", type=int, default=50)
    main(parser.parse_args().tournaments)
