"""A run whose steps are processes of their own: `python -m tests.torture.steps`.

The project runs its steps in the process of the run. Here the judging job is given Dagster's
multiprocess executor, so that a step can be killed and its run goes on, and the other way round.
"""

import os
import sys
from pathlib import Path

import dagster as dg

from tournament_assets.definitions import build_definitions, build_plan
from tournament_assets.graph.automation.jobs import build_stages
from tournament_assets.ledger.leases import own_identity
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.project.project_files import prepare_dagster_home

COMMAND = ("-m", "tests.torture.steps")
_N_STAGES_AFTER = 2
_N_STAGES_BEFORE = -3  # without the one that asks about all dimensions at once
_PARTITION = {"dimension": "factuality", "mode": "pilot"}


def build_judging_job() -> dg.JobDefinition:
    """Build the job that judges and rates, with steps that are processes."""
    plan = _plan()
    definitions = build_definitions([plan], _project(), os.environ)
    with_processes = dg.Definitions(
        assets=definitions.assets,
        jobs=definitions.jobs,
        resources=definitions.resources,
        executor=dg.multiprocess_executor,
    )
    return with_processes.resolve_job_def(build_stages(plan)[-_N_STAGES_AFTER].job_name)


def main() -> int:
    """Materialise what comes before the judging, then judge."""
    plan = _plan()
    definitions = build_definitions([plan], _project(), os.environ)
    home = prepare_dagster_home(_project(), os.environ.get("DAGSTER_HOME"))
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for stage in build_stages(plan)[:_N_STAGES_BEFORE]:
            for key in stage.partition_keys(plan, "pilot"):
                job = definitions.resolve_job_def(stage.job_name)
                job.execute_in_process(instance=instance, partition_key=key)
        tags = {f"dagster/partition/{axis}": value for axis, value in _PARTITION.items()}
        result = dg.execute_job(
            dg.reconstructable(build_judging_job),
            instance=instance,
            tags={
                "dagster/partition": "|".join(_PARTITION.values()),
                # As on the command line: the next run sees that this one is gone.
                "tournament/process": own_identity(),
                **tags,
            },
        )
        return 0 if result.success else 1


def find_step_process(run: int) -> int | None:
    """Return the process id of a run's step, if one is under way."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == run and b"spawn_main" in command:
            return int(entry.name)
    return None


def _project() -> Path:
    return Path(os.environ["TOURNAMENT_PROJECT"])


def _plan() -> TournamentPlan:
    return build_plan(load_config(_project() / "configs" / "small.yaml"), os.environ)


if __name__ == "__main__":
    sys.exit(main())
