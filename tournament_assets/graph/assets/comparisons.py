"""From settled pairs to the models side by side, and to ratings at equal style.

The fair comparison: everybody on the same prompts, on all, and on what was planned.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.graph.assets.verdicts import judge_models_of
from tournament_assets.graph.outputs import (
    Table,
    markdown_table,
    report_table,
    table_asset,
    table_result,
)
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode,
    by_mode_and_dimension,
    partition_values,
    partitions_of,
    same_mode,
    same_mode_all_entrants,
)
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.reports.rendering import escape_markdown
from tournament_assets.storage.tables import AnyTable, StoredTable, table_rows
from tournament_assets.tournament.battles import settings_of_run
from tournament_assets.tournament.config import Mode
from tournament_assets.workflows.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.workflows.provenance import Frames, LargeTables, name_models
from tournament_assets.workflows.table_rows import judgments_of


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
        from tournament_assets.ratings.rating_methods import comparison_rows
        from tournament_assets.reports.rating_method_tables import (
            comparison_notes,
            disagreement_sentences,
            side_by_side_cells,
        )

        values = partition_values(context)
        rows = comparison_rows(
            code_judgments(judgments_of(verdicts), entrants=tournament.entrant_ids),
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
        from tournament_assets.ratings.rating_methods import style_control_rows

        values = partition_values(context)
        rows = style_control_rows(
            code_judgments(judgments_of(verdicts), entrants=tournament.entrant_ids),
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


def fair_rows(
    plan: TournamentPlan,
    mode: Mode,
    *,
    selected: pd.DataFrame,
    responses: Frames,
    verdicts: Mapping[str, AnyTable],
    excluded: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the rows of table "fair_comparison" of one mode.

    Args:
        plan: The tournament.
        mode: `pilot` or `headline`.
        selected: The table `selected_prompts`.
        responses: The table `entrant_responses` of every entrant.
        verdicts: The table `judge_verdicts` of every dimension.
        excluded: Entrants to leave out, as if they had not taken part.

    Raises:
        InputError: If somebody is to be left out who does not take part, or fewer than two are
            left.
    """
    from tournament_assets.audits.fair_comparison import (
        Families,
        PlannedPrompt,
        entrant_family,
        fair_comparison_rows,
        judge_family,
        without_entrants,
    )

    config = plan.config
    prompts = table_rows("selected_prompts", selected)
    answered = {
        entrant: {row["prompt_id"] for row in table_rows("entrant_responses", frame)}
        for entrant, frame in responses.items()
    }
    families = {
        entrant.entrant_id: entrant_family(entrant, named=config.families)
        for entrant in config.entrants
    }
    rows: list[dict[str, Any]] = []
    for dimension, frame in verdicts.items():
        judgments, entrants = without_entrants(
            judgments_of(frame), entrants=config.entrant_ids, excluded=excluded
        )
        judge_model = name_models(judge_models_of(frame)) or config.judge_model(mode)
        rows += fair_comparison_rows(
            judgments,
            dimension=dimension,
            entrants=entrants,
            prompts=[
                PlannedPrompt(row["prompt_id"], row["source"], row["category"], tuple(row["tags"]))
                for row in prompts
                if row["gold_answer"] is not None
                or not config.dimensions[dimension].needs_gold_answer
            ],
            answered=answered,
            families=Families(
                judge_model,
                judge_family(judge_model, named=config.families),
                {name: families[name] for name in entrants},
            ),
            settings=settings_of_run(config, mode=mode),
        )
    return rows


def build_fairness_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `fair_comparison` for one tournament."""
    config = plan.config

    @table_asset(
        plan,
        "fair_comparison",
        stage="5_report",
        ins={
            "selected": dg.AssetIn(key=asset_key(plan, "selected_prompts")),
            "responses": partitions_of(asset_key(plan, "entrant_responses"), same_mode()),
            "verdicts": partitions_of(asset_key(plan, "judge_verdicts"), same_mode()),
        },
        partitions_def=by_mode(),
    )
    def fair_comparison(
        context: dg.AssetExecutionContext,
        selected: pd.DataFrame,
        responses: Frames,
        verdicts: LargeTables,
    ) -> Table:
        """Everybody on the prompts that all share, on all judged pairs, and on all planned ones.

        Where the three disagree on who is ahead, what is missing decides, not who is better.
        """
        from tournament_assets.reports.fair_tables import fair_sentences, fair_table

        rows = fair_rows(
            plan,
            mode_of(partition_values(context)),
            selected=selected,
            responses=by_partition(responses, config.entrant_ids),
            verdicts=by_partition(verdicts, config.dimension_names),
        )
        return table_result(
            "fair_comparison",
            rows,
            metadata={
                **{
                    name: value
                    for dimension in config.dimension_names
                    for name, value in (
                        (
                            f"finding_{dimension}",
                            " ".join(fair_sentences(rows, dimension=dimension)),
                        ),
                        (
                            f"comparison_{dimension}",
                            report_table(fair_table(rows, dimension=dimension)),
                        ),
                    )
                },
                "judge": config.judge_label,
            },
        )

    return [fair_comparison]
