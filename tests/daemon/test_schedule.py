import re
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, ScheduleInstigatorData

from tests.daemon.daemons import Daemon, look_often, turn_on, wait_until
from tests.graph.paid_projects import paid_project
from tournament_assets.graph.automation.jobs import build_rerun_stages
from tournament_assets.graph.automation.reruns import RerunState, find_reruns
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.project.project_files import prepare_dagster_home

HOUR = 3600


@pytest.mark.timeout(1500)
def test_the_daemon_makes_up_for_sixty_missed_ticks_once_although_it_is_killed_on_the_way(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid:
        paid.project.merge_config(modes={"headline": {"schedule": {"cron": "* * * * *"}}})
        paid.project.merge_config(judging={"tests": {"anchor_pairs": 0}})
        plan = load_plan(paid.project.config_path, paid.environment)
        home = prepare_dagster_home(paid.project.folder, paid.environment["DAGSTER_HOME"])
        look_often(home)
        environment = {**paid.environment, "TOURNAMENT_PROJECT": str(paid.project.folder)}
        log = tmp_path / "daemon.log"
        turn_on("small_headline_schedule", environment)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            pretend_turned_on_earlier(instance, seconds=HOUR)
            with Daemon(environment, log) as first:
                # Three runs are being requested at this moment, one for each entrant. Dagster gives
                # up a run whose process it was starting when it died, and so would the rerun.
                wait_until(
                    lambda: stage_begun(instance, plan) >= 2 and not starting(instance),
                    "stage 2",
                    seconds=600,
                    log=log,
                )
                first.kill()
                with Daemon(environment, log):
                    wait_until(
                        lambda: find_reruns(instance, plan)[0].state is RerunState.SUCCEEDED,
                        "the end of the rerun",
                        seconds=600,
                        log=log,
                    )
            rerun, *later = find_reruns(instance, plan)
            of_the_rerun = dg.RunsFilter(tags={"tournament/rerun": rerun.identity.rerun_id})
            runs = instance.get_run_records(of_the_rerun, ascending=True)
        names = [stage.name for stage in build_rerun_stages(plan)]
        stages = [names.index(record.dagster_run.tags["stage"]) for record in runs]
        assert stages == [0, 1, 2, 2, 2, 3, 4, 5, 6, 7]
        assert all(record.dagster_run.is_success for record in runs)
        spans = list(zip(stages, runs, strict=True))
        for stage, record in spans:
            ends = [earlier.end_time or inf for index, earlier in spans if index == stage - 1]
            assert all((record.start_time or 0.0) >= end for end in ends)
        # Every minute has its tick: one may have come between the last run and the last look.
        assert len(later) <= 1
        assert all(each.identity.began_at >= rerun.updated_at for each in later)
        assert re.search(r"\bcatch up\b", log.read_text())
        assert len(list((paid.project.folder / "runs").glob("headline_*"))) == 1
        assert paid.n_asked == 8 * 3 * 2


def pretend_turned_on_earlier(instance: dg.DagsterInstance, *, seconds: float) -> None:
    """Turn the schedule's switch in the past; the daemon has slept since."""
    (state,) = instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE)
    data = ScheduleInstigatorData("* * * * *", datetime.now(UTC).timestamp() - seconds)
    instance.update_instigator_state(state.with_data(data))


def starting(instance: dg.DagsterInstance) -> int:
    """Count the runs whose processes are being started."""
    return instance.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTING]))


def stage_begun(instance: dg.DagsterInstance, plan: TournamentPlan) -> int:
    reruns = find_reruns(instance, plan)
    index = reruns[0].stage_index if reruns else None
    return -1 if index is None else index
