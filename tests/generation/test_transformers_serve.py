"""The bundled checkpoint behind the server that transformers brings along."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.chat_server import api_entrant, response_terms
from tests.chat_server import complete as complete_entrant
from tournament_assets.foundation.errors import GenerationError
from tournament_assets.generation.responding import generate_responses
from tournament_assets.ledger import Ledger
from tournament_assets.responses.api_responses import service_problems
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.prompts import Prompt

from .builders import TINY, Settle, describe

pytestmark = pytest.mark.e2e
_START_SECONDS = 120
_RUNNING = re.compile(r"running on (http://\S+) ")
MAX_NEW_TOKENS = 48


@contextmanager
def transformers_serve(folder: Path, home: Path) -> Iterator[str]:
    """Serve a folder of weights, and nothing else, on a free port while it is entered."""
    log = home / "serve.log"
    said = log.open("w")
    server = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("transformers"), "serve", folder),
            *("--host", "127.0.0.1", "--port", "0", "--device", "cpu"),
        ],
        # One thread: for a model of this size more of them only wait for each other.
        env={**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        stdout=said,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not (running := _RUNNING.search(log.read_text("utf-8"))):
            assert server.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.1)
        yield f"{running[1]}/v1"
    finally:
        server.kill()
        server.wait()
        said.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_serve(TINY, tmp_path_factory.mktemp("serving")) as running:
        yield running


def complete(url: str, prompts: list[Prompt], *, model: str = str(TINY)) -> CompletedResponses:
    entrant = api_entrant(url, model=model, max_new_tokens=MAX_NEW_TOKENS, max_concurrency=2)
    with TemporaryDirectory() as folder, closing(Ledger(f"sqlite:///{folder}/ledger.db")) as ledger:
        return complete_entrant(entrant, prompts, ledger)


def test_a_served_model_says_what_it_says_in_this_process(
    url: str, bank: list[Prompt], settle: Settle
) -> None:
    some = bank[::8]
    local = {
        response.prompt_id: response
        for batch in generate_responses(
            settle(describe(max_new_tokens=MAX_NEW_TOKENS)), some, batch_size=8
        )
        for response in batch
    }
    completed = complete(url, some)
    served = {response.prompt_id: response for response in completed.responses}
    assert completed.reasons == {}
    assert list(served) == [prompt.prompt_id for prompt in some]
    assert completed.generated == len(some)
    same = [name for name in local if served[name].text == local[name].text]
    assert len(same) >= 0.9 * len(some)
    for name in same:
        assert served[name].finish_reason == local[name].finish_reason
        assert served[name].prompt_tokens == local[name].prompt_tokens
        assert served[name].response_tokens == local[name].response_tokens


def test_a_server_that_does_not_know_its_model_is_no_problem(url: str, bank: list[Prompt]) -> None:
    problems = service_problems(
        api_entrant(url, model=str(TINY)),
        bank,
        ledger=None,
        environment={},
        terms=response_terms(),
    )
    assert problems == []


def test_another_model_than_the_served_one_is_refused_in_its_words(
    url: str, bank: list[Prompt]
) -> None:
    with pytest.raises(GenerationError, match=r"'other'"):
        complete(url, bank[:3], model="other")
