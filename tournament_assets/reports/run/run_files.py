"""The files of a run directory, in a layout that other tools of the field read.

manifest.json                  what was run, from which inputs, when, and what it cost
matches/matches.jsonl          one record for each dimension and pair
verdicts/<dimension>.jsonl     one record for each pair, with both replies
rubrics/<dimension>.txt        the text that told the judge how to judge, where it is still known
elo_results.json               mean and SEM by entrant, dimension and K-factor
elo_ratings.json               the first dimension's leaderboard with sampling intervals
elo_ratings_<dimension>.json   the other dimensions'
elo_per_perm.npz               the ratings after every ordering
pairwise_winrates.csv          wins, losses and ties of every two entrants
battles.parquet, battles.jsonl every settled pair and how it was rated: `tournament battles rate`
                               gives the same ratings from either file alone
report.md, report.html         the pages people read
report.json                    their first screen for programs: title, question, answers, doubts
report_battles_<dimension>.html  the battles of a run that has too many for report.html
figures/                       the pictures, for a paper, as SVG
tables/leaderboard.tex         the leaderboard as a LaTeX table as wide as a page
tables/paper.tex               an article with that table, tables/figure1.pdf, methods.tex and
                               limitations.tex, each of which another article can read
tables/leaderboard.csv         the same for a spreadsheet, every column
leaderboard.parquet            the table `leaderboard`, all dimensions
SHA256SUMS                     the checksum of every other file, for `sha256sum --check`
"""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tournament_assets.battles.columnar import ALL_FIELDS, write_lines, write_parquet
from tournament_assets.battles.columns import complete_battle_table
from tournament_assets.battles.files import encode_elo_reports
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.reports.battle_pages import verdicts_with_replies
from tournament_assets.reports.claims import judges_of
from tournament_assets.reports.figures.figures import (
    EntrantEconomy,
    figure_files,
)
from tournament_assets.reports.leaderboard import leaderboard_csv
from tournament_assets.reports.report_tables import table_csv
from tournament_assets.reports.run.page import DATE_MARK
from tournament_assets.reports.run.paper import paper_files
from tournament_assets.storage.run_directory import FileContent
from tournament_assets.storage.tables import (
    AnyTable,
    StoredTable,
    encode_parquet,
    rows_of,
    texts_of,
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

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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
    rubrics: Mapping[str, str],
    economies: Sequence[EntrantEconomy],
) -> Iterator[tuple[str, FileContent]]:
    """Yield every file of a run directory with its relative path; large ones write themselves.

    Args:
        tables: The tables to write.
        manifest: The contents of `manifest.json`.
        settings: How the battles were rated, and the tournament and mode as the arena.
        rubrics: The rubrics' texts by dimension, where known.
        economies: The entrants' cost and speed.
    """
    yield "manifest.json", _json(manifest)
    finished = datetime.fromisoformat(manifest["finished_at"])
    date = f"{finished.day} {finished:%B %Y}"
    matches = (row for table in tables.match_list.values() for row in rows_of(MatchRow, table))
    yield "matches/matches.jsonl", partial(_write_json_lines, rows=matches)
    yield "elo_results.json", _json(_elo_results(tables))
    yield from encode_elo_reports(_elo_reports(tables, settings)).items()
    yield "elo_per_perm.npz", _elo_per_perm(tables)
    yield "pairwise_winrates.csv", _win_rates_csv(tables.win_rates)
    battles = complete_battle_table(tables.battles.arrow())
    for kind, write in (("parquet", write_parquet), ("jsonl", write_lines)):
        yield (
            f"battles.{kind}",
            partial(write, table=battles, names=ALL_FIELDS, settings=settings),
        )
    yield "leaderboard.parquet", encode_parquet(LeaderboardRow, tables.leaderboard)
    yield from _papers(tables, manifest, economies, settings).items()
    for page in rows_of(ReportPageRow, tables.report):
        # All others are the pages beside the report.
        name = {"markdown": "report.md", "html": "report.html"}.get(page.format, page.format)
        yield name, page.content.replace(DATE_MARK, f"{date} · ", 1).encode()
    for dimension, text in rubrics.items():
        yield f"rubrics/{dimension}.txt", f"{text}\n".encode()
    for dimension, table in tables.judge_verdicts.items():
        records = verdicts_with_replies(table, tables.judge_replies[dimension])
        yield f"verdicts/{dimension}.jsonl", partial(_write_json_lines, rows=records)


def _papers(
    tables: RunTables,
    manifest: Mapping[str, Any],
    economies: Sequence[EntrantEconomy],
    settings: RatingSettings,
) -> dict[str, bytes]:
    leaderboard = by_dimension(rows_of(LeaderboardRow, tables.leaderboard))
    figures = figure_files(
        leaderboard=leaderboard,
        win_rates={d: list(rows_of(WinRateRow, f)) for d, f in tables.win_rates.items()},
        judge_label=judges_of(row for rows in leaderboard.values() for row in rows),
        equivalent_within=settings.equivalent_within,
        economies=economies,
    )
    settled = len(tables.battles)
    paper = paper_files(leaderboard, manifest=manifest, settings=settings, settled=settled)
    return {
        **{f"figures/{name}": content for name, content in figures.items()},
        **{f"tables/{name}": content for name, content in paper.items()},
        "tables/leaderboard.csv": leaderboard_csv(leaderboard),
    }


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
                primary[dimension][row.entrant_id] = {
                    key: getattr(row, key)
                    for key in (
                        "rank",
                        "mean",
                        "sem",
                        "order_low",
                        "order_high",
                        "n_entrant_matches",
                    )
                }
    return {
        "default_k": default_k,
        "primary": primary,
        "k_sensitivity": sweep,
        "n_decisive_matches": decisive,
    }


def _elo_reports(tables: RunTables, settings: RatingSettings) -> dict[str, dict[str, Any]]:
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
    return reports


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


def _win_rates_csv(win_rates: Mapping[str, pd.DataFrame]) -> bytes:
    columns = list(next(iter(win_rates.values())).columns)
    rows = [row for frame in win_rates.values() for row in rows_of(WinRateRow, frame)]
    return table_csv(columns, ([getattr(row, name) for name in columns] for row in rows))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write_json_lines(file: IO[bytes], rows: "Iterable[DataclassInstance]") -> None:
    for row in rows:
        line = json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n"
        file.write(line.encode("utf-8", errors="backslashreplace"))
