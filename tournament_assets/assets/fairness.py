"""The fair comparison: everybody on the same prompts, on all, and on what was planned."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.adapters.tables import AnyTable, table_rows
from tournament_assets.assets.outputs import Table, report_table, table_asset, table_result
from tournament_assets.assets.partitions import (
    asset_key,
    by_mode,
    partition_values,
    partitions_of,
    same_mode,
)
from tournament_assets.assets.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.assets.provenance import Frames, LargeTables, name_models
from tournament_assets.assets.reply_rows import judgments_of
from tournament_assets.assets.verdicts import judge_models_of
from tournament_assets.tournament.config import Mode
from tournament_assets.tournament.rating_settings import settings_of_run


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
    from tournament_assets.audits.common_support import without_entrants
    from tournament_assets.audits.fair_comparison import (
        Families,
        PlannedPrompt,
        fair_comparison_rows,
    )
    from tournament_assets.audits.families import entrant_family, judge_family

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
        from tournament_assets.reports.fair_comparison import fair_sentences, fair_table

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
