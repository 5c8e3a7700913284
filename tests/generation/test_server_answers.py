import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from tests.chat_server import prompts_named
from tournament_assets.generation.server_answers import (
    HOPELESS_IN_A_ROW,
    Answered,
    ask_server,
    seconds_to_wait,
)
from tournament_assets.tournament.errors import GenerationError, ServerError, ServerFailure
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

MANY = prompts_named(*(f"p{number}" for number in range(40)))


class FakeServer:
    """Fails as it is told, else answers.

    Args:
        failures: What happens to a prompt, one after the other; then it is answered.
        always: What happens to every prompt that is in `failures` with no list.
        meanwhile: What happens while a prompt is under way.
    """

    def __init__(
        self,
        failures: dict[str, list[ServerFailure]] | None = None,
        *,
        always: Callable[[Prompt], ServerFailure | None] = lambda prompt: None,
        meanwhile: Callable[[Prompt], object] = lambda prompt: None,
    ) -> None:
        self.asked: Counter[str] = Counter()
        self.peak = 0
        self._failures = failures or {}
        self._always = always
        self._meanwhile = meanwhile
        self._under_way = 0
        self._lock = threading.Lock()

    def ask(self, prompt: Prompt) -> GeneratedResponse:
        with self._lock:
            self.asked[prompt.prompt_id] += 1
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
        self._meanwhile(prompt)
        with self._lock:
            self._under_way -= 1
            waiting = self._failures.get(prompt.prompt_id, [])
            failure = waiting.pop(0) if waiting else self._always(prompt)
        if failure is not None:
            raise ServerError(f"no {prompt.prompt_id}", failure=failure, retry_after_seconds=0.0)
        return GeneratedResponse(prompt.prompt_id, "yes", "stop")


def run(
    server: FakeServer,
    prompts: Sequence[Prompt] = MANY,
    *,
    max_concurrency: int = 4,
    max_retries: int = 2,
    has_answered: bool = False,
    into: list[Answered] | None = None,
) -> list[Answered]:
    outcomes: list[Answered] = [] if into is None else into
    outcomes.extend(
        ask_server(
            server,
            prompts,
            max_concurrency=max_concurrency,
            max_retries=max_retries,
            has_answered=has_answered,
            log=lambda line: None,
        )
    )
    return outcomes


def answered(outcomes: list[Answered]) -> set[str]:
    return {each.prompt.prompt_id for each in outcomes if each.response is not None}


def test_every_prompt_is_asked_once_and_as_many_at_once_as_allowed() -> None:
    several = threading.Barrier(4, timeout=60)
    at_once = {"p1", "p2", "p3", "p4"}  # the first prompt is asked alone
    server = FakeServer(
        meanwhile=lambda prompt: several.wait() if prompt.prompt_id in at_once else None
    )
    assert answered(run(server)) == {prompt.prompt_id for prompt in MANY}
    assert set(server.asked.values()) == {1}
    assert server.peak == 4


def test_nothing_to_ask_asks_nothing() -> None:
    assert run(FakeServer(), []) == []


def test_an_outcome_is_handed_out_before_the_next_is_there() -> None:
    server = FakeServer()
    outcomes = ask_server(
        server, MANY, max_concurrency=2, max_retries=0, has_answered=False, log=lambda line: None
    )
    next(outcomes)
    assert sum(server.asked.values()) == 1
    next(outcomes)
    outcomes.close()
    for thread in threading.enumerate():
        if thread.name.startswith("asking"):
            thread.join(timeout=60)
            assert not thread.is_alive()
    assert sum(server.asked.values()) <= 3


def test_what_fails_in_passing_is_asked_again() -> None:
    server = FakeServer({"p3": [ServerFailure.TRANSIENT, ServerFailure.UNREACHABLE]})
    assert "p3" in answered(run(server))
    assert server.asked["p3"] == 3


def test_what_fails_every_time_has_no_response_and_the_others_have_one() -> None:
    always = {"p0": ServerFailure.TRANSIENT, "p5": ServerFailure.REFUSED}
    server = FakeServer(always=lambda prompt: always.get(prompt.prompt_id))
    outcomes = run(server)
    failed = {each.prompt.prompt_id: str(each.error) for each in outcomes if each.error}
    assert failed == {"p0": "no p0", "p5": "no p5"}
    assert len(answered(outcomes)) == len(MANY) - 2
    assert (server.asked["p0"], server.asked["p5"]) == (3, 1)


def test_a_fatal_failure_of_the_first_prompt_is_the_only_request() -> None:
    server = FakeServer(always=lambda prompt: ServerFailure.FATAL)
    with pytest.raises(ServerError, match="no p0"):
        run(server)
    assert server.asked == {"p0": 1}


def test_a_fatal_failure_ends_it_after_what_was_under_way_is_handed_out() -> None:
    fatal_at = "p9"

    def hold_back(prompt: Prompt) -> None:
        """Give the failure seconds of lead, of which it needs an instant."""
        if int(prompt.prompt_id[1:]) > 9:
            time.sleep(0.5)

    server = FakeServer({fatal_at: [ServerFailure.FATAL]}, meanwhile=hold_back)
    outcomes: list[Answered] = []
    with pytest.raises(ServerError, match="no p9"):
        run(server, into=outcomes)
    assert answered(outcomes) == set(server.asked) - {fatal_at}
    assert len(server.asked) < len(MANY)


def test_a_server_that_has_gone_ends_it() -> None:
    gone_from = 12

    def gone(prompt: Prompt) -> ServerFailure | None:
        is_gone = int(prompt.prompt_id[1:]) >= gone_from
        return ServerFailure.UNREACHABLE if is_gone else None

    server = FakeServer(always=gone)
    outcomes: list[Answered] = []
    with pytest.raises(ServerError):
        run(server, into=outcomes)
    assert answered(outcomes) == {f"p{number}" for number in range(gone_from)}
    assert len(server.asked) < len(MANY)


def test_a_server_that_answers_nothing_is_not_asked_the_whole_bank() -> None:
    server = FakeServer(always=lambda prompt: ServerFailure.REFUSED)
    with pytest.raises(GenerationError, match=r"\b10\b.*\bno p0$"):
        run(server)
    assert len(server.asked) <= HOPELESS_IN_A_ROW + 3


def test_not_one_answer_to_a_small_bank_is_an_error() -> None:
    server = FakeServer(always=lambda prompt: ServerFailure.REFUSED)
    with pytest.raises(GenerationError, match=r"\b3\b.*\bno p0$"):
        run(server, MANY[:3])


def test_prompts_that_a_server_refuses_for_ever_do_not_stop_a_later_run() -> None:
    server = FakeServer(always=lambda prompt: ServerFailure.REFUSED)
    assert answered(run(server, has_answered=True)) == set()
    assert len(server.asked) == len(MANY)


def test_a_server_in_trouble_is_not_asked_twice_until_it_answers() -> None:
    trouble = {f"p{number}" for number in range(1, 30)}
    server = FakeServer(
        always=lambda prompt: ServerFailure.TRANSIENT if prompt.prompt_id in trouble else None
    )
    outcomes = run(server, max_concurrency=1)
    assert len(answered(outcomes)) == len(MANY) - len(trouble)
    asked = [server.asked[f"p{number}"] for number in range(1, 30)]
    assert asked == [3] * HOPELESS_IN_A_ROW + [1] * (len(trouble) - HOPELESS_IN_A_ROW)


def test_any_other_exception_comes_out_where_the_outcomes_are_taken() -> None:
    def break_down(prompt: Prompt) -> ServerFailure | None:
        raise ZeroDivisionError(prompt.prompt_id)

    with pytest.raises(ZeroDivisionError, match="p0"):
        run(FakeServer(always=break_down))


def test_the_wait_doubles_to_half_a_minute_and_differs_from_prompt_to_prompt() -> None:
    error = ServerError("busy", failure=ServerFailure.TRANSIENT)
    waits = [seconds_to_wait(error, MANY[0], attempt=attempt) for attempt in (0, 1, 2, 50)]
    shares = [wait / longest for wait, longest in zip(waits, (0.5, 1, 2, 30), strict=True)]
    assert shares == pytest.approx([shares[0]] * 4)
    assert len({seconds_to_wait(error, prompt, attempt=0) for prompt in MANY}) == len(MANY)
    assert all(0.375 <= seconds_to_wait(error, prompt, attempt=0) <= 0.5 for prompt in MANY)


def test_the_wait_that_the_server_asks_for_counts_up_to_five_minutes() -> None:
    for asked, waited in ((0.0, 0.0), (7.5, 7.5), (9999.0, 300.0)):
        error = ServerError("busy", failure=ServerFailure.TRANSIENT, retry_after_seconds=asked)
        assert seconds_to_wait(error, MANY[0], attempt=3) == waited


@pytest.mark.timeout(200)  # the wait would take 300 seconds
def test_a_stop_ends_every_wait() -> None:
    has_failed = threading.Event()

    class Slow(FakeServer):
        def ask(self, prompt: Prompt) -> GeneratedResponse:
            if prompt.prompt_id == "p1":
                has_failed.set()
                raise ServerError(
                    "no p1", failure=ServerFailure.TRANSIENT, retry_after_seconds=9999.0
                )
            assert prompt.prompt_id == "p0" or has_failed.wait(60)
            return super().ask(prompt)

    with pytest.raises(ServerError, match="no p6"):
        run(Slow({"p6": [ServerFailure.FATAL]}))


def test_a_long_wait_is_explained() -> None:
    said: list[str] = []
    server = FakeServer({"p0": [ServerFailure.TRANSIENT] * 2})
    outcomes = ask_server(
        server, MANY[:1], max_concurrency=1, max_retries=2, has_answered=False, log=said.append
    )
    assert len(list(outcomes)) == 1
    assert len(said) == 1
    assert said[0].startswith("no p0;")
