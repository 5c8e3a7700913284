"""Recomputes every rating, interval and claim with code that shares nothing with the program's.

The methods are those of `docs/methodology.md`; the code is slower and simpler. Where the program
starts from a known fit, this solves each likelihood from equal strengths; where the program
shuffles in a compiled loop, this calls NumPy's permutation.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, compress

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize, nnls, root
from scipy.special import ndtr, stdtrit

from tournament_assets.ratings.standings import Claim
from tournament_assets.tournament.verdicts import Judgment, Outcome

_POINTS = 400 / math.log(10)
_NO_LEAD = 1e-6
"""Elo points: a smaller difference of two strengths is a rounding."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two entrants on one prompt, averaged over its samples."""

    prompt: str
    a: str
    b: str
    share: float
    weight: float


@dataclass(frozen=True, slots=True)
class Gap:
    """The first entrant's rating minus the second's, with its joint interval."""

    value: float | None
    low: float | None
    high: float | None
    claim: Claim


def meetings_of(pairs: Iterable[Judgment]) -> list[Meeting]:
    """Return one meeting per prompt and two entrants, in the order of their first pair."""
    samples: dict[tuple[str, frozenset[str]], list[tuple[Judgment, float]]] = {}
    for pair in pairs:
        if pair.share is not None:
            key = pair.prompt_id, frozenset((pair.entrant_a, pair.entrant_b))
            samples.setdefault(key, []).append((pair, pair.share))
    meetings = []
    for (prompt, _), settled in samples.items():
        a, b = settled[0][0].entrant_a, settled[0][0].entrant_b
        total = sum(pair.weight for pair, _ in settled)
        gained = sum(
            pair.weight * (share if pair.entrant_a == a else 1 - share) for pair, share in settled
        )
        share = gained / total
        # Samples that balance leave a rounding, which is no win.
        share = 0.5 if abs(share - 0.5) < 1e-12 else share
        meetings.append(Meeting(prompt, a, b, share, total / len(settled)))
    return meetings


class Recomputed:
    """The ratings, intervals and claims from pairs of one dimension, each computed on first use."""

    def __init__(
        self,
        pairs: Sequence[Judgment],
        *,
        entrants: Sequence[str],
        n_bootstraps: int,
        bootstrap_seed: int,
        confidence: float,
        within: float,
        initial: float,
    ) -> None:
        """Take all pairs; unjudged ones are left out of the ratings."""
        self.pairs, self.entrants = tuple(pairs), tuple(entrants)
        self._n, self._seed, self._confidence = n_bootstraps, bootstrap_seed, confidence
        self._within, self.initial = within, initial
        self.meetings = meetings_of(pairs)
        self._place = {name: index for index, name in enumerate(self.entrants)}
        self.prompts = sorted({each.prompt for each in self.meetings})

    def of(self, pairs: Sequence[Judgment]) -> "Recomputed":
        """Return the same of other pairs."""
        return Recomputed(
            pairs,
            entrants=self.entrants,
            n_bootstraps=self._n,
            bootstrap_seed=self._seed,
            confidence=self._confidence,
            within=self._within,
            initial=self.initial,
        )

    @cached_property
    def _by_prompt(self) -> NDArray[np.float64]:
        """Shares of wins of row over column on each prompt, shape (n_prompts, n, n)."""
        n, index = len(self.entrants), {name: row for row, name in enumerate(self.prompts)}
        shares = np.zeros((len(self.prompts), n, n))
        for each in self.meetings:
            a, b, row = self._place[each.a], self._place[each.b], index[each.prompt]
            shares[row, a, b] += each.weight * each.share
            shares[row, b, a] += each.weight * (1 - each.share)
        return shares

    @cached_property
    def wins(self) -> NDArray[np.float64]:
        """Shares of wins of row over column, shape (n, n)."""
        total: NDArray[np.float64] = self._by_prompt.sum(axis=0)
        return total

    def n_settled(self, name: str) -> int:
        """Return how many settled pairs an entrant took part in."""
        return sum(
            name in (pair.entrant_a, pair.entrant_b)
            for pair in self.pairs
            if pair.share is not None
        )

    @cached_property
    def win_shares(self) -> dict[str, float | None]:
        """What each entrant won of its settled pairs, ties as halves; every sample is a pair."""
        won, met = dict.fromkeys(self.entrants, 0.0), dict.fromkeys(self.entrants, 0.0)
        for pair in self.pairs:
            if pair.share is not None:
                for name, share in ((pair.entrant_a, pair.share), (pair.entrant_b, 1 - pair.share)):
                    won[name] += pair.weight * share
                    met[name] += pair.weight
        return {name: won[name] / n if n else None for name, n in met.items()}

    @cached_property
    def _resampled(self) -> NDArray[np.float64]:
        """The wins of every resample of whole prompts, shape (n_bootstraps, n, n)."""
        n, generator = len(self.prompts), np.random.default_rng(self._seed)
        flat = self._by_prompt.reshape(n, self.wins.size)
        counts = np.array(
            [
                np.bincount(generator.integers(n, size=n), minlength=n) if n else np.zeros(0)
                for _ in range(self._n)
            ]
        )
        tables: NDArray[np.float64] = (counts @ flat).reshape(self._n, *self.wins.shape)
        return tables

    @cached_property
    def ratings(self) -> dict[str, float | None]:
        """Everyone's rating in Elo points; None for entrants outside the largest group."""
        rated, strengths = _rate(self.wins)
        values = iter(strengths)
        return {
            name: self.initial + next(values) if rated[index] else None
            for index, name in enumerate(self.entrants)
        }

    @cached_property
    def intervals(self) -> dict[str, tuple[float | None, float | None]]:
        """The sampling interval of every rating, from resampling whole prompts."""
        samples = self.initial + _rate_resamples(self.wins, self._resampled)
        n = len(self.prompts)
        intervals = {}
        for column, name in enumerate(self.entrants):
            low, high = _expanded(samples[:, column], n, self._confidence)
            intervals[name] = (_finite(low), _finite(high))
        return intervals

    @cached_property
    def _reaches(self) -> NDArray[np.bool_]:
        return _chains(self.wins)

    @cached_property
    def placed(self) -> list[str]:
        """Entrants that meetings connect to rated ones, in the order of the tables."""
        met = _chains(self.wins + self.wins.T)
        rated = [
            index for index, name in enumerate(self.entrants) if self.ratings[name] is not None
        ]
        if rated:
            return [name for i, name in enumerate(self.entrants) if met[rated[0], i]]
        sizes = met.sum(axis=1)
        largest = sizes == sizes.max()
        if sizes.max() < 2 or largest.sum() != sizes.max():
            return []
        return [name for index, name in enumerate(self.entrants) if largest[index]]

    @cached_property
    def above(self) -> set[tuple[str, str]]:
        """Pairs of entrants whose first ranks above the second by the ratings alone."""
        both = self._reaches & self._reaches.T
        points: dict[str, float] = {}
        for index, name in enumerate(self.entrants):
            rating = self.ratings[name]
            if rating is not None:
                points[name] = round(rating, 1)
            elif both[index].sum() > 1:
                members = np.flatnonzero(both[index])
                strengths = _solve(self.wins[np.ix_(members, members)][None])[0]
                points[name] = round(float(strengths[members.tolist().index(index)]), 1)
        pairs = set()
        for one in self.placed:
            for other in self.placed:
                i, j = self._place[one], self._place[other]
                only = self._reaches[i, j] and not self._reaches[j, i]
                if i != j and (only or (both[i, j] and points[one] > points[other])):
                    pairs.add((one, other))
        return pairs

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of every placed entrant; ties share one."""
        return {name: 1 + sum(other == name for _, other in self.above) for name in self.placed}

    @cached_property
    def gaps(self) -> dict[tuple[str, str], Gap]:
        """The claim about every two placed entrants, in the order of the tables."""
        n = len(self.entrants)
        inside = np.array([name in self.placed for name in self.entrants])
        wins = np.where(inside[:, None] & inside, self.wins, 0.0)
        half = ((wins + wins.T) > 0) / 2
        samples = _rate_resamples(wins + half, self._resampled + half)
        compared = np.isnan(samples).mean(axis=0) <= 0.5
        low, high, better = _joint(samples, compared, len(self.prompts), self._confidence)
        low = np.where(better, np.maximum(low, 0.0), low)
        high = np.where(better.T, np.minimum(high, 0.0), high)
        fitted = np.full(n, np.nan)
        members = np.flatnonzero(compared)
        fitted[compared] = _solve((wins + half)[np.ix_(members, members)][None])[0]
        placed = [(self._place[a], self._place[b]) for a, b in combinations(self.placed, 2)]
        gaps = {}
        for i, j in placed:
            a, b = self.entrants[i], self.entrants[j]
            ra, rb = self.ratings[a], self.ratings[b]
            value = None if ra is None or rb is None else float(ra - rb)
            ends = [float(low[i, j]), float(high[i, j])]
            if value is not None:
                between = float(fitted[i] - fitted[j])
                scale = 1.0
                if abs(between) > 1e-6 and between * value > 0:
                    scale = max(1.0, value / between)
                ends = [min(ends[0] * scale, value), max(ends[1] * scale, value)]
            else:
                ends[0] = -math.inf if (b, a) in self.above else ends[0]
                ends[1] = math.inf if (a, b) in self.above else ends[1]
            claim = Claim.UNDECIDED
            if better[i, j] and (a, b) in self.above:
                claim = Claim.FIRST_BETTER
            elif better[j, i] and (b, a) in self.above:
                claim = Claim.SECOND_BETTER
            if claim is Claim.UNDECIDED:
                ends = [min(ends[0], 0.0), max(ends[1], 0.0)]
                if max(abs(ends[0]), abs(ends[1])) <= self._within:
                    claim = Claim.EQUIVALENT
            gaps[a, b] = Gap(value, _finite(ends[0]), _finite(ends[1]), claim)
        return gaps

    def gap(self, a: str, b: str) -> Gap | None:
        """Return the claim about two entrants, in either order; None if there is none."""
        if (a, b) in self.gaps:
            return self.gaps[a, b]
        turned_gap = self.gaps.get((b, a))
        if turned_gap is None:
            return None
        value, low, high = (
            None if each is None else 0.0 - each
            for each in (turned_gap.value, turned_gap.high, turned_gap.low)
        )
        turned = {
            Claim.FIRST_BETTER: Claim.SECOND_BETTER,
            Claim.SECOND_BETTER: Claim.FIRST_BETTER,
        }
        return Gap(
            value,
            low,
            high,
            turned.get(turned_gap.claim, turned_gap.claim),
        )

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """The range of places that the claims leave open to each placed entrant."""
        claims = [
            pair if gap.claim is Claim.FIRST_BETTER else pair[::-1]
            for pair, gap in self.gaps.items()
            if gap.claim in (Claim.FIRST_BETTER, Claim.SECOND_BETTER)
        ]
        return {
            name: (
                1 + sum(lower == name for _, lower in claims),
                len(self.placed) - sum(upper == name for upper, _ in claims),
            )
            for name in self.placed
        }

    def shown_above(self, name: str) -> list[str]:
        """Return the entrants that one is better than."""
        gaps = {other: self.gap(name, other) for other in self.placed if other != name}
        return [
            other
            for other, gap in gaps.items()
            if gap is not None and gap.claim is Claim.FIRST_BETTER
        ]

    @cached_property
    def bars(self) -> dict[str, tuple[float | None, float | None]] | None:
        """Comparison bars of the entrants that have an interval; None if none draw every claim.

        The program solves the dual; this asks SciPy for the nearest point.
        """
        names = sorted(
            (
                name
                for name in self.placed
                if None not in (self.ratings[name], *self.intervals[name])
            ),
            key=lambda name: self.ranks[name],
        )
        if not names:
            return {}
        points = np.array([self.ratings[name] or 0.0 for name in names])
        ends = np.array([self.intervals[name] for name in names], dtype=np.float64).reshape(-1, 2)
        half = (ends[:, 1] - ends[:, 0]) / 2 / math.sqrt(2)
        pairs = list(combinations(range(len(names)), 2))
        claims = [self.gap(names[i], names[j]) for i, j in pairs]
        sums = np.zeros((len(pairs), len(names)))
        for row, pair in enumerate(pairs):
            sums[row, list(pair)] = 1.0
        reach = np.array(
            [
                (gap.high - gap.low) / 2
                if gap is not None and gap.low is not None and gap.high is not None
                else math.nan
                for gap in claims
            ]
        )
        has_reach = np.isfinite(reach)
        is_split = sums[has_reach].any(axis=0)
        if len(names) == 2 and has_reach.all():
            half = np.full(2, reach[0] / 2)
        elif is_split.any():
            half = np.where(is_split, nnls(sums[has_reach], reach[has_reach])[0], half)
        n, better = (
            len(names),
            [gap is not None and gap.claim is Claim.FIRST_BETTER for gap in claims],
        )
        clearance = max(1.0, 0.015 * max(1.0, float(np.ptp(points))))
        signs = np.where(better, -1.0, 1.0)
        rows = np.zeros((len(pairs), 2 * n))
        for row, (i, j) in enumerate(pairs):
            rows[row, i] = rows[row, n + j] = signs[row]
        gaps = np.array([points[i] - points[j] for i, j in pairs])
        least = signs * gaps + clearance
        widths = np.concatenate([half, half])
        if not linprog(np.zeros(2 * n), -rows, -least).success:
            return None
        nearest = minimize(
            lambda at: ((at - widths) ** 2).sum() / 2,
            widths,
            jac=lambda at: at - widths,
            method="SLSQP",
            bounds=[(0, None)] * (2 * n),
            constraints={
                "type": "ineq",
                "fun": lambda at: rows @ at - least,
                "jac": lambda _: rows,
            },
            options={"ftol": 1e-12},  # of the solver; what it finds is compared to a billionth
        )
        down, up = nearest.x[:n], nearest.x[n:]
        return {
            name: (float(points[i] - down[i]), float(points[i] + up[i]))
            for i, name in enumerate(names)
        }

    @cached_property
    def sandwich(self) -> dict[str, tuple[float, float]]:
        """Intervals of the ratings from how much whole prompts differ in what they say."""
        names = [name for name in self.entrants if self.ratings[name] is not None]
        members = [self._place[name] for name in names]
        tables = self._by_prompt[:, members][:, :, members]
        tables = tables[tables.sum(axis=(1, 2)) > 0]
        n = len(tables)
        if n < 2:
            return {}
        points = np.array([self.ratings[name] for name in names], dtype=np.float64)
        chance = 1 / (1 + 10 ** ((points - points[:, None]) / 400))
        met = tables + tables.transpose(0, 2, 1)
        weight = met.sum(axis=0) * chance * (1 - chance)
        bread = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
        scores = (tables - met * chance).sum(axis=2) @ bread
        errors = np.sqrt((scores**2).sum(axis=0) * n / (n - 1)) * _POINTS
        if errors.max() < 1e-6:  # Elo points: prompts that all say the same show no spread
            return {}
        reach = errors * float(stdtrit(n - 1, 0.5 + self._confidence / 2))
        return {
            name: (float(point - far), float(point + far))
            for name, point, far in zip(names, points, reach, strict=True)
        }

    @cached_property
    def davidson(self) -> tuple[dict[str, float], float | None] | None:
        """Ratings with a rate of ties of their own, and the tie parameter.

        None where a share says more than win, loss or tie. No ratings where no finite strengths are
        the likeliest, and then the parameter is infinite.
        """
        names = [name for name in self.entrants if self.ratings[name] is not None]
        index = {name: place for place, name in enumerate(names)}
        if any(each.share not in (0.0, 0.5, 1.0) for each in self.meetings):
            return None
        wins = np.zeros((len(names), len(names)))
        ties = wins.copy()
        for each in self.meetings:
            if each.a in index and each.b in index:
                i, j = index[each.a], index[each.b]
                if each.share == 0.5:
                    ties[i, j] += each.weight
                    ties[j, i] += each.weight
                elif each.share > 0.5:
                    wins[i, j] += each.weight
                else:
                    wins[j, i] += each.weight
        if not names:
            return {}, None
        if ties.any() and _are_unbounded(wins, ties):
            return {}, math.inf
        met = wins + wins.T + ties

        def surprise(at: NDArray[np.float64]) -> float:
            half = (at[:-1, None] - at[:-1]) / 2
            scale = 2 * np.cosh(half) + (math.exp(at[-1]) if ties.any() else 0.0)
            said = (wins * half).sum() + ties.sum() / 2 * at[-1] - (met * np.log(scale)).sum() / 2
            return float(-said)

        def slopes(at: NDArray[np.float64]) -> NDArray[np.float64]:
            half = (at[:-1, None] - at[:-1]) / 2
            tie = math.exp(at[-1]) if ties.any() else 0.0
            scale = 2 * np.cosh(half) + tie
            slope = ((wins - wins.T) / 2 - met * np.sinh(half) / scale).sum(axis=1)
            slope = np.append(slope, ties.sum() / 2 - (met * tie / scale).sum() / 2)
            return np.asarray(slope, dtype=np.float64)

        def fixed(at: NDArray[np.float64]) -> NDArray[np.float64]:
            # The sum of the strengths is free, as is the parameter where nothing tied.
            free = 0.0 if ties.any() else at[-1]
            pinned: NDArray[np.float64] = np.append(np.full(len(names), at[:-1].sum()), free)
            return slopes(at) - pinned

        near = minimize(surprise, np.zeros(len(names) + 1), jac=lambda at: -slopes(at)).x
        solution = root(fixed, near, options={"xtol": 1e-13}).x  # of the solver
        points = self.initial + _POINTS * (solution[:-1] - solution[:-1].mean())
        tie_parameter = math.exp(solution[-1]) if ties.any() else 0.0
        return dict(zip(names, points.tolist(), strict=True)), tie_parameter

    def elo(self, k_factors: Sequence[float], n_orderings: int, seed: int) -> NDArray[np.float64]:
        """Return Elo ratings of every ordering, shape (n_k_factors, n_orderings, n_entrants)."""
        won = [
            (each.a, each.b, each.share) if each.share > 0.5 else (each.b, each.a, 1 - each.share)
            for each in self._decisive
        ]
        ahead = np.array([self._place[each[0]] for each in won], dtype=np.int64)
        behind = np.array([self._place[each[1]] for each in won], dtype=np.int64)
        share = np.array([each[2] for each in won])
        generator = np.random.default_rng(seed)
        orders = np.array([generator.permutation(len(won)) for _ in range(n_orderings)])
        k = np.array(k_factors)[:, None]
        ratings = np.full((k.size, n_orderings, len(self.entrants)), float(self.initial))
        rows = np.arange(n_orderings)
        for step in range(len(won)):
            match = orders[:, step]
            up, down = ahead[match], behind[match]
            gap = ratings[:, rows, down] - ratings[:, rows, up]
            change = k * (share[match] - 1 / (1 + 10 ** (gap / 400)))
            ratings[:, rows, up] += change
            ratings[:, rows, down] -= change
        return ratings

    @property
    def n_decisive(self) -> dict[str, int]:
        """Number of decisive meetings by entrant; the total has an empty name."""
        counts = dict.fromkeys((*self.entrants, ""), 0)
        for each in self._decisive:
            for name in (each.a, each.b, ""):
                counts[name] += 1
        return counts

    @cached_property
    def elo_rated(self) -> frozenset[str]:
        """The entrants with an Elo rating: they are linked by wins and losses, both ways."""
        won = np.zeros((len(self.entrants),) * 2)
        for each in self._decisive:
            won[self._place[each.a], self._place[each.b]] += each.share
            won[self._place[each.b], self._place[each.a]] += 1 - each.share
        return frozenset(compress(self.entrants, _rate(won)[0]))

    @cached_property
    def _decisive(self) -> list[Meeting]:
        """Meetings with a winner, each as often as it weighs: Elo knows no weights.

        The weights of two entrants are added up and rounded, so that no part of one is lost.
        """
        played: list[Meeting] = []
        weighed: dict[tuple[str, str], float] = {}
        for each in self.meetings:
            before = weighed.get((each.a, each.b), 0.0)
            weighed[each.a, each.b] = before + each.weight
            times = round(before + each.weight) - round(before)
            played += [each] * times if each.share != 0.5 else []
        return played


def _are_unbounded(wins: NDArray[np.float64], ties: NDArray[np.float64]) -> bool:
    """Whether strengths and tie parameter can grow together without making anything less likely.

    They can where every winner gains twice on its loser what the parameter gains, and nobody gains
    more than that on one it tied with.
    """
    rows, ends = [], []
    for i, j in zip(*np.nonzero(wins + ties), strict=True):
        row = np.zeros(len(wins))
        row[i], row[j] = 1.0, -1.0
        if wins[i, j]:
            rows.append(-row)
            ends.append(-2.0)
        if ties[i, j]:
            rows.append(row)
            ends.append(2.0)
    return bool(linprog(np.zeros(len(wins)), np.array(rows), ends, bounds=(None, None)).success)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _chains(links: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether links lead from row to column, directly or through others."""
    reaches = (links > 0) | np.eye(len(links), dtype=np.bool_)
    for middle in range(len(links)):
        reaches |= reaches[:, middle, None] & reaches[middle]
    return reaches


def _solve(tables: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maximise the Bradley-Terry likelihood of each table, shape (m, n, n).

    Returns Elo points that average to 0, shape (m, n). A step that lowers the likelihood is halved.
    """
    m, n, _ = tables.shape
    theta = np.zeros((m, n))
    if not n:
        return theta
    met, won = tables + tables.transpose(0, 2, 1), tables.sum(axis=2)

    def likelihood(at: NDArray[np.float64]) -> NDArray[np.float64]:
        gap = at[:, :, None] - at[:, None, :]
        values: NDArray[np.float64] = -(tables * np.logaddexp(0, -gap)).sum(axis=(1, 2))
        return values

    now = likelihood(theta)
    for _ in range(100):
        chance = 1 / (1 + np.exp(theta[:, None, :] - theta[:, :, None]))
        surplus = won - (met * chance).sum(axis=2)
        weight = met * chance * (1 - chance)
        matrix = np.eye(n) * weight.sum(axis=2)[:, :, None] - weight + 1 / n
        step = np.linalg.solve(matrix, surplus[:, :, None])[:, :, 0]
        part = np.ones(m)
        for _ in range(40):
            then = likelihood(theta + part[:, None] * step)
            worse = then < now - 1e-9 * np.abs(now)
            if not worse.any():
                break
            part[worse] /= 2
        theta, now = theta + part[:, None] * step, then
        if np.abs(step).max(initial=0.0) < 1e-11:  # Newton's next step is its square
            break
    points: NDArray[np.float64] = (theta - theta.mean(axis=1, keepdims=True)) * _POINTS
    return points


def _rate(wins: NDArray[np.float64]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return who is in the only largest group of mutual chains, and their points around 0."""
    reaches = _chains(wins)
    sizes = (reaches & reaches.T).sum(axis=1)
    size = int(sizes.max(initial=0))
    rated = sizes == size
    if size < 2 or rated.sum() != size:
        return np.zeros(len(wins), dtype=np.bool_), np.zeros(0)
    members = np.flatnonzero(rated)
    return rated, _solve(wins[np.ix_(members, members)][None])[0]


def _rate_resamples(
    wins: NDArray[np.float64], resampled: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the points of every resample around a common centre, shape (n_bootstraps, n)."""
    rated, point = _rate(wins)
    points = np.full((len(resampled), len(wins)), np.nan)
    members = np.flatnonzero(rated)
    if not members.size:
        return points
    tables = resampled[:, members][:, :, members]
    links, mutual = tables > 0, np.ones(len(tables), dtype=np.bool_)
    for index, table in enumerate(links):
        mutual[index] = bool(_chains(table.astype(np.float64)).all())
    inner = np.full((len(tables), members.size), np.nan)
    if mutual.any():
        inner[mutual] = _solve(tables[mutual])
    for index in np.flatnonzero(~mutual).tolist():
        inner[index] = _partly(tables[index], point)
    points[:, members] = inner
    return points


def _partly(table: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rate a resample that does not connect everyone: infinite where it sets no bound."""
    rated, strengths = _rate(table)
    points = np.full(len(table), np.nan)
    reaches = _chains(table)
    if not rated.any():
        has_won, has_lost = table.sum(axis=1) > 0, table.sum(axis=0) > 0
        points[has_won & ~has_lost] = np.inf
        points[has_lost & ~has_won] = -np.inf
        return points
    one = int(np.flatnonzero(rated)[0])
    points[reaches[:, one]] = np.inf
    points[reaches[one]] = -np.inf
    points[rated] = point[rated].mean() + strengths
    return points


def _expanded(samples: NDArray[np.float64], n: int, confidence: float) -> tuple[float, float]:
    """Return the percentile interval, widened as Student's t requires."""
    if n < 2 or 2.0 ** (1 - n) > 1 - confidence:
        return -math.inf, math.inf
    quantile = float(stdtrit(n - 1, 0.5 + confidence / 2))
    held = math.erf(quantile * math.sqrt(n / (n - 1)) / math.sqrt(2))
    outside = int((1 - held) / 2 * (samples.size - 1) + 1e-9)
    low = np.sort(np.nan_to_num(samples, nan=-np.inf, posinf=np.inf, neginf=-np.inf))
    high = np.sort(np.nan_to_num(samples, nan=np.inf, posinf=np.inf, neginf=-np.inf))
    least, most = float(low[0]), float(high[-1])
    near = 1e-9 * max(1.0, abs(least) if math.isfinite(least) else 0.0)
    if not least < most or least + near >= most:
        return -math.inf, math.inf
    return float(low[outside]), float(high[samples.size - 1 - outside])


def _joint(
    samples: NDArray[np.float64], compared: NDArray[np.bool_], n: int, confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the joint intervals of all differences, shape (n, n), and who is above whom."""
    size = samples.shape[1]
    low, high = np.full((size, size), -np.inf), np.full((size, size), np.inf)
    better = np.zeros((size, size), dtype=np.bool_)
    pairs = list(combinations(np.flatnonzero(compared).tolist(), 2))
    if not pairs or len(pairs) * 2.0 ** (1 - n) > 1 - confidence:
        return low, high, better
    spread_pairs: list[tuple[int, int]] = []
    strays = []
    for i, j in pairs:
        with np.errstate(invalid="ignore"):
            apart = samples[:, i] - samples[:, j]
        is_finite = np.isfinite(apart)
        if (~is_finite).mean() > (1 - confidence) / 2:
            continue
        middle, spread = float(np.median(apart[is_finite])), float(apart[is_finite].std())
        if spread <= 1e-9 * max(1.0, abs(middle)):
            # Of two whose every resample is equal, a rounding puts neither above the other.
            better[i, j], better[j, i] = middle > _NO_LEAD, middle < -_NO_LEAD
            continue
        spread_pairs.append((i, j))
        strays.append((middle, spread, np.where(is_finite, np.abs(apart - middle) / spread, 0.0)))
    rank = math.ceil(confidence * (len(samples) + 1))
    if spread_pairs and rank <= len(samples):
        worst = np.max([each[2] for each in strays], axis=0)
        tail = float(ndtr(-np.sort(worst)[rank - 1]))
        reach = -float(stdtrit(n - 1, tail)) * math.sqrt(n / (n - 1))
        for (i, j), (middle, spread, _) in zip(spread_pairs, strays, strict=True):
            low[i, j], high[i, j] = middle - reach * spread, middle + reach * spread
            low[j, i], high[j, i] = -high[i, j], -low[i, j]
            better[i, j], better[j, i] = low[i, j] > 0, high[i, j] < 0
    return low, high, better


_WINS = {Outcome.A_WINS: ("wins_a", "wins_b"), Outcome.B_WINS: ("wins_b", "wins_a")}


def counts_of(pairs: Iterable[Judgment]) -> dict[tuple[str, str], dict[str, float | None]]:
    """Count the outcomes between every two entrants that met, named as in table "win_rates"."""
    rows = list(pairs)
    samples = Counter(_met_on(pair) for pair in rows if pair.share is not None)
    counts: dict[tuple[str, str], Counter[str]] = {}
    gained: dict[tuple[str, str], float] = defaultdict(float)
    met = gained.copy()
    for pair in rows:
        first, second = sorted((pair.entrant_a, pair.entrant_b))
        is_turned = first != pair.entrant_a
        wins = _WINS.get(pair.outcome)
        column = wins[is_turned] if wins else {Outcome.TIE: "ties"}.get(pair.outcome, pair.outcome)
        counted = counts.setdefault((first, second), Counter())
        counted[column] += 1
        counted["judged"] += pair.outcome not in (Outcome.SAME_TEXT, Outcome.UNJUDGED)
        if pair.share is not None:
            weight = pair.weight / samples[_met_on(pair)]
            gained[first, second] += weight * (1 - pair.share if is_turned else pair.share)
            met[first, second] += weight
    columns = ("wins_a", "wins_b", "ties", "inconsistent", "same_text", "unjudged", "judged")
    return {
        both: {
            **{column: counted[column] for column in columns},
            "win_rate_a": gained[both] / met[both] if met[both] else None,
        }
        for both, counted in counts.items()
    }


def _met_on(pair: Judgment) -> tuple[str, frozenset[str]]:
    return pair.prompt_id, frozenset((pair.entrant_a, pair.entrant_b))


def share_by_prompt(
    units: Sequence[tuple[str, bool]], confidence: float
) -> tuple[float, float | None, float | None]:
    """Return a share with Wilson's interval on the effective number of units between prompts."""
    n, rate = len(units), sum(has for _, has in units) / len(units)
    by_prompt: dict[str, list[bool]] = {}
    for prompt, has in units:
        by_prompt.setdefault(prompt, []).append(has)
    n_prompts = len(by_prompt)
    if n_prompts < 2:
        return rate, None, None
    effective = float(n_prompts)
    if 0 < rate < 1:
        spread = sum((sum(has) - rate * len(has)) ** 2 for has in by_prompt.values())
        variance = spread * n_prompts / (n_prompts - 1) / n**2
        effective = min(n, rate * (1 - rate) / variance) if variance else float(n)
    t = float(stdtrit(n_prompts - 1, 0.5 + confidence / 2)) ** 2 / effective
    reach = math.sqrt(rate * (1 - rate) * t + t * t / 4) / (1 + t)
    middle = (rate + t / 2) / (1 + t)
    return rate, middle - reach, middle + reach
