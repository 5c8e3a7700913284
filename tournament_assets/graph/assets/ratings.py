"""From settled pairs to ratings, intervals and win rates."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from tournament_assets.graph.outputs import (
    Table,
    markdown_table,
    report_table,
    table_asset,
    table_result,
)
from tournament_assets.graph.partitions import asset_key, by_mode_and_dimension, partition_values
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import code_judgments, pairwise_winrates
from tournament_assets.storage.tables import StoredTable
from tournament_assets.tournament.battles import RatingSettings, settings_of_run
from tournament_assets.tournament.fingerprints import fingerprint, fingerprint_bytes, short
from tournament_assets.workflows.plan import TournamentPlan, mode_of, settings_version
from tournament_assets.workflows.table_rows import judgments_of


class EloConfig(dg.Config):
    """Options of one run."""

    n_permutations: int | None = None
    """Rate this many orderings instead of the configured number."""


def _elo_table(primary: Sequence[dict[str, Any]]) -> dg.MarkdownMetadataValue:
    from tournament_assets.reports.leaderboard import leaderboard_cells

    cells = leaderboard_cells([{**row, "win_rate": None} for row in primary])
    return report_table(cells, columns=cells.headers[:-1])


def build_rating_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build the traces, ratings and win rates of one tournament."""
    tournament = plan.config
    group = plan.group("4_ratings")
    verdicts = dg.AssetIn(key=asset_key(plan, "judge_verdicts"))

    def settings_for(
        context: dg.AssetExecutionContext, n_permutations: int | None = None
    ) -> RatingSettings:
        mode = mode_of(partition_values(context))
        return settings_of_run(tournament, mode=mode, n_permutations=n_permutations)

    @dg.asset(
        key=asset_key(plan, "elo_traces"),
        ins={"verdicts": verdicts},
        partitions_def=by_mode_and_dimension(plan),
        group_name=group,
        code_version=settings_version(plan, "elo_traces"),
        io_manager_key="npz_io_manager",
        kinds={"numpy"},
    )
    def elo_traces(
        context: dg.AssetExecutionContext, config: EloConfig, verdicts: StoredTable
    ) -> dg.MaterializeResult[EloTraces]:
        """Every entrant's Elo rating after each of many random orderings of the decisive pairs.

        Ties, inconsistent and unjudged pairs are left out.
        """
        from tournament_assets.ratings.rating_tables import trace_elo

        matches = code_judgments(judgments_of(verdicts), entrants=tournament.entrant_ids)
        traces = trace_elo(matches, settings_for(context, config.n_permutations))
        version = fingerprint(
            {
                "ratings": fingerprint_bytes(traces.ratings.tobytes()),
                "matches": traces.matches_per_entrant.tolist(),
                "entrants": traces.entrants,
                "k_factor": traces.k_factor,
                "seed": traces.seed,
                "initial_rating": traces.initial_rating,
            }
        )
        return dg.MaterializeResult(
            value=traces,
            data_version=dg.DataVersion(version),
            metadata={
                "judged_pairs": len(verdicts),
                "decisive_matches": traces.n_matches,
                "permutations": traces.ratings.shape[0],
                "k_factor": traces.k_factor,
                "shuffle_seed": traces.seed,
                "content_hash": short(version),
            },
        )

    @table_asset(
        plan,
        "elo_ratings",
        stage="4_ratings",
        ins={"verdicts": verdicts, "traces": dg.AssetIn(key=asset_key(plan, "elo_traces"))},
        partitions_def=by_mode_and_dimension(plan),
    )
    def elo_ratings(
        context: dg.AssetExecutionContext, verdicts: StoredTable, traces: EloTraces
    ) -> Table:
        """Elo ratings with both intervals, and the same for a sweep of K-factors.

        The order interval and the SEM show only how much the order of the pairs matters. The
        sampling interval comes from resampling whole prompts: it says how far the rating could be
        off because only these prompts were judged.
        """
        from tournament_assets.ratings.rating_tables import elo_rows
        from tournament_assets.reports.figures.figures import k_sensitivity_figure, png_markdown

        matches = code_judgments(judgments_of(verdicts), entrants=tournament.entrant_ids)
        rows = elo_rows(
            matches,
            traces,
            dimension=partition_values(context)["dimension"],
            settings=settings_for(context, traces.ratings.shape[0]),
        )
        primary = [row for row in rows if row["is_primary"]]
        result = table_result(
            "elo_ratings",
            rows,
            metadata={
                "leaderboard": _elo_table(primary),
                "leader": primary[0]["entrant_id"] if primary[0]["rank"] else "nobody",
                "decisive_matches": traces.n_matches,
                "prompts": len(matches.prompts),
                **{
                    f"mean_{row['entrant_id']}": round(row["mean"], 1)
                    for row in primary
                    if row["mean"] is not None
                },
                "judge": tournament.judge_label,
            },
        )
        picture = png_markdown(k_sensitivity_figure(rows), "mean Elo by K-factor")
        return result._replace(
            metadata={**(result.metadata or {}), "k_sensitivity": dg.MetadataValue.md(picture)}
        )

    @table_asset(
        plan,
        "bradley_terry_ratings",
        stage="4_ratings",
        ins={"verdicts": verdicts},
        partitions_def=by_mode_and_dimension(plan),
    )
    def bradley_terry_ratings(context: dg.AssetExecutionContext, verdicts: StoredTable) -> Table:
        """Bradley-Terry ratings on the Elo scale, ties as half wins, prompts resampled.

        Where the pairs do not determine a rating or a bound, it is absent and a note says why.
        """
        from tournament_assets.ratings.rating_tables import bradley_terry_rows

        rows = bradley_terry_rows(
            code_judgments(judgments_of(verdicts), entrants=tournament.entrant_ids),
            dimension=partition_values(context)["dimension"],
            settings=settings_for(context),
        )
        return table_result(
            "bradley_terry_ratings",
            rows,
            metadata={
                "ratings": markdown_table(
                    rows, ("entrant_id", "rating", "sampling_low", "sampling_high", "note")
                ),
                "resamples_without_a_rating": rows[0]["n_degenerate"],
            },
        )

    @table_asset(
        plan,
        "win_rates",
        stage="4_ratings",
        ins={"verdicts": verdicts},
        partitions_def=by_mode_and_dimension(plan),
    )
    def win_rates(context: dg.AssetExecutionContext, verdicts: StoredTable) -> Table:
        """Wins, losses, ties, inconsistent, same-text and unjudged pairs of every two entrants.

        An inconsistent pair and one of the same text count as ties in the rate; an unjudged one
        counts as nothing.
        """
        from tournament_assets.reports.figures.figures import png_markdown, win_rate_matrix_figure

        dimension = partition_values(context)["dimension"]
        rows = [
            {
                "dimension": dimension,
                "entrant_a": counts.entrant_a,
                "entrant_b": counts.entrant_b,
                "wins_a": counts.wins_a,
                "wins_b": counts.wins_b,
                "ties": counts.ties,
                "inconsistent": counts.inconsistent,
                "same_text": counts.same_text,
                "unjudged": counts.unjudged,
                "judged": counts.judged,
                "win_rate_a": counts.win_rate_a,
            }
            for counts in pairwise_winrates(judgments_of(verdicts))
        ]
        result = table_result(
            "win_rates",
            rows,
            metadata={
                "pairs_of_entrants": len(rows),
                "win_rates": markdown_table(
                    rows,
                    (
                        "entrant_a",
                        "entrant_b",
                        "win_rate_a",
                        "wins_a",
                        "wins_b",
                        "ties",
                        "inconsistent",
                        "same_text",
                        "unjudged",
                    ),
                    limit=20,
                ),
            },
        )
        picture = png_markdown(
            win_rate_matrix_figure(rows, tournament.entrant_ids), "win-rate matrix"
        )
        return result._replace(
            metadata={**(result.metadata or {}), "matrix": dg.MetadataValue.md(picture)}
        )

    return [elo_traces, elo_ratings, bradley_terry_ratings, win_rates]
