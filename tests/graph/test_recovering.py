"""A ledger that is lost with everything in it, and the commands that follow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tournament_assets.cli import main
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.tournament.config import BUILT_IN_MODES

from .paid_projects import PaidProject, paid_project

JOB = "small_5_judge_and_rate"


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


@pytest.fixture
def second_server(tmp_path: Path) -> Iterator[LoopbackServer]:
    with LoopbackServer(tmp_path / "second_server", processing_seconds=0) as server:
        yield server


def elsewhere(server: LoopbackServer) -> dict[str, str]:
    return {"service": "openai_batch", "base_url": f"{server.url}/v1"}


def price_judging_elsewhere(paid: PaidProject, **judge: Any) -> None:
    price = {"gpt-elsewhere": {"input": 1.0, "output": 2.0}}
    paid.configure_judge(prices=price, budget_usd=50.0, adopt_grace_seconds=1.0, **judge)


def test_every_service_is_asked_that_reaches_a_judge_of_a_panel(
    tmp_path: Path, second_server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paid_project(tmp_path) as paid:
        claude = {"model": "claude-opus-5-5", "service": "anthropic"}
        other = {"model": "gpt-elsewhere", **elsewhere(second_server)}
        price_judging_elsewhere(paid, panel=[claude, other])
        modes = yaml.safe_load(paid.project.config_path.read_text())
        led = {name: {**modes[name], "judge_model": claude["model"]} for name in BUILT_IN_MODES}
        paid.project.edit_config(**led)
        paid.run_until_judging()
        assert paid.events(JOB).success
        bought = paid.server.log.requests + second_server.log.requests
        lose_ledger(paid)
        output = recover(paid, monkeypatch).output
        assert f"{bought} replies of 2 batches are back in the ledger" in output


def test_the_service_is_asked_that_a_mode_of_its_own_is_judged_by(
    tmp_path: Path, second_server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paid_project(tmp_path) as paid:
        price_judging_elsewhere(paid)
        judge = elsewhere(second_server)
        nightly = {"judge_model": "gpt-elsewhere", "judge": judge, "share": 1.0}
        paid.project.edit_config(modes={"nightly": nightly})
        paid.run(mode="nightly")
        lose_ledger(paid)
        output = recover(paid, monkeypatch).output
        bought = second_server.log.requests
        assert f"{bought} replies of 1 batch are back in the ledger" in output
