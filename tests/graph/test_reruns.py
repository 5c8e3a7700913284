from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.chat_server import MODEL, ChatServer
from tests.graph.paid_projects import UNTIL_ENDED, PaidProject, paid_project
from tests.graph.rerun_driver import FIRST_RERUN, TICK, Driver, driver
from tournament_assets.graph.automation.reruns import RerunState, begin_rerun

HEADLINE_REQUESTS = 8 * 3 * 2
"""Prompts with a gold answer, pairs of entrants, presentations."""


def messages_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return what is told of a run's failed steps."""
    logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    return "\n".join(str(each.get_dagster_event().step_failure_data.error) for each in logs)


def made_in(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """Return the assets that a run made, in order, once each."""
    logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    keys = (each.get_dagster_event().step_materialization_data.materialization for each in logs)
    return list(dict.fromkeys(key.asset_key.path[-1] for key in keys))


def test_a_tick_reruns_the_headline_in_one_run_and_leaves_a_run_directory(
    tmp_path: Path,
) -> None:
    with (
        paid_project(tmp_path, dimensions=("factuality", "calibration")) as paid,
        driver(paid) as d,
    ):
        assert d.rerun()
        (rerun,) = d.reruns()
        assert rerun.state is RerunState.SUCCEEDED
        started = [
            stats.step_key
            for stats in sorted(
                d.instance.get_run_step_stats(rerun.newest_run.run_id),
                key=lambda stats: stats.start_time or 0.0,
            )
        ]
        assert started == [
            *("inputs", "prompts"),
            *("responses__careful", "responses__sloppy", "responses__mixed"),
            *("pairs__factuality", "pairs__calibration", "price", "ask_judge"),
            *("judging__factuality", "judging__calibration", "report", "check_drift__factuality"),
            "check_drift__calibration",
        ]
        (manifest,) = d.manifests()
        assert manifest["mode"] == "headline"
        assert manifest["rerun"] == FIRST_RERUN
        assert manifest["started_at"] == rerun.identity.began_at.replace(microsecond=0).isoformat()
        assert paid.n_asked == (8 + 12) * 3 * 2
        assert d.tick_sensor()[1] == []


def test_a_tick_while_a_rerun_is_unfinished_begins_none_and_names_it(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    d.note(request, dg.DagsterRunStatus.STARTED)
    reason, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert (reason or "").startswith(f"rerun {FIRST_RERUN} is running")
    assert requests == []
    reason, requests = d.tick_sensor()
    assert f"rerun {FIRST_RERUN} is running" in (reason or "")
    assert requests == []


def test_a_tick_that_was_interrupted_is_no_obstacle_to_itself(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    d.run(request)
    reason, (again,) = d.tick_schedule()
    assert reason is None
    assert (again.run_key, again.tags) == (request.run_key, request.tags)


def test_a_rerun_that_failed_is_executed_again_and_makes_the_rest_alone(
    paid: PaidProject, d: Driver
) -> None:
    paid.project.run_recorded("headline", environment=paid.environment)
    recorded = paid.project.folder / "responses_sloppy.jsonl"
    responses = recorded.read_text()
    recorded.write_text("{")
    assert not d.rerun()
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.FAILED
    # Nothing that was made before the rerun is fresh for it.
    assert made_in(d.instance, rerun.newest_run) == [
        *("prompt_bank", "selected_prompts", "entrant_responses")
    ]
    assert d.tick_sensor()[1] == []
    recorded.write_text(responses)
    assert d.execute_again(rerun.newest_run)
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.SUCCEEDED
    made = made_in(d.instance, rerun.newest_run)
    assert made[:2] == ["entrant_responses", "match_list"]
    assert made[-2:] == ["run_artifacts", "run_comparison"]
    responses_made = [
        str(record.partition_key)
        for record in d.instance.fetch_materializations(
            dg.AssetKey(["small", "entrant_responses"]), limit=1
        ).records
    ]
    assert responses_made == ["sloppy|headline"]


def test_a_failed_rerun_is_no_obstacle_to_the_next_tick(
    tmp_path: Path, paid: PaidProject, d: Driver
) -> None:
    (paid.project.folder / "bank.jsonl").rename(tmp_path / "elsewhere")
    assert not d.rerun()
    assert [rerun.state for rerun in d.reruns()] == [RerunState.FAILED]
    reason, requests = d.tick_schedule(TICK + timedelta(days=7))
    assert reason is None
    assert [request.run_key for request in requests] == ["small_headline_20261130T050000Z"]


def test_a_failed_rerun_that_is_executed_again_after_a_newer_began_runs_nothing_and_says_so(
    paid: PaidProject, d: Driver
) -> None:
    recorded = paid.project.folder / "responses_sloppy.jsonl"
    responses = recorded.read_text()
    recorded.write_text("{")
    assert not d.rerun()
    (failed,) = d.reruns()
    recorded.write_text(responses)
    _, (request,) = d.tick_schedule(TICK + timedelta(days=7))
    d.note(request, dg.DagsterRunStatus.STARTED)
    assert not d.execute_again(failed.newest_run)
    revived, newer = d.reruns()
    assert (revived.superseded_by, newer.superseded_by) == (
        "small_headline_20261130T050000Z",
        None,
    )
    assert "one rerun of a mode at a time" in messages_of(d.instance, revived.newest_run)
    assert made_in(d.instance, revived.newest_run) == []


def test_the_budget_stops_a_rerun_before_anything_is_asked(paid: PaidProject, d: Driver) -> None:
    paid.project.merge_config(judging={"budget": {"usd": 0.0}})
    assert not d.rerun()
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.FAILED
    assert made_in(d.instance, rerun.newest_run)[-1] == "judging_estimate"
    assert d.tick_sensor()[1] == []
    assert paid.n_asked == 0
    paid.project.merge_config(judging={"budget": {"usd": "unlimited"}})
    assert d.execute_again(rerun.newest_run)
    assert paid.n_asked == HEADLINE_REQUESTS


def test_a_rerun_goes_on_when_a_batch_that_it_gave_up_on_was_collected(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid, driver(paid) as d:
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        assert not d.rerun()
        (stopped,) = d.reruns()
        assert stopped.state is RerunState.FAILED
        paid.end_batches()
        _, (collecting,) = d.tick_sensor()
        assert (collecting.job_name, collecting.partition_key) == ("small_run", "headline")
        assert d.run(collecting)
        (rerun,) = d.reruns()
        assert rerun.state is RerunState.SUCCEEDED
        assert "entrant_responses" not in made_in(d.instance, rerun.newest_run)
        began_at = stopped.identity.began_at.replace(microsecond=0).isoformat()
        assert [manifest["started_at"] for manifest in d.manifests()] == [began_at]
        assert paid.n_asked == HEADLINE_REQUESTS


def test_a_run_carries_the_tags_that_show_its_rerun(d: Driver) -> None:
    _, (request,) = d.tick_schedule()
    d.note(request, dg.DagsterRunStatus.STARTED)
    (run,) = d.instance.get_runs(dg.RunsFilter(tags={"tournament/rerun": FIRST_RERUN}))
    own = {name: value for name, value in run.tags.items() if not name.startswith("dagster/")}
    assert own == {
        "tournament": "small",
        "mode": "headline",
        "tournament/rerun": FIRST_RERUN,
        "tournament/reason": "schedule",
    }


def test_a_job_that_somebody_launches_is_a_rerun_and_refuses_while_one_is_unfinished(
    d: Driver,
) -> None:
    job = d.definitions.resolve_job_def("small_rerun")

    def launch() -> bool:
        return job.execute_in_process(
            instance=d.instance, partition_key="pilot", raise_on_error=False
        ).success

    assert launch()
    (rerun,) = d.reruns()
    assert rerun.state is RerunState.SUCCEEDED
    assert (rerun.identity.reason, rerun.identity.scope) == ("hand", "out_of_date")
    assert made_in(d.instance, rerun.newest_run)[-1] == "run_comparison"
    assert launch()
    _, rerun = d.reruns()
    assert made_in(d.instance, rerun.newest_run) == []
    (request,) = begin_rerun(d.plan, "pilot", began_at=TICK, reason="edit")
    d.note(request, dg.DagsterRunStatus.STARTED)
    assert not launch()


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
        job.execute_in_process(instance=d.instance, partition_key="headline", raise_on_error=False)
    else:
        _, (request,) = d.tick_schedule()
        d.run(request)
    (run,) = d.instance.get_runs()
    (inputs,) = d.instance.get_run_step_stats(run.run_id, ["inputs"])
    succeeded = inputs.status is not None and inputs.status.value == "SUCCESS"
    assert succeeded is (not said), messages_of(d.instance, run)
    assert said in messages_of(d.instance, run)
    logged = [each.user_message for each in d.instance.all_logs(run.run_id)]
    assert any("NO_SUCH_KEY" in each for each in logged) is ("api_key_env" in judge)
    assert bool(chat.asked) is succeeded
