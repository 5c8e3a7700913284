"""Dagster's definitions, alone or within another project; only this file reads the environment.

Environment variables:
    ANTHROPIC_API_KEY       the key of a judge whose service is anthropic, and of entrants
                            whose loader is anthropic_api; other services have their own variables
                            (tournament/judge_services.py)
    ANTHROPIC_BASE_URL      another address of the provider's API; comes before a judge's base_url
    TOURNAMENT_PROJECT      the folder with configs/; the working directory unless given
    TOURNAMENT_STORAGE      where assets are kept: a folder or s3://…; storage/ in the project
    TOURNAMENT_LEDGER_URL   the ledger's database; ledger/ledger.sqlite in the project
    TOURNAMENT_DEVICE       the torch device of generation; CUDA if there is one, unless given
    TOURNAMENT_EXTENSIONS   none starts without extensions (read by foundation/extensions.py, when
                            the first table of rows is imported)
    TOURNAMENT_SITE_URL     the address of the site of all reports, to which assets link; that of
                            the site of `tournament ui` there, unless given
    TOURNAMENT_EXECUTOR     what runs the steps of a run: in_process (unless given), multiprocess,
                            celery or kubernetes
    TOURNAMENT_EXECUTOR_CONFIG   a YAML file with settings of that executor
    TOURNAMENT_CELERY_BROKER     the URL of Celery's broker
    TOURNAMENT_CELERY_BACKEND    the URL of Celery's results; the broker, if that is Redis
    DAGSTER_IS_DEFS_VALIDATION_CLI   set by `dg check defs`: one broken config refuses them all
    and whatever variables the configs name for weights, recorded files, servers and their keys,
    and the sensors of an extra
"""

import gc
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Any

import dagster as dg

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.graph.adapter import (
    build_assets,
    build_reported_checks,
    build_up_to_date_check,
)
from tournament_assets.graph.automation.broken_configs import (
    BrokenConfig,
    build_problem_asset,
    build_problem_checks,
    build_problem_sensor,
    name_broken_config,
)
from tournament_assets.graph.automation.jobs import (
    build_jobs,
    build_rejudge_job,
)
from tournament_assets.graph.automation.rerun_jobs import build_rerun_jobs
from tournament_assets.graph.automation.reruns import refuse_superseded
from tournament_assets.graph.automation.scheduled_reruns import (
    build_schedules,
    build_sensor,
    refuse_bad_schedules,
)
from tournament_assets.graph.resources import (
    GeneratorResource,
    JudgeResource,
    LedgerResource,
    NpzIOManager,
    ParquetIOManager,
    build_executor,
)
from tournament_assets.graph.table import rows_of
from tournament_assets.project.config_files import find_host, with_lines
from tournament_assets.project.new_projects import as_identifier
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.project.project_files import Project
from tournament_assets.project.project_files import default_ledger_url as default_ledger_url
from tournament_assets.storage.atomic_files import write_bytes_atomically
from tournament_assets.tournament.judge_services import SERVICES
from tournament_assets.tournament.places import url_problem

_COMPONENT = files("tournament_assets") / "data" / "component"


def build_resources(
    project: Path, environment: Mapping[str, str], plans: Sequence[TournamentPlan] = ()
) -> dict[str, Any]:
    """Configure the resources. Secrets are named, not copied: Dagster shows configured values."""
    keys = [service.key_variable for service in SERVICES.values()]
    judges = [judge for plan in plans for judge in plan.config.judges]
    keys += [judge.key_variable for judge in judges]
    keys += [name for judge in judges for name in judge.header_variables.values()]
    storage = Project(project, environment).storage
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
                # An address may contain a password.
                name: value if name not in keys and not url_problem(value) else dg.EnvVar(name)
                for name in (*keys, *(service.url_variable for service in SERVICES.values()))
                if (value := environment.get(name))
            },
            loopback_folder=str(project / "ledger" / "loopback_judge"),
        ),
        "generator": GeneratorResource(device=environment.get("TOURNAMENT_DEVICE") or "auto"),
    }


def build_definitions(
    plans: Sequence[TournamentPlan],
    project: Path,
    environment: Mapping[str, str],
    *,
    broken: Sequence[BrokenConfig] = (),
) -> dg.Definitions:
    """Build the assets, jobs and resources of some tournaments.

    Configs that cannot be loaded get placeholder assets. Unless the environment names another
    executor, steps run one after another in their run's process: none is worth its own process, and
    a model stays loaded.
    """
    shared = dg.Definitions(
        assets=[build_problem_asset(each) for each in broken],
        asset_checks=build_problem_checks(broken),
        sensors=[
            *build_problem_sensor(broken),
            *(sensor for build in added_rows("sensors") for sensor in build(environment)),
        ],
        resources=build_resources(project, environment, plans),
        executor=build_executor(environment),
    )
    return dg.Definitions.merge(build_tournaments(plans), shared)


def build_tournaments(
    plans: Sequence[TournamentPlan], *, resource_prefix: str = ""
) -> dg.Definitions:
    """Build the assets, jobs, schedules and sensor of some tournaments, without resources.

    Args:
        resource_prefix: Prefix of their resource keys.

    Raises:
        InputError: If a configuration has a schedule that Dagster cannot fire.
    """
    for plan in plans:
        refuse_bad_schedules(plan)
    with warnings.catch_warnings():
        # Dagster warns at every use that partition mappings and observed data versions are beta.
        warnings.simplefilter("ignore", dg.BetaWarning)
        jobs = {
            plan.tournament_id: [
                *build_rerun_jobs(plan),
                *build_jobs(plan, refuse_run=refuse_superseded, resource_prefix=resource_prefix),
            ]
            for plan in plans
        }
        all_jobs = [job for each in jobs.values() for job in each]
        sensors = [build_sensor(plans, all_jobs, resource_prefix=resource_prefix)] if plans else []
        return dg.Definitions.merge(
            *(_build_tournament(plan, jobs[plan.tournament_id], resource_prefix) for plan in plans),
            dg.Definitions(sensors=sensors),
        )


def _build_tournament(
    plan: TournamentPlan, jobs: Sequence[Any], resource_prefix: str
) -> dg.Definitions:
    return dg.Definitions(
        assets=build_assets(plan, refuse_run=refuse_superseded, resource_prefix=resource_prefix),
        asset_checks=[
            *build_reported_checks(plan, rows_of(plan).values()),
            build_up_to_date_check(plan),
        ],
        jobs=[*jobs, build_rejudge_job(plan)],
        schedules=build_schedules(plan, jobs[0]),
    )


def build_guest(plan: TournamentPlan) -> dg.Definitions:
    """Build one tournament within another project, whose executor runs its steps.

    Its resources are named after it, so that they clash with no others. The other project reports
    failures in its own way.
    """
    prefix = f"{plan.tournament_id}_"
    resources = build_resources(plan.project.folder, plan.project.environment, [plan])
    return dg.Definitions.merge(
        build_tournaments([plan], resource_prefix=prefix),
        dg.Definitions(resources={f"{prefix}{key}": each for key, each in resources.items()}),
    )


class TournamentScaffolder(dg.Scaffolder):
    """Writes a `defs.yaml` that runs as it is, and the files that it names."""

    def scaffold(self, request: dg.ScaffoldRequest) -> None:
        """Write the files of a tournament named after its folder."""
        if request.scaffold_format != "yaml" or request.append:
            raise InputError(
                f"{request.target_path}: {request.scaffold_format} is asked for"
                f"{' at the end of a file' if request.append else ''}; expected a defs.yaml of "
                "its own; leave out --format, and name a folder that is not there yet"
            )
        folder = request.target_path.resolve()
        host = (request.project_root or find_host(folder / "defs.yaml")).resolve()
        values = {
            "tournament_id": as_identifier(folder.name),
            "folder": folder.relative_to(host).as_posix(),
        }
        for file in _COMPONENT.iterdir():
            text = file.read_text(encoding="utf-8")
            if file.name == "defs.yaml":
                text = Template(text).substitute(values)
            write_bytes_atomically(folder / file.name, text.encode())


@dg.scaffold_with(TournamentScaffolder)
class TournamentComponent(dg.Component, dg.Model, dg.Resolvable):
    """A tournament beside a project's own assets: it ranks configurations of a language model.

    The project's executor runs its steps. Its data is stored where the environment says
    (`definitions.py`), by default in the project's folder.

    Attributes:
        config: The keys of a config, or the path of a config file from the project's folder.
    """

    # A config is taken as it is written: a template's `{{ }}` would turn texts into numbers.
    config: Annotated[str | dict[str, Any], dg.Resolver.passthrough()]

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return the description that lists of components show."""
        kinds = ["asset", "asset_check", "job", "schedule", "sensor", "resource"]
        return dg.ComponentTypeSpec(tags=["evaluation", "llm"], produces=kinds)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the tournament's definitions."""
        if isinstance(self.config, str):
            path = Path(context.project_root) / self.config
        else:
            # Read from the file, so that problems name their line and edits are noticed.
            path = context.path if context.path.is_file() else context.path / "defs.yaml"
        return build_guest(load_plan(path, os.environ, is_guest=True))


def load_project(
    project: Path, environment: Mapping[str, str], *, strict: bool = False
) -> dg.Definitions:
    """Build the definitions of every tournament in a project's `configs/` folder.

    Args:
        project: The folder with `configs/`.
        strict: Fail if any config cannot be loaded; otherwise a placeholder asset says why.

    Raises:
        InputError: If there is no config at all; if `strict`, with every problem of every config.
    """
    plans: dict[str, TournamentPlan] = {}
    broken: list[BrokenConfig] = []
    for path in sorted((project / "configs").glob("*.yaml")):
        try:
            plan = load_plan(path, environment)
            refuse_bad_schedules(plan)
            _check_id_is_free(plan, plans)
        except InputError as error:
            name = name_broken_config(path, [each.name for each in broken])
            broken.append(BrokenConfig(path, name, error.problems))
        else:
            plans[plan.tournament_id] = plan
    if strict and broken:
        raise InputError(problem for each in broken for problem in each.problems)
    if not plans and not broken:
        raise InputError(
            f"{project / 'configs'} holds no .yaml file; expected one config a tournament; "
            "start in the project's folder or set TOURNAMENT_PROJECT"
        )
    return build_definitions(list(plans.values()), project, environment, broken=broken)


def _check_id_is_free(plan: TournamentPlan, earlier: Mapping[str, TournamentPlan]) -> None:
    other = earlier.get(plan.tournament_id)
    if other is not None:
        problem = (
            f"tournament_id {plan.tournament_id!r} is already used by "
            f"{other.project.folder / other.config_path}; expected one config each; rename one"
        )
        raise InputError(with_lines(plan.shown_path, [problem]))


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions that Dagster loads; `dg check defs` refuses any broken config."""
    warnings.filterwarnings("ignore", category=dg.BetaWarning)
    if not gc.get_freeze_count():
        # Once per process: garbage present at that moment is never collected.
        gc.freeze()
    return load_project(
        Path(os.environ.get("TOURNAMENT_PROJECT") or Path.cwd()),
        os.environ,
        strict=os.environ.get("DAGSTER_IS_DEFS_VALIDATION_CLI") == "1",
    )
