"""A ledger that is lost with everything in it, and the commands that follow."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.graph.paid_projects import PaidProject, paid_project
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.cli import main
from tournament_assets.foundation.errors import WorkError
from tournament_assets.judging.settlement import recovery


def lose_ledger(paid: PaidProject) -> None:
    for path in (paid.project.folder / "ledger").glob("ledger.sqlite*"):
        path.unlink()


def recover(paid: PaidProject) -> tuple[int, int]:
    """Run the command; return the replies and the batches that are back in the ledger."""
    result = CliRunner(env=paid.environment).invoke(
        main, ["ledger", "recover", "--config", str(paid.project.config_path)]
    )
    assert result.exit_code == 0, result.output
    found = re.search(r"(\d+) repl.* of (\d+) batch", " ".join(result.output.split()))
    assert found is not None
    return int(found[1]), int(found[2])


def test_a_lost_ledger_is_told_before_anything_is_paid_and_filled_again_by_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with paid_project(tmp_path, "no_verdict:1") as paid:
        paid.tables("judge_verdicts")
        before, bought = paid.rows("judge_replies"), paid.server.log.to_dict()
        lose_ledger(paid)
        with pytest.raises(WorkError, match="tournament ledger recover --config"):
            paid.tables("judge_verdicts")
        assert paid.server.log.to_dict() == bought
        with monkeypatch.context() as without:
            without.setattr(recovery, "added_rows", lambda kind: ())
            with pytest.raises(WorkError) as refusal:
                paid.tables("judge_verdicts")
        assert "the ledger does not know them" in str(refusal.value)
        assert "recover" not in str(refusal.value)
        assert recover(paid) == (bought["requests"], 2)
        paid.tables("judge_verdicts")
        assert paid.server.log.to_dict() == bought
        assert paid.rows("judge_replies") == before
        assert recover(paid) == (0, 0)


@pytest.fixture
def second_server(tmp_path: Path) -> Iterator[LoopbackServer]:
    with LoopbackServer(tmp_path / "second_server", processing_seconds=0) as server:
        yield server


def elsewhere(server: LoopbackServer) -> dict[str, str]:
    return {"service": "openai_batch", "model": "gpt-elsewhere", "base_url": f"{server.url}/v1"}


def price_judging_elsewhere(paid: PaidProject) -> None:
    price = {"gpt-elsewhere": {"input": 1.0, "output": 2.0}}
    paid.project.edit_judges(waiting={"adopt_grace_seconds": 1.0})
    paid.project.merge_config(judging={"prices": price, "budget": {"usd": 50.0}})


def test_every_service_is_asked_that_reaches_one_of_several_judges(
    tmp_path: Path, second_server: LoopbackServer
) -> None:
    with paid_project(tmp_path) as paid:
        claude = {"model": "claude-opus-5-5", "service": "anthropic"}
        price_judging_elsewhere(paid)
        paid.project.seat(claude, elsewhere(second_server))
        paid.tables("judge_verdicts")
        bought = paid.server.log.requests + second_server.log.requests
        lose_ledger(paid)
        assert recover(paid) == (bought, 2)


def test_the_service_is_asked_that_a_mode_of_its_own_is_judged_by(
    tmp_path: Path, second_server: LoopbackServer
) -> None:
    with paid_project(tmp_path) as paid:
        price_judging_elsewhere(paid)
        first, second = yaml.safe_load(paid.project.config_path.read_text())["judges"]
        other = {**first, **elsewhere(second_server), "name": "other"}
        nightly = {"judges": ["other"], "share": 1.0}
        paid.project.merge_config(judges=[first, second, other], modes={"nightly": nightly})
        paid.tables("judge_verdicts", mode="nightly")
        lose_ledger(paid)
        assert recover(paid) == (second_server.log.requests, 1)
