"""One tournament as everything that runs it sees it: its config, and where its files are.

And which of its settings decide what is made, besides the inputs: Dagster shows an asset as out of
date when these are others than when it was made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tournament_assets.judging.requests import verdict_parsing as parsing
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.judging.settlement.records import VERDICTS, JudgingScope, verdicts_of
from tournament_assets.project.config_files import ConfigFile
from tournament_assets.project.project_files import Project
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.errors import Problems
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import (
    Prompt,
    draw_samples,
    draw_stratified,
    share_of_each,
)


@dataclass(frozen=True)
class TournamentPlan:
    """One tournament as everything that runs it sees it.

    Attributes:
        config: What decides its result.
        config_path: The config's file, relative to the project where it lies inside.
        project: Where its files are.
    """

    config: TournamentConfig
    config_path: Path
    project: Project

    @property
    def tournament_id(self) -> str:
        """Prefix of every name the tournament has in Dagster."""
        return self.config.tournament_id

    def verdict_scope(self, mode: Mode, dimension: str, judge: Judge) -> JudgingScope:
        """Return what a judge's work on one dimension is written down as."""
        purpose = verdicts_of(judge.model) if self.config.has_jury(mode) else VERDICTS
        return JudgingScope(self.tournament_id, mode, dimension, purpose)

    def group(self, stage: str) -> str:
        """Return the asset group of one of the tournament's stages."""
        return f"{self.tournament_id}_{stage}"


def plan_of(config_file: ConfigFile, environment: Mapping[str, str]) -> TournamentPlan:
    """Join a configuration with the places its files are in."""
    path, project = config_file.path.resolve(), config_file.project
    return TournamentPlan(
        config=config_file.config,
        config_path=path.relative_to(project) if path.is_relative_to(project) else path,
        project=Project(folder=project, environment=dict(environment)),
    )


def mode_of(values: Mapping[str, str]) -> Mode:
    """Return the mode among a partition's values."""
    return values["mode"]


def upstream_assets(plan: TournamentPlan) -> tuple[str, ...]:
    """Return the keys of the assets of the project around that entrants' responses come from."""
    keys = (
        entrant.responses.asset
        for entrant in plan.config.entrants
        if isinstance(entrant, RecordedEntrant)
    )
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def refuse_upstream_assets(plan: TournamentPlan) -> None:
    """Refuse responses that are assets, where no project around has any.

    Raises:
        InputError: With every such entrant.
    """
    problems = Problems()
    for entrant in plan.config.entrants:
        if isinstance(entrant, RecordedEntrant) and entrant.responses.asset is not None:
            with problems.collected():
                what = f"{plan.config_path}: {entrant.entrant_id}'s responses"
                plan.project.resolve(entrant.responses, what=what)
    problems.raise_if_any()


def select_prompts(config: TournamentConfig, mode: Mode, bank: Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts of a mode, in bank order, each as often as it is to be answered.

    Raises:
        InputError: If there is no such mode, or the bank has too few prompts of a source.
    """
    drawn, n_samples = config.mode(mode), config.generation.n_samples
    if drawn.strata is None and drawn.share is None:
        return draw_samples(bank, n_samples)
    strata = share_of_each(bank, drawn.share) if drawn.share is not None else drawn.strata or {}
    chosen = draw_stratified(bank, strata=strata, seed=drawn.draw_seed)
    return draw_samples(chosen, n_samples)


def draw_settings(plan: TournamentPlan) -> Any:
    """Return what decides which prompts are drawn."""
    how = ("strata", "share", "draw_seed")
    drawn = {
        name: mode.model_dump(mode="json", include={*how}, exclude_defaults=True)
        for name, mode in plan.config.modes.items()
    }
    generation = plan.config.generation
    return [
        drawn,
        generation.model_dump(mode="json", include={"n_samples"}, exclude_defaults=True),
    ]


def pairing_settings(plan: TournamentPlan) -> Any:
    """Return what decides which pairs are judged."""
    rules = plan.config.dimensions
    return {
        "entrants": list(plan.config.entrant_ids),
        "needs_gold_answer": {name: rule.needs_gold_answer for name, rule in rules.items()},
    }


def asking_settings(plan: TournamentPlan) -> Any:
    """Return what decides what the judge is asked."""
    judging = plan.config.judging
    return [
        _judges_by_mode(plan, "service", "model", "revision", "temperature", "max_tokens", "share"),
        deciding_settings(plan),
        judging.identical_responses_tie,
        # What a project's own instructions say is an input, beside the rubric.
        judge_system_prompt(
            judging.reply_format,
            domain=judging.domain,
            instructions=None if judging.instructions is None else "",
        ),
        {
            name: [rule.shows_gold_answer, rule.shows_expected_behavior]
            for name, rule in plan.config.dimensions.items()
        },
    ]


def _judges_by_mode(plan: TournamentPlan, *fields: str) -> Any:
    return {
        mode: [
            each.model_dump(mode="json", include={*fields}, exclude_defaults=True)
            for each in plan.config.judges_of(mode)
        ]
        for mode in plan.config.mode_names
    }


def reading_settings(plan: TournamentPlan) -> Any:
    """Return what decides how replies are read, and whose replies they are."""
    config = plan.config
    return [
        config.judging.reply_format,
        parsing.READING_VERSION,
        {mode: config.aggregation(mode) for mode in config.juries},
        _judges_by_mode(plan, "model", "share") if config.juries else [],
    ]


def deciding_settings(plan: TournamentPlan) -> dict[str, Any]:
    """Return what decides when a pair stops; nothing where everything is asked."""
    modes = plan.config.modes
    adaptive = {name: modes[name].adaptive for name in plan.config.adaptive_modes}
    return {name: rule.changed() for name, rule in adaptive.items() if rule is not None}


def stopping_settings(plan: TournamentPlan) -> Any:
    """Return what decides the table `judging_decisions`."""
    return [reading_settings(plan), deciding_settings(plan)]


def jury_settings(plan: TournamentPlan) -> Any:
    """Return what decides how several judges are weighed, and what they rate."""
    return [reading_settings(plan), rating_settings(plan)]


def rating_settings(plan: TournamentPlan) -> Any:
    """Return what decides ratings."""
    return plan.config.ratings.changed()


def noticing_settings(plan: TournamentPlan) -> Any:
    """Return what decides what is said first of a run: where its checks turn red."""
    return plan.config.checks.changed()


def reporting_settings(plan: TournamentPlan) -> Any:
    """Return what decides what the page says of the tables: its checks, and who is whose kin."""
    return [noticing_settings(plan), plan.config.families]


def trusting_settings(plan: TournamentPlan) -> Any:
    """Return what decides the lights of the trust panel."""
    return [rating_settings(plan), plan.config.checks.changed()]


def comparing_settings(plan: TournamentPlan) -> Any:
    """Return what decides the fair comparison; who takes part shows in the verdicts."""
    return {
        "ratings": rating_settings(plan),
        "needs_gold_answer": pairing_settings(plan)["needs_gold_answer"],
    }
