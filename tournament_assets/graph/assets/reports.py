"""From ratings to the tables people read: battles and leaderboard."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.audits.outages import outage_sentences
from tournament_assets.graph.assets.bank_inputs import read_inputs
from tournament_assets.graph.assets.freshness import (
    LEADERBOARD_CHECK,
    LEADERBOARD_DESCRIPTION,
    leaderboard_result,
)
from tournament_assets.graph.assets.verdicts import judge_models_of
from tournament_assets.graph.outputs import (
    Shown,
    Table,
    report_table,
    table_asset,
    table_result,
    written_result,
)
from tournament_assets.graph.partitions import asset_key, by_mode, partitions_of, same_mode
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.storage.table_schemas import SCHEMAS
from tournament_assets.storage.tables import StoredTable, iterate_rows, table_rows, write_table
from tournament_assets.tournament.battles import battles_from_judgments
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.workflows.plan import TournamentPlan, by_partition
from tournament_assets.workflows.provenance import Frames, LargeTables, name_models
from tournament_assets.workflows.table_rows import judgments_of

_PLOTTED_ENTRANTS = 12
"""More lines than these are no plot."""


def rows_by_dimension(
    plan: TournamentPlan, table: str, frames: Frames
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a table, by dimension, from what Dagster loaded for one mode."""
    return {
        dimension: table_rows(table, frame)
        for dimension, frame in by_partition(frames, plan.config.dimension_names).items()
    }


def outages_of(plan: TournamentPlan, audit: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the sentences that must stand first on anything published.

    Args:
        plan: The tournament.
        audit: Rows of table "audit".
    """
    return outage_sentences(
        audit,
        max_unjudged_rate=plan.config.checks.max_unjudged_rate,
        max_missing_spread=plan.config.checks.max_missing_spread,
    )


def outage_metadata(outages: Sequence[str]) -> dict[str, Any]:
    """Return what a materialisation says first, if there is anything to say."""
    if not outages:
        return {}
    return {"outages": sentence_list(outages)}


def sentence_list(sentences: Iterable[str]) -> dg.MarkdownMetadataValue:
    """Show sentences where a reader of the UI sees them at once; they are escaped."""
    return dg.MetadataValue.md("\n".join(f"- {escape_markdown(each)}" for each in sentences))


def _plotted_ratings(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return ratings under the same names in every mode, which the UI plots side by side."""
    if len({row["entrant_id"] for row in rows}) > _PLOTTED_ENTRANTS:
        return {}
    return {
        f"elo_{row['dimension']}_{row['entrant_id']}": round(row["mean"], 1)
        for row in sorted(rows, key=lambda row: (row["dimension"], row["entrant_id"]))
        if row["mean"] is not None
    }


def _prompts_behind_lead(
    config: TournamentConfig, ratings: pd.DataFrame, verdicts: StoredTable
) -> tuple[str, ...]:
    from tournament_assets.audits.prompt_findings import prompts_behind_lead

    rated = [
        row
        for row in table_rows("elo_ratings", ratings)
        if row["is_primary"] and row["n_entrant_matches"] and row["rank"] is not None
    ]
    if len(rated) < 2:
        return ()
    first, second, *_ = sorted(rated, key=lambda row: (row["rank"], -(row["mean"] or 0.0)))
    return prompts_behind_lead(
        code_judgments(judgments_of(verdicts), entrants=config.entrant_ids),
        leader=first["entrant_id"],
        runner_up=second["entrant_id"],
    )


def build_report_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `battles` and `leaderboard` for one tournament."""
    config = plan.config

    def every_dimension(name: str) -> dg.AssetIn:
        return partitions_of(asset_key(plan, name), same_mode())

    @table_asset(
        plan,
        "battles",
        stage="5_report",
        ins={"verdicts": every_dimension("judge_verdicts")},
        partitions_def=by_mode(),
    )
    def battles(verdicts: LargeTables) -> Table:
        """Every settled pair as other tools know it; the ratings can be recomputed from it alone.

        Unjudged pairs are no battles. An inconsistent pair is a tie that says so.
        """
        rows = (
            {name: getattr(battle, name) for name in SCHEMAS["battles"].names}
            for table in by_partition(verdicts, config.dimension_names).values()
            for judgment, row in zip(
                judgments_of(table),
                iterate_rows("judge_verdicts", table, ("judge_model",)),
                strict=True,
            )
            for battle in battles_from_judgments([judgment], judge_model=row["judge_model"])
        )
        shown = Shown(rows, ("question_id", "dimension", "model_a", "model_b", "winner"))
        written = write_table("battles", shown)
        return written_result(
            written, metadata={"battles": len(written), "first_rows": shown.markdown}
        )

    @table_asset(
        plan,
        "leaderboard",
        stage="5_report",
        ins={
            "elo": every_dimension("elo_ratings"),
            "bradley_terry": every_dimension("bradley_terry_ratings"),
            "win_rates": every_dimension("win_rates"),
            "verdicts": every_dimension("judge_verdicts"),
            "audit": dg.AssetIn(key=asset_key(plan, "audit")),
        },
        partitions_def=by_mode(),
        checks={LEADERBOARD_CHECK: LEADERBOARD_DESCRIPTION},
    )
    def leaderboard(
        context: dg.AssetExecutionContext,
        elo: Frames,
        bradley_terry: Frames,
        win_rates: Frames,
        verdicts: LargeTables,
        audit: pd.DataFrame,
    ) -> Table:
        """Who is better on which quality: ranks, ratings and both intervals, by dimension.

        What was lost on the way stands first, where a reader must know of it.
        """
        from tournament_assets.reports.figures.figures import ladder_figure, png_markdown
        from tournament_assets.reports.leaderboard import build_leaderboard, leaderboard_cells
        from tournament_assets.reports.separation import verdict_sentence

        names = config.dimension_names
        strengths = by_partition(bradley_terry, names)
        rates = by_partition(win_rates, names)
        judge_model = name_models(
            model
            for table in by_partition(verdicts, names).values()
            for model in judge_models_of(table)
        )
        judged = by_partition(verdicts, names)
        confidence = config.ratings.confidence
        rows: list[dict[str, Any]] = []
        findings: dict[str, Any] = {}
        pictures: dict[str, Any] = {}
        for dimension, ratings in by_partition(elo, names).items():
            ranked = build_leaderboard(
                elo_ratings=ratings,
                bradley_terry=strengths[dimension],
                win_rates=rates[dimension],
                judge_model=judge_model,
                judge_label=config.judge_label,
                lead_rests_on=_prompts_behind_lead(config, ratings, judged[dimension]),
            )
            rows.extend(ranked)
            findings[f"verdict_{dimension}"] = verdict_sentence(
                ranked, dimension=dimension, confidence=confidence
            )
            findings[f"leaderboard_{dimension}"] = report_table(leaderboard_cells(ranked))
            pictures[f"ladder_{dimension}"] = dg.MetadataValue.md(
                png_markdown(
                    ladder_figure(ranked, dimension), f"Elo ratings on {dimension} with intervals"
                )
            )
        return table_result(
            "leaderboard",
            rows,
            metadata={
                **outage_metadata(outages_of(plan, table_rows("audit", audit))),
                **findings,
                "judge": config.judge_label,
                "judge_model": judge_model,
                **_plotted_ratings(rows),
                **pictures,
            },
            # Weights are not hashed for this; the sensor that watches the inputs sees them too.
            checks=[
                leaderboard_result(
                    plan, read_inputs(plan, "prompt_file", "rubrics"), context.instance
                )
            ],
        )

    return [battles, leaderboard]
