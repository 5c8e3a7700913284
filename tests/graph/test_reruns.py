import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.chat_server import MODEL, ChatServer
from tests.graph.paid_projects import UNTIL_ENDED, PaidProject, paid_project
from tests.graph.rerun_driver import FIRST_RERUN, STAGES, TICK, Driver, driver
from tournament_assets.graph.automation import scheduled_reruns as continuing
from tournament_assets.graph.automation.reruns import RerunState

HEADLINE_REQUESTS = 8 * 3 * 2
"""Prompts with a gold answer, pairs of entrants, presentations."""


def messages_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return what is told of a run's failed steps."""
    logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return "\n".join(str(each.get_dagster_event().step_failure_data.error) for each in logs)


def test_a_tick_reruns_the_headline_stage_by_stage_and_leaves_a_run_directory(
    tmp_path: Path,
) -> None:
    with (
        paid_project(tmp_path, dimensions=("factuality", "calibration")) as paid,
        driver(paid) as d,
    ):
        assert d.rerun()
        partitions = {
            0: ("headline",),
            1: ("headline",),
            2: ("careful|headline", "sloppy|headline", "mixed|headline"),
            3: ("factuality|headline", "calibration|headline"),
            4: ("headline",),
            5: ("headline",),
            6: ("factuality|headline", "calibration|headline"),
            7: ("headline",),
        }
        assert d.requested == [
            f"{FIRST_RERUN}/{STAGES[stage]}/{key}"
            for stage, keys in partitions.items()
            for key in keys
        ]
        (rerun,) = d.reruns()
        assert rerun.state is RerunState.SUCCEEDED
        (manifest,) = d.manifests()
        assert manifest["mode"] == "headline"
        assert manifest["rerun"] == FIRST_RERUN
        assert manifest["started_at"] == rerun.identity.began_at.replace(microsecond=0).isoformat()
        assert paid.n_asked == (8 + 12) * 3 * 2
        assert d.tick_sensor()[1] == []


def test_a_tick_while_a_rerun_is_unfinished_begins_none_and_names_it(d: Driver) -> None:
    _, requests = d.tick_schedule()
    assert [d.run(request) for request in requests] == [True]
    reason, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert (reason or "").startswith(f"rerun {FIRST_RERUN} ")
    assert "(inputs: " in (reason or "")
    assert requests == []


def test_a_tick_that_was_interrupted_is_no_obstacle_to_itself(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    d.run(request)
    reason, (again,) = d.tick_schedule()
    assert reason is None
    assert (again.run_key, again.tags) == (request.run_key, request.tags)


def test_requests_that_came_to_nothing_are_made_again_under_the_same_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuing, "CLOCKS_DIFFER", timedelta(milliseconds=1))
    with paid_project(tmp_path) as paid, driver(paid) as d:
        d.run(d.tick_schedule()[1][0])
        keys = [[request.run_key for request in d.tick_sensor()[1]] for _ in range(3)]
        assert keys == 3 * [[f"{FIRST_RERUN}/prompts/headline"]]


def test_a_stage_of_which_only_some_runs_were_begun_waits_and_is_then_begun_whole(
    monkeypatch: pytest.MonkeyPatch, d: Driver
) -> None:
    d.run(d.tick_schedule()[1][0])
    d.run(d.tick_sensor()[1][0])
    _, requests = d.tick_sensor()
    assert len(requests) == 3
    d.run(requests[1])
    assert d.tick_sensor()[1] == []  # who was interrupted may be about to go on
    monkeypatch.setattr(continuing, "BEGINNING_TAKES", timedelta(0))
    _, left = d.tick_sensor()
    assert [each.run_key for each in left] == [requests[0].run_key, requests[2].run_key]
    assert [each.partition_key for each in left] == ["careful|headline", "mixed|headline"]
    assert [each.tags for each in left] == [requests[0].tags, requests[2].tags]


def test_a_failed_stage_stops_the_rerun_until_its_run_is_executed_again(
    paid: PaidProject, d: Driver
) -> None:
    recorded = paid.project.folder / "responses_sloppy.jsonl"
    responses = recorded.read_text()
    recorded.write_text("{")
    assert not d.rerun()
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.FAILED
    assert {FIRST_RERUN, "(responses:"} <= {*rerun.describe().split()}
    assert d.tick_sensor()[1] == []
    recorded.write_text(responses)
    assert d.execute_again(rerun.newest_runs["sloppy|headline"])
    _, (following,) = d.tick_sensor()
    assert following.run_key == f"{FIRST_RERUN}/pairs/factuality|headline"
    assert [key.split("/")[1] for key in d.requested] == [
        STAGES[stage] for stage in (0, 1, 2, 2, 2)
    ]


def test_a_failed_rerun_is_no_obstacle_to_the_next_tick(
    tmp_path: Path, paid: PaidProject, d: Driver
) -> None:
    (paid.project.folder / "bank.jsonl").rename(tmp_path / "elsewhere")
    assert not d.rerun()
    assert [rerun.state for rerun in d.reruns()] == [RerunState.FAILED]
    reason, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert reason is None
    assert [request.run_key for request in requests] == [
        "small_headline_20261130T050000Z/inputs/headline"
    ]


def test_a_failed_rerun_that_is_executed_again_after_a_newer_began_runs_nothing_and_says_so(
    paid: PaidProject, d: Driver
) -> None:
    recorded = paid.project.folder / "responses_sloppy.jsonl"
    responses = recorded.read_text()
    recorded.write_text("{")
    assert not d.rerun()
    (failed,) = d.reruns()
    recorded.write_text(responses)
    _, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert [d.run(request) for request in requests] == [True]
    assert not d.execute_again(failed.newest_runs["sloppy|headline"])
    revived, newer = d.reruns()
    second = "small_headline_20261130T050000Z"
    assert (revived.superseded_by, newer.superseded_by) == (second, None)
    run = revived.newest_runs["sloppy|headline"]
    assert "one rerun of a mode at a time" in messages_of(d.instance, run)
    _, going_on = d.tick_sensor()
    assert [request.tags["tournament/rerun"] for request in going_on] == [second]


def test_an_older_rerun_does_not_go_on_beside_a_newer_one(
    tmp_path: Path, paid: PaidProject, d: Driver
) -> None:
    (paid.project.folder / "bank.jsonl").rename(tmp_path / "elsewhere")
    assert not d.rerun()
    (failed,) = d.reruns()
    (tmp_path / "elsewhere").rename(paid.project.folder / "bank.jsonl")
    # Executed again at the same moment as the next tick: neither saw the other.
    _, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert d.execute_again(failed.newest_runs["headline"])
    d.since = datetime.now(UTC).isoformat()
    assert [d.run(request) for request in requests] == [True]
    d.cursor = None
    _, going_on = d.tick_sensor()
    assert [request.tags["tournament/rerun"] for request in going_on] == [
        "small_headline_20261130T050000Z"
    ]
    reason, _ = d.tick_schedule(TICK + timedelta(days=14))
    assert (reason or "").startswith("rerun small_headline_20261130T050000Z ")


def test_a_rerun_whose_stage_this_version_does_not_know_stays_where_it_is(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    tags = {**request.tags, "stage": "0", "tournament/partitions": "[null]"}
    assert d.run(request._replace(tags=tags))
    _, requests = d.tick_sensor()
    assert requests == []
    assert [rerun.state for rerun in d.reruns()] == [RerunState.OF_ANOTHER_VERSION]
    assert d.tick_schedule(TICK + timedelta(days=7))[0] is None


def test_a_rerun_of_a_mode_that_the_config_has_no_more_stays_where_it_is(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    assert d.run(request._replace(tags={**request.tags, "mode": "nightly"}))
    _, requests = d.tick_sensor()
    assert requests == []
    assert [rerun.state for rerun in d.reruns()] == [RerunState.OF_ANOTHER_VERSION]


def test_the_budget_stops_a_rerun_before_anything_is_asked(paid: PaidProject, d: Driver) -> None:
    (price,) = d.begin_at("price", made="match_list")
    paid.project.merge_config(judging={"budget": {"usd": 0.0}})
    assert not d.run(price)
    (rerun,) = d.reruns()
    assert (rerun.state, STAGES[rerun.stage_index or 0]) == (RerunState.FAILED, "price")
    assert d.tick_sensor()[1] == []
    paid.project.merge_config(judging={"budget": {"usd": "unlimited"}})
    assert d.execute_again(rerun.newest_runs["headline"])
    _, (following,) = d.tick_sensor()
    assert following.run_key == f"{FIRST_RERUN}/ask_judge/headline"
    assert paid.n_asked == 0


def test_a_rerun_goes_on_when_a_batch_that_it_gave_up_on_was_collected(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid, driver(paid) as d:
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        (asking,) = d.begin_at("ask_judge", made="judging_estimate")
        assert not d.run(asking)
        (stopped,) = d.reruns()
        assert (stopped.state, stopped.stage_index) == (RerunState.FAILED, 5)
        paid.end_batches()
        _, (collecting,) = d.tick_sensor()
        assert (collecting.job_name, collecting.partition_key) == (
            "__ASSET_JOB_small_ask_judge",
            "headline",
        )
        judge_config = collecting.run_config["ops"]["small__judge_requests"]["config"]
        began_at = stopped.identity.began_at.replace(microsecond=0).isoformat()
        assert judge_config == {"judge_model": "claude-headline", "run_began_at": began_at}
        assert d.run(collecting)
        assert d.go_on()
        assert [rerun.state for rerun in d.reruns()] == [RerunState.SUCCEEDED]
        assert [manifest["started_at"] for manifest in d.manifests()] == [began_at]
        assert paid.n_asked == HEADLINE_REQUESTS


def test_the_sensor_reads_reruns_that_ended_long_ago_no_more(
    tmp_path: Path, paid: PaidProject, d: Driver
) -> None:
    (paid.project.folder / "bank.jsonl").rename(tmp_path / "elsewhere")
    assert not d.rerun()
    d.tick_sensor()
    (rerun,) = d.reruns()
    assert d.since > (rerun.updated_at - timedelta(minutes=6)).isoformat()
    # One whose failed run is executed again later has changed, however long ago it began.
    (tmp_path / "elsewhere").rename(paid.project.folder / "bank.jsonl")
    d.since = (rerun.updated_at + timedelta(milliseconds=1)).isoformat()
    assert d.tick_sensor()[1] == []
    assert d.execute_again(rerun.newest_runs["headline"])
    d.since = (rerun.updated_at + timedelta(milliseconds=1)).isoformat()
    assert len(d.tick_sensor()[1]) == 1


def test_every_run_carries_the_tags_that_show_its_rerun(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    assert d.run(request)
    (run,) = d.instance.get_runs(dg.RunsFilter(tags={"tournament/rerun": FIRST_RERUN}))
    own = {name: value for name, value in run.tags.items() if not name.startswith("dagster/")}
    assert own == {
        "tournament": "small",
        "mode": "headline",
        "tournament/rerun": FIRST_RERUN,
        "stage": "inputs",
        "tournament/scope": "all",
        "tournament/reason": "schedule",
        "tournament/partitions": json.dumps([["headline", []]]),
    }


def test_a_job_that_somebody_launches_begins_a_rerun_and_refuses_while_one_is_unfinished(
    d: Driver,
) -> None:
    job = d.definitions.resolve_job_def("small_rerun")

    def launch() -> bool:
        return job.execute_in_process(
            instance=d.instance, partition_key="pilot", raise_on_error=False
        ).success

    assert launch()
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.BETWEEN_STAGES
    assert (rerun.identity.reason, rerun.identity.scope) == ("hand", "out_of_date")
    assert not launch()
    _, (following,) = d.tick_sensor()
    assert following.tags["tournament/rerun"] == rerun.identity.rerun_id
    assert (following.tags["stage"], following.partition_key) == ("prompts", "pilot")


_NO_KEY = {"api_key_env": "NO_SUCH_KEY"}


@pytest.mark.parametrize("is_by_hand", [True, False], ids=["by hand", "on schedule"])
@pytest.mark.parametrize(
    ("judge", "key", "said"),
    [
        ({"base_url": "http://127.0.0.1:1/v1"}, None, "http://127.0.0.1:1"),
        ({"model": f"{MODEL}x"}, None, f"did you mean {MODEL!r}?"),
        ({}, "another", "401"),
        ({"model": f"{MODEL}x", **_NO_KEY}, None, ""),
        ({}, None, ""),
    ],
    ids=["dead port", "unknown model", "wrong key", "no key here", "a judge that answers"],
)
def test_a_judge_that_nobody_can_ask_is_told_before_anything_is_generated(
    d: Driver, chat: ChatServer, judge: dict[str, Any], key: str | None, said: str, is_by_hand: bool
) -> None:
    served = {"loader": "openai_api", "base_url": chat.url, "model": MODEL, "max_new_tokens": 64}
    seated = {"service": "openai_api", "base_url": chat.url, "model": MODEL, **judge}
    project = d.paid.project
    project.edit_judges(**seated)
    (first, *rest) = d.plan.config.model_dump(mode="json", exclude_defaults=True)["entrants"]
    project.edit_config(entrants=[*rest, first, {"entrant_id": "served", **served}])
    chat.key = key
    if is_by_hand:
        job = d.definitions.resolve_job_def("small_run")
        done = job.execute_in_process(
            instance=d.instance, partition_key="headline", raise_on_error=False
        )
        succeeded = done.success
    else:
        _, (beginning,) = d.tick_schedule()
        succeeded = d.run(beginning)
    (run,) = d.instance.get_runs()
    assert succeeded is (not said), messages_of(d.instance, run)
    assert said in messages_of(d.instance, run)
    logged = [each.user_message for each in d.instance.all_logs(run.run_id)]
    assert any("NO_SUCH_KEY" in each for each in logged) is ("api_key_env" in judge)
    assert not chat.asked
