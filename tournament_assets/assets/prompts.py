"""From the bank's file to the prompts of a mode."""

from collections import Counter

import dagster as dg
import pandas as pd

from tournament_assets.adapters.project_files import load_prompt_bank
from tournament_assets.assets.currency import BANK_CHECK, currency_result
from tournament_assets.assets.outputs import (
    Table,
    markdown_table,
    table_asset,
    table_result,
)
from tournament_assets.assets.partitions import asset_key, by_mode, partition_values
from tournament_assets.assets.plan import TournamentPlan, mode_of
from tournament_assets.assets.prompt_rows import prompt_rows, prompts_of
from tournament_assets.tournament.prompts import Prompt, draw_stratified

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
            checks=[_bank_integrity(prompts), currency_result(BANK_CHECK, [])],
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
        prompts = prompts_of("prompt_bank", bank)
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
