"""A tournament judged through chat completions, as by a vLLM or llama.cpp of one's own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.tournament.errors import InputError

MODEL = "qwen-judge"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoopbackServer]:
    with LoopbackServer(tmp_path / "served") as served:
        yield served


def judged_by(folder: Path, url: str, **judge: Any) -> SmallProject:
    project = make_project(folder, dimensions=("calibration",))
    asked = {"service": "openai_api", "base_url": f"{url}/v1", "max_tokens": 512}
    project.edit_config(
        judge={**asked, "poll_initial_seconds": 0.05, "poll_max_seconds": 0.2, **judge},
        pilot={"judge_model": MODEL, "strata": {"recall": 4, "curated": 2}, "pilot_seed": 3},
        headline={"judge_model": MODEL},
    )
    return project


def test_a_server_on_this_machine_judges_without_a_key_and_for_nothing(
    tmp_path: Path, server: LoopbackServer
) -> None:
    project = judged_by(tmp_path / "project", server.url, budget_usd=0, max_in_flight=3)
    summary = project.run("pilot")
    assert set(summary.leaderboard["judge"]) == {
        "a model behind a server that speaks OpenAI's protocol"
    }
    assert set(summary.leaderboard["judge_model"]) == {MODEL}
    assert (server.log.batches, server.log.messages) == (0, summary.requests_submitted)
    assert server.log.messages > 10
    assert "$0.00" in (summary.directory / "report.md").read_text()


def test_openais_batch_api_judges_once_its_price_is_written_down(
    tmp_path: Path, server: LoopbackServer
) -> None:
    price = {MODEL: {"input": 2.0, "output": 8.0}}
    asked = {"service": "openai_batch", "adopt_grace_seconds": 1.0, "prices": price}
    project = judged_by(tmp_path / "project", server.url, **asked, budget_usd=50.0)
    summary = project.run("pilot")
    assert set(summary.leaderboard["judge"]) == {"a model through OpenAI's Batch API"}
    assert (server.log.batches, server.log.messages) == (1, 0)
    assert server.log.requests == summary.requests_submitted > 10
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert 0 < manifest["cost"]["total_usd"] < 1


def test_a_server_elsewhere_wants_a_price_before_it_is_asked(tmp_path: Path) -> None:
    project = judged_by(tmp_path / "project", "https://models.example")
    with pytest.raises(InputError, match=f"no price of '{MODEL}' is known; expected what a"):
        project.run("pilot")
