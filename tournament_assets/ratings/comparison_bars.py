"""Bars that overlap where neither of two entrants is better, and only there.

Intervals of single ratings mislead the eye: two may overlap although one entrant is clearly better,
since both share the prompts' luck. A comparison bar is made for the eye instead. Its half-widths
come from splitting the joint interval of every difference between its two entrants by least squares
(the idea of quasi-variances: Firth and de Menezes, https://doi.org/10.1093/biomet/91.1.65), and are
then changed as little as possible so that bars are apart exactly where one entrant is better. Not
every pattern of claims can be drawn so; what cannot is said beside the picture.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_CLEARANCE = 0.015
"""How far bars are apart, or overlap, as a share of the distance of the best and the worst."""
_NO_DISTANCE = 1e-7
"""Below this, the conditions contradict one another."""


def comparison_bars(
    ratings: Mapping[str, float],
    better: Mapping[tuple[str, str], bool],
    reach: Mapping[tuple[str, str], float],
    own: Mapping[str, float],
) -> dict[str, tuple[float, float]]:
    """Return the lower and upper end of each entrant's bar, in Elo points.

    Args:
        ratings: In Elo points.
        better: Whether the first of two is better than the second, for every two, the one with the
            higher rating first.
        reach: Half the width of their difference's joint interval; without the pairs that have
            none.
        own: Half the width of each entrant's own interval, for entrants without any such pair.
    """
    names = [*ratings]
    widths = _split(names, reach, own)
    place = {name: index for index, name in enumerate(names)}
    first = np.array([place[pair[0]] for pair in better], dtype=np.int64)
    second = np.array([place[pair[1]] for pair in better], dtype=np.int64)
    apart = np.array([*better.values()], dtype=np.bool_)
    points = np.array([*ratings.values()])
    down, up = _adjusted(points, widths, first, second, apart)
    return {
        name: (float(points[index] - down[index]), float(points[index] + up[index]))
        for index, name in enumerate(names)
    }


def _split(
    names: Sequence[str], reach: Mapping[tuple[str, str], float], half_widths: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return half-widths whose sums come nearest to the pairs' reaches, shape (n_entrants,)."""
    half = np.array([half_widths.get(name, 0.0) / np.sqrt(2) for name in names])
    if not reach:
        return half
    place = {name: index for index, name in enumerate(names)}
    sums = np.zeros((len(reach), len(names)))
    for row, pair in enumerate(reach):
        sums[row, [place[name] for name in pair]] = 1.0
    targets = np.array([*reach.values()])
    if len(names) == 2:
        # One sum does not say how to split it.
        return np.full(2, targets[0] / 2)
    solution, _ = _non_negative(sums, targets)
    return np.where(sums.any(axis=0), solution, half)


def _adjusted(
    points: NDArray[np.float64],
    widths: NDArray[np.float64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    apart: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how far bars reach down and up, shape (n_entrants,) each.

    Of all bars that are drawn correctly, those whose reaches differ least from the half-widths, by
    the sum of squares. Where no bars draw every pair correctly, the pair that stands most in the
    way is given up, until some do.
    """
    n, n_pairs = points.size, first.size
    scale = max(1.0, float(np.ptp(points)))
    targets = np.concatenate([widths, widths]) / scale
    # Apart: down of the first + up of the second <= gap - clearance. Together: >= gap + clearance.
    sign = np.where(apart, -1.0, 1.0)
    sums = np.zeros((n_pairs, 2 * n))
    sums[np.arange(n_pairs), first] = sums[np.arange(n_pairs), n + second] = sign
    gap = (points[first] - points[second]) / scale
    least = sign * gap + max(1.0 / scale, _CLEARANCE) - sums @ targets
    active = np.arange(n_pairs)
    while True:
        change, in_the_way = _least_change(
            np.vstack([sums[active], np.eye(2 * n)]), np.concatenate([least[active], -targets])
        )
        if change is not None:
            down_and_up = (targets + change) * scale
            return down_and_up[:n], down_and_up[n:]
        active = np.delete(active, np.argmax(in_the_way[: active.size]))


def _least_change(
    conditions: NDArray[np.float64], least: NDArray[np.float64]
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Return the shortest vector z with conditions @ z >= least, and how much each one forces it.

    None stands for the vector if no vector meets all of them (least distance programming: Lawson
    and Hanson, *Solving Least Squares Problems*, 1974, chapter 23).
    """
    weights, distance = _non_negative(
        np.vstack([conditions.T, least]), np.eye(conditions.shape[1] + 1)[-1]
    )
    if distance < _NO_DISTANCE:
        return None, weights
    rest = np.vstack([conditions.T, least]) @ weights - np.eye(conditions.shape[1] + 1)[-1]
    return -rest[:-1] / rest[-1], weights


def _non_negative(
    columns: NDArray[np.float64], targets: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return weights of columns, none below 0, that come nearest to a vector, and how near."""
    from scipy.optimize import nnls

    weights, distance = nnls(columns, targets)
    return weights, float(distance)
