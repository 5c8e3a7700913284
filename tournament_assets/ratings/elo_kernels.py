"""Elo over many orderings at once, as compiled loops, and the orderings.

An update must wait for the previous one in its ordering, and its power and division dominate the
time. So the kernel advances many orderings (lanes) by one match each before it goes on: the
processor works on one while another waits. A match is one number, see `pack`, so that an ordering
is one array to shuffle.

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

_ENTRANT_BITS, _SHARE_BITS = 16, 31
_ENTRANT, _SHARE = 2**_ENTRANT_BITS - 1, 2**_SHARE_BITS - 1


def pack(
    ahead: NDArray[np.int64], behind: NDArray[np.int64], share_codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Code matches as one number each, shape (n_matches,).

    Args:
        ahead: Who won, or has the larger share of the win; of at most 65,536 entrants.
        behind: The other one.
        share_codes: The place of the first one's share among all different shares.
    """
    return ((ahead << _ENTRANT_BITS | behind) << _SHARE_BITS) | share_codes


@compiled
def rate_exactly(
    orderings: NDArray[np.int64],
    shares: NDArray[np.float64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate with the textbook's arithmetic, operation for operation.

    Args:
        orderings: Packed matches, shape (n_orderings, n_matches).
        shares: Of a win, by their codes; only 1 if all matches were won outright.
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
            ahead = match >> (_ENTRANT_BITS + _SHARE_BITS)
            behind = (match >> _SHARE_BITS) & _ENTRANT
            share = shares[match & _SHARE]
            for index in range(k_factors.size):
                gap = ratings[index, lane, behind] - ratings[index, lane, ahead]
                expected = 1.0 / (1.0 + base ** (gap / 400.0))
                change = k_factors[index] * (share - expected)
                ratings[index, lane, ahead] += change
                ratings[index, lane, behind] -= change
    return ratings


def rate_few(
    orderings: NDArray[np.int64],
    shares: NDArray[np.float64],
    k_factors: NDArray[np.float64],
    n_entrants: int,
    initial_rating: float,
    base: float,
) -> NDArray[np.float64]:
    """Rate as `rate_exactly`, bit for bit, without numba: sooner than that is loaded, for few."""
    lanes = np.arange(len(orderings))
    ratings = np.full((k_factors.size, lanes.size, n_entrants), initial_rating)
    for matches in orderings.T:
        ahead = matches >> (_ENTRANT_BITS + _SHARE_BITS)
        behind = (matches >> _SHARE_BITS) & _ENTRANT
        gaps = (ratings[:, lanes, behind] - ratings[:, lanes, ahead]) / 400.0
        # One by one: numpy's power of an array rounds as the processor likes.
        powers = np.array([_power(base, gap) for gap in gaps.ravel().tolist()])
        expected = 1.0 / (1.0 + powers.reshape(gaps.shape))
        change = k_factors[:, None] * (shares[matches & _SHARE] - expected)
        ratings[:, lanes, ahead] += change
        ratings[:, lanes, behind] -= change
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
