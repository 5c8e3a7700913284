from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import JSONResponse

from tests.chat_server import (
    DROP,
    ChatServer,
    api_entrant,
    chat_server,
    completion,
    prompts_named,
    refusal,
    response_terms,
)
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.errors import GenerationError, InputError, ServerError
from tournament_assets.tournament.places import ServerAddress
from tournament_assets.workflows.local_responses import CompletedResponses
from tournament_assets.workflows.server_responses import complete_by_server, server_problems

NAMES = [f"p{number:02d}" for number in range(30)]
PROMPTS = prompts_named(*NAMES)


@pytest.fixture(scope="module")
def running() -> Iterator[ChatServer]:
    with chat_server() as chat:
        yield chat


@pytest.fixture
def chat(running: ChatServer) -> ChatServer:
    running.forget()
    return running


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    opened = Ledger("sqlite://")
    yield opened
    opened.close()


def complete(
    chat: ChatServer, ledger: Ledger, *, log: list[str] | None = None, **changes: Any
) -> CompletedResponses:
    return complete_by_server(
        api_entrant(chat.url, **changes),
        environment={},
        prompts=PROMPTS,
        ledger=ledger,
        log=(log if log is not None else []).append,
        terms=response_terms(),
    )


def names(completed: CompletedResponses) -> list[str]:
    return [response.prompt_id for response in completed.responses]


def kept(ledger: Ledger) -> int:
    entrant = api_entrant()
    fingerprints = [prompt.fingerprint for prompt in PROMPTS]
    return len(ledger.responses(entrant.fingerprint(entrant.content_hash), fingerprints))


def test_no_more_requests_are_under_way_than_allowed(chat: ChatServer, ledger: Ledger) -> None:
    chat.delay = 0.02
    log: list[str] = []
    completed = complete(chat, ledger, log=log, max_concurrency=5)
    assert 1 < chat.peak <= 5
    assert names(completed) == NAMES
    assert (completed.generated, completed.device) == (30, f"tiny behind {chat.url[:-3]}")
    assert "'tiny'" in log[0]
    assert "30 of 30" in log[-1]
    assert log[-1].endswith(" tokens/s")


def test_what_is_kept_is_not_asked_again_whoever_asks(chat: ChatServer, ledger: Ledger) -> None:
    complete(chat, ledger)
    chat.forget()
    again = complete(chat, ledger, entrant_id="renamed", max_concurrency=1)
    assert (names(again), again.generated) == (NAMES, 0)
    elsewhere = ServerAddress(env="NOT_SET")
    assert names(complete(chat, ledger, base_url=elsewhere, api_key_env="NOT_SET")) == NAMES
    assert (chat.asked, chat.looks) == ([], 0)
    assert complete(chat, ledger, revision="2").generated == 30


def test_passing_faults_leave_no_trace(chat: ChatServer, ledger: Ledger) -> None:
    chat.fail("p02", refusal(429, retry_after="0"), refusal(500, retry_after="0"))
    chat.fail("p00", refusal(503, retry_after="0"))
    chat.fail("p05", DROP)
    completed = complete(chat, ledger)
    assert names(completed) == NAMES
    assert not completed.reasons
    assert len(chat.asked) == 30 + 4


def test_what_fails_for_good_is_missing_with_its_reason(chat: ChatServer, ledger: Ledger) -> None:
    chat.fail("p02", JSONResponse(completion(None)))
    chat.fail("p05", refusal(500, "broken", retry_after="0"), times=3)
    completed = complete(chat, ledger, max_retries=2)
    assert names(completed) == [name for name in NAMES if name not in ("p02", "p05")]
    assert sorted(completed.reasons) == ["p02", "p05"]
    assert completed.reasons["p05"].endswith("answered 500: broken")
    assert complete(chat, ledger).generated == 2


def test_an_unknown_model_stops_after_one_request(chat: ChatServer, ledger: Ledger) -> None:
    chat.fail("", refusal(404, "The model does not exist."), times=30)
    with pytest.raises(ServerError, match=r"exist\."):
        complete(chat, ledger)
    assert len(chat.asked) == 1


def test_a_key_that_expires_on_the_way_ends_it_and_what_was_answered_is_kept(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.delay = 0.01
    chat.fail("p20", refusal(401, "expired"))
    with pytest.raises(ServerError, match="401: expired"):
        complete(chat, ledger, max_concurrency=4)
    assert kept(ledger) == len(chat.asked) - 1 < 30


def test_a_server_that_refuses_everything_is_soon_left_alone(
    chat: ChatServer, ledger: Ledger
) -> None:
    chat.fail("", refusal(400, "temperature is not supported"), times=30)
    with pytest.raises(GenerationError, match=r"first 10 .* temperature"):
        complete(chat, ledger, max_concurrency=2)
    assert len(chat.asked) <= 12


def test_a_server_without_an_address_is_input_to_correct(chat: ChatServer, ledger: Ledger) -> None:
    with pytest.raises(InputError, match="NOT_SET"):
        complete(chat, ledger, base_url=ServerAddress(env="NOT_SET"))


def test_problems_of_a_server_are_found_without_asking_it(chat: ChatServer) -> None:
    assert not server_problems(api_entrant(chat.url), environment={}, terms=response_terms())
    (problem,) = server_problems(
        api_entrant("http://127.0.0.1:1/v1"), environment={}, terms=response_terms()
    )
    assert problem.startswith("entrant 'served': ")
    (problem,) = server_problems(
        api_entrant(chat.url, api_key_env="NOT_SET"), environment={}, terms=response_terms()
    )
    assert "NOT_SET" in problem
    assert not chat.asked
