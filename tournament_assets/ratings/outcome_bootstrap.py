"""Bradley-Terry on resamples of single battles, for battles that share no prompts.

Drawing N battles with replacement is drawing how often each outcome of each pair of entrants
occurs: a multinomial distribution over a table whose size does not depend on N. To draw it, every
cell first gets a Poisson number somewhat below its share; given their sum these are multinomial,
and single draws supply what is missing to N. A sum beyond N, rarer than one in a billion, is drawn
again; that changes nothing, because the cells are multinomial given any sum.

Single draws, and the Poisson numbers, come from alias tables: Walker, "An efficient method for
generating discrete random variables", https://doi.org/10.1145/355744.355749, built as by Vose,
https://doi.org/10.1109/32.92917.

Battles without their prompts, aggregated to how each two entrants fared against each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import rate_resamples
from tournament_assets.ratings.compilation import compiled
from tournament_assets.ratings.intervals import BootstrapRatings
from tournament_assets.tournament.errors import InputError, Problems


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeCounts:
    """How often everyone beat and tied with everyone.

    Attributes:
        entrants: Every entrant, in the order of the tables.
        won: How often the row's entrant beat the column's, shape (n_entrants, n_entrants).
        tied: How often two entrants tied, shape (n_entrants, n_entrants), symmetric.
    """

    entrants: tuple[str, ...]
    won: NDArray[np.int64]
    tied: NDArray[np.int64]

    @property
    def wins(self) -> NDArray[np.float64]:
        """Wins of the row's entrant over the column's; a tie is half a win for each."""
        return self.won + self.tied / 2

    @property
    def n_battles(self) -> int:
        """How many battles there were."""
        return int(self.won.sum() + self.tied.sum() // 2)


def count_outcomes(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    preference: NDArray[np.float64],
    *,
    entrants: Sequence[str],
) -> OutcomeCounts:
    """Count battles that were won, lost or tied.

    Args:
        first: Indices into `entrants`, shape (n_battles,).
        second: Indices into `entrants`, shape (n_battles,).
        preference: 1 where the first won, 0 where the second won, 0.5 for a tie; shape
            (n_battles,).
        entrants: Everyone who may appear, in the order of the tables.

    Raises:
        InputError: With everything that is wrong: columns of unequal lengths, an index outside
            the entrants, an entrant against itself, another preference.
    """
    if not first.shape == second.shape == preference.shape:
        shapes = (first.shape, second.shape, preference.shape)
        raise InputError(f"the columns of battles have shapes {shapes!r}; expected one shape")
    n_entrants = len(entrants)
    _require_battles(first, second, preference, n_entrants=n_entrants)
    halves = (2 * preference).astype(np.int64)
    cells = (halves * n_entrants + first) * n_entrants + second
    counts = np.bincount(cells, minlength=3 * n_entrants**2).astype(np.int64)
    lost, tied, won = counts.reshape(3, n_entrants, n_entrants)
    return OutcomeCounts(entrants=tuple(entrants), won=won + lost.T, tied=tied + tied.T)


def code_names(
    *columns: Sequence[str],
) -> tuple[tuple[str, ...], tuple[NDArray[np.int64], ...]]:
    """Replace names by their places in one sorted list of them.

    Args:
        columns: Names, in any number of columns of any lengths.

    Returns:
        The names, sorted, and the codes of each column.

    Raises:
        InputError: If something among them is not text.
    """
    place_of = _Places()
    coded = [
        np.fromiter(map(place_of.__getitem__, column), dtype=np.int64, count=len(column))
        for column in columns
    ]
    found: list[object] = list(place_of)
    problems = Problems()
    problems.extend(
        f"a name is {name!r}; expected text" for name in found if not isinstance(name, str)
    )
    problems.raise_if_any()
    names = sorted(place_of)
    rank = np.empty(len(names), dtype=np.int64)
    rank[[place_of[name] for name in names]] = np.arange(len(names))
    return tuple(names), tuple(rank[codes] for codes in coded)


class _Places(dict[str, int]):
    """Numbers every name when it is first asked for: one look-up a name, and no second pass."""

    def __missing__(self, name: str) -> int:
        self[name] = place = len(self)
        return place


def _require_battles(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    preference: NDArray[np.float64],
    *,
    n_entrants: int,
) -> None:
    problems = Problems()
    unknown = f"expected an index below {n_entrants}"
    for name, column, is_wrong, expected in (
        ("first", first, (first < 0) | (first >= n_entrants), unknown),
        ("second", second, (second < 0) | (second >= n_entrants), unknown),
        ("second", second, first == second, "expected another entrant than the first"),
        (
            "preference",
            preference,
            (preference != 0) & (preference != 0.5) & (preference != 1),
            "expected 1 (the first won), 0 (the second won) or 0.5 (a tie)",
        ),
    ):
        rows = np.flatnonzero(is_wrong)
        if rows.size:
            problems.add(
                f"{name} is {column[rows[0]].item()!r} in battle {rows[0]}"
                f"{f' and as wrong in {rows.size - 1} more' if rows.size > 1 else ''}; {expected}"
            )
    problems.raise_if_any()


_MARGIN = 6.0
"""Standard deviations of the sum by which the Poisson numbers stay below N on average."""


def bootstrap_battles(
    counts: OutcomeCounts, *, n_bootstraps: int, seed: int, initial_rating: float = 1400.0
) -> BootstrapRatings:
    """Rate the entrants that have a rating on resamples of the battles.

    Every battle must stand for itself. Where several share a prompt, these intervals are too
    narrow, and `bootstrap_bradley_terry` is the one to use.

    Args:
        counts: How everyone fared against everyone.
        n_bootstraps: Number of resamples; each draws as many battles as there were.
        seed: Seeds the resampling.
        initial_rating: What the ratings average to, in Elo points.

    Returns:
        As `bootstrap_bradley_terry`, with every battle as a prompt of its own.

    Raises:
        InputError: If `n_bootstraps` is less than 1.
        RatingError: If a likelihood could not be maximised.
    """
    return rate_resamples(
        counts,
        BattleResamples(counts, seed=seed).draw,
        n_bootstraps=n_bootstraps,
        n_prompts=counts.n_battles,
        seed=seed,
        initial_rating=initial_rating,
    )


class BattleResamples:
    """Draws as many battles as there were, with replacement, as tables of wins."""

    def __init__(self, counts: OutcomeCounts, *, seed: int) -> None:
        """Prepare the tables to draw from.

        Args:
            counts: How everyone fared against everyone.
            seed: Seeds the resampling.
        """
        self._generator = np.random.default_rng(seed)
        self._n_entrants = len(counts.entrants)
        self._n_battles = counts.n_battles
        # A battle is two half wins: both the winner's, or one for each side of a tie.
        pairs = np.arange(self._n_entrants**2).reshape(counts.won.shape)
        won, tied = counts.won > 0, np.triu(counts.tied) > 0
        self._half = np.concatenate([pairs[won], pairs[tied]])
        self._other_half = np.concatenate([pairs[won], pairs.T[tied]])
        sizes = np.concatenate([counts.won[won], counts.tied[tied]])
        self._single = _alias_table(sizes.astype(np.float64))
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

    Attributes:
        starts: Where each begins, and the end of the last, shape (n_tables + 1,).
        lowest: The number that the first entry of each stands for, shape (n_tables,).
        shares: How much of each entry it keeps, shape (n_entries,).
        aliases: Which entry of the same table gets the rest, shape (n_entries,).
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
        self,
        uniforms: NDArray[np.float64],
        table_of: NDArray[np.int64],
        cells: NDArray[np.int64],
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
