"""Battles without their prompts, aggregated to how each two entrants fared against each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
