"""Loops over battles that are counted, one battle after the other, in machine code.

A prompt is known by a 64-bit hash of its text. Its weight in a resample is Poisson(1), looked up by
simple tabulation: each byte of the hash picks a random number from a table of its own, and their
exclusive or is the quantile. The weights of any three prompts are then independent: Pătraşcu and
Thorup, "The power of simple tabulation hashing", https://arxiv.org/abs/1011.5200.
"""

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.compilation import compiled

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_THIRD = np.uint64(0x94D049BB133111EB)
_ONE, _BYTE = np.uint64(1), np.uint64(255)
# 65,536 times the chances of at most 0, 1, ... 7 by Poisson(1), rounded: the mean stays exactly 1.
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7 = (
    np.uint16(chance) for chance in (24_109, 48_219, 60_273, 64_292, 65_296, 65_497, 65_531, 65_535)
)


@compiled
def _mixed(word: np.uint64) -> np.uint64:
    # The finaliser of splitmix64: Steele, Lea and Flood, https://doi.org/10.1145/2714064.2660195.
    word = (word ^ (word >> np.uint64(30))) * _SECOND
    word = (word ^ (word >> np.uint64(27))) * _THIRD
    return word ^ (word >> np.uint64(31))


@compiled
def hash_texts(
    offsets: NDArray[np.int64], content: NDArray[np.uint8], hashes: NDArray[np.uint64]
) -> None:
    """Hash texts into `hashes`, shape (n,).

    Args:
        offsets: Where each text begins and the next one does, shape (n + 1,).
        content: The bytes of all.
    """
    for index in range(hashes.size):
        here, end = offsets[index], offsets[index + 1]
        mixed = _mixed(np.uint64(end - here) * _FIRST)
        while here < end:
            word = np.uint64(0)
            for place in range(min(8, end - here)):
                word |= np.uint64(content[here + place]) << np.uint64(8 * place)
            mixed = _mixed((mixed ^ word) + _FIRST)
            here += 8
        hashes[index] = mixed


@compiled
def collect_hashes(
    hashes: NDArray[np.uint64], slots: NDArray[np.uint64], n_collected: int, most: int
) -> int:
    """Add hashes to a set, and return how many it holds; it stops once there are more than `most`.

    Args:
        slots: The set, 0 where it is free; its size is a power of 2 and above `most`.
    """
    mask = np.uint64(slots.size - 1)
    for value in hashes:
        wanted = max(value, _ONE)
        place = wanted & mask
        while slots[place] != 0 and slots[place] != wanted:
            place = (place + _ONE) & mask
        if slots[place] == 0:
            slots[place] = wanted
            n_collected += 1
            if n_collected > most:
                break
    return n_collected


@compiled
def _draw_weights(
    value: np.uint64, tables: NDArray[np.uint16], weights: NDArray[np.uint16]
) -> None:
    a, b = tables[0, value & _BYTE], tables[1, (value >> np.uint64(8)) & _BYTE]
    c, d = tables[2, (value >> np.uint64(16)) & _BYTE], tables[3, (value >> np.uint64(24)) & _BYTE]
    e, f = tables[4, (value >> np.uint64(32)) & _BYTE], tables[5, (value >> np.uint64(40)) & _BYTE]
    g, h = tables[6, (value >> np.uint64(48)) & _BYTE], tables[7, (value >> np.uint64(56)) & _BYTE]
    for place in range(weights.size):
        quantile = (
            a[place] ^ b[place] ^ c[place] ^ d[place] ^ e[place] ^ f[place] ^ g[place] ^ h[place]
        )
        weights[place] = (
            np.uint16(quantile >= _P0)
            + np.uint16(quantile >= _P1)
            + np.uint16(quantile >= _P2)
            + np.uint16(quantile >= _P3)
            + np.uint16(quantile >= _P4)
            + np.uint16(quantile >= _P5)
            + np.uint16(quantile >= _P6)
            + np.uint16(quantile >= _P7)
        )


@compiled
def add_battles(
    cells: NDArray[np.int64],
    tied: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    tables: NDArray[np.uint16],
    sums: NDArray[np.uint16],
) -> None:
    """Add battles to the cells of their two models: two halves of a win, or one to each of two.

    Args:
        cells: The cell of each battle's winner over its loser, shape (n,).
        tied: Of a tie the cell of the two the other way round, otherwise -1, shape (n,).
        hashes: Of the battles' prompts, shape (n,).
        tables: Random numbers, shape (8, 256, n_resamples).
        sums: Halves of wins, of all battles and weighted in every resample, integers of shape
            (n_cells, 1 + n_resamples).
    """
    weights = np.ones(sums.shape[1], dtype=np.uint16)
    for index in range(cells.size):
        # Battles of a prompt often come together.
        if index == 0 or hashes[index] != hashes[index - 1]:
            _draw_weights(hashes[index], tables, weights[1:])
        row = sums[cells[index]]
        if tied[index] < 0:
            for place in range(weights.size):
                row[place] += 2 * weights[place]
        else:
            other = sums[tied[index]]
            for place in range(weights.size):
                row[place] += weights[place]
                other[place] += weights[place]
