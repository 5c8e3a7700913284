"""The prompts that decide the ranking: what would be rated without each of them.

Every prompt is left out in turn and the entrants are rated by Bradley-Terry on the others, all in
one fit. This is the jackknife's leave-one-out, with the prompt as the unit, read prompt by prompt
instead of being summed up as a standard error. Source: Miller, "The jackknife - a review",
https://doi.org/10.1093/biomet/61.1.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, log_strengths
from tournament_assets.ratings.connectivity import are_strongly_connected, find_standing
from tournament_assets.ratings.pair_cells import PairCells

_DECIMALS = 6
"""Decimals of Elo points that the fit is good to."""
_TABLES_AT_ONCE = 4096
"""Fitted together; a fit takes several times the memory of its tables."""
_LEAST_GAP = 10**-_DECIMALS
"""Elo points below which two ratings are the same."""


@dataclass(frozen=True, slots=True)
class PromptInfluence:
    """What leaving one prompt out does to the ratings.

    Attributes:
        prompt_id: The prompt.
        moved: The entrant whose rating moves most; None where the others determine no rating.
        move: By how many Elo points, with its sign, when the prompt is left out.
        swaps: Neighbours in the ranking, the better first, that change places without it, or that
            are level on one side and not on the other.
        keeps_connected: Whether the other prompts still determine every rating.
    """

    prompt_id: str
    moved: str | None
    move: float | None
    swaps: tuple[tuple[str, str], ...]
    keeps_connected: bool


def leave_one_prompt_out(cells: PairCells) -> list[PromptInfluence]:
    """Rate without each prompt in turn; in the order of `cells.prompts`.

    Only entrants that all prompts together rate take part: an entrant that won or lost every match
    has no rating that could move.

    Args:
        cells: Wins between entrants, by prompt.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    rated = find_standing(cells.wins).rated if cells.prompts else np.zeros(0, dtype=np.bool_)
    if rated.sum() < 2:
        return []
    names = [name for name, is_rated in zip(cells.entrants, rated, strict=True) if is_rated]
    by_prompt = _wins_by_prompt(cells)[:, rated][:, :, rated]  # (n_prompts, n, n)
    everything = by_prompt.sum(axis=0)
    without = everything - by_prompt
    connected = are_strongly_connected(without)
    ratings = np.full((len(cells.prompts), len(names)), np.nan)
    tables = np.flatnonzero(connected)
    for start in range(0, tables.size, _TABLES_AT_ONCE):
        some = tables[start : start + _TABLES_AT_ONCE]
        ratings[some] = log_strengths(without[some]) * ELO_PER_NAT
    full = log_strengths(everything) * ELO_PER_NAT
    order = np.argsort(-full, kind="stable")
    return [
        _influence(prompt_id, row - full, row, full, order, names, bool(is_connected))
        for prompt_id, row, is_connected in zip(cells.prompts, ratings, connected, strict=True)
    ]


def prompts_behind_lead(cells: PairCells, *, leader: str, runner_up: str) -> tuple[str, ...]:
    """Return the prompts without any one of which the leader would not be ahead.

    Ahead is by Bradley-Terry, as in `leave_one_prompt_out`. Where that rates nobody, a lead rests
    on a prompt if the leader won on no other.

    Args:
        cells: Wins between entrants, by prompt; ties as halves.
        leader: Who is ahead.
        runner_up: Who is next.

    Raises:
        RatingError: If a likelihood could not be maximised.
    """
    found = tuple(
        each.prompt_id for each in leave_one_prompt_out(cells) if (leader, runner_up) in each.swaps
    )
    if found or leader not in cells.entrants:
        return found
    is_win = (cells.winners == cells.entrants.index(leader)) & (cells.weights % 1 == 0)
    where = np.unique(cells.prompt_index[is_win])
    return (cells.prompts[int(where[0])],) if where.size == 1 else ()


def _influence(
    prompt_id: str,
    moves: NDArray[np.float64],
    ratings: NDArray[np.float64],
    full: NDArray[np.float64],
    order: NDArray[np.int64],
    names: Sequence[str],
    is_connected: bool,
) -> PromptInfluence:
    if not is_connected:
        return PromptInfluence(prompt_id, None, None, (), keeps_connected=False)
    # What differs by rounding alone is the same move; the first entrant is named then.
    moves = np.round(moves, _DECIMALS)
    largest = int(np.argmax(np.abs(moves)))
    swaps = tuple(
        (names[upper], names[lower])
        for upper, lower in pairwise(order)
        if _sign(full[upper] - full[lower]) != _sign(ratings[upper] - ratings[lower])
    )
    return PromptInfluence(
        prompt_id, names[largest], float(moves[largest]), swaps, keeps_connected=True
    )


def _sign(gap: float) -> int:
    return 0 if abs(gap) < _LEAST_GAP else (1 if gap > 0 else -1)


def _wins_by_prompt(cells: PairCells) -> NDArray[np.float64]:
    n_entrants, n_prompts = len(cells.entrants), len(cells.prompts)
    flat = np.bincount(
        (cells.prompt_index * n_entrants + cells.winners) * n_entrants + cells.losers,
        weights=cells.weights,
        minlength=n_prompts * n_entrants * n_entrants,
    )
    return flat.astype(np.float64).reshape(n_prompts, n_entrants, n_entrants)
