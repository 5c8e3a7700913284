"""From the bank's file to the prompts of a mode.

From responses to the pairs that are judged on each dimension.
"""

from collections import Counter

import dagster as dg
import pandas as pd

from tournament_assets.graph.assets.freshness import BANK_CHECK, freshness_result
from tournament_assets.graph.outputs import (
    Shown,
    Table,
    markdown_table,
    table_asset,
    table_result,
    written_result,
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
from tournament_assets.judging.requests.pairs import build_match_list, filter_pairs_for_dimension
from tournament_assets.project.project_files import load_prompt_bank
from tournament_assets.storage.tables import table_rows, write_table
from tournament_assets.tournament.prompts import Prompt, draw_stratified
from tournament_assets.workflows.plan import TournamentPlan, by_partition, mode_of
from tournament_assets.workflows.table_rows import prompt_rows, prompts_of

_SHOWN_COLUMNS = ("prompt_id", "source", "subject", "text", "gold_answer", "expected_behavior")


def _counts_by_source(prompts: list[Prompt]) -> dict[str, int]:
    return dict(sorted(Counter(prompt.source for prompt in prompts).items()))


def _bank_integrity(prompts: list[Prompt]) -> dg.AssetCheckResult:
    """Look for what a valid bank can still get wrong: one question under two ids."""
    ids_by_text: dict[str, list[str]] = {}
    for prompt in prompts:
        ids_by_text.setdefault(" ".join(prompt.text.lower().split()), []).append(prompt.prompt_id)
    repeated = [ids for ids in ids_by_text.values() if len(ids) > 1]
    return dg.AssetCheckResult(
        check_name="bank_integrity",
        passed=not repeated,
        severity=dg.AssetCheckSeverity.WARN,
        description=(
            f"{len(prompts)} prompts, every id and every text once, every gold answer present"
            if not repeated
            else f"the same question stands under several ids: {repeated[:5]}; remove the doubles"
        ),
        metadata={"prompts": len(prompts), "repeated_texts": len(repeated)},
    )


def build_prompt_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `prompt_bank` and `selected_prompts` for one tournament."""
    config = plan.config

    @table_asset(
        plan,
        "prompt_bank",
        stage="1_prompts",
        deps=[dg.AssetDep(asset_key(plan, "prompt_file"))],
        checks={
            "bank_integrity": "Every prompt once, with what its dimension needs.",
            BANK_CHECK.name: BANK_CHECK.description,
        },
    )
    def prompt_bank() -> Table:
        """Every prompt of the tournament, read from the bank's JSONL file and validated.

        Rows with a gold answer are judged on every dimension; `curated` rows test behaviour
        (answer, hedge or abstain), have no gold answer, and are left out of factuality.
        """
        path = plan.project.resolve(config.prompt_bank, what="the prompt bank")
        prompts = load_prompt_bank(path)
        rows = prompt_rows(prompts)
        return table_result(
            "prompt_bank",
            rows,
            metadata={
                "prompts": len(prompts),
                "prompts_by_source": _counts_by_source(prompts),
                "with_gold_answer": sum(prompt.gold_answer is not None for prompt in prompts),
                "first_rows": markdown_table(rows, _SHOWN_COLUMNS),
            },
            checks=[_bank_integrity(prompts), freshness_result(BANK_CHECK, [])],
        )

    @table_asset(
        plan,
        "selected_prompts",
        stage="1_prompts",
        ins={"bank": dg.AssetIn(key=asset_key(plan, "prompt_bank"))},
        partitions_def=by_mode(),
    )
    def selected_prompts(context: dg.AssetExecutionContext, bank: pd.DataFrame) -> Table:
        """The prompts of a mode, in bank order.

        Pilot: a seeded draw of a fixed number from each source. Headline: the whole bank.
        """
        mode = mode_of(partition_values(context))
        prompts = prompts_of(bank)
        if mode == "pilot":
            prompts = draw_stratified(
                prompts, strata=config.pilot.strata, seed=config.pilot.pilot_seed
            )
        rows = prompt_rows(prompts)
        return table_result(
            "selected_prompts",
            rows,
            metadata={
                "prompts": len(prompts),
                "prompts_by_source": _counts_by_source(prompts),
                "first_rows": markdown_table(rows, _SHOWN_COLUMNS),
            },
        )

    return [prompt_bank, selected_prompts]


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
        prompts = prompts_of(selected)
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
