"""Batches that have not ended: who sends them, who gives up waiting, and who collects them."""

from pathlib import Path

import dagster as dg
import pytest

from tournament_assets.definitions import build_resources
from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.rows import COLLECTS_TAG
from tournament_assets.graph.table import rows_of
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.project.plan import load_plan
from tournament_assets.project.project_files import prepare_dagster_home

from .paid_projects import UNTIL_ENDED, PaidProject, paid_project

JOB = "__ASSET_JOB_small_judging"
DIMENSIONS = ("factuality", "calibration")


def tick(paid: PaidProject) -> tuple[str | None, list[dg.RunRequest]]:
    """Let the sensor look once; return why it did nothing, or what it wants to run."""
    definitions = paid.definitions()
    with dg.DagsterInstance.from_config(paid.project.environment["DAGSTER_HOME"]) as instance:
        resources = build_resources(paid.project.folder, paid.environment)
        context = dg.build_sensor_context(
            instance=instance,
            definitions=definitions,
            resources={name: resources[name] for name in ("ledger", "judge")},
        )
        data = definitions.resolve_sensor_def("tournaments").evaluate_tick(context)
    return data.skip_message, list(data.run_requests or [])


def test_a_step_gives_up_its_place_and_the_sensor_collects_the_batch(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        paid.tables("judging_estimate")
        result = paid.events(JOB)
        assert not result.success
        assert not result.get_asset_materialization_events()
        reason, requests = tick(paid)
        assert "1 batches" in (reason or "")
        assert not requests
        paid.end_batches()
        _, (request,) = tick(paid)
        assert request.partition_key == "factuality|pilot"
        assert request.run_config["ops"]["small__judge_replies"]["config"] == {
            "judge_model": "claude-pilot"
        }
        paid.tables("judge_verdicts")
        assert (paid.server.log.batches, paid.n_asked) == (1, 24)
        reason, requests = tick(paid)
        assert "batch" not in (reason or "")
        assert not requests


def test_a_batch_that_a_run_waits_for_is_none_of_the_sensors_business(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        paid.tables("judging_estimate")
        assert not paid.events(JOB).success
        with paid.ledger() as ledger:
            lease = ledger.acquire_lease(JudgingScope("small", "pilot", "factuality"))
            assert not isinstance(lease, str)
            reason, requests = tick(paid)
            ledger.release_lease(lease)
        assert "batch" not in (reason or "")
        assert not requests


def collects(paid: PaidProject, request: dg.RunRequest) -> bool:
    """Run what the sensor asks for; return whether it succeeds."""
    job = paid.definitions().resolve_job_def(request.job_name or "")
    with dg.DagsterInstance.from_config(paid.project.environment["DAGSTER_HOME"]) as instance:
        return job.execute_in_process(
            instance=instance,
            partition_key=request.partition_key,
            run_config=request.run_config,
            tags=request.tags,
            asset_selection=[dg.AssetKey(["small", "judge_replies"])],
            raise_on_error=False,
        ).success


def test_a_run_that_names_no_open_batch_needs_a_budget(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        prepare_dagster_home(paid.project.folder, paid.environment["DAGSTER_HOME"])
        paid.tables("judging_estimate", mode="headline")
        request = dg.RunRequest(
            job_name=JOB,
            partition_key=dg.MultiPartitionKey({"mode": "headline", "dimension": "factuality"}),
            tags={COLLECTS_TAG: "yes"},
        )
        paid.project.merge_config(judging={"budget": {"usd": None}})
        assert not collects(paid, request)
        assert paid.n_asked == 0
        paid.project.merge_config(judging={"budget": {"usd": "unlimited"}})
        assert collects(paid, request)
        assert paid.n_asked > 0


def test_the_sensor_collects_what_a_run_without_a_budget_began(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.project.merge_config(judging={"budget": {"usd": None}})
        paid.project.edit_judges(waiting={"deadline_seconds": 0.2})
        with pytest.raises(WorkError):
            paid.project.run_recorded(environment=paid.environment, mode="headline", no_budget=True)
        asked, batches = paid.n_asked, paid.server.log.batches
        assert asked > 0
        paid.end_batches()
        _, (request,) = tick(paid)
        assert collects(paid, request)
        assert (paid.n_asked, paid.server.log.batches) == (asked, batches)
        assert n_open(paid) == 0


def test_a_run_waits_beyond_the_place_of_a_step(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=1) as paid:
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        paid.tables("judge_verdicts")
        assert paid.n_asked == 24


def n_open(paid: PaidProject) -> int:
    with paid.ledger() as ledger:
        return sum(len(batches) for batches in ledger.open_scopes("small").values())


def test_every_dimension_is_sent_before_any_batch_has_ended_and_collected_by_the_next_run(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS, processing_seconds=UNTIL_ENDED) as paid:
        paid.project.edit_judges(waiting={"deadline_seconds": 0.2})
        with pytest.raises(WorkError, match=r"1 of 1 "):
            paid.tables("judge_verdicts")
        assert paid.server.log.batches == n_open(paid) == len(DIMENSIONS)
        asked = paid.server.log.requests
        paid.end_batches()
        paid.project.edit_judges(waiting={"deadline_seconds": 60})
        paid.tables("judge_verdicts")
        assert (paid.server.log.batches, paid.server.log.requests) == (len(DIMENSIONS), asked)
        assert n_open(paid) == 0


def test_every_served_entrant_is_asked_before_any_batch_has_ended(tmp_path: Path) -> None:
    with paid_project(tmp_path, dimensions=DIMENSIONS, processing_seconds=UNTIL_ENDED) as paid:
        paid.project.edit_judges(waiting={"deadline_seconds": 0.2})
        models = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")
        paid.project.edit_config(
            entrants=[
                {
                    "entrant_id": model.split("-")[1],
                    "loader": "anthropic_api",
                    "model": model,
                    "max_new_tokens": 512,
                }
                for model in models
            ]
        )
        with pytest.raises(WorkError, match=r"served entrants .* 0 s "):
            paid.tables("entrant_responses")
        asked = [batch.n_requests for batch in paid.server.store.list_newest_first()]
        assert asked == [6, 6, 6]
        assert paid.n_asked == 18
        plan = load_plan(paid.project.config_path, paid.environment)
        # Nothing is generated here, so nobody holds a place in the pool.
        assert not rows_of(plan)["entrant_responses"].where.on_gpu(plan)
        paid.end_batches()
        paid.project.edit_judges(waiting={"deadline_seconds": 60})
        made = paid.tables("entrant_responses")
        assert made.metadata["entrant_requests", ""]["generated_now"] == 18
        assert paid.n_asked == 18
