from pathlib import Path

import dagster as dg
import pytest

from tournament_assets.definitions import build_resources
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.tournament.errors import WorkError

from .paid_projects import UNTIL_ENDED, PaidProject, paid_project

JOB = "small_5_judge_and_rate"


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
        data = definitions.resolve_sensor_def("small_resume_judging").evaluate_tick(context)
    return data.skip_message, list(data.run_requests or [])


def test_a_step_gives_up_its_place_and_the_sensor_collects_the_batch(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.configure_judge(slot_seconds=0.1)
        paid.run_until_judging()
        result = paid.events(JOB)
        assert not result.success
        assert not result.get_asset_materialization_events()
        reason, requests = tick(paid)
        assert reason == "1 batches have not ended yet"
        assert not requests
        paid.end_batches()
        _, (request,) = tick(paid)
        assert request.partition_key == "factuality|pilot"
        assert request.run_config["ops"]["small__judge_replies"]["config"] == {
            "judge_model": "claude-pilot"
        }
        summary = paid.run()
        assert summary.requests_submitted == 0
        assert paid.server.log.batches == 1
        assert tick(paid) == ("no batch is without a run that waits for it", [])


def test_a_batch_that_a_run_waits_for_is_none_of_the_sensors_business(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.configure_judge(slot_seconds=0.1)
        paid.run_until_judging()
        assert not paid.events(JOB).success
        with paid.ledger() as ledger:
            lease = ledger.acquire_lease(JudgingScope("small", "pilot", "factuality"))
            assert not isinstance(lease, str)
            reason, requests = tick(paid)
            ledger.release_lease(lease)
        assert reason == "no batch is without a run that waits for it"
        assert not requests


def test_the_command_line_waits_beyond_the_place_of_a_step(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=1) as paid:
        paid.configure_judge(slot_seconds=0.1)
        assert paid.run().requests_submitted == 24


def test_the_command_line_gives_up_at_the_deadline_and_a_later_run_goes_on(tmp_path: Path) -> None:
    with paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid:
        paid.configure_judge(deadline_seconds=0.2)
        with pytest.raises(WorkError, match=r"have not ended after 0 s .* paid and kept"):
            paid.run()
        paid.end_batches()
        paid.configure_judge(deadline_seconds=30)
        assert paid.run().requests_submitted == 0
        assert paid.server.log.batches == 1
