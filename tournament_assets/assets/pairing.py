"""From responses to the pairs that are judged on each dimension."""

import dagster as dg
import pandas as pd

from tournament_assets.adapters.tables import table_rows, write_table
from tournament_assets.assets.outputs import Shown, Table, table_asset, written_result
from tournament_assets.assets.partitions import (
    asset_key,
    by_mode_and_dimension,
    partition_values,
    partitions_of,
    same_mode,
    same_mode_all_entrants,
)
from tournament_assets.assets.plan import TournamentPlan, by_partition
from tournament_assets.assets.prompt_rows import prompts_of
from tournament_assets.judging.pairing import build_match_list, filter_pairs_for_dimension


class MatchListConfig(dg.Config):
    """Options of one run."""

    limit_pairs: int | None = None
    """Keep only the first pairs of the dimension; for trying things out."""


def build_pairing_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `match_list` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "match_list",
        stage="3_judging",
        ins={
            "selected": dg.AssetIn(
                key=asset_key(plan, "selected_prompts"), partition_mapping=same_mode()
            ),
            "responses": partitions_of(
                asset_key(plan, "entrant_responses"), same_mode_all_entrants()
            ),
        },
        partitions_def=by_mode_and_dimension(plan),
    )
    def match_list(
        context: dg.AssetExecutionContext,
        config: MatchListConfig,
        selected: pd.DataFrame,
        responses: dict[str, pd.DataFrame],
    ) -> Table:
        """The pairs to judge: every two entrants, on every prompt that all of them answered.

        Prompts without a gold answer are left out of dimensions that compare with one.
        """
        dimension = partition_values(context)["dimension"]
        prompts = prompts_of("selected_prompts", selected)
        texts = {
            (entrant, row["prompt_id"]): row["response"]
            for entrant, frame in by_partition(responses, tournament.entrant_ids).items()
            for row in table_rows("entrant_responses", frame)
        }
        matches = build_match_list(prompts, texts, entrants=tournament.entrant_ids)
        pairs = filter_pairs_for_dimension(
            matches.pairs, needs_gold_answer=tournament.dimensions[dimension].needs_gold_answer
        )
        available = len(pairs)
        pairs = pairs[: config.limit_pairs]
        rows = (
            {
                "prompt_id": pair.prompt_id,
                "source": pair.source,
                "dimension": dimension,
                "entrant_a": pair.entrant_a,
                "entrant_b": pair.entrant_b,
                "prompt_text": pair.prompt_text,
                "response_a": pair.response_a,
                "response_b": pair.response_b,
                "gold_answer": pair.gold_answer,
                "expected_behavior": pair.expected_behavior,
            }
            for pair in pairs
        )
        shown = Shown(rows, ("prompt_id", "entrant_a", "entrant_b", "response_a", "response_b"))
        return written_result(
            write_table("match_list", shown),
            metadata={
                "pairs": len(pairs),
                "pairs_left_out_by_limit": available - len(pairs),
                "prompts": len({pair.prompt_id for pair in pairs}),
                "prompts_selected": len(prompts),
                "prompts_not_answered_by_all": len(matches.incomplete_prompts),
                "first_rows": shown.markdown,
            },
        )

    return [match_list]
