"""Compares a finished run's tables, cell by cell, with numbers recomputed from its verdicts."""

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tournament_assets.extras.verify.recomputation import Recomputed, counts_of, standing_of
from tournament_assets.extras.verify.settled import RunFolder
from tournament_assets.tournament.errors import InputError

_CLOSE = 1e-6
"""Tolerance between two ways of computing a number, relative to it or to 1."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A number that differs from what the verdicts give."""

    file: str
    place: str
    found: str
    expected: str


@dataclass(frozen=True, slots=True)
class Checked:
    """One file: how many of its numbers were recomputed, and which are wrong."""

    file: str
    recomputed: int
    wrong: tuple[Wrong, ...]


Number = tuple[str, Any, float | None]
"""Where a number is, what the file says, and what is expected; None for an empty cell."""


class Verification:
    """A recomputed run, with which each file is compared separately."""

    def __init__(self, run: RunFolder) -> None:
        """Prepare to recompute a run from its verdict files."""
        self.run = run
        settings = run.settings
        self._by_dimension = {
            dimension: Recomputed(
                pairs,
                entrants=run.entrants,
                n_bootstraps=settings["n_bootstraps"],
                bootstrap_seed=settings["bootstrap_seed"],
                confidence=settings["confidence"],
                within=settings["equivalent_within"],
                initial=settings["initial_rating"],
            )
            for dimension, pairs in run.pairs.items()
        }
        self._counts = {dimension: counts_of(pairs) for dimension, pairs in run.pairs.items()}

    @property
    def _factors(self) -> list[float]:
        return list(dict.fromkeys((*self.run.settings["k_sweep"], self.run.settings["k_factor"])))

    @cached_property
    def _elo(self) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        settings = self.run.settings
        return {
            dimension: each.elo(self._factors, settings["n_permutations"], settings["shuffle_seed"])
            for dimension, each in self._by_dimension.items()
        }

    @property
    def files(self) -> dict[str, Callable[[Path], Iterator[Number]]]:
        """The reader of each file's numbers, by the file's name."""
        first, *others = self.run.pairs
        reports = {"elo_ratings.json": first} | {
            f"elo_ratings_{dimension}.json": dimension for dimension in others
        }
        return {
            "tables/leaderboard.csv": self._leaderboard,
            "pairwise_winrates.csv": self._win_rates,
            "elo_results.json": self._elo_results,
            "elo_per_perm.npz": self._orderings,
            **{name: self._report_of(dimension) for name, dimension in reports.items()},
        }

    def check(self, name: str, path: Path | None = None) -> Checked:
        """Compare one file with the verdicts; another path may replace the run's own."""
        path = path or self.run.folder / name
        n, wrong = 0, []
        try:
            for place, found, expected in self.files[name](path):
                n += 1
                if not _agree(found, expected):
                    wrong.append(Wrong(name, place, _said(found), _said(expected)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            wrong.append(Wrong(name, "the file", f"{type(error).__name__}: {error}", "readable"))
        return Checked(name, n, tuple(wrong))

    def _leaderboard(self, path: Path) -> Iterator[Number]:
        rows = _csv(path)
        yield "number of rows", len(rows), len(self.run.pairs) * len(self.run.entrants)
        for row in rows:
            dimension, name = row["dimension"], row["entrant_id"]
            own, at = self._by_dimension[dimension], f"{dimension}, {name}"
            low, high = own.intervals[name]
            won, n = standing_of(self._counts[dimension], name)
            expected: dict[str, float | None] = {
                "rating": own.ratings[name],
                "low": low,
                "high": high,
                "win_rate": won / n if n else None,
                "n": n,
            }
            if row["elo"]:
                elo = self._primary(dimension)[:, self.run.entrants.index(name)]
                expected |= {"elo": float(elo.mean()), "elo_sem": _standard_error(elo)}
            if not self.run.stops_early:
                best, worst = own.places.get(name, (None, None))
                expected |= {
                    "rank": own.ranks.get(name), "rank_best": best, "rank_worst": worst,
                }  # fmt: skip
            for column, value in expected.items():
                yield f"{at}, {column}", row[column] or None, value

    def _win_rates(self, path: Path) -> Iterator[Number]:
        rows = _csv(path)
        yield (
            "number of rows",
            len(rows),
            len(self.run.pairs) * math.comb(len(self.run.entrants), 2),
        )
        for row in rows:
            dimension, a, b = row["dimension"], row["entrant_a"], row["entrant_b"]
            own = self._counts[dimension][a, b]
            names = {"wins_a": "wins", "wins_b": "losses", "win_rate_a": "share"}
            names |= {
                each: each for each in ("ties", "inconsistent", "same_text", "unjudged", "judged")
            }
            expected: dict[str, float | None] = {
                column: own.get(each) for column, each in names.items()
            }
            gap = self._by_dimension[dimension].gap(a, b)
            if gap is not None and not self.run.stops_early:
                expected |= {
                    "difference": gap.value,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                    "more_prompts": gap.more_prompts,
                }
            for column, value in expected.items():
                yield f"{dimension}, {a} and {b}, {column}", row[column] or None, value

    def _elo_results(self, path: Path) -> Iterator[Number]:
        content = json.loads(path.read_text(encoding="utf-8"))
        yield "default_k", content["default_k"], self.run.settings["k_factor"]
        for dimension, own in self._by_dimension.items():
            yield (
                f"n_decisive_matches, {dimension}",
                content["n_decisive_matches"][dimension],
                own.n_decisive[""],
            )
            for k_factor, rows in content["k_sensitivity"][dimension].items():
                place = [f"{each:g}" for each in self._factors].index(k_factor)
                for name, row in rows.items():
                    ratings = self._elo[dimension][place, :, self.run.entrants.index(name)]
                    at = f"k_sensitivity, {dimension}, {k_factor}, {name}"
                    yield from _mean_and_error(at, row, ratings)
            means = [row["mean"] for row in content["primary"][dimension].values()]
            # Ties share a rank, and other rules place entrants without a rating.
            is_plain = None not in means and np.diff(np.sort(means)).min(initial=1.0) > 0.1
            for name, row in content["primary"][dimension].items():
                at = f"primary, {dimension}, {name}"
                ratings = self._primary(dimension)[:, self.run.entrants.index(name)]
                yield from _mean_and_error(at, row, ratings)
                if is_plain:
                    above = self._primary(dimension).mean(axis=0) > ratings.mean() + 0.01
                    yield f"{at}, rank", row["rank"], 1 + int(above.sum())
                yield (
                    f"{at}, n_entrant_matches",
                    row["n_entrant_matches"],
                    own.n_decisive[name],
                )
                if row["order_low"] is not None:
                    low, high = _middle(ratings, self.run.settings["confidence"])
                    yield f"{at}, order_low", row["order_low"], low
                    yield f"{at}, order_high", row["order_high"], high

    def _orderings(self, path: Path) -> Iterator[Number]:
        with np.load(path, allow_pickle=False) as content:
            for dimension in self._by_dimension:
                names = content[f"{dimension}__entrants"].tolist()
                found, expected = content[f"{dimension}__data"], self._primary(dimension)
                for column, name in enumerate(names):
                    own = expected[:, self.run.entrants.index(name)]
                    for row, value in enumerate(found[:, column].tolist()):
                        if not math.isnan(value):
                            yield f"{dimension}, ordering {row}, {name}", value, float(own[row])

    def _report_of(self, dimension: str) -> Callable[[Path], Iterator[Number]]:
        def read(path: Path) -> Iterator[Number]:
            content = json.loads(path.read_text(encoding="utf-8"))
            own = self._by_dimension[dimension]
            yield "n_bootstraps", content["n_bootstraps"], self.run.manifest["n_bootstraps"]
            yield "seed", content["seed"], self.run.manifest["bootstrap_seed"]
            yield "number of ratings", len(content["ratings"]), len(self.run.entrants)
            for row in content["ratings"]:
                name = row["model"]
                low, high = own.intervals[name]
                n = standing_of(self._counts[dimension], name)[1]
                for key, value in (
                    ("rating", own.ratings[name]),
                    ("ci_low", low),
                    ("ci_high", high),
                    ("n_battles", n),
                ):
                    yield f"{name}, {key}", row[key], value

        return read

    def _primary(self, dimension: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        place = self._factors.index(self.run.settings["k_factor"])
        ratings: np.ndarray[Any, np.dtype[np.float64]] = self._elo[dimension][place]
        return ratings


def require_same_settings(run: RunFolder) -> None:
    """Refuse a run whose battle files name other seeds than its manifest.

    Raises:
        InputError: With the seeds of both.
    """
    names = {
        "n_permutations": "n_perms",
        "shuffle_seed": "shuffle_seed",
        "n_bootstraps": "n_bootstraps",
        "bootstrap_seed": "bootstrap_seed",
    }
    for one, other in names.items():
        if run.settings[one] != run.manifest[other]:
            raise InputError(
                f"{run.folder}: battles.jsonl says {one} {run.settings[one]!r} and manifest.json "
                f"{other} {run.manifest[other]!r}; expected one value"
            )


def _agree(found: Any, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is None and expected is None
    return abs(float(found) - expected) <= _CLOSE * max(1.0, abs(expected))


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _standard_error(ratings: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    if ratings.size < 2 or not ratings.std():
        return None
    return float(ratings.std(ddof=1)) / math.sqrt(ratings.size)


def _mean_and_error(
    at: str, row: dict[str, Any], ratings: np.ndarray[Any, np.dtype[np.float64]]
) -> Iterator[Number]:
    if row["mean"] is not None:
        yield f"{at}, mean", row["mean"], float(ratings.mean())
    if row["sem"] is not None:
        yield f"{at}, sem", row["sem"], _standard_error(ratings)


def _middle(
    ratings: np.ndarray[Any, np.dtype[np.float64]], confidence: float
) -> tuple[float, float]:
    outside = int((1 - confidence) / 2 * (ratings.size - 1) + 1e-9)
    ordered = np.sort(ratings)
    return float(ordered[outside]), float(ordered[ratings.size - 1 - outside])
