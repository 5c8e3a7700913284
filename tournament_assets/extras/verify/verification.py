"""Compares a finished run's files, cell by cell, with numbers recomputed from its verdicts."""

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tournament_assets.extras.verify.numbers import (
    UNKNOWN,
    Checked,
    Number,
    OfRatings,
    Places,
    Wrong,
    agree,
    leaves,
    side_by_side,
)
from tournament_assets.extras.verify.printed_numbers import PrintedNumbers
from tournament_assets.extras.verify.printed_sentences import page_numbers
from tournament_assets.extras.verify.printed_tables import (
    Printed,
    read_html,
    read_latex,
    read_markdown,
)
from tournament_assets.extras.verify.recomputation import Recomputed, counts_of
from tournament_assets.extras.verify.settled import RunFolder
from tournament_assets.tournament.errors import InputError

Row = Mapping[str, Any]
_UNPRINTED = {("inputs", "entrants"), ("inputs", "prompt_bank"), ("versions", "commit")}
_LATEX = tuple(f"tables/{each}.tex" for each in ("leaderboard", "methods", "limitations", "paper"))
_COUNTS = ("ties", "inconsistent", "same_text", "unjudged", "judged")
_SEEDS = {
    "n_permutations": "n_perms",
    "shuffle_seed": "shuffle_seed",
    "n_bootstraps": "n_bootstraps",
    "bootstrap_seed": "bootstrap_seed",
}
_SAID = re.compile(r"\d[\d.,]*")
"""What counts as one number of a text."""


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

    @cached_property
    def files(self) -> dict[str, Callable[[Path], Iterator[Number]]]:
        """The reader of each file's numbers, by the file's name."""
        first, *others = self.run.pairs
        reports = {"elo_ratings.json": first} | {
            f"elo_ratings_{dimension}.json": dimension for dimension in others
        }
        leaderboard, pairs = ("dimension", "entrant_id"), ("dimension", "entrant_a", "entrant_b")
        data: dict[str, tuple[Callable[[Path], Places], Callable[[Places], Places]]] = {
            "manifest.json": (_json, self._manifest),
            "battles.jsonl": (lambda path: _by(_json_lines(path)), self._battles),
            "battles.parquet": (lambda path: _by(_parquet(path)), self._battles),
            "tables/leaderboard.csv": (lambda path: _by(_csv(path), *leaderboard), self._as_stored),
            "leaderboard.parquet": (
                lambda path: _by(_parquet(path), *leaderboard),
                self._leaderboard,
            ),
            "report.json": (_json, self._on_page),
            "pairwise_winrates.csv": (lambda path: _by(_csv(path), *pairs), self._win_rates),
            "elo_results.json": (_json, self._elo_results),
            "elo_per_perm.npz": (_npz, self._orderings),
            **{
                name: (_json, partial(self._report_of, dimension))
                for name, dimension in reports.items()
            },
        }
        return {
            **{name: partial(_data, *both) for name, both in data.items()},
            "report.html": partial(self._printed, read_html),
            "report.md": self._markdown,
            **dict.fromkeys(_LATEX, partial(self._printed, read_latex)),
            **{f"verdicts/{dimension}.jsonl": _outcomes for dimension in self.run.pairs},
        }

    def check(self, name: str, path: Path | None = None) -> Checked:
        """Compare one file with the verdicts; another path may replace the run's own."""
        path = path or self.run.folder / name
        n, left, wrong = 0, 0, []
        try:
            for place, found, expected in self.files[name](path):
                if expected is UNKNOWN:
                    left += len(_SAID.findall(str(found)))
                    continue
                n += 1
                if not agree(found, expected):
                    wrong.append(Wrong(name, place, _said(found), _said(expected)))
        except Exception as error:  # noqa: BLE001 (a changed byte may break any reader anyhow)
            wrong.append(Wrong(name, "the file", f"{type(error).__name__}: {error}", "readable"))
        return Checked(name, n, tuple(wrong), left)

    @cached_property
    def _pages(self) -> PrintedNumbers:
        return PrintedNumbers(self.run, self._by_dimension, self._counts, self._rows)

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str], Row]:
        rows = _parquet(self.run.folder / "leaderboard.parquet")
        return {(row["dimension"], row["entrant_id"]): row for row in rows}

    @cached_property
    def _page_text(self) -> str:
        page = read_html((self.run.folder / "report.html").read_text(encoding="utf-8"))
        cells = [" ".join(row) for table in page.tables for row in table.rows]
        return "\n".join((*page.lines, *cells))

    def _manifest(self, found: Places) -> Places:
        manifest = self.run.manifest
        prices = [own["cost_usd"] for own in manifest["cost"]["by_dimension"].values()]
        texts = {at: value for at, value in found.items() if at[0] in ("inputs", "versions")}
        expected: dict[tuple[Any, ...], Any] = {
            **{at: value for at, value in self._on_page(texts).items() if at[:2] not in _UNPRINTED},
            ("cost", "total_usd"): None if None in prices else sum(prices),
            **{(other,): self.run.settings[one] for one, other in _SEEDS.items()},
        }
        for dimension, rows in self.run.verdicts.items():
            expected["pairs", dimension] = len(rows)
            rubric = (self.run.folder / "rubrics" / f"{dimension}.txt").read_text(encoding="utf-8")
            digest = hashlib.sha256(rubric.strip().encode()).hexdigest()
            expected["inputs", "rubrics", dimension, "hash"] = digest
            answers = {(row["prompt_id"], row["sample"]) for row in rows}
            # Of an unanswered prompt verdicts do not say whether the dimension planned it.
            planned = self._pages.of_run["answers"]
            is_answered = all(len(own) == planned for own in self.run.responses.values())
            if is_answered and not self.run.stops_early:
                expected["prompts_planned", dimension] = len(answers)
            if not any("," in (row["settled_by"] or "") for row in rows):
                asked = [row for row in rows if row["outcome"] != "same_text"]
                keys = {row[side] for row in asked for side in ("request_key_ab", "request_key_ba")}
                at = ("cost", "by_dimension", dimension)
                expected[*at, "requests"] = len(keys)
                expected[*at, "presentations_identical"] = 2 * (len(rows) - len(asked))
        return expected

    def _battles(self, found: Places) -> Places:
        settled = [
            (dimension, each)
            for dimension, pairs in self.run.pairs.items()
            for each in pairs
            if each.share is not None
        ]
        expected: dict[tuple[Any, ...], Any] = {("number of rows",): len(settled)}
        for number, (dimension, pair) in enumerate(settled):
            share = pair.share or 0.0
            row = {
                "dimension": dimension,
                "question_id": pair.prompt,
                "sample": pair.sample,
                "model_a": pair.a,
                "model_b": pair.b,
                "winner": {"a_wins": "model_a", "b_wins": "model_b"}.get(pair.outcome, "tie"),
                "inconsistent": pair.outcome == "inconsistent",
                "weight": pair.weight,
                "pref": None if share in (0.0, 0.5, 1.0) else 1 - share,
            }
            # In the lines a sample or a weight of 1 is left out.
            absent = {"sample": 1, "weight": 1.0}
            for column, value in row.items():
                if (number, column) in found or value != absent.get(column):
                    expected[number, column] = value
        if (0, "rating_settings") in found:
            expected[0, "rating_settings"] = self.run.settings
        return expected

    def _leaderboard(self, found: Places) -> Places:
        expected: dict[tuple[Any, ...], Any] = {
            ("number of rows",): len(self.run.pairs) * len(self.run.entrants)
        }
        for dimension, own in self._by_dimension.items():
            for place, name in enumerate(self.run.entrants):
                low, high = own.intervals[name]
                elo = self._primary(dimension)[:, place] if name in own.elo_rated else None
                row: dict[str, Any] = {
                    "rating": own.ratings[name],
                    "low": low,
                    "high": high,
                    "win_rate": _exact(own.win_shares[name]),
                    "n": own.n_settled(name),
                    "elo": None if elo is None else OfRatings(elo.mean()),
                    "elo_sem": None if elo is None else _standard_error(elo),
                }
                if not self.run.stops_early:
                    best, worst = own.places.get(name, (None, None))
                    bar_low, bar_high = own.bars.get(name, (None, None))
                    row |= {
                        "rank": own.ranks.get(name),
                        "rank_best": best,
                        "rank_worst": worst,
                        "bar_low": bar_low,
                        "bar_high": bar_high,
                        "shown_above": sorted(own.shown_above(name)),
                        **self._rests_on(own, found, (dimension, name)),
                    }
                expected |= {(dimension, name, column): value for column, value in row.items()}
        return expected if self.run.stops_early else {**expected, **self._letters(found)}

    def _rests_on(self, own: Recomputed, found: Places, at: tuple[str, str]) -> Row:
        """Without all of the named prompts the first is not first alone, with any it is."""
        named = found.get((*at, "lead_rests_on")) or []

        def is_first(without: Sequence[str]) -> bool:
            ranks = own.of([each for each in own.pairs if each.prompt not in without]).ranks
            return ranks.get(at[1]) == 1 and [*ranks.values()].count(1) == 1

        holds = not named or (is_first([]) and not is_first(named))
        fewer = (named[:place] + named[place + 1 :] for place in range(len(named)))
        least = found.get((*at, "lead_rests_on_at_least"))
        return {
            "lead_rests_on": named if holds and all(map(is_first, fewer)) else "other prompts",
            "lead_rests_on_at_least": None if least is None else min(least, len(named)),
        }

    def _as_stored(self, _: Places) -> Places:
        """Return the leaderboard as it is stored, which is checked by itself."""
        expected: dict[tuple[Any, ...], Any] = {("number of rows",): len(self._rows)}
        for at, row in self._rows.items():
            for column, value in row.items():
                if column not in ("dimension", "entrant_id"):
                    is_list = isinstance(value, list)
                    text = " ".join(value) if is_list else None if value is None else str(value)
                    expected[*at, column] = text or None
        return expected

    def _letters(self, found: Places) -> Places:
        """Of two entrants that share a letter neither is better, and of all others one is."""
        expected = {}
        for dimension, own in self._by_dimension.items():
            groups = {
                name: found.get((dimension, name, "group")) or "" for name in self.run.entrants
            }
            for name, group in groups.items():
                expected[dimension, name, "group"] = group or None
                for other, letters in groups.items():
                    gap = own.gap(name, other) if name != other else None
                    is_open = gap is not None and gap.claim in ("equivalent", "undecided")
                    if gap is not None and bool({*group.split()} & {*letters.split()}) != is_open:
                        how = "one" if is_open else "no"
                        expected[dimension, name, "group"] = f"{how} letter of {other}"
        return expected

    def _printed(self, read: Callable[[str], Printed], path: Path) -> Iterator[Number]:
        return page_numbers(self._pages, read(path.read_text(encoding="utf-8")))

    def _markdown(self, path: Path) -> Iterator[Number]:
        """Yield the numbers; a line that is not computed is one that the page has too."""
        for at, found, expected in self._printed(read_markdown, path):
            if expected is not UNKNOWN or not _SAID.search(found):
                yield at, found, expected
                continue
            # A section's title stands before what the report finds in it; "~" is what was computed.
            title, _, finding = found.partition(": ")
            text = finding if f"\n{title}\n" in self._page_text else found
            pattern = ".+?".join(map(re.escape, re.split("~+", text)))
            is_there = re.search(pattern, self._page_text)
            yield at, found, found if is_there else "a text of report.html"

    def _on_page(self, found: Places) -> Places:
        """Return the texts of the first screen, which the page prints too."""
        return {
            place: value if value in self._page_text else "a text of report.html"
            for place, value in found.items()
            if isinstance(value, str) and _SAID.search(value)
        }

    def _win_rates(self, found: Places) -> Places:
        met = sum(len(counts) for counts in self._counts.values()) // 2
        expected: dict[tuple[Any, ...], Any] = {("number of rows",): met}
        names = {"wins_a": "wins", "wins_b": "losses", "win_rate_a": "share"}
        names |= dict(zip(_COUNTS, _COUNTS, strict=True))
        for dimension, a, b in dict.fromkeys(at[:3] for at in found if len(at) > 1):
            own, gap = self._counts[dimension][a, b], self._by_dimension[dimension].gap(a, b)
            row: dict[str, Any] = {column: _exact(own.get(each)) for column, each in names.items()}
            if gap is not None:
                row["difference"] = _exact(gap.value)
                if not self.run.stops_early:
                    row |= {
                        "claim": gap.claim,
                        "difference_low": gap.low,
                        "difference_high": gap.high,
                        "more_prompts": gap.more_prompts,
                    }
            expected |= {(dimension, a, b, column): value for column, value in row.items()}
        return expected

    def _elo_results(self, _: Places) -> Places:
        k_factor = self.run.settings["k_factor"]
        expected: dict[tuple[Any, ...], Any] = {("default_k",): k_factor}
        for dimension, own in self._by_dimension.items():
            expected["n_decisive_matches", dimension] = own.n_decisive[""]
            means = self._primary(dimension).mean(axis=0)
            for place, name in enumerate(self.run.entrants):
                is_rated, stored = name in own.elo_rated, self._rows[dimension, name]
                row = {"mean": _as_json(stored["elo"]), "sem": _as_json(stored["elo_sem"])}
                for each, all_ratings in zip(self._factors, self._elo[dimension], strict=True):
                    ratings = all_ratings[:, place]
                    found = {"mean": OfRatings(ratings.mean()), "sem": _standard_error(ratings)}
                    # Those of the tournament's own K are in the leaderboard too.
                    found = row if each == k_factor else found if is_rated else dict.fromkeys(row)
                    if each in self.run.settings["k_sweep"]:
                        at = ("k_sensitivity", dimension, f"{each:g}", name)
                        expected |= {(*at, key): value for key, value in found.items()}
                low, high = _middle(
                    self._primary(dimension)[:, place], self.run.settings["confidence"]
                )
                more: dict[str, Any] = {
                    **row,
                    "order_low": low if is_rated else None,
                    "order_high": high if is_rated else None,
                    "n_entrant_matches": own.n_decisive[name],
                }
                # Ties share a rank, and other rules place entrants without a rating.
                is_plain = np.diff(np.sort(means)).min(initial=1.0) > 0.1
                if is_plain and len(own.elo_rated) == len(means):
                    more["rank"] = 1 + int((means > means[place] + 0.01).sum())
                expected |= {("primary", dimension, name, key): each for key, each in more.items()}
        return expected

    def _orderings(self, _: Places) -> Places:
        return {
            (dimension, ordering, name): OfRatings(rating) if name in own.elo_rated else None
            for dimension, own in self._by_dimension.items()
            for place, name in enumerate(self.run.entrants)
            for ordering, rating in enumerate(self._primary(dimension)[:, place].tolist())
        }

    def _report_of(self, dimension: str, found: Places) -> Places:
        expected: dict[tuple[Any, ...], Any] = {
            ("n_bootstraps",): self.run.manifest["n_bootstraps"],
            ("seed",): self.run.manifest["bootstrap_seed"],
        }
        names = {"rating": "rating", "ci_low": "low", "ci_high": "high", "n_battles": "n"}
        for place in range(len(self.run.entrants)):
            name = found.get(("ratings", place, "model"), "")
            row = self._rows.get((dimension, name), {"model": "an entrant"})
            expected |= {
                ("ratings", place, key): _as_json(row.get(each)) for key, each in names.items()
            }
        return expected

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
    for one, other in _SEEDS.items():
        if run.settings[one] != run.manifest[other]:
            raise InputError(
                f"{run.folder}: battles.parquet says {one} {run.settings[one]!r} and manifest.json "
                f"{other} {run.manifest[other]!r}; expected one value"
            )


def _said(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _data(
    read: Callable[[Path], Places], expect: Callable[[Places], Places], path: Path
) -> Iterator[Number]:
    found = read(path)
    return side_by_side(found, expect(found))


def _json(path: Path) -> Places:
    """Return every value of a JSON file; a number with a point as the text that is written."""
    return dict(leaves(json.loads(path.read_text(encoding="utf-8"), parse_float=str)))


def _as_json(value: Any) -> Any:
    return str(value) if isinstance(value, float) else value


def _exact(value: float | None) -> float | None:
    return OfRatings(value) if isinstance(value, float) else value


def _npz(path: Path) -> Places:
    found: dict[tuple[Any, ...], Any] = {}
    with np.load(path, allow_pickle=False) as content:
        for key in content.files:
            dimension = key.removesuffix("__data")
            if dimension != key:
                names = content[f"{dimension}__entrants"].tolist()
                for ordering, row in enumerate(content[key].tolist()):
                    for name, value in zip(names, row, strict=True):
                        found[dimension, ordering, name] = None if math.isnan(value) else value
    return found


def _by(rows: list[Row], *keys: str) -> Places:
    """Return every cell by the row's names, or by its number where there are none."""
    found: dict[tuple[Any, ...], Any] = {("number of rows",): len(rows)}
    for number, row in enumerate(rows):
        at = tuple(row[key] for key in keys) or (number,)
        found |= {(*at, column): value for column, value in row.items() if column not in keys}
    return found


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


def _standard_error(ratings: np.ndarray[Any, np.dtype[np.float64]]) -> float | None:
    if ratings.size < 2 or not ratings.std():
        return None
    return OfRatings(ratings.std(ddof=1) / math.sqrt(ratings.size))


def _middle(
    ratings: np.ndarray[Any, np.dtype[np.float64]], confidence: float
) -> tuple[float, float]:
    outside = int((1 - confidence) / 2 * (ratings.size - 1) + 1e-9)
    ordered = np.sort(ratings)
    return OfRatings(ordered[outside]), OfRatings(ordered[ratings.size - 1 - outside])
