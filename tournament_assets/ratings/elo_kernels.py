"""Elo over many orderings at once, as compiled loops, and the orderings.

An update must wait for the previous one in its ordering, and its power and division dominate the
time. So the kernel advances many orderings (lanes) by one match each before it goes on: the
processor works on one while another waits. A match is one number, `pack(winner, loser)`, so that an
ordering is one array to shuffle.

Orderings are those of `numpy.random.Generator.permutation`, drawn in a quarter of the time. Both
walk from the last item to the first and swap each with one at or before it: Durstenfeld, "Algorithm
235", https://doi.org/10.1145/364520.364540. The partner is a random number cut to as many bits as
it needs, and drawn again while it is too large. Branch prediction fails at about every other
rejection, so the kernel does not branch there.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compilation import compiled

LANES = 16
"""Orderings that advance together: enough to keep the processor busy, few enough for the cache."""

_LOSER = 0xFFFFFFFF


def pack(winners: NDArray[np.int64], losers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Code matches as one number each, shape (n_matches,)."""
    return (winners.astype(np.int64) << 32) | losers


@compiled
def rate_exactly(
    orderings: NDArray[np.int64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate with the textbook's arithmetic, operation for operation.

    Args:
        orderings: Packed matches, shape (n_orderings, n_matches).
        k_factors: In Elo points, shape (n_k_factors,).
        n_entrants: How many columns the ratings have.
        initial_rating: In Elo points.
        base: Always 10. As an argument the compiler cannot turn base ** x into exp10(x), which
            rounds differently from the pow() of Python.

    Returns:
        Shape (n_k_factors, n_orderings, n_entrants).
    """
    n_lanes, n_matches = orderings.shape
    ratings = np.full((k_factors.size, n_lanes, n_entrants), initial_rating)
    for step in range(n_matches):
        for lane in range(n_lanes):
            match = orderings[lane, step]
            winner = match >> 32
            loser = match & _LOSER
            for index in range(k_factors.size):
                gap = ratings[index, lane, loser] - ratings[index, lane, winner]
                expected = 1.0 / (1.0 + base ** (gap / 400.0))
                change = k_factors[index] * (1.0 - expected)
                ratings[index, lane, winner] += change
                ratings[index, lane, loser] -= change
    return ratings


def rate_few(
    orderings: NDArray[np.int64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate as `rate_exactly`, bit for bit, without numba: sooner than that is loaded, for few."""
    lanes = np.arange(len(orderings))
    ratings = np.full((k_factors.size, lanes.size, n_entrants), initial_rating)
    for matches in orderings.T:
        winner, loser = matches >> 32, matches & _LOSER
        gaps = (ratings[:, lanes, loser] - ratings[:, lanes, winner]) / 400.0
        # One by one: numpy's power of an array rounds as the processor likes.
        powers = np.array([_power(base, gap) for gap in gaps.ravel().tolist()])
        change = k_factors[:, None] * (1.0 - 1.0 / (1.0 + powers.reshape(gaps.shape)))
        ratings[:, lanes, winner] += change
        ratings[:, lanes, loser] -= change
    return ratings


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


_RAN_OUT = -1
_WORDS_PER_SWAP = 1.48
"""Random words to read for a swap. Rejections included it takes 1.39 to 1.47, by the length."""


class Orderings:
    """Random orderings of the same items, in any number.

    They are `items[generator.permutation(items.size)]` of `numpy.random.default_rng(seed)`.
    """

    def __init__(self, items: NDArray[np.int64], *, seed: int, are_few: bool = False) -> None:
        """Begin with the first ordering of a seed; items have shape (n_items,).

        Args:
            are_few: Whether numpy has drawn them before numba is loaded.
        """
        self._items = items
        self._are_few = are_few
        self._generator = np.random.default_rng(seed)
        self._words = np.zeros(0, dtype=np.uint32)

    def fill(self, rows: NDArray[np.int64]) -> None:
        """Write the next orderings into rows, shape (n_orderings, n_items)."""
        if not self._are_few and _shuffles_as_numpy():
            self._words = _fill_with_kernel(rows, self._items, self._generator, self._words)
        else:
            _fill_with_numpy(rows, self._items, self._generator)


@functools.cache
def _shuffles_as_numpy() -> bool:
    # numpy promises the same orderings for the same seed only within one of its versions, and a
    # rating must be that of numpy's orderings, so the kernel is tried before it is trusted.
    items = np.arange(300)
    ours, theirs = np.empty((2, 3, items.size), dtype=np.int64)
    _fill_with_kernel(ours, items, np.random.default_rng(0), np.zeros(0, dtype=np.uint32))
    _fill_with_numpy(theirs, items, np.random.default_rng(0))
    return np.array_equal(ours, theirs)


def _fill_with_numpy(
    rows: NDArray[np.int64], items: NDArray[np.int64], generator: np.random.Generator
) -> None:
    for row in rows:
        row[:] = items[generator.permutation(items.size)]


def _fill_with_kernel(
    rows: NDArray[np.int64],
    items: NDArray[np.int64],
    generator: np.random.Generator,
    words: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """Fill the rows, beginning with words left before; return those left now."""
    # Few enough at once that their random words stay in the processor's cache.
    at_once = max(1, 50_000 // max(1, items.size))
    for start in range(0, rows.shape[0], at_once):
        chunk = rows[start : start + at_once]
        words = _with_words(generator, words, int(_WORDS_PER_SWAP * chunk.size) + 64)
        while (used := _shuffle(items, words, chunk)) == _RAN_OUT:
            words = _with_words(generator, words, 2 * words.size)
        words = words[used:]
    return words


def _with_words(
    generator: np.random.Generator, words: NDArray[np.uint32], n_words: int
) -> NDArray[np.uint32]:
    missing = max(0, n_words - words.size)
    # numpy gives out the lower half of a 64-bit word first.
    raw = generator.bit_generator.random_raw((missing + 1) // 2).astype("<u8", copy=False)
    return np.concatenate([words, raw.view("<u4").astype(np.uint32, copy=False)])


@compiled
def _shuffle(items: NDArray[np.int64], words: NDArray[np.uint32], rows: NDArray[np.int64]) -> int:
    n_items = items.size
    partners = np.empty(n_items, dtype=np.uint32)
    used = 0
    for ordering in range(rows.shape[0]):
        row = rows[ordering]
        row[:] = items
        mask = 1
        while mask < n_items - 1:
            mask = 2 * mask + 1
        last = n_items - 1
        while last > 0:
            # Down to half the mask, a partner needs all of its bits.
            while last > mask // 2:
                if used == words.size:
                    return _RAN_OUT
                partner = int(words[used]) & mask
                used += 1
                partners[last] = partner
                last -= int(partner <= last)
            mask //= 2
        for index in range(n_items - 1, 0, -1):
            partner = partners[index]
            item = row[index]
            row[index] = row[partner]
            row[partner] = item
    return used
