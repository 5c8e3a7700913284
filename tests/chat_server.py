"""A small server that speaks OpenAI's chat completions, and does wrong what it is told."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.loopback.faults.wire import DroppableProtocol, drop_connection
from tests.loopback.threaded_servers import ThreadedServer
from tournament_assets.judging.costs.prices import BudgetTerms, load_newest_prices
from tournament_assets.ledger import Ledger
from tournament_assets.providers.openers import JudgeConnection
from tournament_assets.responses.api_responses import complete_by_service
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.judges import ConfiguredPrice, Judge, Waiting
from tournament_assets.tournament.places import ServerAddress
from tournament_assets.tournament.prompts import Prompt

MODEL = "tiny"
_USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
DROP = Response(b"never sent")
"""Stands for a connection that is closed without an answer."""


@dataclass(frozen=True)
class Asked:
    """What the server was asked once."""

    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][-1]["content"])


class ChatServer:
    """Answers every prompt by repeating it, unless it was told otherwise.

    Attributes:
        url: The base URL for a client.
        asked: What it was asked to complete.
        looks: How often its models were listed.
        peak: The most requests that were under way at once.
        delay: How long an answer takes.
        key: The key it wants; None lets everybody in.
        wants: The header and the query that it wants besides.
        models: What it answers to a look at its models.
        usage: The tokens that its usual answer tells; None tells nothing.
        reply: What its usual answer to a request is, instead of repeating the prompt.
        refuses: Returns the refusal of a request that it does not take, by its body.
    """

    def __init__(self) -> None:
        self.url = ""
        self.forget()

    def forget(self) -> None:
        """Begin anew, at the same address; what is still being answered takes no fault of later."""
        self.asked: list[Asked] = []
        self.looks = 0
        self.peak = 0
        self.delay = 0.0
        self.key: str | None = None
        self.wants: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self.usage: dict[str, Any] | None = dict(_USAGE)
        self.models: Response = JSONResponse({"object": "list", "data": [{"id": MODEL}]})
        self.reply: Callable[[dict[str, Any]], str] | None = None
        self.refuses: Callable[[dict[str, Any]], Response | None] = lambda _body: None
        self._faults: dict[str, list[Response]] = {}
        self._under_way = [0]

    def fail(self, prompt: str, *answers: Response, times: int = 1) -> None:
        """Give these answers first to every prompt that holds a text; '' is in all of them."""
        self._faults[prompt] = [*answers] * times

    async def list_models(self, request: Request) -> Response:
        self.looks += 1
        return await self._deliver(request, self._refuse(request) or self.models)

    async def complete(self, request: Request) -> Response:
        body = json.loads(await request.body())
        asked = Asked(dict(request.headers), body)
        self.asked.append(asked)
        faults, under_way = self._faults, self._under_way
        under_way[0] += 1
        self.peak = max(self.peak, under_way[0])
        try:
            await asyncio.sleep(self.delay)
        finally:
            under_way[0] -= 1
        answer = self._refuse(request) or self.refuses(body) or _take_fault(faults, asked.prompt)
        text = f"Answer to: {asked.prompt}" if self.reply is None else self.reply(body)
        usual = {**completion(text), "usage": self.usage}
        return await self._deliver(request, answer or JSONResponse(usual))

    async def _deliver(self, request: Request, answer: Response) -> Response:
        if answer is DROP:
            await drop_connection(request.scope, request.receive)
        return answer

    def _refuse(self, request: Request) -> Response | None:
        headers, query = self.wants
        if not (
            headers.items() <= dict(request.headers).items()
            and query.items() <= dict(request.query_params).items()
        ):
            return refusal(401, f"{request.headers!r} and {request.url} lack something")
        given = request.headers.get("authorization")
        if self.key is None or given == f"Bearer {self.key}":
            return None
        return refusal(401, f"the key in {given!r} is wrong")


def _take_fault(faults: dict[str, list[Response]], prompt: str) -> Response | None:
    for text, answers in faults.items():
        if text in prompt and answers:
            return answers.pop(0)
    return None


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Serve while it is entered."""
    chat = ChatServer()
    app = Starlette(
        routes=[
            Route("/v1/models", chat.list_models),
            Route("/v1/chat/completions", chat.complete, methods=["POST"]),
        ]
    )
    with ThreadedServer(app, http=DroppableProtocol) as server:
        chat.url = f"{server.url}/v1"
        yield chat


def completion(text: object, finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": f"{MODEL}-as-served",
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": dict(_USAGE),
    }


def refusal(status: int, message: str = "no", *, code: str = "", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": "some_error", "code": code}
    return JSONResponse({"error": error}, status_code=status, headers=named)


def api_entrant(url: str = "http://127.0.0.1:1/v1", **changes: Any) -> OpenAiApiEntrant:
    return OpenAiApiEntrant(
        **{
            "entrant_id": "served",
            "loader": "openai_api",
            "base_url": ServerAddress(url=url),
            "model": MODEL,
            "max_new_tokens": 64,
            **changes,
        }
    )


def response_terms(limit_usd: float | None = None, price: float | None = None) -> BudgetTerms:
    """What responses are paid from, with a price of a million tokens if one is given."""
    listed = {} if price is None else {MODEL: ConfiguredPrice(input=price, output=price)}
    return BudgetTerms(
        load_newest_prices(listed),
        limit_usd,
        "month",
        datetime.now(UTC),
        on_responses=True,
        setting="generation.budget.usd",
    )


def prompts_named(*names: str) -> list[Prompt]:
    return [Prompt(prompt_id=name, text=f"What is {name}?", source="test") for name in names]


def complete(
    entrant: OpenAiApiEntrant,
    prompts: Sequence[Prompt],
    ledger: Ledger,
    *,
    terms: BudgetTerms | None = None,
    environment: Mapping[str, str] | None = None,
    log: list[str] | None = None,
    deadline_seconds: float = 60.0,
) -> CompletedResponses:
    """Let an entrant answer as a run does, with shorter waits."""
    return complete_by_service(
        entrant,
        prompts=prompts,
        ledger=ledger,
        judge=JudgeConnection(Path()),
        judges=[
            Judge(
                service="loopback",
                model="loopback",
                waiting=Waiting(deadline_seconds=deadline_seconds),
            )
        ],
        environment=environment or {},
        may_pay_again=False,
        log=(log if log is not None else []).append,
        terms=terms or response_terms(),
        sleep=lambda seconds: time.sleep(min(seconds, 0.02)),
    )
