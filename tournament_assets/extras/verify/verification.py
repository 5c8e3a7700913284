"""Compares a finished run's files, cell by cell, with numbers recomputed from its verdicts."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tournament_assets.extras.verify.numbers import Checked, Number, Wrong, agree
from tournament_assets.extras.verify.printed_numbers import PrintedNumbers
from tournament_assets.extras.verify.printed_tables import (
    PrintedTable,
    html_tables,
    latex_tables,
    markdown_tables,
)
from tournament_assets.extras.verify.recomputation import Recomputed, counts_of
from tournament_assets.extras.verify.settled import RunFolder
from tournament_assets.tournament.errors import InputError

Row = Mapping[str, Any]


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
            "manifest.json": self._manifest,
            "battles.jsonl": lambda path: self._battles(_json_lines(path)),
            "battles.parquet": lambda path: self._battles(_parquet(path)),
            "tables/leaderboard.csv": lambda path: self._leaderboard(_csv(path)),
            "leaderboard.parquet": lambda path: self._leaderboard(_parquet(path)),
            "tables/leaderboard.tex": self._printed(latex_tables),
            "report.html": self._printed(html_tables),
            "report.md": self._printed(markdown_tables),
            "report.json": self._first_screen,
            "pairwise_winrates.csv": self._win_rates,
            "elo_results.json": self._elo_results,
            "elo_per_perm.npz": self._orderings,
            **{name: self._report_of(dimension) for name, dimension in reports.items()},
            **{f"verdicts/{dimension}.jsonl": _outcomes for dimension in self.run.pairs},
        }

    def check(self, name: str, path: Path | None = None) -> Checked:
        """Compare one file with the verdicts; another path may replace the run's own."""
        path = path or self.run.folder / name
        n, wrong = 0, []
        try:
            for place, found, expected in self.files[name](path):
                n += 1
                if not agree(found, expected):
                    wrong.append(Wrong(name, place, _said(found), _said(expected)))
        except Exception as error:  # noqa: BLE001 (a changed byte may break any reader anyhow)
            wrong.append(Wrong(name, "the file", f"{type(error).__name__}: {error}", "readable"))
        return Checked(name, n, tuple(wrong))

    @cached_property
    def _pages(self) -> PrintedNumbers:
        elo = {dimension: self._primary(dimension) for dimension in self._by_dimension}
        return PrintedNumbers(self.run, self._by_dimension, self._counts, elo)

    def _manifest(self, path: Path) -> Iterator[Number]:
        content = json.loads(path.read_text(encoding="utf-8"))
        cost = content["cost"]
        for dimension, pairs in self.run.pairs.items():
            yield f"pairs, {dimension}", content["pairs"][dimension], len(pairs)
        prices = [own["cost_usd"] for own in cost["by_dimension"].values()]
        total = None if None in prices else sum(prices)
        yield "cost, total_usd", cost["total_usd"], total

    def _battles(self, rows: list[Row]) -> Iterator[Number]:
        settled = [
            (dimension, each)
            for dimension, pairs in self.run.pairs.items()
            for each in pairs
            if each.share is not None
        ]
        yield "number of rows", len(rows), len(settled)
        if rows and "rating_settings" in rows[0]:
            settings = dict(rows[0]["rating_settings"])
            yield "rating_settings", str(settings), str(self.run.settings)
        for number, (row, (dimension, pair)) in enumerate(zip(rows, settled, strict=False)):
            share = pair.share or 0.0
            for column, expected in (
                ("dimension", dimension),
                ("question_id", pair.prompt),
                ("sample", pair.sample),
                ("model_a", pair.a),
                ("model_b", pair.b),
                ("winner", {"a_wins": "model_a", "b_wins": "model_b"}.get(pair.outcome, "tie")),
                ("inconsistent", pair.outcome == "inconsistent"),
                ("weight", pair.weight),
                ("pref", None if share in (0.0, 0.5, 1.0) else 1 - share),
            ):
                # In the lines a sample or a weight of 1 is left out.
                left_out = {"sample": 1, "weight": 1.0}.get(column)
                yield f"row {number}, {column}", row.get(column, left_out), expected

    def _leaderboard(self, rows: list[Row]) -> Iterator[Number]:
        yield "number of rows", len(rows), len(self.run.pairs) * len(self.run.entrants)
        for row in rows:
            dimension, name = row["dimension"], row["entrant_id"]
            own, at = self._by_dimension[dimension], f"{dimension}, {name}"
            low, high = own.intervals[name]
            expected: dict[str, Any] = {
                "rating": own.ratings[name],
                "low": low,
                "high": high,
                "win_rate": own.win_shares[name],
                "n": own.n_settled(name),
            }
            elo = self._primary(dimension)[:, self.run.entrants.index(name)]
            is_rated = name in own.elo_rated
            expected |= {
                "elo": float(elo.mean()) if is_rated else None,
                "elo_sem": _standard_error(elo) if is_rated else None,
            }
            if not self.run.stops_early:
                best, worst = own.places.get(name, (None, None))
                bar_low, bar_high = own.bars.get(name, (None, None))
                expected |= {
                    "rank": own.ranks.get(name),
                    "rank_best": best,
                    "rank_worst": worst,
                    "bar_low": bar_low,
                    "bar_high": bar_high,
                }
                shown = " ".join(sorted(own.shown_above(name)))
                yield f"{at}, shown_above", " ".join(sorted(_names(row["shown_above"]))), shown
            for column, value in expected.items():
                yield f"{at}, {column}", row[column], value
        if not self.run.stops_early:
            yield from self._letters(rows)

    def _letters(self, rows: list[Row]) -> Iterator[Number]:
        """Of two entrants that share a letter neither is better, and of all others one is."""
        for one, other in combinations(rows, 2):
            dimension, a, b = one["dimension"], one["entrant_id"], other["entrant_id"]
            gap = self._by_dimension[dimension].gap(a, b)
            if other["dimension"] == dimension and gap is not None:
                shares = bool({*_names(one["group"])} & {*_names(other["group"])})
                expected = gap.claim in ("equivalent", "undecided")
                yield f"{dimension}, {a} and {b}, share a letter", shares, expected

    def _printed(
        self, tables_of: Callable[[str], Iterable[PrintedTable]]
    ) -> Callable[[Path], Iterator[Number]]:
        return lambda path: self._pages.numbers(tables_of(path.read_text(encoding="utf-8")))

    def _first_screen(self, path: Path) -> Iterator[Number]:
        judged = sum(each.is_judged for pairs in self.run.pairs.values() for each in pairs)
        expected = {
            r"\bprompts?$": self.run.manifest["selected_prompts"],
            r"\bentrants?$": len(self.run.entrants),
            r"\bjudged pairs?$": judged,
            "^judging cost": self.run.manifest["cost"]["total_usd"],
        }
        for fact in json.loads(path.read_text(encoding="utf-8"))["facts"]:
            for ending, number in expected.items():
                if re.search(ending, fact):
                    yield "facts", fact, (number,)

    def _win_rates(self, path: Path) -> Iterator[Number]:
        rows = _csv(path)
        met = sum(len(counts) for counts in self._counts.values()) // 2
        yield "number of rows", len(rows), met
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
                yield f"{dimension}, {a} and {b}, {column}", row[column], value

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
                for key, value in (
                    ("rating", own.ratings[name]),
                    ("ci_low", low),
                    ("ci_high", high),
                    ("n_battles", own.n_settled(name)),
                ):
                    yield f"{name}, {key}", row[key], value

        return read

    def _primary(self, dimension: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        place = self._factors.index(self.run.settings["k_factor"])
        ratings: np.ndarray[Any, np.dtype[np.float64]] = self._elo[dimension][place]
        return ratings


def _outcomes(path: Path) -> Iterator[Number]:
    """Yield what the replies say, and the outcome where they are one judge's."""
    for number, row in enumerate(_json_lines(path)):
        for side in ("ab", "ba"):
            said = re.search(r"^VERDICT: (A|B|TIE)\s*\Z", row[f"reply_{side}"] or "", re.MULTILINE)
            if said:
                yield f"row {number}, verdict_{side}", row[f"verdict_{side}"], said[1]
        if row["outcome"] != "same_text" and "," not in (row["settled_by"] or ","):
            verdicts = row["verdict_ab"], row["verdict_ba"]
            fallback = "unjudged" if None in verdicts else "inconsistent"
            outcome = _AGREEING.get(verdicts, fallback)
            yield f"row {number}, outcome", row["outcome"], outcome


_AGREEING = {("A", "B"): "a_wins", ("B", "A"): "b_wins", ("TIE", "TIE"): "tie"}
"""Outcomes by the verdicts of both orders; the letter is the place of the better response."""


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
                f"{run.folder}: battles.parquet says {one} {run.settings[one]!r} and manifest.json "
                f"{other} {run.manifest[other]!r}; expected one value"
            )


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _csv(path: Path) -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        return [{column: text or None for column, text in row.items()} for row in rows]


def _parquet(path: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def _json_lines(path: Path) -> list[Row]:
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return [json.loads(line) for line in file]


def _names(cell: str | list[str] | None) -> list[str]:
    return cell.split() if isinstance(cell, str) else list(cell or ())


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
