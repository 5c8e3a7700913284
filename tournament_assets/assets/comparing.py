"""From settled pairs to the models side by side, and to ratings at equal style."""

import math
from typing import Any

import dagster as dg

from tournament_assets.adapters.tables import StoredTable, table_rows
from tournament_assets.assets.outputs import (
    Table,
    markdown_table,
    report_table,
    table_asset,
    table_result,
)
from tournament_assets.assets.partitions import (
    asset_key,
    by_mode_and_dimension,
    partition_values,
    partitions_of,
    same_mode_all_entrants,
)
from tournament_assets.assets.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.assets.provenance import Frames
from tournament_assets.assets.reply_rows import judgments_of
from tournament_assets.ratings.preferences import code_preferences
from tournament_assets.ratings.traces import EloTraces
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.tournament.rating_settings import settings_of_run


class StyleControlConfig(dg.Config):
    """Options of one run."""

    penalty: float = 0.0
    """Ridge penalty on the effects of style; 0 is none."""


def _list(lines: list[str]) -> dg.MarkdownMetadataValue:
    return dg.MetadataValue.md("\n".join(f"- {escape_markdown(line)}" for line in lines))


def build_comparing_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `model_comparison` and `style_control` for one tournament."""
    tournament = plan.config
    verdicts = dg.AssetIn(key=asset_key(plan, "judge_verdicts"))

    @table_asset(
        plan,
        "model_comparison",
        stage="4_ratings",
        ins={"verdicts": verdicts, "traces": dg.AssetIn(key=asset_key(plan, "elo_traces"))},
        partitions_def=by_mode_and_dimension(plan),
    )
    def model_comparison(
        context: dg.AssetExecutionContext, verdicts: StoredTable, traces: EloTraces
    ) -> Table:
        """Elo, Bradley-Terry, Davidson and Newman on the same pairs, and where they disagree.

        An inconsistent pair counts as a tie; Elo leaves ties out. Where a model has no rating, it
        is absent and a note says why.
        """
        from tournament_assets.ratings.comparison_rows import comparison_rows
        from tournament_assets.reports.side_by_side import (
            comparison_notes,
            disagreement_sentences,
            side_by_side_cells,
        )

        values = partition_values(context)
        rows = comparison_rows(
            code_preferences(judgments_of(verdicts), entrants=tournament.entrant_ids),
            dimension=values["dimension"],
            # As many orderings as the ratings of this run have.
            settings=settings_of_run(
                tournament, mode=mode_of(values), n_permutations=traces.ratings.shape[0]
            ),
        )
        order = list(dict.fromkeys(row["entrant_id"] for row in rows))
        return table_result(
            "model_comparison",
            rows,
            metadata={
                "side_by_side": report_table(side_by_side_cells(rows, order)),
                "disagreements": _list(disagreement_sentences(rows)),
                **_tie_parameter(rows),
                "notes": _list(comparison_notes(rows)),
            },
        )

    @table_asset(
        plan,
        "style_control",
        stage="4_ratings",
        ins={
            "verdicts": verdicts,
            "responses": partitions_of(
                asset_key(plan, "entrant_responses"), same_mode_all_entrants()
            ),
        },
        partitions_def=by_mode_and_dimension(plan),
    )
    def style_control(
        context: dg.AssetExecutionContext,
        config: StyleControlConfig,
        verdicts: StoredTable,
        responses: Frames,
    ) -> Table:
        """Bradley-Terry ratings as if all responses were equally long and laid out alike.

        A feature of style whose effect the pairs do not determine is left out, and its note says
        why. Without any feature left there is no rating at equal style.
        """
        from tournament_assets.ratings.comparison_rows import style_control_rows

        values = partition_values(context)
        rows = style_control_rows(
            code_preferences(judgments_of(verdicts), entrants=tournament.entrant_ids),
            {
                (entrant, row["prompt_id"]): row["response"]
                for entrant, frame in by_partition(responses, tournament.entrant_ids).items()
                for row in table_rows("entrant_responses", frame)
            },
            dimension=values["dimension"],
            penalty=config.penalty,
            settings=settings_of_run(tournament, mode=mode_of(values)),
        )
        features = [row for row in rows if row["kind"] == "feature"]
        refused = [f"{row['name']}: {row['note']}" for row in features if row.get("points") is None]
        return table_result(
            "style_control",
            rows,
            metadata={
                "ratings_at_equal_style": markdown_table(
                    rows, ("kind", "name", "points", "low", "high", "note"), limit=len(rows)
                ),
                "penalty": config.penalty,
                "features_controlled": len(features) - len(refused),
                "features_left_out": _list(refused or ["none"]),
            },
        )

    return [model_comparison, style_control]


def _tie_parameter(rows: list[dict[str, Any]]) -> dict[str, float]:
    # Absent or infinite is no number; the notes say it in words.
    found = next(row["tie_parameter"] for row in rows if row["model"] == "davidson")
    return {} if found is None or math.isinf(found) else {"davidson_tie_parameter": found}
