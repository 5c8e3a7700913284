"""Bradley-Terry on resamples of single battles, as the peers draw them.

The package draws prompts, since battles on one prompt share its difficulty. Where every battle is
on a prompt of its own the two are one distribution, of which this is the faster draw.

Drawing N battles with replacement is drawing how often each outcome of each pair of entrants
occurs: a multinomial distribution over a table whose size does not depend on N. To draw it, every
cell first gets a Poisson number somewhat below its share; given their sum these are multinomial,
and single draws supply what is missing to N. A sum beyond N, rarer than one in a billion, is drawn
again; that changes nothing, because the cells are multinomial given any sum.

Single draws, and the Poisson numbers, come from alias tables: Walker, "An efficient method for
generating discrete random variables", https://doi.org/10.1145/355744.355749, built as by Vose,
https://doi.org/10.1109/32.92917.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import DrawWins, ResampledWins, rate_resamples
from tournament_assets.ratings.compilation import compiled
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.ratings.matches import Matches

_MARGIN = 6.0
"""Standard deviations of the sum by which the Poisson numbers stay below N on average."""


def bootstrap_battles(
    matches: Matches, *, n_bootstraps: int, seed: int, initial_rating: float = 1400.0
) -> BootstrapRatings:
    """Rate the entrants that have a rating on resamples of the battles.

    Every battle must stand for itself. Where several share a prompt, these intervals are too
    narrow, and `rate_resamples` is the one to use.

    Args:
        matches: Wins, losses and ties, each of weight 1.
        n_bootstraps: Number of resamples; each draws as many battles as there were.
        seed: Seeds the resampling.
        initial_rating: What the ratings average to, in Elo points.

    Returns:
        As `rate_resamples`, with every battle as a prompt of its own.

    Raises:
        InputError: If `n_bootstraps` is less than 1.
        RatingError: If a likelihood could not be maximised.
    """

    def start() -> DrawWins:
        resamples = BattleResamples(matches, seed=seed)
        return lambda n_tables: np.array([resamples.draw() for _ in range(n_tables)])

    tables = ResampledWins(
        matches.entrants, matches.wins, matches.n_matches, Resampling(n_bootstraps, seed), start
    )
    return rate_resamples(tables, initial_rating=initial_rating)


class BattleResamples:
    """Draws as many battles as there were, with replacement, as tables of wins."""

    def __init__(self, matches: Matches, *, seed: int) -> None:
        """Prepare the tables to draw from; every match must weigh 1."""
        self._generator = np.random.default_rng(seed)
        self._n_entrants = len(matches.entrants)
        self._n_battles = matches.n_matches
        wins, ties = matches.outright_wins, matches.ties
        # A battle is two half wins: both the winner's, or one for each side of a tie.
        pairs = np.arange(self._n_entrants**2).reshape(wins.shape)
        won, tied = wins > 0, np.triu(ties) > 0
        self._half = np.concatenate([pairs[won], pairs[tied]])
        self._other_half = np.concatenate([pairs[won], pairs.T[tied]])
        sizes = np.concatenate([wins[won], ties[tied]])
        self._single = _alias_table(sizes)
        share = max(0.0, 1.0 - _MARGIN / math.sqrt(max(1, self._n_battles)))
        distinct, self._table_of = np.unique(sizes, return_inverse=True)
        self._tables = _PoissonTables.of(distinct * share)

    def draw(self) -> NDArray[np.float64]:
        """Return the wins of another resample, shape (n_entrants, n_entrants)."""
        drawn = self.draw_cells()
        wins = np.zeros(self._n_entrants**2)
        wins += np.bincount(self._half, drawn / 2, minlength=wins.size)
        wins += np.bincount(self._other_half, drawn / 2, minlength=wins.size)
        return wins.reshape(self._n_entrants, self._n_entrants)

    def draw_cells(self) -> NDArray[np.int64]:
        """Return how often each outcome that occurred was drawn, shape (n_cells,).

        The cells are the wins and then the ties, each row by row of its table.
        """
        cells = np.zeros(self._half.size, dtype=np.int64)
        missing = -1
        while missing < 0:
            uniforms = self._generator.random(cells.size)
            missing = self._n_battles - self._tables.draw(uniforms, self._table_of, cells)
        _add_single(self._generator.random(missing), *self._single, cells)
        return cells


@dataclass(frozen=True, slots=True, eq=False)
class _PoissonTables:
    """Alias tables of Poisson distributions, one after the other.

    Table t has the entries from starts[t] on, the first of which stands for lowest[t]; an entry
    keeps its share of what falls on it and gives the rest to its alias.
    """

    starts: NDArray[np.int64]
    lowest: NDArray[np.int64]
    shares: NDArray[np.float64]
    aliases: NDArray[np.int64]

    @classmethod
    def of(cls, rates: NDArray[np.float64]) -> "_PoissonTables":
        starts, lowest, shares, aliases = [0], [], [np.zeros(0)], [np.zeros(0, dtype=np.int64)]
        for rate in rates.tolist():
            # What lies further out is less likely than the spacing of the uniform numbers.
            reach = 9.0 * math.sqrt(rate) + 20.0
            low = max(0, math.floor(rate - reach))
            above = np.arange(low + 1, math.ceil(rate + reach) + 1)
            log_ratios = np.log(rate / above) if rate > 0 else np.full(above.size, -np.inf)
            log_odds = np.concatenate([[0.0], np.cumsum(log_ratios)])
            share, alias = _alias_table(np.exp(log_odds - log_odds.max()))
            lowest.append(low)
            shares.append(share)
            aliases.append(alias)
            starts.append(starts[-1] + share.size)
        return cls(
            np.array(starts), np.array(lowest), np.concatenate(shares), np.concatenate(aliases)
        )

    def draw(
        self, uniforms: NDArray[np.float64], table_of: NDArray[np.int64], cells: NDArray[np.int64]
    ) -> int:
        """Draw a number for every cell, and return their sum."""
        return int(
            _draw_poisson(
                uniforms, table_of, self.starts, self.lowest, self.shares, self.aliases, cells
            )
        )


@compiled
def _alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    # Every entry is as likely to be hit; those with too little weight give the rest to another.
    size = weights.size
    aliases = np.arange(size)
    if size == 0:
        return weights, aliases
    shares = weights * (size / weights.sum())
    poor = np.empty(size, dtype=np.int64)
    rich = np.empty(size, dtype=np.int64)
    n_poor = n_rich = 0
    for entry in range(size):
        if shares[entry] < 1.0:
            poor[n_poor] = entry
            n_poor += 1
        else:
            rich[n_rich] = entry
            n_rich += 1
    while n_poor > 0 and n_rich > 0:
        n_poor -= 1
        entry = poor[n_poor]
        donor = rich[n_rich - 1]
        aliases[entry] = donor
        shares[donor] -= 1.0 - shares[entry]
        if shares[donor] < 1.0:
            n_rich -= 1
            poor[n_poor] = donor
            n_poor += 1
    # What rounding left over keeps itself.
    for index in range(n_poor):
        shares[poor[index]] = 1.0
    return shares, aliases


@compiled
def _draw_poisson(
    uniforms: NDArray[np.float64],
    table_of: NDArray[np.int64],
    starts: NDArray[np.int64],
    lowest: NDArray[np.int64],
    shares: NDArray[np.float64],
    aliases: NDArray[np.int64],
    cells: NDArray[np.int64],
) -> int:
    total = 0
    for cell in range(cells.size):
        table = table_of[cell]
        start = starts[table]
        place = uniforms[cell] * (starts[table + 1] - start)
        entry = int(place)
        alias = aliases[start + entry]
        number = lowest[table] + (entry if place - entry < shares[start + entry] else alias)
        cells[cell] = number
        total += number
    return total


@compiled
def _add_single(
    uniforms: NDArray[np.float64],
    shares: NDArray[np.float64],
    aliases: NDArray[np.int64],
    cells: NDArray[np.int64],
) -> None:
    for uniform in uniforms:
        place = uniform * shares.size
        entry = int(place)
        alias = aliases[entry]
        cells[entry if place - entry < shares[entry] else alias] += 1
