"""The files of a run directory, in a layout that other tools of the field read.

manifest.json                  what was run, from which inputs and rubrics, when, what it cost, and
                               the report's first screen for programs
matches/matches.jsonl          one record for each dimension and pair, each text in the first that
                               needs it
verdicts/<dimension>.jsonl     one record for each pair, with both replies
leaderboard.csv                the table `leaderboard`, every column, all dimensions
elo_ratings.json               the leaderboards with sampling intervals, by the keys of other tools
elo_results.json               mean and SEM by entrant, dimension and K-factor
elo_per_perm.npz               the ratings after every ordering
pairwise_winrates.csv          wins, losses and ties of every two entrants
battles.parquet                every settled pair and how it was rated: `tournament battles rate`
                               gives the same ratings from this file alone
report.md, report.html         the pages people read
report_battles_<dimension>.html  the battles of a run that has too many for report.html
SHA256SUMS                     the checksum of every other file, for `sha256sum --check`

All else is made of these by `tournament export`.
"""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tournament_assets.battles.columnar import ALL_FIELDS, write_parquet
from tournament_assets.battles.columns import encode_battle_table
from tournament_assets.foundation.json_lines import write_json_lines
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.reports.battle_pages import verdicts_with_replies
from tournament_assets.reports.csv_tables import write_csv_table
from tournament_assets.reports.run.page import DATE_MARK, FIRST_SCREEN
from tournament_assets.storage.match_texts import without_repeated_texts
from tournament_assets.storage.run_directory import FileContent
from tournament_assets.storage.tables import (
    AnyTable,
    StoredTable,
    rows_of,
    rows_of_all,
    texts_of,
    values_of,
)
from tournament_assets.tournament.asset_rows import (
    EloRow,
    LeaderboardRow,
    MatchRow,
    ReportPageRow,
    WinRateRow,
    by_dimension,
)
from tournament_assets.tournament.battles import (
    RatingSettings,
    elo_report,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTables:
    """The tables that the facts of a run come from, by the names of their assets.

    Tables of several partitions are mappings.
    """

    selected_prompts: pd.DataFrame
    entrant_responses: Mapping[str, pd.DataFrame]
    judge_replies: Mapping[str, AnyTable]
    judging_decisions: Mapping[str, pd.DataFrame] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTables(FactTables):
    """The tables behind a run directory."""

    report: StoredTable
    leaderboard: pd.DataFrame
    battles: StoredTable
    audit: pd.DataFrame
    prompt_bank: pd.DataFrame
    match_list: Mapping[str, AnyTable]
    judge_verdicts: Mapping[str, AnyTable]
    elo_ratings: Mapping[str, pd.DataFrame]
    elo_traces: Mapping[str, EloTraces]
    win_rates: Mapping[str, pd.DataFrame]


def build_run_files(
    tables: RunTables,
    *,
    manifest: Mapping[str, Any],
    settings: RatingSettings,
) -> Iterator[tuple[str, FileContent]]:
    """Yield every file of a run directory with its relative path; large ones write themselves.

    Args:
        tables: The tables to write.
        manifest: The contents of `manifest.json`.
        settings: How the battles were rated, and the tournament and mode as the arena.
    """
    yield "manifest.json", _json(manifest)
    finished = datetime.fromisoformat(manifest["finished_at"])
    date = f"{finished.day} {finished:%B %Y}"
    matches = (
        values_of(row) for table in tables.match_list.values() for row in rows_of(MatchRow, table)
    )
    records = without_repeated_texts(matches)
    yield "matches/matches.jsonl", partial(write_json_lines, rows=records)
    yield (
        "leaderboard.csv",
        write_csv_table(LeaderboardRow, rows_of(LeaderboardRow, tables.leaderboard)),
    )
    yield "elo_ratings.json", _json(_elo_ratings(tables, settings))
    yield "elo_results.json", _json(_elo_results(tables))
    yield "elo_per_perm.npz", _elo_per_perm(tables)
    win_rates = rows_of_all(WinRateRow, tables.win_rates)
    yield "pairwise_winrates.csv", write_csv_table(WinRateRow, win_rates)
    battles = encode_battle_table([tables.battles.arrow()])
    yield (
        "battles.parquet",
        partial(write_parquet, table=battles, names=ALL_FIELDS, settings=settings),
    )
    for page in rows_of(ReportPageRow, tables.report):
        if page.format == FIRST_SCREEN:
            continue  # it stands in the manifest
        # All others are the pages beside the report.
        name = {"markdown": "report.md", "html": "report.html"}.get(page.format, page.format)
        yield name, page.content.replace(DATE_MARK, f"{date} · ", 1).encode()
    for dimension, table in tables.judge_verdicts.items():
        verdicts = map(values_of, verdicts_with_replies(table, tables.judge_replies[dimension]))
        yield f"verdicts/{dimension}.jsonl", partial(write_json_lines, rows=verdicts)


_RESULTS = ("rank", "mean", "sem", "order_low", "order_high", "n_entrant_matches")


def _elo_results(tables: RunTables) -> dict[str, Any]:
    primary: dict[str, Any] = {}
    sweep: dict[str, Any] = {}
    decisive: dict[str, int] = {}
    default_k: float | None = None
    for dimension, frame in tables.elo_ratings.items():
        primary[dimension] = {}
        sweep[dimension] = {}
        for row in rows_of(EloRow, frame):
            by_entrant = sweep[dimension].setdefault(f"{row.k_factor:g}", {})
            by_entrant[row.entrant_id] = {"mean": row.mean, "sem": row.sem}
            decisive[dimension] = row.n_decisive_matches
            if row.is_primary:
                default_k = row.k_factor
                values = {name: getattr(row, name) for name in _RESULTS}
                primary[dimension][row.entrant_id] = values
    return {
        "default_k": default_k,
        "primary": primary,
        "k_sensitivity": sweep,
        "n_decisive_matches": decisive,
    }


def _elo_ratings(tables: RunTables, settings: RatingSettings) -> dict[str, Any]:
    """Return the first dimension's leaderboard, where other tools look for it, and the others."""
    reports = {}
    leaderboard = by_dimension(rows_of(LeaderboardRow, tables.leaderboard))
    for dimension in tables.elo_ratings:
        models = set(texts_of(tables.judge_verdicts[dimension], "settled_by"))
        reports[dimension] = elo_report(
            leaderboard.get(dimension, ()),
            arena=f"{settings.arena}/{dimension}",
            judge_model=", ".join(sorted(models)) or None,
            resampling=settings.resampling,
        )
    (_, first), *others = reports.items()
    return {**first, **({"other_dimensions": dict(others)} if others else {})}


def _elo_per_perm(tables: RunTables) -> bytes:
    arrays: dict[str, Any] = {}
    for dimension, traces in tables.elo_traces.items():
        rows = rows_of(EloRow, tables.elo_ratings[dimension])
        unrated = {row.entrant_id for row in rows if row.is_primary and row.mean is None}
        ratings = traces.ratings.astype(np.float64)
        ratings[:, [name in unrated for name in traces.entrants]] = np.nan
        arrays[f"{dimension}__data"] = ratings
        arrays[f"{dimension}__entrants"] = np.array(traces.entrants, dtype=np.str_)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
