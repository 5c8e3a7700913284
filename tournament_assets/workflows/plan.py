"""One tournament as everything that runs it sees it: its config, and where its files are.

Versions of the settings, and of the reading of replies, that decide what an asset holds.

Dagster shows an asset as out of date when its version is another than when it was made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from tournament_assets.judging.requests import verdict_parsing as parsing
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.project.project_files import Project
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.fingerprints import fingerprint

Loaded = TypeVar("Loaded")


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

    def group(self, stage: str) -> str:
        """Return the asset group of one of the tournament's stages."""
        return f"{self.tournament_id}_{stage}"


def partition_label(values: Mapping[str, str]) -> str:
    """Return a partition's values as people read them, such as `factuality, pilot`.

    A check's result has no partition of its own in the UI, so its description has to say it.
    """
    return ", ".join(value for _, value in sorted(values.items()))


def mode_of(values: Mapping[str, str]) -> Mode:
    """Return the mode among a partition's values."""
    return cast("Mode", values["mode"])


def by_partition(loaded: Mapping[str, Loaded], names: tuple[str, ...]) -> dict[str, Loaded]:
    """Return what several upstream partitions hold, by entrant or dimension, in config order.

    Dagster hands over a mapping from `name|mode` in no particular order, and for a single partition
    the bare object, whatever the input's annotation says.
    """
    if not isinstance(loaded, Mapping):
        return {names[0]: loaded}
    by_name = {key.split("|")[0]: value for key, value in loaded.items()}
    return {name: by_name[name] for name in names if name in by_name}


def settings_version(plan: TournamentPlan, asset: str) -> str | None:
    """Return the version of an asset's settings; None where its inputs alone decide.

    Args:
        plan: The tournament.
        asset: The asset's name.
    """
    settings = _SETTINGS.get(asset)
    return None if settings is None else fingerprint(settings(plan))


def settings_versions(plan: TournamentPlan) -> dict[str, str]:
    """Return the version of every asset that has settings, by the asset's name."""
    return {asset: fingerprint(settings(plan)) for asset, settings in _SETTINGS.items()}


def _draw(plan: TournamentPlan) -> Any:
    return plan.config.pilot.model_dump(mode="json", include={"strata", "pilot_seed"})


def _pairing(plan: TournamentPlan) -> Any:
    rules = plan.config.dimensions
    return {
        "entrants": list(plan.config.entrant_ids),
        "needs_gold_answer": {name: rule.needs_gold_answer for name, rule in rules.items()},
    }


def _asking(plan: TournamentPlan) -> Any:
    judge = plan.config.judge
    return {
        "models": [plan.config.judge_model("pilot"), plan.config.judge_model("headline")],
        "max_tokens": judge.max_tokens,
        "identical_responses_tie": judge.identical_responses_tie,
        "instructions": judge_system_prompt(judge.reply_format),
        "shown": {
            name: [rule.shows_gold_answer, rule.shows_expected_behavior]
            for name, rule in plan.config.dimensions.items()
        },
    }


def _reading(plan: TournamentPlan) -> Any:
    return [plan.config.judge.reply_format, parsing.READING_VERSION]


def _rating(plan: TournamentPlan) -> Any:
    return plan.config.ratings.model_dump(mode="json")


def _noticing(plan: TournamentPlan) -> Any:
    # What is said first of a run depends on where its checks turn red.
    return plan.config.checks.model_dump(mode="json")


def _trusting(plan: TournamentPlan) -> Any:
    return [_rating(plan), plan.config.checks.model_dump(mode="json")]


def _comparing(plan: TournamentPlan) -> Any:
    # Who takes part shows in the verdicts.
    return {
        "ratings": _rating(plan),
        "needs_gold_answer": _pairing(plan)["needs_gold_answer"],
        "families": plan.config.families,
    }


_SETTINGS: Mapping[str, Callable[[TournamentPlan], Any]] = {
    "selected_prompts": _draw,
    "match_list": _pairing,
    "judge_replies": _asking,
    "judge_verdicts": _reading,
    "elo_traces": _rating,
    "elo_ratings": _rating,
    "bradley_terry_ratings": _rating,
    "model_comparison": _rating,
    "style_control": _rating,
    "audit": _noticing,
    "leaderboard": _noticing,
    "report": _noticing,
    "judge_agreement": _rating,
    "trust_panel": _trusting,
    "fair_comparison": _comparing,
}
