"""Judges behind a service that the project does not know, or behind a chat server."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import chat_server
from tests.judging.builders import SETTINGS, requests_for
from tests.loopback.threaded_servers import LoopbackServer
from tests.projects import SmallProject, make_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    TokenUsage,
)
from tournament_assets.tournament.judge_services import (
    SERVICES,
    JudgeService,
    ServiceConnection,
    is_free_model,
)

KEY = "toy-key-0123456789"
TOY = JudgeService(
    name="toy",
    label="a toy that prefers the longer response",
    opener=f"{__name__}:open_toy",
    source="of the toy",
    key_variable="TOY_KEY",
    url_variable="TOY_URL",
    is_language_model=False,
    grace_seconds=1.0,
)


@dataclass
class ToyBatches:
    """Prefers the longer response, at once."""

    batches: dict[str, list[SubmittedRequest]] = field(default_factory=dict)
    opened_with: list[ServiceConnection] = field(default_factory=list)

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        batch_id = f"toy-{len(self.batches)}"
        self.batches[batch_id] = list(requests)
        return self.get_batch(batch_id)

    def list_batches(self) -> Iterator[BatchStatus]:
        yield from map(self.get_batch, reversed(self.batches))

    def get_batch(self, batch_id: str) -> BatchStatus:
        return BatchStatus(batch_id, True, len(self.batches[batch_id]))

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        yield from map(self.ask_directly, self.batches[batch_id])

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        return ReplyRow(
            custom_id=request.custom_id,
            result_type="succeeded",
            text=f"VERDICT: {_longer(request.params)}",
            stop_reason="end_turn",
            model=request.params["model"],
            usage=TokenUsage(100, 10),
        )

    def check_model(self, model: str) -> str | None:
        return None if model.startswith("toy") else f"{model} is another's"


def _longer(params: Mapping[str, Any]) -> str:
    shown = params["messages"][0]["content"]
    first, second = re.findall(r"<response_[ab] fence=.*?>\n(.*?)\n</response_", shown, re.DOTALL)
    return "A" if len(first) > len(second) else "B" if len(second) > len(first) else "TIE"


_TOY = ToyBatches()


@contextmanager
def open_toy(connection: ServiceConnection) -> Iterator[ToyBatches]:
    _TOY.opened_with.append(connection)
    yield _TOY


def test_a_row_of_the_table_makes_a_service_judge_a_tournament(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    project.seat({"service": "toy", "model": "toy-1", "base_url": "https://toy.example"})
    project.draw(recall=4)
    project.merge_config(
        modes={"headline": {"prewarm": False}},
        checks={"max_length_effect": None, "max_longer_wins": None},
    )
    with pytest.raises(InputError, match="'toy'"):
        project.run("headline")
    monkeypatch.setitem(SERVICES, "toy", TOY)
    with pytest.raises(InputError, match="TOY_KEY"):
        project.run("headline")
    monkeypatch.setenv("TOY_KEY", KEY)  # Dagster is told the name of the variable
    summary = project.run("headline", environment={"TOY_KEY": KEY})
    assert set(summary.leaderboard["judge"]) == {TOY.label}
    assert summary.requests_submitted == sum(map(len, _TOY.batches.values())) > 0
    (connection, *_) = _TOY.opened_with
    assert (connection.api_key, connection.base_url) == (KEY, "https://toy.example")
    assert KEY not in repr(connection)
    report = (summary.directory / "report.md").read_text()
    assert "These results say nothing about quality" in report
    files = [path for path in project.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    n_batches = len(_TOY.batches)
    assert project.run("headline", environment={"TOY_KEY": KEY}).requests_submitted == 0
    assert len(_TOY.batches) == n_batches


def test_another_services_reply_to_the_same_request_is_kept_apart() -> None:
    ours = {each.request_key: each.params for each in requests_for(2)}
    theirs = requests_for(2, settings=replace(SETTINGS, identity={"service": "toy"}))
    assert [each.params for each in theirs] == list(ours.values())
    assert ours.keys().isdisjoint(each.request_key for each in theirs)


def test_a_free_service_needs_names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'toy'"):
        replace(TOY, is_free=True)
    assert not is_free_model("toy-1")
    monkeypatch.setitem(SERVICES, "toy", replace(TOY, is_free=True, model_prefix="toy-"))
    assert is_free_model("toy-1")


MODEL = "qwen-judge"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LoopbackServer]:
    with LoopbackServer(tmp_path / "served") as served:
        yield served


def judged_by(folder: Path, url: str, **judge: Any) -> SmallProject:
    project = make_project(folder, dimensions=("calibration",))
    project.seat({"service": "openai_api", "model": MODEL, "base_url": f"{url}/v1", **judge})
    return project


def test_a_server_on_this_machine_judges_without_a_key_and_for_nothing(
    tmp_path: Path, server: LoopbackServer
) -> None:
    project = judged_by(tmp_path / "project", server.url, max_in_flight=3)
    project.merge_config(judging={"budget": {"usd": 0.0}})
    summary = project.run("pilot")
    assert set(summary.leaderboard["judge"]) == {SERVICES["openai_api"].label}
    assert set(summary.leaderboard["judge_model"]) == {MODEL}
    assert (server.log.batches, server.log.messages) == (0, summary.requests_submitted)
    assert server.log.messages > 10
    assert "$0.00" in (summary.directory / "report.md").read_text()


def test_openais_batch_api_judges_once_its_price_is_written_down(
    tmp_path: Path, server: LoopbackServer
) -> None:
    price = {MODEL: {"input": 2.0, "output": 8.0}}
    asked = {"service": "openai_batch", "waiting": {"adopt_grace_seconds": 1.0}}
    project = judged_by(tmp_path / "project", server.url, **asked)
    project.merge_config(judging={"prices": price, "budget": {"usd": 50.0}})
    summary = project.run("pilot")
    assert set(summary.leaderboard["judge"]) == {SERVICES["openai_batch"].label}
    assert (server.log.batches, server.log.messages) == (1, 0)
    assert server.log.requests == summary.requests_submitted > 10
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert 0 < manifest["cost"]["total_usd"] < 1


def test_a_server_elsewhere_wants_a_price_before_it_is_asked(tmp_path: Path) -> None:
    project = judged_by(tmp_path / "project", "https://models.example")
    with pytest.raises(InputError, match=f"'{MODEL}'"):
        project.run("pilot")


def test_a_free_judges_replies_are_no_trouble_to_the_budget_of_a_paid_one(
    tmp_path: Path, server: LoopbackServer
) -> None:
    project = judged_by(tmp_path / "project", server.url)
    assert project.run("pilot").requests_submitted > 10
    project.seat({"model": "paid-judge"})
    prices = {"paid-judge": {"input": 2.0, "output": 8.0}}
    project.merge_config(judging={"prices": prices, "budget": {"usd": 50.0}})
    summary = project.run("pilot")
    assert summary.requests_submitted > 10
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert 0 < manifest["cost"]["total_usd"] < 1


def test_a_check_says_which_other_model_answered_how_many(
    tmp_path: Path,
) -> None:
    with chat_server() as chat:
        chat.reply = lambda _body: "VERDICT: A"
        project = judged_by(tmp_path / "project", chat.url.removesuffix("/v1"), model="tiny")
        made = project.tables("judge_replies")
        n_asked = len(chat.asked)
    (warning,) = [each for each in made.warnings if each.startswith("judge_is_who_was_asked: ")]
    assert f"{n_asked} of {n_asked} " in warning
    assert "by 'tiny-as-served'" in warning
