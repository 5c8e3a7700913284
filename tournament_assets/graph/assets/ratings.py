"""From settled pairs to ratings, intervals, win rates, and the rating methods side by side."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from tournament_assets.foundation.fingerprints import fingerprint, fingerprint_bytes
from tournament_assets.foundation.formatting import format_claim
from tournament_assets.graph.outputs import (
    Made,
    Markdown,
    Metadata,
    markdown_list,
    markdown_table,
    report_table,
)
from tournament_assets.graph.rows import Inputs, Options, Step, ThisDimension, ThisMode
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import code_judgments, code_samples, pairwise_winrates
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    METHODS,
    STYLE,
    TIES,
    rating_rows,
    rows_by,
)
from tournament_assets.ratings.rating_tables import claimed, elo_rows, trace_elo
from tournament_assets.reports import rating_method_tables as tables
from tournament_assets.reports.figures.figures import draw_win_grid, figure_markdown
from tournament_assets.storage.tables import StoredTable, rows_of
from tournament_assets.tournament.asset_rows import (
    EloRow,
    RatingRow,
    ResponseRow,
    WinRateRow,
)
from tournament_assets.tournament.battles import settings_of_run
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.prompts import AnswerKey, answer_key
from tournament_assets.verdicts.rounds import outcome_of
from tournament_assets.verdicts.table_rows import judgments_of

_COUNTS = ("wins_a", "wins_b", "ties", "inconsistent", "same_text", "unjudged")


@dataclass(frozen=True)
class EloOptions:
    """Options of one run.

    Attributes:
        n_permutations: Rate this many orderings instead of the configured number.
    """

    n_permutations: int | None = None


def elo_traces(
    config: TournamentConfig,
    mode: ThisMode,
    judge_verdicts: StoredTable,
    options: Options[EloOptions],
) -> Made[EloTraces]:
    """Every entrant's Elo rating after each of many random orderings of the decisive pairs.

    Ties, inconsistent and unjudged pairs are left out.
    """
    matches = code_judgments(judgments_of(judge_verdicts), entrants=config.entrant_ids)
    settings = settings_of_run(config, mode=mode, n_permutations=options.n_permutations)
    # Elo has no weights: a match that stands for several is played as often.
    traces = trace_elo(matches.repeated(), settings)
    return Made(
        traces,
        metadata={
            "judged_pairs": len(judge_verdicts),
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
    mode: ThisMode,
    dimension: ThisDimension,
    judge_verdicts: StoredTable,
    elo_traces: EloTraces,
) -> Made[list[EloRow]]:
    """Elo ratings by permutation, and the same for a sweep of K-factors.

    The SEM shows only how much the order of the pairs matters; how far a rating could be off
    because only these prompts were judged is in `ratings`. Where pairs stop early, a match that
    stands for several prompts is played that many times.
    """
    matches = code_judgments(judgments_of(judge_verdicts), entrants=config.entrant_ids)
    settings = settings_of_run(config, mode=mode, n_permutations=elo_traces.ratings.shape[0])
    rows = elo_rows(matches.repeated(), elo_traces, dimension=dimension, settings=settings)
    return Made(
        rows,
        metadata={
            **_elo_metadata([row for row in rows if row.is_primary]),
            "decisive_matches": elo_traces.n_matches,
            "prompts": len(matches.prompts),
            "judge": config.label_of(mode),
        },
    )


def _elo_metadata(primary: Sequence[EloRow]) -> Metadata:
    columns = ("rank", "entrant_id", "mean", "sem", "note")
    return {
        "elo_ratings": markdown_table(primary, columns, limit=len(primary)),
        "leader": primary[0].entrant_id if primary[0].rank else "no entrant",
        **{f"mean_{row.entrant_id}": round(row.mean, 1) for row in primary if row.mean is not None},
    }


@dataclass(frozen=True, slots=True)
class RatingInputs:
    """What one dimension is rated from, with every entrant's responses."""

    judge_verdicts: StoredTable
    elo_traces: EloTraces
    entrant_responses: Mapping[str, pd.DataFrame]
    judging_decisions: pd.DataFrame | None = None


def ratings(step: Step, inputs: Inputs[RatingInputs]) -> Made[list[RatingRow]]:
    """Every entrant's rating by every method, on the Elo scale.

    Bradley-Terry counts a tie as half a win and resamples prompts. Also given are its sandwich
    errors, Elo, Davidson, and the ratings as if all responses had the same length and layout, with
    the effect of style. A rating that a method cannot give is absent, and a note says why.
    """
    config, judgments = step.plan.config, judgments_of(inputs.judge_verdicts)
    matches = code_judgments(judgments, entrants=config.entrant_ids)
    evidence = Evidence(
        matches=matches,
        settings=settings_of_run(config, mode=step.mode),
        samples=code_samples(judgments, entrants=config.entrant_ids),
        traces=inputs.elo_traces,
        responses=response_texts(inputs.entrant_responses),
        tells_apart=True,
        decided=_decided(inputs.judging_decisions),
    )
    own = [name for name, each in METHODS.items() if each.rate is not None]
    rows = rating_rows(evidence, own, dimension=step.name)
    return Made(rows, metadata=_rating_metadata(rows))


def _rating_metadata(rows: Sequence[RatingRow]) -> Metadata:
    order = [row.entrant_id for row in rows if row.method == BRADLEY_TERRY]
    style = rows_by(rows, STYLE)
    columns = ("method", "entrant_id", "rating", "low", "high", "note")
    return {
        "side_by_side": report_table(tables.side_by_side_cells(rows, order)),
        "disagreements": markdown_list(tables.in_words(tables.disagreement_sentences(rows))),
        **_tie_parameter(rows),
        "notes": markdown_list(tables.comparison_notes(rows)),
        "ratings_at_equal_style": markdown_table(style, columns, limit=len(style)),
    }


def _tie_parameter(rows: Sequence[RatingRow]) -> dict[str, float]:
    # Absent and infinite values are not numbers; the notes explain them.
    found = next((row.rating for row in rows if row.method == TIES), None)
    return {} if found is None or math.isinf(found) else {"davidson_tie_parameter": found}


def response_texts(responses: Mapping[str, pd.DataFrame]) -> dict[tuple[str, AnswerKey], str]:
    """Return what each entrant answered, by entrant and prompt."""
    return {
        (entrant, answer_key(row)): row.response
        for entrant, frame in responses.items()
        for row in rows_of(ResponseRow, frame)
    }


def _decided(decisions: pd.DataFrame | None) -> frozenset[tuple[str, str]] | None:
    rounds = outcome_of(decisions)
    return None if rounds is None else rounds.decided


def win_rates(
    config: TournamentConfig,
    mode: ThisMode,
    judge_verdicts: StoredTable,
    judging_decisions: pd.DataFrame | None = None,
) -> Made[list[WinRateRow]]:
    """Wins, losses and ties of every two entrants, and which of them is better, if either is.

    An inconsistent pair and one of the same text count as ties in the rate; an unjudged one
    counts as nothing. The claims of a dimension hold together: they rest on the Bradley-Terry
    ratings, or on the judging's own decisions where pairs stop early.
    """
    judgments = list(judgments_of(judge_verdicts))
    evidence = Evidence(
        matches=code_judgments(judgments, entrants=config.entrant_ids),
        settings=settings_of_run(config, mode=mode),
        decided=_decided(judging_decisions),
    )
    rows = claimed(pairwise_winrates(judgments), evidence.standings)
    within = config.ratings.equivalent_within
    shown = [replace(row, claim=format_claim(row.claim, within)) for row in rows]
    # The sign of the difference shows a decision against the ratings.
    columns = ("entrant_a", "entrant_b", "claim", "difference", "win_rate_a", *_COUNTS)
    picture = figure_markdown(draw_win_grid(rows, config.entrant_ids), "win-rate matrix")
    return Made(
        rows,
        metadata={
            "pairs_of_entrants": len(rows),
            "win_rates": markdown_table(shown, columns, limit=20),
            "matrix": Markdown(picture),
        },
    )
