"""Wires everything, and is the only reader of the environment.

Environment variables:
    ANTHROPIC_API_KEY       the key of the judge, where judge.service is anthropic, and of entrants
                            whose loader is anthropic_api; other services have their own variables
                            (tournament/judge_services.py)
    ANTHROPIC_BASE_URL      another address of the provider's API; comes before judge.base_url
    TOURNAMENT_PROJECT      the folder with configs/; the working directory unless given
    TOURNAMENT_STORAGE      where assets are kept: a folder or s3://…; storage/ in the project
    TOURNAMENT_LEDGER_URL   the ledger's database; ledger/ledger.sqlite in the project
    TOURNAMENT_DEVICE       the torch device of generation; CUDA if there is one, unless given
    TOURNAMENT_SLACK_TOKEN, TOURNAMENT_SLACK_CHANNEL
                            where failed runs are told of
    TOURNAMENT_EMAIL_FROM, TOURNAMENT_EMAIL_TO, TOURNAMENT_EMAIL_PASSWORD, TOURNAMENT_SMTP_HOST
                            likewise by e-mail, to one address or several, separated by commas;
                            TOURNAMENT_SMTP_PORT, 465 unless given, and TOURNAMENT_SMTP_USER, the
                            sender unless given
    TOURNAMENT_UI_URL       the address of the UI, for links in these messages
    TOURNAMENT_EXECUTOR     what runs the steps of a run: in_process (unless given), multiprocess,
                            celery or kubernetes
    TOURNAMENT_EXECUTOR_CONFIG   a YAML file with settings of that executor
    TOURNAMENT_CELERY_BROKER     the URL of Celery's broker
    TOURNAMENT_CELERY_BACKEND    the URL of Celery's results; the broker, if that is Redis
    and whatever variables the configs name for weights, recorded files, servers and their keys
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from tournament_assets.graph.adapter import build_assets
from tournament_assets.graph.automation.edits import build_edit_sensor, build_watching_sensor
from tournament_assets.graph.automation.failure_notices import build_failure_sensors
from tournament_assets.graph.automation.headline_reruns import (
    build_continuing_sensor,
    build_headline_schedules,
    schedule_problem,
)
from tournament_assets.graph.automation.jobs import (
    build_jobs,
    build_rejudge_job,
    build_rerun_jobs,
)
from tournament_assets.graph.automation.resuming import build_resuming_sensor
from tournament_assets.graph.resources.executors import build_executor
from tournament_assets.graph.resources.io_managers import NpzIOManager, ParquetIOManager
from tournament_assets.graph.resources.services import (
    GeneratorResource,
    JudgeResource,
    LedgerResource,
)
from tournament_assets.graph.table import rows_of
from tournament_assets.project.config_files import ConfigFile, load_config
from tournament_assets.project.project_files import Project
from tournament_assets.tournament.errors import InputError, Problems
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.places import url_problem
from tournament_assets.workflows.plan import TournamentPlan

# Partition mappings and observed data versions are still called beta, on every use of them. The
# version of Dagster is pinned exactly, so nobody needs to hear it.
warnings.filterwarnings("ignore", category=dg.BetaWarning)


def build_plan(config_file: ConfigFile, environment: Mapping[str, str]) -> TournamentPlan:
    """Join a configuration with the places its files are in.

    Raises:
        InputError: If the configuration has a schedule that Dagster cannot fire.
    """
    problem = schedule_problem(config_file.config.automation)
    if problem is not None:
        raise InputError(f"{config_file.path}: {problem}")
    path = config_file.path.resolve()
    project = config_file.project
    return TournamentPlan(
        config=config_file.config,
        config_path=path.relative_to(project) if path.is_relative_to(project) else path,
        project=Project(folder=project, environment=dict(environment)),
    )


def default_ledger_url(project: Path) -> str:
    """Return the SQLAlchemy URL of a project's own ledger."""
    return f"sqlite:///{project / 'ledger' / 'ledger.sqlite'}"


def build_resources(project: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Configure the resources. Secrets are named, not copied: Dagster shows configured values."""
    keys = [service.key_variable for service in SERVICES.values()]
    storage = environment.get("TOURNAMENT_STORAGE") or str(project / "storage")
    return {
        "parquet_io_manager": ParquetIOManager(base_path=storage),
        "npz_io_manager": NpzIOManager(base_path=storage),
        "ledger": LedgerResource(
            url=(
                dg.EnvVar("TOURNAMENT_LEDGER_URL")
                if environment.get("TOURNAMENT_LEDGER_URL")
                else default_ledger_url(project)
            )
        ),
        "judge": JudgeResource(
            variables={
                # A password may stand in an address.
                name: value if name not in keys and not url_problem(value) else dg.EnvVar(name)
                for name in (*keys, *(service.url_variable for service in SERVICES.values()))
                if (value := environment.get(name))
            },
            loopback_folder=str(project / "ledger" / "loopback_judge"),
        ),
        "generator": GeneratorResource(device=environment.get("TOURNAMENT_DEVICE") or "auto"),
    }


def build_definitions(
    plans: Sequence[TournamentPlan], project: Path, environment: Mapping[str, str]
) -> dg.Definitions:
    """Wire the assets, jobs and resources of some tournaments.

    Unless the environment asks for another executor, steps run one after another in the process
    of their run: none of them is worth a process of its own, and a model stays loaded.

    Raises:
        InputError: If the executor that the environment asks for cannot be had, or it names only a
            part of what tells people of failures.
    """
    jobs = {plan.tournament_id: build_jobs(plan) for plan in plans}
    stage_jobs = {tournament: build_rerun_jobs(named) for tournament, named in jobs.items()}
    return dg.Definitions(
        assets=[asset for plan in plans for asset in build_assets(plan, rows_of(plan).values())],
        jobs=[
            job
            for plan in plans
            for job in (*jobs[plan.tournament_id].values(), build_rejudge_job(plan))
        ],
        schedules=[
            schedule
            for plan in plans
            for schedule in build_headline_schedules(plan, stage_jobs[plan.tournament_id])
        ],
        sensors=[
            *(build_resuming_sensor(plan) for plan in plans),
            *(build_watching_sensor(plan) for plan in plans),
            *(build_continuing_sensor(plan, stage_jobs[plan.tournament_id]) for plan in plans),
            *(build_edit_sensor(plan, stage_jobs[plan.tournament_id]) for plan in plans),
            *build_failure_sensors(environment),
        ],
        resources=build_resources(project, environment),
        executor=build_executor(environment),
    )


def load_project(project: Path, environment: Mapping[str, str]) -> dg.Definitions:
    """Wire every tournament in a project's `configs/` folder.

    Raises:
        InputError: With every problem of every config.
    """
    problems = Problems()
    plans: list[TournamentPlan] = []
    first_seen: dict[str, Path] = {}
    for path in sorted((project / "configs").glob("*.yaml")):
        try:
            plan = build_plan(load_config(path), environment)
        except InputError as error:
            problems.extend(error.problems)
            continue
        if plan.tournament_id in first_seen:
            problems.add(
                f"{path}: tournament_id {plan.tournament_id!r} is already used by "
                f"{first_seen[plan.tournament_id]}; expected one config each; rename one"
            )
            continue
        first_seen[plan.tournament_id] = path
        plans.append(plan)
    if not plans and not problems:
        problems.add(
            f"{project / 'configs'} holds no .yaml file; expected one config a tournament; "
            "start in the project's folder or set TOURNAMENT_PROJECT"
        )
    problems.raise_if_any()
    return build_definitions(plans, project, environment)


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions that Dagster loads."""
    return load_project(Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd()), os.environ)
