"""Wins between entrants on prompts drawn with replacement, as a compiled loop."""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compiling import compiled
from tournament_assets.ratings.intervals import draw_prompts
from tournament_assets.ratings.pair_cells import PairCells


class PromptResamples:
    """Draws as many prompts as there were, with replacement, as tables of wins."""

    def __init__(self, cells: PairCells, *, seed: int) -> None:
        """Prepare the cells to be counted prompt by prompt.

        Args:
            cells: Wins between entrants, by prompt.
            seed: Seeds the resampling.
        """
        self._generator = np.random.default_rng(seed)
        self._n_entrants = len(cells.entrants)
        self._n_prompts = len(cells.prompts)
        order = np.argsort(cells.prompt_index, kind="stable")
        self._starts = np.searchsorted(cells.prompt_index[order], np.arange(self._n_prompts + 1))
        self._pairs = (cells.winners * self._n_entrants + cells.losers)[order].astype(np.int32)
        self._weights = cells.weights[order]

    def draw(self) -> NDArray[np.float64]:
        """Return the wins of another resample, shape (n_entrants, n_entrants).

        They are `resampled_wins` of the cells for the next counts of `draw_prompts`.
        """
        counts = draw_prompts(self._generator, n_prompts=self._n_prompts)
        wins = np.zeros(self._n_entrants**2)
        _add_prompts(counts, self._starts, self._pairs, self._weights, wins)
        return wins.reshape(self._n_entrants, self._n_entrants)


@compiled
def _add_prompts(
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    pairs: NDArray[np.int32],
    weights: NDArray[np.float64],
    wins: NDArray[np.float64],
) -> None:
    for prompt in range(counts.size):
        if counts[prompt] > 0:
            for cell in range(starts[prompt], starts[prompt + 1]):
                wins[pairs[cell]] += counts[prompt] * weights[cell]
