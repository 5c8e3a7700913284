"""A ledger that is lost with everything in it, and the commands that follow."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tournament_assets.cli import main

from .paid_projects import PaidProject, paid_project

JOB = "small_6_judge_and_rate"


def lose_ledger(paid: PaidProject) -> None:
    for path in (paid.project.folder / "ledger").glob("ledger.sqlite*"):
        path.unlink()


def recover(paid: PaidProject, environment: pytest.MonkeyPatch) -> Result:
    environment.setenv("ANTHROPIC_BASE_URL", paid.server.url)
    result = CliRunner().invoke(
        main, ["ledger", "recover", "--config", str(paid.project.config_path)]
    )
    assert result.exit_code == 0, result.output
    return result


def test_a_lost_ledger_is_told_before_anything_is_paid_and_filled_again_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paid_project(tmp_path, "no_verdict:1") as paid:
        paid.run_until_judging()
        assert paid.events(JOB).success
        before, bought = paid.rows("judge_replies"), paid.server.log.to_dict()
        lose_ledger(paid)
        failed = paid.events(JOB)
        assert not failed.success
        (event,) = failed.get_step_failure_events()
        assert "tournament ledger recover --config" in str(event.event_specific_data)
        assert paid.server.log.to_dict() == bought
        output = recover(paid, monkeypatch).output
        assert f"{bought['requests']} replies of 2 batches are back in the ledger" in output
        assert paid.events(JOB).success
        assert paid.server.log.to_dict() == bought
        assert paid.rows("judge_replies") == before
        assert "0 replies of 0 batches are back" in recover(paid, monkeypatch).output
