"""The stages of a tournament, in the order they run: a job holds one shape of partitions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from tournament_assets.graph.assets.bank_inputs import INPUT_ASSETS, build_observing_job
from tournament_assets.graph.assets.human_battles import human_assets
from tournament_assets.graph.partitions import asset_key
from tournament_assets.tournament.config import Mode
from tournament_assets.workflows.plan import TournamentPlan

DRIFT_ASSET = "judge_drift"


@dataclass(frozen=True)
class Stage:
    """One step on the way from prompts to leaderboard.

    Attributes:
        job_name: The job that materialises it.
        title: What it does, for people.
        assets: What it materialises or observes.
        partition_axis: What there is a partition for, besides the mode.
    """

    job_name: str
    title: str
    assets: tuple[str, ...]
    partition_axis: str

    def partition_keys(
        self, plan: TournamentPlan, mode: Mode
    ) -> list[dg.MultiPartitionKey | str | None]:
        """Return the partitions of this stage that belong to a mode, in config order."""
        if self.partition_axis == "none":
            return [None]
        if self.partition_axis == "mode":
            return [mode]
        names = (
            plan.config.entrant_ids
            if self.partition_axis == "entrant"
            else plan.config.dimension_names
        )
        return [dg.MultiPartitionKey({"mode": mode, self.partition_axis: name}) for name in names]


def rated_assets(plan: TournamentPlan) -> tuple[str, ...]:
    """Return what follows from the pairs of one dimension, in order."""
    return (
        "judge_replies",
        "judge_verdicts",
        "elo_traces",
        "elo_ratings",
        "bradley_terry_ratings",
        "model_comparison",
        "style_control",
        "win_rates",
        *human_assets(plan),
        "trust_panel",
    )


def build_stages(plan: TournamentPlan) -> list[Stage]:
    """Return a tournament's stages, in the order they run.

    The inputs come first: what was materialised before the first observation of an input would stay
    fresh after a later edit. The price of judging is known before anything is asked, and
    a price that the budget does not allow ends the run there.
    """
    prefix = plan.tournament_id
    return [
        Stage(f"{prefix}_0_observe_inputs", "inputs", INPUT_ASSETS, "none"),
        _stage_of_files(plan),
        Stage(f"{prefix}_2_select_prompts", "selected prompts", ("selected_prompts",), "mode"),
        Stage(f"{prefix}_3_respond", "responses", ("entrant_responses",), "entrant"),
        Stage(f"{prefix}_4_pair", "pairs to judge", ("match_list",), "dimension"),
        Stage(f"{prefix}_5_estimate", "price of judging", ("judging_estimate",), "mode"),
        Stage(
            f"{prefix}_6_judge_and_rate",
            "judging and ratings",
            rated_assets(plan),
            "dimension",
        ),
        Stage(
            f"{prefix}_7_report",
            "leaderboard and report",
            (
                "battles",
                "audit",
                "prompt_audit",
                "fair_comparison",
                "leaderboard",
                "report",
                "run_artifacts",
                "run_comparison",
            ),
            "mode",
        ),
    ]


def build_rerun_stages(plan: TournamentPlan) -> list[Stage]:
    """Return the stages of a scheduled rerun: those of a tournament, and a look at the judge."""
    drift = Stage(f"{plan.tournament_id}_check_drift", "judge drift", (DRIFT_ASSET,), "dimension")
    return [*build_stages(plan), drift]


def _stage_of_files(plan: TournamentPlan) -> Stage:
    name = f"{plan.tournament_id}_1_prompt_bank"
    if plan.config.human_battles is None:
        return Stage(name, "prompt bank", ("prompt_bank",), "none")
    return Stage(name, "prompt bank and human battles", ("prompt_bank", "human_battles"), "none")


def build_jobs(plan: TournamentPlan, stages: Sequence[Stage]) -> list[Any]:
    """Build one job a stage; the first observes, and the others materialise.

    Dagster has no public name for the type of an unresolved job.
    """
    observing, *materialising = stages
    return [
        build_observing_job(plan, observing.job_name),
        *(
            dg.define_asset_job(
                stage.job_name,
                selection=dg.AssetSelection.assets(
                    *(asset_key(plan, name) for name in stage.assets)
                ),
                description=f"{plan.tournament_id}: {stage.title}",
            )
            for stage in materialising
        ),
    ]
