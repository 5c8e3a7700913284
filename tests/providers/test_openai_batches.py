from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.loopback.builders import judge_params
from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.providers.openai import judge as adapter
from tournament_assets.providers.openai.judge import BatchJudge
from tournament_assets.tournament.errors import JudgeError, JudgeFailure
from tournament_assets.tournament.judge_services import ServiceConnection

from .scripted_service import Script, run_script

UPLOADED = JSONResponse({"id": "file-1"})


def connect(url: str) -> BatchJudge:
    return BatchJudge(ServiceConnection("any", f"{url}/v1", Path("unused"), "MY_KEY"))


@pytest.fixture(scope="module")
def running() -> Iterator[Script]:
    with run_script(connect) as running:
        yield running


def requests(n: int) -> list[SubmittedRequest]:
    return [SubmittedRequest(f"request-{number}", judge_params()) for number in range(n)]


def create(service: BatchJudge) -> object:
    return service.create_batch(requests(1))


def look(service: BatchJudge) -> object:
    return service.get_batch("b1")


def read_list(service: BatchJudge) -> object:
    return list(service.list_batches())


def fail(script: Script, task: Callable[[Any], object], *answers: Response) -> JudgeError:
    with pytest.raises(JudgeError) as caught:
        task(script.give(*answers))
    return caught.value


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_all_pages_of_the_list_come_newest_first(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "_PAGE", size)
    with LoopbackServer(tmp_path) as server, closing(connect(server.url)) as service:
        ids = [service.create_batch(requests(n)).batch_id for n in (1, 2, 3, 4, 5)]
        listed = list(service.list_batches())
    assert [each.batch_id for each in listed] == ids[::-1]
    assert [each.n_requests for each in listed] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "answer",
    [
        {"has_more": False},
        {"data": "b1", "has_more": False},
        {"data": [], "has_more": True},
        {"data": [{"status": "completed"}], "has_more": True},
    ],
)
def test_half_a_list_is_worse_than_none(running: Script, answer: dict[str, Any]) -> None:
    error = fail(running, read_list, JSONResponse(answer))
    assert "where they begin" in str(error)
    assert error.failure is JudgeFailure.TRANSIENT


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"error": {"message": "no"}}, status_code=500),
        JSONResponse({"object": "file"}),
        Response("<html>", media_type="text/html"),
    ],
)
def test_a_file_that_was_not_taken_in_is_surely_no_batch(running: Script, answer: Response) -> None:
    error = fail(running, create, answer)
    assert error.failure is JudgeFailure.NOT_ACCEPTED
    assert {asked.path for asked in running.asked} == {"/v1/files"}


def test_a_batch_without_a_name_may_have_been_accepted(running: Script) -> None:
    error = fail(running, create, UPLOADED, JSONResponse({"object": "batch"}))
    assert "a batch with its id" in str(error)
    assert error.failure is JudgeFailure.AMBIGUOUS
    assert fail(running, look, JSONResponse({})).failure is JudgeFailure.TRANSIENT


def test_a_batch_that_cannot_be_written_to_a_file_is_not_sent(
    running: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    error = fail(running, create, UPLOADED)
    assert "could not be written to a temporary file" in str(error)
    assert error.failure is JudgeFailure.FATAL
    assert running.asked == []


def test_results_whose_file_is_gone_are_lost(running: Script) -> None:
    ended = {"id": "b1", "status": "completed", "output_file_id": "file-2"}
    gone = JSONResponse({"error": {"message": "no such file"}}, status_code=404)

    def read(service: BatchJudge) -> object:
        return list(service.iterate_results("b1"))

    assert fail(running, read, JSONResponse(ended), gone).failure is JudgeFailure.LOST
    begun = JSONResponse({"id": "b1", "status": "in_progress"})
    assert fail(running, read, begun).failure is JudgeFailure.TRANSIENT
