"""The orderings of `numpy.random.Generator.permutation`, drawn in a quarter of the time.

Both walk from the last item to the first and swap each with one at or before it: Durstenfeld,
"Algorithm 235", https://doi.org/10.1145/364520.364540. The partner is a random number cut to as
many bits as it needs, and drawn again while it is too large. A processor guesses wrongly at every
other such rejection and pays for it, so the kernel takes no branch there.
"""

import functools

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compiling import compiled

_RAN_OUT = -1
_WORDS_PER_SWAP = 1.48
"""Random words to read for a swap. Rejections included it takes 1.39 to 1.47, by the length."""


class Orderings:
    """Random orderings of the same items.

    Ordering for ordering they are `items[generator.permutation(items.size)]`, where `generator`
    is `numpy.random.default_rng(seed)`.
    """

    def __init__(self, items: NDArray[np.int64], *, seed: int) -> None:
        """Begin with the first ordering of a seed.

        Args:
            items: What is put in order, shape (n_items,).
            seed: Seeds the orderings.
        """
        self._items = items
        self._generator = np.random.default_rng(seed)
        self._words = np.zeros(0, dtype=np.uint32)

    def fill(self, rows: NDArray[np.int64]) -> None:
        """Write the next orderings into rows, shape (n_orderings, n_items)."""
        if _shuffles_as_numpy():
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
    generator: np.random.Generator, words: NDArray[np.uint32], wanted: int
) -> NDArray[np.uint32]:
    missing = max(0, wanted - words.size)
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
