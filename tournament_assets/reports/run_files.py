"""The files of a run directory, in the layout that other tools of the field know.

manifest.json                  what was run, from which inputs, when, and what it cost
matches/matches.jsonl          one record for each dimension and pair
verdicts/<dimension>.jsonl     one record for each pair, with both replies
elo_results.json               mean and SEM by entrant, dimension and K-factor
elo_ratings.json               leaderboards with sampling intervals
elo_per_perm.npz               the ratings after every ordering
pairwise_winrates.csv          wins, losses and ties of every two entrants
battles.parquet                every settled pair; ratings can be recomputed from it alone
report.md, report.html         the pages people read
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tournament_assets.adapters.tables import encode_parquet, table_rows
from tournament_assets.ratings.traces import EloTraces
from tournament_assets.tournament.battles import EloReport, RatingEntry


@dataclass(frozen=True)
class RunTables:
    """What a run directory is made from; mappings are by dimension, in the order of the config.

    Attributes:
        match_lists: Table `match_list`.
        replies: Table `judge_replies`.
        verdicts: Table `judge_verdicts`.
        elo_ratings: Table `elo_ratings`.
        elo_traces: Ratings after every ordering.
        win_rates: Table `win_rates`.
        battles: Table `battles`, all dimensions.
        report: Table `report`.
    """

    match_lists: Mapping[str, pd.DataFrame]
    replies: Mapping[str, pd.DataFrame]
    verdicts: Mapping[str, pd.DataFrame]
    elo_ratings: Mapping[str, pd.DataFrame]
    elo_traces: Mapping[str, EloTraces]
    win_rates: Mapping[str, pd.DataFrame]
    battles: pd.DataFrame
    report: pd.DataFrame


def build_run_files(
    tables: RunTables, *, manifest: Mapping[str, Any], arena: str, n_bootstraps: int, seed: int
) -> dict[str, bytes]:
    """Build every file of a run directory, by relative path.

    Args:
        tables: What to write down.
        manifest: What `manifest.json` says.
        arena: The tournament and mode, for `elo_ratings.json`.
        n_bootstraps: Resamples behind the sampling intervals.
        seed: What seeded the resampling.
    """
    documents = {row["format"]: row["content"] for row in table_rows("report", tables.report)}
    files = {
        "manifest.json": _json(manifest),
        "matches/matches.jsonl": _json_lines(
            row for frame in tables.match_lists.values() for row in table_rows("match_list", frame)
        ),
        "elo_results.json": _json(_elo_results(tables)),
        "elo_ratings.json": _json(
            _elo_reports(tables, arena=arena, n_bootstraps=n_bootstraps, seed=seed)
        ),
        "elo_per_perm.npz": _elo_per_perm(tables.elo_traces),
        "pairwise_winrates.csv": _csv(
            [row for frame in tables.win_rates.values() for row in table_rows("win_rates", frame)],
            columns=list(next(iter(tables.win_rates.values())).columns),
        ),
        "battles.parquet": encode_parquet("battles", tables.battles),
        "report.md": documents["markdown"].encode(),
        "report.html": documents["html"].encode(),
    }
    for dimension, frame in tables.verdicts.items():
        files[f"verdicts/{dimension}.jsonl"] = _json_lines(
            _verdict_records(
                table_rows("judge_verdicts", frame),
                table_rows("judge_replies", tables.replies[dimension]),
            )
        )
    return files


def _verdict_records(
    verdicts: Sequence[Mapping[str, Any]], replies: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    texts = {(row["request_key"], row["asking"]): row["reply"] for row in replies}
    return [
        {
            **verdict,
            "reply_ab": texts[verdict["request_key_ab"], verdict["asking_ab"]],
            "reply_ba": texts[verdict["request_key_ba"], verdict["asking_ba"]],
        }
        for verdict in verdicts
    ]


def _elo_results(tables: RunTables) -> dict[str, Any]:
    primary: dict[str, Any] = {}
    sweep: dict[str, Any] = {}
    decisive: dict[str, int] = {}
    default_k: float | None = None
    for dimension, frame in tables.elo_ratings.items():
        primary[dimension] = {}
        sweep[dimension] = {}
        for row in table_rows("elo_ratings", frame):
            by_entrant = sweep[dimension].setdefault(f"{row['k_factor']:g}", {})
            by_entrant[row["entrant_id"]] = {"mean": row["mean"], "sem": row["sem"]}
            decisive[dimension] = row["n_decisive_matches"]
            if row["is_primary"]:
                default_k = row["k_factor"]
                primary[dimension][row["entrant_id"]] = {
                    key: row[key]
                    for key in (
                        "rank",
                        "mean",
                        "sem",
                        "order_low",
                        "order_high",
                        "sampling_low",
                        "sampling_high",
                        "n_entrant_matches",
                    )
                }
    return {
        "default_k": default_k,
        "primary": primary,
        "k_sensitivity": sweep,
        "n_decisive_matches": decisive,
    }


def _elo_reports(
    tables: RunTables, *, arena: str, n_bootstraps: int, seed: int
) -> dict[str, dict[str, Any]]:
    reports: dict[str, dict[str, Any]] = {}
    for dimension, frame in tables.elo_ratings.items():
        verdicts = table_rows("judge_verdicts", tables.verdicts[dimension])
        rows = [row for row in table_rows("elo_ratings", frame) if row["is_primary"]]
        reports[dimension] = EloReport(
            arena=f"{arena}/{dimension}",
            judge_model=verdicts[0]["judge_model"] if verdicts else "",
            n_bootstraps=n_bootstraps,
            seed=seed,
            ratings=tuple(
                RatingEntry(
                    model=row["entrant_id"],
                    rating=row["mean"],
                    ci_low=row["sampling_low"],
                    ci_high=row["sampling_high"],
                    n_battles=row["n_entrant_matches"],
                )
                for row in rows
            ),
        ).to_dict()
    return reports


def _elo_per_perm(traces_by_dimension: Mapping[str, EloTraces]) -> bytes:
    arrays: dict[str, Any] = {}
    for dimension, traces in traces_by_dimension.items():
        arrays[f"{dimension}__data"] = traces.ratings.astype(np.float64)
        arrays[f"{dimension}__entrants"] = np.array(traces.entrants, dtype=np.str_)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _json_lines(rows: Any) -> bytes:
    return "".join(
        json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows
    ).encode("utf-8", errors="backslashreplace")


def _csv(rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str]) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue().encode()
