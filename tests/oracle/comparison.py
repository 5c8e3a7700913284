"""Compares the tables of a drawn run with what its judges said, cell by cell."""

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tests.oracle.drawn_runs import DIMENSION, DrawnRun
from tests.oracle.judge_counts import judge_units
from tests.oracle.recomputation import Recomputed, counts_of, share_by_prompt
from tests.oracle.settlement import Settled, settle_each, settle_together, weigh
from tournament_assets.graph.table import row_of
from tournament_assets.python_api import open_run
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.standings import Claim
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow, MeasureRow, VerdictRow
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

CLOSE = 1e-9 * 1400
"""Elo points: how far two ways to compute a rating, or the difference of two, may be apart."""
_CLOSE_SHARE = 1e-9
"""The same of a number from 0 to 1."""
_OF_SHARES = ("judge_verdicts", "battles", "audit", "measures", "ratings: win_share")
_SHARES = ("win_rate", "win_rate_a")
_KEYS = {
    "judge_verdicts": ("prompt_id", "sample", "entrant_a", "entrant_b"),
    "win_rates": ("entrant_a", "entrant_b"),
    "leaderboard": ("entrant_id",),
    "elo_ratings": ("k_factor", "entrant_id"),
    "battles": ("question_id", "sample", "model_a", "model_b"),
    "audit": ("entrant_id",),
    "measures": ("measure", "subject"),
    "ratings": ("entrant_id",),
}
"""Columns that say what a row is about."""
_WINNERS = {Outcome.A_WINS: "model_a", Outcome.B_WINS: "model_b"}
Row = Mapping[str, Any]
Rows = Mapping[tuple[Any, ...], Row]


def find_differences(drawn: DrawnRun) -> list[str]:
    """Name every cell of a run's tables and data files that is not what its judges' words give."""
    oracle = Oracle(drawn)
    return [*oracle.table_differences(), *oracle.file_differences()]


class Oracle:
    """What the tables of a drawn run should hold."""

    def __init__(self, drawn: DrawnRun) -> None:
        """Settle the pairs of a run, and prepare to rate its entrants."""
        self.drawn = drawn
        self.entrants = drawn.config.entrant_ids
        self.decisions = self.rows("judging_decisions")
        self.verdicts: list[VerdictRow] = self.rows("judge_verdicts")
        self.by_judge = settle_each(self.rows("match_list"), self.rows("judge_replies"), drawn.said)
        jury: list[MeasureRow] = self.rows("jury")
        weights = {row.subject or "": row.value or 0.0 for row in jury if row.measure == "weight"}
        self.is_jury = bool(weights)
        settled = (
            settle_together(self.by_judge, weights)
            if weights
            else (pair.judgment for pair in self.by_judge)
        )
        self.pairs = [*(weigh(settled, self.decisions) if self.decisions else settled)]
        ratings = drawn.config.ratings
        self.recomputed = Recomputed(
            self.pairs,
            entrants=self.entrants,
            n_bootstraps=ratings.n_bootstraps,
            bootstrap_seed=ratings.bootstrap_seed,
            confidence=ratings.confidence,
            within=ratings.equivalent_within,
            initial=ratings.initial_rating,
        )

    def rows(self, asset: str) -> list[Any]:
        """Return a table's rows; none if the run has no such table."""
        rows: list[Any] = []
        for (name, _), table in self.drawn.tables.values.items():
            if name == asset:
                rows += rows_of(row_of(asset).row_type, table)
        return rows

    def table_differences(self) -> Iterator[str]:
        """Name every cell that differs, and every row that is there or should be."""
        expected: dict[str, Rows] = {
            "judge_verdicts": self._verdicts(),
            "win_rates": self._win_rates(),
            "leaderboard": self._leaderboard(),
            "elo_ratings": self._elo_ratings(),
            "battles": self._battles(),
            "audit": self._audit(),
            "measures": self._measures(),
            **{f"ratings: {method}": rows for method, rows in self._ratings().items()},
        }
        for table, rows in expected.items():
            stored = self._stored(table, rows)
            if stored.keys() != rows.keys():
                yield f"{table}: rows {[*stored]}; expected {[*rows]}"
            for key in rows.keys() & stored.keys():
                for column, value in rows[key].items():
                    if not _agree(table, column, stored[key][column], value):
                        yield (
                            f"{table} {key} {column}: {stored[key][column]!r}; expected {value!r}"
                        )
        traces: EloTraces = self.drawn.tables.values["elo_traces", DIMENSION]
        difference = np.abs(traces.ratings - self._elo[self.drawn.config.ratings.k_factor])
        if difference.max(initial=0.0) > CLOSE:
            yield f"elo_traces: {difference.max()} Elo points from the ratings of an ordering"

    def _stored(self, table: str, expected: Rows) -> Rows:
        asset, _, method = table.partition(": ")
        rows = [asdict(row) for row in self.rows(asset)]
        if method:
            rows = [row for row in rows if row["method"] == method]
        if asset == "measures":
            # Those that need simulations, tests of the judge or a jury's model are not recomputed.
            names = {measure for measure, _ in expected}
            rows = [row for row in rows if row["measure"] in names]
        return {tuple(row[column] for column in _KEYS[asset]): row for row in rows}

    def _verdicts(self) -> Rows:
        rows: dict[tuple[Any, ...], Row] = {}
        for pair in self.pairs:
            key = pair.prompt_id, pair.sample, pair.entrant_a, pair.entrant_b
            winners = {Outcome.A_WINS: pair.entrant_a, Outcome.B_WINS: pair.entrant_b}
            rows[key] = {
                "outcome": pair.outcome,
                "share": pair.share,
                "weight": pair.weight,
                "winner": winners.get(pair.outcome),
            }
        if not self.is_jury:
            for key, settled in zip([*rows], self.by_judge, strict=True):
                if settled.judgment.outcome is not Outcome.SAME_TEXT:
                    ab, ba = settled.verdicts
                    rows[key] = {**rows[key], "verdict_ab": ab, "verdict_ba": ba}
        return rows

    def _battles(self) -> Rows:
        return {
            (pair.prompt_id, pair.sample, pair.entrant_a, pair.entrant_b): {
                "winner": _WINNERS.get(pair.outcome, "tie"),
                "inconsistent": pair.outcome is Outcome.INCONSISTENT,
                "weight": pair.weight,
                "pref": None if pair.share in (0.0, 0.5, 1.0) else 1 - pair.share,
            }
            for pair in self.pairs
            if pair.share is not None
        }

    def _win_rates(self) -> Rows:
        rows: dict[tuple[Any, ...], Row] = {}
        for (a, b), counts in counts_of(self.pairs).items():
            gap = self.recomputed.gap(a, b)
            claimed: Row = dict.fromkeys(("claim", "difference"))
            if gap is not None:
                claimed = {
                    "claim": gap.claim,
                    "difference": gap.value,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                }
            if self.decisions:
                claimed = {"difference": claimed["difference"]}
            rows[a, b] = {**counts, **claimed}
        return rows

    def _leaderboard(self) -> Rows:
        rated, judges = self.recomputed, [judge.model for judge in self.drawn.config.judges]
        elo = self._of_orderings(self.drawn.config.ratings.k_factor)
        rows: dict[tuple[Any, ...], Row] = {}
        for name in self.entrants:
            low, high = rated.intervals[name]
            places = {**self._places(name), **self._rests_on(name)}
            if rated.bars is not None:
                # Where no bars draw every claim, which of them are drawn is a choice.
                places["bar_low"], places["bar_high"] = rated.bars.get(name, (None, None))
            rows[(name,)] = {
                "rating": rated.ratings[name],
                "low": low,
                "high": high,
                "win_rate": rated.win_shares[name],
                "n": rated.n_settled(name),
                "elo": elo[name]["mean"],
                "elo_sem": elo[name]["sem"],
                "same_answers_as": self._copies_of(name),
                "judge_model": ", ".join(judges) if self.pairs else None,
                **({} if self.decisions else places),
            }
        return rows

    def _places(self, name: str) -> Row:
        best, worst = self.recomputed.places.get(name, (None, None))
        return {
            "rank": self.recomputed.ranks.get(name),
            "rank_best": best,
            "rank_worst": worst,
            "shown_above": tuple(self.recomputed.shown_above(name)),
            "group": self._letters(name),
        }

    def _letters(self, name: str) -> str | None:
        """Return an entrant's letters as they are stored, if neither of those that share one wins.

        Of two that share a letter neither is better, and of all others one is.
        """
        groups = {row.entrant_id: row.group for row in self.rows("leaderboard")}
        for other in self.recomputed.placed:
            gap = self.recomputed.gap(name, other)
            is_open = gap is not None and gap.claim in (Claim.EQUIVALENT, Claim.UNDECIDED)
            shared = {*(groups[name] or "").split()} & {*(groups[other] or "").split()}
            if gap is not None and bool(shared) != is_open:
                return f"{'a' if is_open else 'no'} letter of {other}"
        return groups[name] if name in self.recomputed.placed else None

    def _copies_of(self, name: str) -> tuple[str, ...]:
        counts = counts_of(self.pairs)
        others = sorted(self.entrants)
        met = ((other, counts.get((min(name, other), max(name, other)))) for other in others)
        return tuple(
            other
            for other, counted in met
            if counted
            and counted["same_text"]
            and not counted["judged"]
            and not counted["unjudged"]
        )

    def _rests_on(self, name: str) -> Row:
        """Without all of the named prompts the first is not first alone, with any it is."""
        (row,) = (row for row in self.rows("leaderboard") if row.entrant_id == name)
        named, least = row.lead_rests_on, row.lead_rests_on_at_least

        def is_first(without: tuple[str, ...]) -> bool:
            rest = [pair for pair in self.pairs if pair.prompt_id not in without]
            ranks = self.recomputed.of(rest).ranks
            return ranks.get(name) == 1 and [*ranks.values()].count(1) == 1

        holds = not named or (is_first(()) and not is_first(named))
        fewer = (named[:place] + named[place + 1 :] for place in range(len(named)))
        return {
            "lead_rests_on": named if holds and all(map(is_first, fewer)) else "other prompts",
            "lead_rests_on_at_least": None if least is None else min(least, len(named)),
        }

    @cached_property
    def _elo(self) -> dict[float, NDArray[np.float64]]:
        ratings = self.drawn.config.ratings
        factors = [*dict.fromkeys((*ratings.k_sweep, ratings.k_factor))]
        all_ratings = self.recomputed.elo(factors, ratings.n_permutations, ratings.shuffle_seed)
        return dict(zip(factors, all_ratings, strict=True))

    def _of_orderings(self, k_factor: float) -> dict[str, Row]:
        """Return what is said of everyone's ratings over all orderings; nothing if unrated."""
        summaries: dict[str, Row] = {}
        for name, column in zip(self.entrants, self._elo[k_factor].T, strict=True):
            n, ordered = column.size, np.sort(column)
            outside = int((1 - self.drawn.config.ratings.confidence) / 2 * (n - 1) + 1e-9)
            spread: tuple[float | None, ...] = (None, None, None)
            if n > 1:
                sem = float(column.std(ddof=1)) / math.sqrt(n)
                spread = sem, float(ordered[outside]), float(ordered[n - 1 - outside])
            summary = dict(
                zip(
                    ("mean", "sem", "order_low", "order_high"),
                    (float(column.mean()), *spread),
                    strict=True,
                )
            )
            is_rated = name in self.recomputed.elo_rated
            summaries[name] = summary if is_rated else dict.fromkeys(summary)
        return summaries

    def _elo_ratings(self) -> Rows:
        n_decisive = self.recomputed.n_decisive
        rows: dict[tuple[Any, ...], Row] = {}
        for k_factor in self._elo:
            summaries = self._of_orderings(k_factor)
            means = [row["mean"] for row in summaries.values()]
            for name, row in summaries.items():
                counts = {
                    "n_decisive_matches": n_decisive[""],
                    "n_entrant_matches": n_decisive[name],
                }
                # Chains of wins place those without a rating, and a rounding may part equals.
                is_plain = None not in means and min(np.diff(sorted(means)), default=1.0) > CLOSE
                above = (mean > row["mean"] for mean in means) if is_plain else ()
                rank = {"rank": 1 + sum(above)} if is_plain else {}
                rows[k_factor, name] = {**row, **counts, **rank}
        return rows

    def _ratings(self) -> dict[str, Rows]:
        rated, n_prompts = self.recomputed, len(self.recomputed.prompts)
        elo = self._of_orderings(self.drawn.config.ratings.k_factor)
        davidson = rated.davidson
        points = davidson[0] if davidson else {}
        tables: dict[str, dict[str, Row]] = {
            "bradley_terry": {
                name: {
                    "rating": rated.ratings[name],
                    "low": rated.intervals[name][0],
                    "high": rated.intervals[name][1],
                    "n": n_prompts,
                    **({} if self.decisions else self._places(name)),
                }
                for name in self.entrants
            },
            "sandwich": {
                name: dict(
                    zip(
                        ("rating", "low", "high"),
                        (rated.ratings[name], *rated.sandwich.get(name, (None, None))),
                        strict=True,
                    )
                )
                for name in self.entrants
            },
            "elo": {
                name: {"rating": elo[name]["mean"], "n": rated.n_decisive[name]}
                for name in self.entrants
            },
            "davidson": {name: {"rating": points.get(name)} for name in self.entrants},
            "ties": {"ties": {"rating": davidson[1]}} if davidson else {},
            "win_share": {
                name: {"rating": rated.win_shares[name], "n": rated.n_settled(name)}
                for name in self.entrants
            },
            "gap": dict(self._gaps()),
        }
        return {method: {(name,): row for name, row in of.items()} for method, of in tables.items()}

    def _gaps(self) -> Iterator[tuple[str, Row]]:
        rated = [
            (rating, name) for name, rating in self.recomputed.ratings.items() if rating is not None
        ]
        # What is equal to the sixth digit stands by name.
        rated.sort(key=lambda both: (-round(both[0], 6), both[1]))
        for (_, name), (_, below) in pairwise(rated):
            gap = self.recomputed.gap(name, below)
            if gap is not None:
                ends = {} if self.decisions else {"low": gap.low, "high": gap.high}
                above = (below,) if gap.claim is Claim.FIRST_BETTER else ()
                is_above = {} if self.decisions else {"shown_above": above}
                yield name, {"rating": gap.value, **ends, **is_above}

    def _measures(self) -> Rows:
        together = [
            Settled(
                pair,
                row.settled_by,
                (row.verdict_ab, row.verdict_ba),
                (row.request_key_ab, row.request_key_ba),
                ("", ""),
            )
            for pair, row in zip(self.pairs, self.verdicts, strict=True)
        ]
        units = judge_units(self.by_judge, together, self.entrants)
        if self.is_jury:
            units["longer_wins", None] = []
        rows: dict[tuple[Any, ...], Row] = {}
        for key, of in units.items():
            confidence = self.drawn.config.ratings.confidence
            value, low, high = share_by_prompt(of, confidence) if of else (None, None, None)
            rows[key] = {"value": value, "low": low, "high": high, "n": len(of)}
        return rows

    def _audit(self) -> Rows:
        by_pair: dict[tuple[Any, ...], list[Settled]] = {}
        for settled in self.by_judge:
            by_pair.setdefault(_key(settled.judgment), []).append(settled)
        return {(name,): self._audit_of(name, by_pair) for name in self.entrants}

    def _audit_of(self, name: str, by_pair: Mapping[tuple[Any, ...], list[Settled]]) -> Row:
        pairs = [pair for pair in self.pairs if name in (pair.entrant_a, pair.entrant_b)]
        counts = Counter(pair.outcome for pair in pairs)
        settled = [pair for pair in pairs if pair.share is not None]
        clean = [pair for pair in settled if self._is_clean(pair)]
        said = Counter(
            verdict
            for pair in pairs
            if pair.outcome is not Outcome.SAME_TEXT
            for by_judge in by_pair[_key(pair)]
            for verdict in by_judge.verdicts
        )
        answers = [row.response for row in self.drawn.responses[name]]
        # Where judging stopped early, a pair stands for more than itself.
        present = sum(pair.weight * _gained(pair, name) for pair in settled)
        gained_clean = sum(pair.weight * _gained(pair, name) for pair in clean)
        (row,) = (row for row in self.rows("audit") if row.entrant_id == name)
        # Which prompts the dimension planned is not in its verdicts.
        planned = len(pairs) + row.pairs_unanswered
        return {
            "responses": len(answers),
            "empty_responses": sum(not text.strip() for text in answers),
            "pairs_planned": planned,
            "pairs_same_text": counts[Outcome.SAME_TEXT],
            "pairs_judged": len(settled) - counts[Outcome.SAME_TEXT],
            "pairs_inconsistent": counts[Outcome.INCONSISTENT],
            "pairs_clean": len(clean),
            "coverage": _ratio(len(settled), planned),
            "score_present": _ratio(present, sum(pair.weight for pair in settled)),
            "score_clean": _ratio(gained_clean, sum(pair.weight for pair in clean)),
            "score_normalised": _ratio(
                present, sum(pair.weight for pair in pairs) + row.pairs_unanswered
            ),
            "replies_asked": said.total(),
            "replies_refused": said[Verdict.REFUSED],
            "replies_unreadable": said[Verdict.UNREADABLE],
            "replies_permanent": said[Verdict.PERMANENT],
            "replies_pending": 0,
        }

    def _is_clean(self, pair: Judgment) -> bool:
        texts = (
            row.response
            for name in (pair.entrant_a, pair.entrant_b)
            for row in self.drawn.responses[name]
            if (row.prompt_id, row.sample) == (pair.prompt_id, pair.sample)
        )
        return pair.outcome is not Outcome.INCONSISTENT and all(map(str.strip, texts))

    def file_differences(self) -> Iterator[str]:
        """Name the data files of the run directory that are not their table."""
        folder = Path(self.drawn.tables.metadata["run_artifacts", ""]["directory"])
        board = open_run(folder).frame
        if [*rows_of(LeaderboardRow, board)] != [*self.rows("leaderboard")]:
            yield "leaderboard.csv: not the table"
        table = [asdict(row) for row in self.rows("battles")]
        columns = [*table[0]] if table else []
        rows = pq.read_table(folder / "battles.parquet", columns=columns).to_pylist()
        if table and rows != table:
            yield "battles.parquet: not the table"
        with (folder / "pairwise_winrates.csv").open(encoding="utf-8", newline="") as file:
            rows = [*csv.DictReader(file)]
        table = [{c: _text(v) for c, v in asdict(row).items()} for row in self.rows("win_rates")]
        if rows != table:
            yield "pairwise_winrates.csv: not the table"
        for pair, line in zip(
            self.verdicts, (folder / "verdicts" / f"{DIMENSION}.jsonl").open(), strict=True
        ):
            stored = json.loads(line)
            if any(stored.get(c) != v for c, v in _plain(asdict(pair)).items() if c in stored):
                yield f"verdicts/{DIMENSION}.jsonl: not the table"
        traces: EloTraces = self.drawn.tables.values["elo_traces", DIMENSION]
        with np.load(folder / "elo_per_perm.npz", allow_pickle=False) as arrays:
            rated = np.isin(traces.entrants, [*self.recomputed.elo_rated])
            if not np.array_equal(
                arrays[f"{DIMENSION}__data"],
                np.where(rated, traces.ratings, np.nan),
                equal_nan=True,
            ):
                yield "elo_per_perm.npz: not the ratings of the orderings"


def _agree(table: str, column: str, stored: Any, expected: Any) -> bool:
    if stored == expected or not (isinstance(expected, float) and isinstance(stored, float)):
        return bool(stored == expected)
    is_share = table in _OF_SHARES or column in _SHARES
    return abs(stored - expected) <= (_CLOSE_SHARE if is_share else CLOSE)


def _key(pair: Judgment) -> tuple[Any, ...]:
    return pair.prompt_id, pair.sample, pair.entrant_a, pair.entrant_b


def _gained(pair: Judgment, name: str) -> float:
    return abs((pair.entrant_b == name) - (pair.share or 0.0))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _plain(row: Row) -> Row:
    return {name: [*value] if isinstance(value, tuple) else value for name, value in row.items()}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
