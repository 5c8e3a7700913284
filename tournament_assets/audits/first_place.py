"""The smallest set of prompts that the first place rests on.

A result that hangs on a handful of prompts is fragile, however narrow its interval: Broderick,
Giordano and Meager, "An automatic finite-sample robustness metric",
https://arxiv.org/abs/2011.14999, drop the few observations that matter most. Two numbers say how
few: a set that is enough, found by dropping prompts in the order of their influence and rating
again, and a bound below which no set can be enough.

The bound follows from the likelihood equations. Everyone's wins equal what its rating expects. So
if a rival is rated at least as high as the leader, then of each match that both have against the
same opponent the leader expects no more than the rival, and over the prompts that are left

    the leader's points - the rival's  <=  the leader's matches that the rival does not have

Every prompt has its part in both sides; dropping those with the largest difference first shows how
many it takes at least. Where all pairs are judged on all prompts the right side is 0, the order by
ratings is that by points, and this is exact.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import chains_of_wins, log_strengths
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.standings import stands_alone

_MOST_FITS = 2_000
"""Sets of prompts that are tried one by one."""
_ROUNDING = 1e-9
"""Sums of points below this are 0."""


@dataclass(frozen=True, slots=True)
class FirstPlaceSupport:
    """What the first place rests on.

    Attributes:
        prompts: Without them the leader is not rated above everybody else, in the order of the
            tables; empty if it is not in the first place.
        at_least: No set of fewer prompts is enough; 0 if there is no such set.
    """

    prompts: tuple[str, ...] = ()
    at_least: int = 0


NOT_FIRST = FirstPlaceSupport()


def support_first_place(matches: Matches, leader: str) -> FirstPlaceSupport:
    """Find few prompts without which the leader is not rated above everybody else.

    Args:
        matches: Who beat whom on which prompt; a tie is half a win for each.
        leader: Who is in the first place.
    """
    search = _Search(matches.wins_by_prompt(), matches.entrants.index(leader))
    if not search.is_first(()):
        return NOT_FIRST
    dropped, at_least = search.find()
    return FirstPlaceSupport(tuple(matches.prompts[index] for index in sorted(dropped)), at_least)


class _Search:
    """The wins of every prompt, shape (n_prompts, n, n), and who is first by their sum."""

    def __init__(self, by_prompt: NDArray[np.float64], leader: int) -> None:
        self._by_prompt, self._leader = by_prompt, leader
        self._total = by_prompt.sum(axis=0)

    def is_first(self, dropped: Iterable[int]) -> bool:
        """Whether the leader is still rated above everybody else."""
        rest = self._total - self._by_prompt[list(dropped)].sum(axis=0)
        # Differences of sums leave rounding errors where no win remains.
        return stands_alone(np.where(rest > _ROUNDING, rest, 0.0), self._leader)

    def find(self) -> tuple[tuple[int, ...], int]:
        """Return prompts that are enough, and how many it takes at least."""
        n_prompts, n = self._by_prompt.shape[:2]
        bounds = {rival: self._bound(rival) for rival in range(n) if rival != self._leader}
        best: tuple[int, ...] = tuple(range(n_prompts))
        for rival, bound in sorted(bounds.items(), key=lambda each: each[1]):
            if bound >= len(best):
                break
            for order in self._orders(rival):
                best = min(best, self._shortest(order, at_least=bound), key=len)
        at_least = max(1, min(bounds.values()))
        while at_least < len(best) and comb(n_prompts, at_least) <= _MOST_FITS:
            sets = combinations(range(n_prompts), at_least)
            if (smaller := next((each for each in sets if not self.is_first(each)), None)) is None:
                at_least += 1
            else:
                best = smaller
        return (best if at_least == len(best) else self._without_spare(best)), at_least

    def _leads(self, rival: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how many more points and matches the leader has than the rival, by prompt."""
        met = self._by_prompt + np.swapaxes(self._by_prompt, 1, 2)
        points = self._by_prompt.sum(axis=2)
        more = met[:, self._leader] - met[:, rival]
        more[:, [self._leader, rival]] = 0.0
        return points[:, self._leader] - points[:, rival], np.maximum(more, 0.0).sum(axis=1)

    def _bound(self, rival: int) -> int:
        """Return how many prompts it takes at least before the rival is rated as high."""
        lead, more = self._leads(rival)
        falling = np.sort(lead - more)[::-1]
        rest = falling.sum() - np.concatenate([[0.0], np.cumsum(falling)])
        return int(np.argmax(rest <= _ROUNDING))

    def _orders(self, rival: int) -> Iterable[NDArray[np.int64]]:
        """Yield orders in which to drop prompts: by points, and by influence on the gap."""
        lead, _ = self._leads(rival)
        yield np.argsort(-lead, kind="stable")
        reaches = chains_of_wins(self._total)
        group = np.flatnonzero(reaches[self._leader] & reaches[:, self._leader])
        if rival in group:
            influence = self._influence(group, rival)
            yield np.argsort(-influence, kind="stable")

    def _influence(self, group: NDArray[np.int64], rival: int) -> NDArray[np.float64]:
        """Return how far the leader is above the rival by each prompt, to first order.

        A prompt moves the ratings by the inverse curvature times its wins less the expected ones.
        """
        wins = self._by_prompt[:, group][:, :, group]
        strengths = log_strengths(wins.sum(axis=0))
        share = (1 + np.tanh((strengths[:, None] - strengths) / 2)) / 2
        met = wins + np.swapaxes(wins, 1, 2)
        surplus = wins.sum(axis=2) - (met * share).sum(axis=2)  # (n_prompts, n)
        curvature = met.sum(axis=0) * share * (1 - share)
        gap = (group == self._leader).astype(np.float64) - (group == rival)
        step = np.linalg.pinv(np.diag(curvature.sum(axis=1)) - curvature) @ gap
        return np.asarray(surplus @ step)

    def _shortest(self, order: NDArray[np.int64], *, at_least: int) -> tuple[int, ...]:
        """Return the beginning of an order that is enough, by halving."""
        few, enough = max(0, at_least - 1), order.size
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (middle, enough) if self.is_first(order[:middle]) else (few, middle)
        return tuple(order[:enough].tolist())

    def _without_spare(self, prompts: tuple[int, ...]) -> tuple[int, ...]:
        """Drop the prompts that a sufficient set can spare."""
        needed = [*prompts]
        for prompt in prompts[::-1]:
            fewer = [other for other in needed if other != prompt]
            if not self.is_first(fewer):
                needed = fewer
        return tuple(needed)
