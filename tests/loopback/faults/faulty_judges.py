from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2

from tests.loopback.builders import Caller, judge_params, wait_until_ended
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches

BATCHES = "/v1/messages/batches"


@contextmanager
def judge(*faults: str, directory: Path | None = None) -> Iterator[tuple[FaultyServer, Caller]]:
    with (
        FaultyServer(directory, processing_seconds=0, faults=faults) as server,
        Caller(server) as caller,
    ):
        yield server, caller


@contextmanager
def service_of(server: FaultyServer) -> Iterator[AnthropicBatches]:
    with closing(AnthropicBatches(base_url=server.url, api_key="any")) as service:
        yield service


def submit(service: AnthropicBatches, n: int) -> str:
    requests = [SubmittedRequest(f"ours-{number:02d}", judge_params()) for number in range(n)]
    batch_id = service.create_batch(requests).batch_id
    wait_until_ended(service, batch_id)
    return batch_id


def results(caller: Caller, batch_id: str) -> httpx2.Response:
    return caller.get(f"{BATCHES}/{batch_id}/results")
