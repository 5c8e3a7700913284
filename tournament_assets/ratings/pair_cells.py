"""Judgments with ties, aggregated to how much each entrant beat each other one on each prompt."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.matches import index_entrants, judged_prompts
from tournament_assets.tournament.verdicts import Judgment, Outcome


@dataclass(frozen=True, slots=True, eq=False)
class PairCells:
    """Wins between entrants, by prompt; a tie is half a win for each.

    The judgments' order leaves no trace: equal judgments give equal cells.

    Attributes:
        entrants: Every entrant, in the order of the tables.
        prompts: Every prompt with a judged pair, sorted.
        prompt_index: Indices into `prompts`, shape (n_cells,).
        winners: Indices into `entrants`, shape (n_cells,).
        losers: Indices into `entrants`, shape (n_cells,).
        weights: Wins, in halves, shape (n_cells,).
    """

    entrants: tuple[str, ...]
    prompts: tuple[str, ...]
    prompt_index: NDArray[np.int64]
    winners: NDArray[np.int64]
    losers: NDArray[np.int64]
    weights: NDArray[np.float64]

    @property
    def wins(self) -> NDArray[np.float64]:
        """How often the row's entrant beat the column's, shape (n_entrants, n_entrants)."""
        return self.resampled_wins(np.ones(len(self.prompts), dtype=np.int64))

    def resampled_wins(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return `wins` as if every prompt had been judged a number of times.

        Args:
            counts: How often each prompt counts, shape (n_prompts,).
        """
        n_entrants = len(self.entrants)
        flat = np.bincount(
            self.winners * n_entrants + self.losers,
            weights=self.weights * counts[self.prompt_index],
            minlength=n_entrants * n_entrants,
        )
        return flat.astype(np.float64).reshape(n_entrants, n_entrants)


def code_cells(
    judgments: Iterable[Judgment], *, entrants: Sequence[str], count_inconsistent: bool = True
) -> PairCells:
    """Aggregate judgments to wins between entrants; unjudged pairs are left out.

    Args:
        judgments: Settled pairs of one dimension.
        entrants: Everyone who may appear, in the order of the tables.
        count_inconsistent: Count an inconsistent pair as a tie; otherwise it is left out.

    Raises:
        InputError: With every entrant that is unknown, listed twice, or judged against itself.
    """
    judgments = list(judgments)
    index_of = index_entrants(judgments, entrants=entrants)
    prompts = judged_prompts(judgments)
    prompt_of = {prompt_id: index for index, prompt_id in enumerate(prompts)}
    tied = {Outcome.TIE, Outcome.SAME_TEXT}
    if count_inconsistent:
        tied.add(Outcome.INCONSISTENT)
    half_wins: Counter[tuple[int, int, int]] = Counter()
    for judgment in judgments:
        a, b = index_of[judgment.entrant_a], index_of[judgment.entrant_b]
        if judgment.outcome is Outcome.A_WINS:
            half_wins[prompt_of[judgment.prompt_id], a, b] += 2
        elif judgment.outcome is Outcome.B_WINS:
            half_wins[prompt_of[judgment.prompt_id], b, a] += 2
        elif judgment.outcome in tied:
            half_wins[prompt_of[judgment.prompt_id], a, b] += 1
            half_wins[prompt_of[judgment.prompt_id], b, a] += 1
    cells = sorted(half_wins)
    columns = np.array(cells, dtype=np.int64).reshape(-1, 3).T.copy()
    return PairCells(
        entrants=tuple(entrants),
        prompts=prompts,
        prompt_index=columns[0],
        winners=columns[1],
        losers=columns[2],
        weights=np.array([half_wins[cell] / 2 for cell in cells], dtype=np.float64),
    )
