"""A batch service that refuses the schema of a reply, through the real SDK and a real ledger."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.judging.builders import SCOPE, SETTINGS, Progress, quick, requests_for
from tests.judging.faults.conftest import connect
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.foundation.errors import JudgeError
from tournament_assets.judging.settlement.sessions import JudgingSession, Tally
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger

REQUESTS = requests_for(20, settings=replace(SETTINGS, reply_format="json_schema"))


class WithoutSchemas(FaultyServer):
    """Serves the loopback judge, but refuses every direct request with a schema, in some words."""

    def __init__(self, words: str) -> None:
        super().__init__(processing_seconds=0)
        self.n_refused = 0
        served: ASGIApp = self._app

        async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") != "/v1/chat/completions":
                await served(scope, receive, send)
                return
            body = await Request(scope, receive).body()

            async def again() -> dict[str, object]:
                return {"type": "http.request", "body": body, "more_body": False}

            if "response_format" not in json.loads(body):
                await served(scope, again, send)
                return
            self.n_refused += 1
            error = {"message": words, "type": "invalid_request_error", "param": None}
            await JSONResponse({"error": error}, 400)(scope, again, send)

        self._app = refuse


def settle(server: FaultyServer, folder: Path) -> Tally:
    with (
        closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")) as ledger,
        closing(connect("openai_batch", server)) as service,
    ):
        session = JudgingSession(
            scope=SCOPE,
            ledger=ledger,
            service=service,
            progress=Progress(),
            terms=replace(quick(prewarms=True), reply_format="json_schema"),
        )
        return settle_requests(session, REQUESTS)


def test_a_refusal_that_names_the_schema_costs_two_requests_and_the_batch_goes_without(
    tmp_path: Path,
) -> None:
    words = "Unsupported parameter: 'response_format' is not supported with this model."
    with WithoutSchemas(words) as server:
        tally = settle(server, tmp_path)
        assert (tally.answered, tally.second_questions) == (len(REQUESTS), 0)
        assert (server.n_refused, server.log.batches) == (2, 1)
        (batch,) = server.store.list_newest_first()
        assert not [each for each in batch.iterate_requests() if "output_config" in each.params]


def test_a_refusal_that_names_nothing_costs_three_requests_and_no_batch(tmp_path: Path) -> None:
    with WithoutSchemas("Invalid request.") as server:
        for _ in range(2):
            server.n_refused = 0
            with pytest.raises(JudgeError, match=r"refused the first 3 .*reply_format: line"):
                settle(server, tmp_path)
            # Nothing of it is final: the next run asks again, as after `reply_format: line`.
            assert (server.n_refused, server.log.batches, server.log.messages) == (3, 0, 0)
