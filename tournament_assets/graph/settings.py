"""The settings of a tournament that determine each asset's contents, besides its inputs.

An asset is out of date if they have changed since it was made.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.requests import verdict_parsing as parsing
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.reports.run.section_table import SECTIONS
from tournament_assets.tournament import completions
from tournament_assets.verdicts.rounds import rounds_config

Settings = Callable[[TournamentPlan], Any]


def versioned(settings: Settings | None, versions: Mapping[str, str]) -> Settings | None:
    """Return settings to which the versions of extensions belong, by distribution.

    Without an extension they stay as they are.
    """
    if not versions:
        return settings
    return lambda plan: [settings and settings(plan), versions]


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


def responding_settings(plan: TournamentPlan) -> Any:
    """Return what decides how what an entrant wrote is read."""
    stripped = {each.entrant_id: each.strip for each in plan.config.entrants if each.strip}
    return [completions.READING_VERSION, stripped]


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
        _judges_by_mode(plan, *_ASKED_OF_A_JUDGE),
        deciding_settings(plan),
        *([judging.assignment] if judging.assignment != "all" else ()),
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


_ASKED_OF_A_JUDGE = (
    "service",
    "model",
    "revision",
    "temperature",
    "max_tokens",
    "effort",
    "thinking",
    "extra_body",
    "share",
)


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
        completions.READING_VERSION,
        {mode: config.aggregation(mode) for mode in config.juries},
        _judges_by_mode(plan, "model", "share") if config.juries else [],
    ]


def deciding_settings(plan: TournamentPlan) -> JsonObject:
    """Return what decides which pairs the next round asks about; nothing for other modes."""
    rounds = {name: rounds_config(mode) for name, mode in plan.config.modes.items()}
    return {name: config.changed() for name, config in rounds.items() if config is not None}


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
    """Return what decides what the page says about the tables: checks, title, keys of sections."""
    said = {**plan.config.checks.changed(), **plan.config.report.changed()}
    for row in SECTIONS:
        said |= row.settings(plan.config)
    return [said, plan.config.families]


def trusting_settings(plan: TournamentPlan) -> Any:
    """Return what decides the lights of the trust panel."""
    return [rating_settings(plan), plan.config.checks.changed()]


def comparing_settings(plan: TournamentPlan) -> Any:
    """Return what decides the fair comparison; who takes part shows in the verdicts."""
    return {
        "ratings": rating_settings(plan),
        "needs_gold_answer": pairing_settings(plan)["needs_gold_answer"],
    }
