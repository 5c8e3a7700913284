"""From selected prompts to every entrant's responses."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import dagster as dg
import pandas as pd

from tournament_assets.audits.jury import count_heads, mean_p_correct, summarise_juries
from tournament_assets.graph.assets.bank_inputs import entrant_version, read_inputs, weights_version
from tournament_assets.graph.assets.freshness import ENTRANT_CHECK, find_outdated, freshness_result
from tournament_assets.graph.outputs import Table, markdown_table, table_asset, table_result
from tournament_assets.graph.partitions import (
    asset_key,
    by_mode_and_entrant,
    partition_values,
    same_entrant,
    same_mode,
)
from tournament_assets.graph.resources.executors import GPU_STEP_TAGS
from tournament_assets.graph.resources.services import (
    GeneratorResource,
    JudgeResource,
    LedgerResource,
)
from tournament_assets.tournament.entrants import LocalEntrant, get_entrant
from tournament_assets.tournament.fingerprints import short
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt
from tournament_assets.workflows.plan import TournamentPlan, partition_label
from tournament_assets.workflows.responses import Resources, answer_prompts
from tournament_assets.workflows.table_rows import prompts_of


class EntrantResponsesConfig(dg.Config):
    """Options of one run."""

    pay_again: bool = False
    """Buy responses again whose paid results the service no longer keeps."""
    run_began_at: str | None = None
    """When the run that this step is a part of began, for a budget that is for one run."""


def _coverage_check(
    prompts: list[Prompt],
    responses: list[GeneratedResponse],
    *,
    reasons: Mapping[str, str],
    where: str,
) -> dg.AssetCheckResult:
    answered = {response.prompt_id for response in responses}
    missing = [prompt.prompt_id for prompt in prompts if prompt.prompt_id not in answered]
    first_reason = next((reasons[name] for name in missing if name in reasons), None)
    return dg.AssetCheckResult(
        check_name="response_coverage",
        passed=not missing,
        severity=dg.AssetCheckSeverity.WARN,
        description=(
            f"{where}: all {len(prompts)} prompts are answered"
            if not missing
            else f"{where}: {len(missing)} of {len(prompts)} prompts have no response "
            f"({', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}); "
            "they are left out for every entrant"
            + (f"; the first failure: {first_reason}" if first_reason else "")
        ),
        metadata={"missing": len(missing), "planned": len(prompts), "reasons": dict(reasons)},
    )


def _empty_check(responses: list[GeneratedResponse], *, where: str) -> dg.AssetCheckResult:
    empty = [response.prompt_id for response in responses if not response.text.strip()]
    return dg.AssetCheckResult(
        check_name="no_empty_response",
        passed=not empty,
        severity=dg.AssetCheckSeverity.WARN,
        description=(
            f"{where}: every response says something"
            if not empty
            else f"{where}: {len(empty)} responses are empty ({', '.join(empty[:5])}); "
            "they are judged as they are"
        ),
        metadata={"empty": len(empty)},
    )


def _summary(responses: list[GeneratedResponse]) -> dict[str, Any]:
    lengths = [len(response.text.split()) for response in responses]
    return {
        "responses": len(responses),
        "mean_words": round(fmean(lengths), 1) if lengths else 0.0,
        "truncated_by_token_cap": sum(response.finish_reason == "length" for response in responses),
    }


_REPLACEMENT_COLUMNS = ("prompt_id", "position", "draft", "replacement")


def _jury_metadata(responses: list[GeneratedResponse]) -> dict[str, Any]:
    """Say what heads and juries did; nothing where there were none."""
    metadata: dict[str, Any] = {}
    heads = count_heads(responses)
    if heads:
        metadata["responses_by_drawn_head"] = {str(head): count for head, count in heads.items()}
    p_correct = mean_p_correct(responses)
    if p_correct is not None:
        metadata["mean_p_correct"] = round(p_correct, 4)
    summary = summarise_juries(responses)
    if summary is None:
        return metadata
    replacements = [
        {"prompt_id": response.prompt_id, **replaced}
        for response in responses
        for replaced in response.diagnostics.get("jury", {}).get("resampled", [])
    ]
    return {
        **metadata,
        "draft_acceptance_rate": round(summary.acceptance_rate, 4),
        "verified_tokens": summary.verified_tokens,
        "resampled_tokens": summary.resampled_tokens,
        "responses_with_resampling": summary.responses_resampled,
        "mean_verifier_entropy_nats": round(summary.mean_entropy, 4),
        "mean_suppression": round(summary.mean_suppression, 4),
        "mean_vote_margin": round(summary.mean_margin, 2),
        "mean_stability_radius": round(summary.mean_stability_radius, 2),
        "mean_validity_radius": round(summary.mean_validity_radius, 2),
        "first_replacements": markdown_table(replacements, _REPLACEMENT_COLUMNS),
    }


def _needs_weights(plan: TournamentPlan) -> bool:
    """Say whether any entrant is generated here; recorded and served ones need no GPU."""
    return any(isinstance(entrant, LocalEntrant) for entrant in plan.config.entrants)


def build_response_assets(plan: TournamentPlan) -> list[dg.AssetsDefinition]:
    """Build `entrant_responses` for one tournament."""
    tournament = plan.config

    @table_asset(
        plan,
        "entrant_responses",
        stage="2_responses",
        ins={
            "selected": dg.AssetIn(
                key=asset_key(plan, "selected_prompts"), partition_mapping=same_mode()
            ),
            "bank": dg.AssetIn(key=asset_key(plan, "prompt_bank")),
        },
        deps=[dg.AssetDep(asset_key(plan, "entrants"), partition_mapping=same_entrant())],
        partitions_def=by_mode_and_entrant(plan),
        kinds={"parquet", "pytorch"},
        pool="gpu",
        op_tags=GPU_STEP_TAGS if _needs_weights(plan) else None,
        checks={
            "response_coverage": "Every selected prompt is answered.",
            "no_empty_response": "Every response says something.",
            ENTRANT_CHECK.name: ENTRANT_CHECK.description,
        },
    )
    def entrant_responses(
        context: dg.AssetExecutionContext,
        config: EntrantResponsesConfig,
        selected: pd.DataFrame,
        bank: pd.DataFrame,
        ledger: LedgerResource,
        generator: GeneratorResource,
        judge: JudgeResource,
    ) -> Table:
        """One entrant's response to every selected prompt.

        What the ledger holds for the same model, settings and prompt is used again; only the rest
        is generated, and every response is in the ledger as soon as its batch is done, or as soon
        as a server has sent it. What a provider answers in batches is paid for once, however often
        the step is killed; it waits for them until `judge.deadline_seconds`.
        """
        values = partition_values(context)
        where = partition_label(values)
        entrant = get_entrant(tournament.entrants, values["entrant"])
        prompts = prompts_of(selected)
        answers = answer_prompts(
            entrant,
            prompts=prompts,
            bank=prompts_of(bank),
            plan=plan,
            resources=Resources(ledger=ledger, generator=generator, judge=judge),
            may_pay_again=config.pay_again,
            since=(
                datetime.fromisoformat(config.run_began_at)
                if config.run_began_at
                else datetime.now(UTC)
            ),
            log=context.log.info,
        )
        responses = answers.responses
        entrant_hash = short(entrant_version(plan, entrant))
        weights_hash = weights_version(plan, entrant)
        rows = [
            {
                "entrant_id": entrant.entrant_id,
                "prompt_id": response.prompt_id,
                "response": response.text,
                "finish_reason": response.finish_reason,
                "prompt_tokens": response.prompt_tokens,
                "response_tokens": response.response_tokens,
                "diagnostics": json.dumps(dict(response.diagnostics), sort_keys=True),
            }
            for response in responses
        ]
        return table_result(
            "entrant_responses",
            rows,
            metadata={
                **_summary(responses),
                **_jury_metadata(responses),
                "generated_now": answers.generated,
                "from_ledger": len(responses) - answers.generated,
                "source": answers.device,
                **answers.costs,
                "settings": entrant.display_settings,
                "entrant_hash": entrant_hash,
                **({} if weights_hash is None else {"weights_hash": weights_hash}),
                "first_rows": markdown_table(rows, ("prompt_id", "response", "finish_reason")),
            },
            checks=[
                _coverage_check(prompts, responses, reasons=answers.reasons, where=where),
                _empty_check(responses, where=where),
                freshness_result(
                    ENTRANT_CHECK,
                    find_outdated(
                        plan,
                        ENTRANT_CHECK,
                        read_inputs(plan, "entrants"),
                        context.instance,
                        just_made={str(context.partition_key): {"entrant_hash": entrant_hash}},
                    ),
                ),
            ],
        )

    return [entrant_responses]
