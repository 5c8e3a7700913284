"""The loopback judge asked in this process, against the same judge asked by Anthropic's SDK."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loopback.builders import judge_params, wait_until_ended
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest, TakesBatches
from tournament_assets.loopback.batches import BatchStore
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.providers.loopback_judge import LoopbackJudge

REQUESTS = [
    SubmittedRequest("same", judge_params("Vitamin C.", "Vitamin C.")),
    SubmittedRequest("better", judge_params()),
    SubmittedRequest("invalid", judge_params() | {"max_tokens": 0}),
    SubmittedRequest("echo", judge_params() | {"messages": [{"role": "user", "content": "hi"}]}),
]
UNKNOWN = f"msgbatch_{'0' * 32}"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[TakesBatches, TakesBatches]]:
    with (
        LoopbackServer(tmp_path / "server", processing_seconds=0) as server,
        closing(AnthropicBatches(base_url=server.url, api_key="any")) as through_sdk,
    ):
        yield LoopbackJudge(BatchStore(tmp_path / "here", processing_seconds=0)), through_sdk


def without_id(row: ReplyRow) -> ReplyRow:
    raw = json.loads(row.raw)
    for message in (raw, raw.get("result", {}).get("message", {})):
        message.pop("id", None)
    return replace(row, raw=json.dumps(raw))


def results(service: TakesBatches) -> list[ReplyRow]:
    batch = service.create_batch(iter(REQUESTS))
    assert batch.n_requests == len(REQUESTS)
    assert [*service.list_batches()] == [service.get_batch(batch.batch_id)]
    wait_until_ended(service, batch.batch_id)
    return [without_id(row) for row in service.iterate_results(batch.batch_id)]


def test_a_batch_and_a_message_are_answered_as_through_the_sdk(
    both: tuple[TakesBatches, TakesBatches],
) -> None:
    here, there = map(results, both)
    assert here == there
    assert {row.result_type for row in here} == {"succeeded", "errored"}
    asked = [without_id(service.ask_directly(REQUESTS[0])) for service in both]
    assert asked[0] == asked[1]
    assert both[0].check_model("any") == both[1].check_model("any")


@pytest.mark.parametrize(
    "do",
    [
        lambda service: service.get_batch(UNKNOWN),
        lambda service: [*service.iterate_results(UNKNOWN)],
        lambda service: service.ask_directly(REQUESTS[2]),
    ],
)
def test_what_the_sdk_is_refused_is_refused_here(
    both: tuple[TakesBatches, TakesBatches], do: Callable[[TakesBatches], object]
) -> None:
    failures: list[JudgeFailure] = []
    for service in both:
        with pytest.raises(JudgeError) as raised:
            do(service)
        failures.append(raised.value.failure)
    assert failures[0] is failures[1]


def test_results_are_not_there_before_the_batch_has_ended(tmp_path: Path) -> None:
    service = LoopbackJudge(BatchStore(tmp_path, processing_seconds=3600))
    batch = service.create_batch(REQUESTS)
    with pytest.raises(JudgeError, match="not there yet") as raised:
        next(service.iterate_results(batch.batch_id))
    assert raised.value.failure is JudgeFailure.TRANSIENT
