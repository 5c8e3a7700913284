"""From settled pairs to ratings, intervals, win rates, and the rating methods side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tournament_assets.graph.outputs import (
    Made,
    Markdown,
    markdown_list,
    markdown_table,
    report_table,
)
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import code_judgments, code_samples, pairwise_winrates
from tournament_assets.ratings.rating_methods import comparison_rows, style_control_rows
from tournament_assets.ratings.rating_tables import bradley_terry_rows, elo_rows, trace_elo
from tournament_assets.reports import rating_method_tables as tables
from tournament_assets.reports.figures.figures import png_markdown, win_rate_matrix_figure
from tournament_assets.reports.leaderboard import leaderboard_cells
from tournament_assets.storage.tables import StoredTable, rows_of
from tournament_assets.tournament.asset_rows import (
    BradleyTerryRow,
    EloRow,
    RatingMethodRow,
    ResponseRow,
    StyleRow,
    WinRateRow,
)
from tournament_assets.tournament.battles import settings_of_run
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.fingerprints import fingerprint, fingerprint_bytes
from tournament_assets.workflows.adaptive_judging import sides_of
from tournament_assets.workflows.table_rows import judgments_of

_COUNTS = ("wins_a", "wins_b", "ties", "inconsistent", "same_text", "unjudged")


@dataclass(frozen=True)
class EloOptions:
    """Options of one run.

    Attributes:
        n_permutations: Rate this many orderings instead of the configured number.
    """

    n_permutations: int | None = None


def elo_traces(
    config: TournamentConfig, mode: Mode, verdicts: StoredTable, options: EloOptions
) -> Made[EloTraces]:
    """Every entrant's Elo rating after each of many random orderings of the decisive pairs.

    Ties, inconsistent and unjudged pairs are left out.
    """
    matches = code_judgments(judgments_of(verdicts), entrants=config.entrant_ids)
    settings = settings_of_run(config, mode=mode, n_permutations=options.n_permutations)
    # Elo has no weights: a match that stands for several is played as often.
    traces = trace_elo(matches.repeated(), settings)
    return Made(
        traces,
        metadata={
            "judged_pairs": len(verdicts),
            "decisive_matches": traces.n_matches,
            "permutations": traces.ratings.shape[0],
            "k_factor": traces.k_factor,
            "shuffle_seed": traces.seed,
        },
        version=_traces_version(traces),
    )


def _traces_version(traces: EloTraces) -> str:
    return fingerprint(
        {
            "ratings": fingerprint_bytes(traces.ratings.tobytes()),
            "matches": traces.matches_per_entrant.tolist(),
            "entrants": traces.entrants,
            "k_factor": traces.k_factor,
            "seed": traces.seed,
            "initial_rating": traces.initial_rating,
        }
    )


def elo_ratings(
    config: TournamentConfig,
    mode: Mode,
    dimension: str,
    verdicts: StoredTable,
    traces: EloTraces,
    decisions: pd.DataFrame | None = None,
) -> Made[list[EloRow]]:
    """Elo ratings with both intervals, and the same for a sweep of K-factors.

    The order interval and the SEM show only how much the order of the pairs matters. The
    sampling interval comes from resampling whole prompts: it says how far the rating could be
    off because only these prompts were judged. Where pairs stop early, a match that stands for
    several prompts is played as often, and those are told apart of whom the judging decided it:
    resamples of prompts know nothing of when a pair stopped.
    """
    matches = code_judgments(judgments_of(verdicts), entrants=config.entrant_ids)
    settings = settings_of_run(config, mode=mode, n_permutations=traces.ratings.shape[0])
    rows = elo_rows(
        matches.repeated(),
        traces,
        shares=matches,
        told_apart=None if decisions is None else sides_of(decisions),
        dimension=dimension,
        settings=settings,
    )
    return Made(
        rows,
        metadata={
            **_elo_metadata([row for row in rows if row.is_primary]),
            "decisive_matches": traces.n_matches,
            "prompts": len(matches.prompts),
            "judge": config.judge_label,
        },
    )


def _elo_metadata(primary: Sequence[EloRow]) -> dict[str, Any]:

    cells = leaderboard_cells(primary)
    return {
        "leaderboard": report_table(cells, columns=cells.headers[:-1]),
        "leader": primary[0].entrant_id if primary[0].rank else "no entrant",
        **{f"mean_{row.entrant_id}": round(row.mean, 1) for row in primary if row.mean is not None},
    }


def bradley_terry_ratings(
    config: TournamentConfig,
    mode: Mode,
    dimension: str,
    verdicts: StoredTable,
) -> Made[list[BradleyTerryRow]]:
    """Bradley-Terry ratings on the Elo scale, ties as half wins, prompts resampled.

    Where the pairs do not determine a rating or a bound, it is absent and a note says why.
    """
    rows = bradley_terry_rows(
        code_judgments(judgments_of(verdicts), entrants=config.entrant_ids),
        dimension=dimension,
        settings=settings_of_run(config, mode=mode),
    )
    columns = ("entrant_id", "rating", "sampling_low", "sampling_high", "note")
    return Made(
        rows,
        metadata={
            "ratings": markdown_table(rows, columns),
            "resamples_without_a_rating": rows[0].n_degenerate,
        },
    )


def model_comparison(
    config: TournamentConfig,
    mode: Mode,
    dimension: str,
    verdicts: StoredTable,
    traces: EloTraces,
) -> Made[list[RatingMethodRow]]:
    """Elo, Bradley-Terry and Davidson on the same pairs, and where they disagree.

    An inconsistent pair counts as a tie; Elo leaves ties out. Where a model has no rating, it
    is absent and a note says why.
    """
    preferences = code_judgments(judgments_of(verdicts), entrants=config.entrant_ids)
    # As many orderings as the ratings of this run have.
    settings = settings_of_run(config, mode=mode, n_permutations=traces.ratings.shape[0])
    rows = comparison_rows(preferences.repeated(), dimension=dimension, settings=settings)
    order = list(dict.fromkeys(row.entrant_id for row in rows))
    return Made(
        rows,
        metadata={
            "side_by_side": report_table(tables.side_by_side_cells(rows, order)),
            "disagreements": markdown_list(tables.disagreement_sentences(rows)),
            **_tie_parameter(rows),
            "notes": markdown_list(tables.comparison_notes(rows)),
        },
    )


def _tie_parameter(rows: Sequence[RatingMethodRow]) -> dict[str, float]:
    # Absent or infinite is no number; the notes say it in words.
    found = next(row.tie_parameter for row in rows if row.model == "davidson")
    return {} if found is None or math.isinf(found) else {"davidson_tie_parameter": found}


@dataclass(frozen=True)
class StyleOptions:
    """Options of one run.

    Attributes:
        penalty: Ridge penalty on the effects of style; 0 is none.
    """

    penalty: float = 0.0


def style_control(
    config: TournamentConfig,
    mode: Mode,
    dimension: str,
    verdicts: StoredTable,
    responses: Mapping[str, pd.DataFrame],
    options: StyleOptions,
) -> Made[list[StyleRow]]:
    """Bradley-Terry ratings as if all responses were equally long and laid out alike.

    A feature of style whose effect the pairs do not determine is left out, and its note says
    why. Without any feature left there is no rating at equal style.
    """
    rows = style_control_rows(
        code_samples(judgments_of(verdicts), entrants=config.entrant_ids),
        response_texts(responses),
        dimension=dimension,
        penalty=options.penalty,
        settings=settings_of_run(config, mode=mode),
    )
    features = [row for row in rows if row.kind == "feature"]
    refused = [f"{row.name}: {row.note}" for row in features if row.points is None]
    columns = ("kind", "name", "points", "low", "high", "note")
    return Made(
        rows,
        metadata={
            "ratings_at_equal_style": markdown_table(rows, columns, limit=len(rows)),
            "penalty": options.penalty,
            "features_controlled": len(features) - len(refused),
            "features_left_out": markdown_list(refused or ["none"]),
        },
    )


def response_texts(responses: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], str]:
    """Return what each entrant answered, by entrant and prompt."""
    return {
        (entrant, row.prompt_id): row.response
        for entrant, frame in responses.items()
        for row in rows_of(ResponseRow, frame)
    }


def win_rates(
    config: TournamentConfig, dimension: str, verdicts: StoredTable
) -> Made[list[WinRateRow]]:
    """Wins, losses, ties, inconsistent, same-text and unjudged pairs of every two entrants.

    An inconsistent pair and one of the same text count as ties in the rate; an unjudged one
    counts as nothing.
    """
    names = ("entrant_a", "entrant_b", *_COUNTS, "judged", "win_rate_a")
    rows = [
        WinRateRow(dimension=dimension, **{name: getattr(counts, name) for name in names})
        for counts in pairwise_winrates(judgments_of(verdicts))
    ]
    columns = ("entrant_a", "entrant_b", "win_rate_a", *_COUNTS)
    picture = png_markdown(win_rate_matrix_figure(rows, config.entrant_ids), "win-rate matrix")
    return Made(
        rows,
        metadata={
            "pairs_of_entrants": len(rows),
            "win_rates": markdown_table(rows, columns, limit=20),
            "matrix": Markdown(picture),
        },
    )
