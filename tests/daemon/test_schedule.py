import re
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, ScheduleInstigatorData

from tests.daemon.daemons import Daemon, look_often, turn_on, wait_until
from tests.graph.paid_projects import paid_project
from tournament_assets.graph.automation.reruns import RerunState, find_reruns
from tournament_assets.graph.partitions import asset_key
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
                wait_until(
                    lambda: has_made(instance, plan, "selected_prompts"),
                    "the first stage",
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
            (record,) = instance.get_run_records(of_the_rerun)
        assert record.dagster_run.is_success
        # Every minute has its tick: one may have come between the last run and the last look.
        assert len(later) <= 1
        ended = record.end_time or 0.0
        assert all(each.identity.began_at.timestamp() >= ended for each in later)
        assert re.search(r"\bcatch up\b", log.read_text())
        assert len(list((paid.project.folder / "runs").glob("headline_*"))) == 1
        assert paid.n_asked == 8 * 3 * 2


def pretend_turned_on_earlier(instance: dg.DagsterInstance, *, seconds: float) -> None:
    """Turn the schedule's switch in the past; the daemon has slept since."""
    (state,) = instance.all_instigator_state(instigator_type=InstigatorType.SCHEDULE)
    data = ScheduleInstigatorData("* * * * *", datetime.now(UTC).timestamp() - seconds)
    instance.update_instigator_state(state.with_data(data))


def has_made(instance: dg.DagsterInstance, plan: TournamentPlan, asset: str) -> bool:
    return instance.get_latest_materialization_event(asset_key(plan, asset)) is not None
