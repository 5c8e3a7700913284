from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.faults.servers import FaultyServer
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.providers.openai.services import OpenAiBatches
from tournament_assets.tournament.judge_services import ServiceConnection

from .runs import Run, Runner


def connect(protocol: str, server: FaultyServer) -> AnthropicBatches | OpenAiBatches:
    if protocol == "anthropic":
        return AnthropicBatches(base_url=server.url, api_key="any")
    return OpenAiBatches(ServiceConnection("any", f"{server.url}/v1", Path("unused"), "MY_KEY"))


@pytest.fixture(params=["anthropic", "openai_batch"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The protocol that the judge is spoken to in."""
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path, protocol: str) -> Iterator[Runner]:
    """Start a run with some faults; at the test's end every one of them must have struck."""
    with ExitStack() as stack:
        begun: list[tuple[Run, tuple[str, ...]]] = []

        def start_run(*faults: str, **habits: Any) -> Run:
            server = FaultyServer(processing_seconds=0, faults=faults, **habits)
            stack.enter_context(server)
            service = connect(protocol, server)
            stack.enter_context(closing(service))
            run = Run(server, service, tmp_path / f"ledger-{len(begun)}.sqlite")
            stack.callback(run.ledger.close)
            begun.append((run, faults))
            return run

        yield start_run
        assert begun
        for run, faults in begun:
            run.check_struck(faults)
