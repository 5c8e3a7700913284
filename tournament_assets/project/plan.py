"""One tournament's plan: its config, and where its files are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.judging.requests.requests import (
    JudgeRequests,
    RequestSettings,
)
from tournament_assets.judging.settlement.records import VERDICTS, JudgingScope, verdicts_of
from tournament_assets.project.config_files import ConfigFile, load_config
from tournament_assets.project.project_files import Project
from tournament_assets.tournament.config import Mode, TournamentConfig
from tournament_assets.tournament.judges import Judge, Rubric
from tournament_assets.tournament.prompts import (
    Prompt,
    draw_samples,
    draw_stratified,
    share_of_each,
)


@dataclass(frozen=True)
class TournamentPlan:
    """What everything that runs a tournament knows of it.

    Attributes:
        config: What determines its result.
        config_path: The config's file, relative to the project if inside it.
        project: Where its files are.
        no_budget: Whether whoever started this process lets a headline be paid for without a
            budget. Nothing that others can write says so, no tag and no run config.
    """

    config: TournamentConfig
    config_path: Path
    project: Project
    no_budget: bool = False

    @property
    def shown_path(self) -> Path:
        """The config's file as a person would type it: from the working folder, if inside it."""
        path, here = self.project.folder / self.config_path, Path.cwd()
        return path.relative_to(here) if path.is_relative_to(here) else path

    @property
    def tournament_id(self) -> str:
        """Prefix of every name the tournament has in Dagster."""
        return self.config.tournament_id

    def verdict_scope(self, mode: Mode, dimension: str, judge: Judge) -> JudgingScope:
        """Return the scope under which a judge's work on one dimension is recorded."""
        purpose = verdicts_of(judge.model) if self.config.has_jury(mode) else VERDICTS
        return JudgingScope(self.tournament_id, mode, dimension, purpose)

    def job(self, name: str) -> str:
        """Return the name that one of the tournament's jobs has in Dagster."""
        return f"{self.tournament_id}_{name}"

    def group(self, stage: str) -> str:
        """Return the asset group of one of the tournament's stages."""
        return f"{self.tournament_id}_{stage}"


def load_plan(
    path: Path, environment: Mapping[str, str], *, is_guest: bool = False
) -> TournamentPlan:
    """Read and validate a tournament's configuration, once for everything that uses it.

    Raises:
        InputError: With every problem of the file, each with its line; or as `plan_of` says.
    """
    return plan_of(load_config(path), environment, is_guest=is_guest)


def plan_of(
    config_file: ConfigFile, environment: Mapping[str, str], *, is_guest: bool = False
) -> TournamentPlan:
    """Combine a configuration with the locations of its files.

    Args:
        environment: The environment variables.
        is_guest: Whether assets of a surrounding project may supply entrants' responses.

    Raises:
        InputError: If the configuration names an asset and there is no surrounding project.
    """
    resolved, project = config_file.path.resolve(), config_file.project
    if "?" in str(project):
        raise InputError(
            f"{project}: the folder's name holds a question mark, which ends the URL of a "
            "database; expected a name without one; rename the folder, or move the project"
        )
    plan = TournamentPlan(
        config=config_file.config,
        config_path=resolved.relative_to(project) if resolved.is_relative_to(project) else resolved,
        project=Project(folder=project, environment=dict(environment)),
    )
    if not is_guest:
        _refuse_upstream_assets(plan)
    return plan


def upstream_assets(plan: TournamentPlan) -> tuple[str, ...]:
    """Return the keys of the surrounding project's assets that entrants' responses come from."""
    keys = (entrant.upstream_asset for entrant in plan.config.entrants)
    return tuple(dict.fromkeys(key for key in keys if key is not None))


def _refuse_upstream_assets(plan: TournamentPlan) -> None:
    """Refuse responses that are assets, which need a surrounding project."""
    problems = Problems()
    for entrant in plan.config.entrants:
        for name, place in entrant.files.items() if entrant.upstream_asset else ():
            with problems.collected():
                what = f"{plan.config_path}: {entrant.entrant_id}'s {name}"
                plan.project.resolve(place, what=what)
    problems.raise_if_any()


def select_prompts(config: TournamentConfig, mode: Mode, bank: Sequence[Prompt]) -> list[Prompt]:
    """Return the prompts of a mode, in bank order, one row per sample of a prompt."""
    drawn, n_samples = config.mode(mode), config.generation.n_samples
    if drawn.strata is None and drawn.share is None:
        return draw_samples(bank, n_samples)
    strata = share_of_each(bank, drawn.share) if drawn.share is not None else drawn.strata or {}
    try:
        chosen = draw_stratified(bank, strata=strata, seed=drawn.draw_seed)
    except InputError as error:
        raise InputError(f"modes.{mode}.strata: {problem}" for problem in error.problems) from None
    return draw_samples(chosen, n_samples)


def requests_for_pairs(
    plan: TournamentPlan, pairs: Sequence[PairToJudge], rubric: Rubric, *, judge: Judge
) -> JudgeRequests:
    """Build one judge's requests for both presentations of pairs, as the config says."""
    return JudgeRequests(pairs, rubric, request_settings(plan, rubric.dimension, judge))


def request_settings(plan: TournamentPlan, dimension: str, judge: Judge) -> RequestSettings:
    """Return the settings of one judge's requests on a dimension."""
    judging, rules = plan.config.judging, plan.config.dimensions[dimension]
    return RequestSettings(
        judge_model=judge.model,
        max_tokens=judge.max_tokens,
        shows_gold_answer=rules.shows_gold_answer,
        shows_expected_behavior=rules.shows_expected_behavior,
        reply_format=judging.reply_format,
        domain=judging.domain,
        temperature=judge.temperature,
        breaks_templates=judge.row.reads_marks,
        further=judge.further_params,
        identity=judge.identity,
    )
