"""Lets a server answer prompts, several at a time.

The server makes batches of what is under way at once. The threads only ask and wait: whoever takes
the outcomes keeps them, one by one. They are daemons, because a process that was interrupted should
not wait for answers that nobody will take.
"""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from tournament_assets.tournament.errors import GenerationError, ServerError, ServerFailure
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, prompt_seed

HOPELESS_IN_A_ROW = 10
"""After so many failures in a row nothing is asked twice until something is answered."""
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
_LONGEST_ASKED_WAIT_SECONDS = 300.0
_LOG_INTERVAL_SECONDS = 15.0
_WORTH_RETRYING = (ServerFailure.TRANSIENT, ServerFailure.UNREACHABLE)


class ChatServer(Protocol):
    """What answers one prompt after the other, from any thread."""

    def ask(self, prompt: Prompt) -> GeneratedResponse:
        """Ask once, and wait for the answer.

        Raises:
            ServerError: If there is none.
        """
        ...


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one prompt; exactly one of `response` and `error` is there.

    Attributes:
        prompt: What was asked.
        response: The answer.
        error: Why there is none.
    """

    prompt: Prompt
    response: GeneratedResponse | None = None
    error: ServerError | None = None


def ask_server(
    server: ChatServer,
    prompts: Sequence[Prompt],
    *,
    max_concurrency: int,
    max_retries: int,
    has_answered: bool,
    log: Callable[[str], None],
) -> Generator[Answered, None, None]:
    """Ask a server every prompt, and hand out every outcome as soon as it is there.

    The first prompt is asked alone, so that a refused key costs one request. What failed in passing
    is asked again, after a wait that doubles or that the server names; what fails for good is an
    outcome without a response, and the others go on. When nothing can succeed any more, what is
    under way is handed out before the error is raised.

    Args:
        server: Who answers.
        prompts: What is asked.
        max_concurrency: The most requests under way at once.
        max_retries: How often one prompt is asked again.
        has_answered: Whether it has ever answered this entrant's prompts: if not, and it answers
            none of the first ones either, it is not asked the rest.
        log: Told why it takes long.

    Returns:
        The outcomes, in the order in which they come.

    Raises:
        ServerError: While outcomes are taken, if nothing can succeed until somebody acts.
        GenerationError: While outcomes are taken, if not a single prompt was answered.
    """
    attempts = _Attempts(server, max_retries=max_retries, log=log)
    failed: list[Answered] = []
    fatal: GenerationError | None = None
    try:
        for some, n_threads in ((prompts[:1], 1), (prompts[1:], max_concurrency)):
            with closing(attempts.answers(some, n_threads=n_threads)) as outcomes:
                for answered in outcomes:
                    if answered.error is None:
                        has_answered = True
                    elif fatal is None:
                        failed.append(answered)
                        fatal = _reason_to_stop(answered.error, failed, has_answered=has_answered)
                    if fatal is not None:
                        attempts.stop()
                    if answered.error is None or fatal is None:
                        yield answered
            if fatal is not None:
                raise fatal
        if failed and not has_answered:
            raise _no_answers(failed)
    finally:
        attempts.stop()


def _reason_to_stop(
    error: ServerError, failed: Sequence[Answered], *, has_answered: bool
) -> GenerationError | None:
    if error.failure in (ServerFailure.FATAL, ServerFailure.UNREACHABLE):
        return error
    if not has_answered and len(failed) >= HOPELESS_IN_A_ROW:
        return _no_answers(failed)
    return None


def _no_answers(failed: Sequence[Answered]) -> GenerationError:
    return GenerationError(
        f"none of the first {len(failed)} prompts was answered; expected some answers before the "
        f"rest is asked; the first failure: {failed[0].error}"
    )


class _Attempts:
    """Asks with threads until it is stopped."""

    def __init__(self, server: ChatServer, *, max_retries: int, log: Callable[[str], None]) -> None:
        self._server = server
        self._max_retries = max_retries
        self._log = log
        self._last_line = -_LOG_INTERVAL_SECONDS
        self._stopped = threading.Event()
        self._failed_in_a_row = 0

    def stop(self) -> None:
        """Begin nothing new, and end every wait."""
        self._stopped.set()

    def answers(
        self, prompts: Sequence[Prompt], *, n_threads: int
    ) -> Generator[Answered, None, None]:
        """Yield the outcomes as they come; after a stop only of what was under way.

        The next prompt is begun when an outcome has been taken care of, so that no more than
        `n_threads` responses are ever anywhere but where they are kept.
        """
        unasked = iter(prompts)
        waiting: SimpleQueue[Prompt | None] = SimpleQueue()
        done: SimpleQueue[Answered | Exception | str] = SimpleQueue()
        n_threads = min(n_threads, len(prompts))
        under_way = 0
        for number in range(n_threads):
            threading.Thread(
                target=self._work, args=(waiting, done), name=f"asking {number}", daemon=True
            ).start()
            waiting.put(next(unasked))
            under_way += 1
        try:
            while under_way:
                item = done.get()
                if isinstance(item, str):
                    self._log_now_and_then(item)
                    continue
                if isinstance(item, Exception):
                    raise item
                under_way -= 1
                self._failed_in_a_row = 0 if item.error is None else self._failed_in_a_row + 1
                yield item
                if not self._stopped.is_set() and (prompt := next(unasked, None)) is not None:
                    waiting.put(prompt)
                    under_way += 1
        finally:
            for _ in range(n_threads):
                waiting.put(None)

    def _work(
        self,
        waiting: SimpleQueue[Prompt | None],
        done: SimpleQueue[Answered | Exception | str],
    ) -> None:
        try:
            while (prompt := waiting.get()) is not None:
                done.put(self._ask_patiently(prompt, done.put))
        except Exception as error:  # noqa: BLE001  # it is raised again where outcomes are taken
            done.put(error)

    def _ask_patiently(self, prompt: Prompt, tell: Callable[[str], None]) -> Answered:
        attempt = 0
        while True:
            try:
                return Answered(prompt, response=self._server.ask(prompt))
            except ServerError as error:
                is_hopeless = self._failed_in_a_row >= HOPELESS_IN_A_ROW
                if (
                    error.failure not in _WORTH_RETRYING
                    or attempt >= self._max_retries
                    or is_hopeless
                ):
                    return Answered(prompt, error=error)
                seconds = seconds_to_wait(error, prompt, attempt=attempt)
                tell(f"{error}; asking again in {seconds:.0f} s")
                if self._stopped.wait(seconds):
                    return Answered(prompt, error=error)
            attempt += 1

    def _log_now_and_then(self, line: str) -> None:
        now = time.monotonic()
        if now - self._last_line >= _LOG_INTERVAL_SECONDS:
            self._last_line = now
            self._log(line)


def seconds_to_wait(error: ServerError, prompt: Prompt, *, attempt: int) -> float:
    """Return how long to wait before a prompt is asked again.

    What the server asks for counts; else the wait doubles from attempt to attempt, and is a little
    different for every prompt, so that those that failed together do not come back together.
    """
    if error.retry_after_seconds is not None:
        return min(error.retry_after_seconds, _LONGEST_ASKED_WAIT_SECONDS)
    longest = min(_FIRST_WAIT_SECONDS * 2.0 ** min(attempt, 30), _LONGEST_WAIT_SECONDS)
    return longest * (1 - 0.25 * prompt_seed(prompt.prompt_id) / 2**32)
