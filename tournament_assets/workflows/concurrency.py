"""Work that waits for services, several pieces at once, each in a thread that can be stopped."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

from tournament_assets.tournament.errors import InterruptedWorkError

Done = TypeVar("Done")
Sleep = Callable[[float], None]
"""Waits so many seconds."""
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Piece(Generic[Done]):
    """A piece of work.

    Attributes:
        title: What messages call it.
        do: Does it; it is given what it has to wait with.
    """

    title: str
    do: Callable[[Sleep], Done]


def run_together(pieces: Sequence[Piece[Done]], *, log: Callable[[str], None]) -> list[Done]:
    """Do all of some work at once; return what each piece returned, in their order.

    A piece that fails stops no other: what these have sent is paid for. Once whoever waits here is
    interrupted, each piece ends at its next wait, as it would in a process that is killed there.
    The threads are daemons, because nobody should wait for an answer that nobody will take.

    Args:
        pieces: What to do.
        log: Told at once of a piece that failed while others go on.

    Raises:
        BaseException: What the first of the pieces that failed has raised, once all have ended.
    """
    if len(pieces) == 1:
        return [piece.do(time.sleep) for piece in pieces]
    stopped = threading.Event()
    ended: SimpleQueue[int] = SimpleQueue()
    results: dict[int, Done] = {}
    problems: dict[int, BaseException] = {}

    def sleep(seconds: float) -> None:
        if stopped.wait(seconds):
            raise InterruptedWorkError("the run was interrupted")

    def do(number: int) -> None:
        try:
            results[number] = pieces[number].do(sleep)
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            problems[number] = error
        ended.put(number)

    threads = [
        threading.Thread(target=do, args=(number,), name=piece.title, daemon=True)
        for number, piece in enumerate(pieces)
    ]
    try:
        for thread in threads:
            thread.start()
        for n_left in reversed(range(len(threads))):
            number = ended.get()
            if number in problems and n_left:
                log(f"{pieces[number].title}: {problems[number]} ({n_left} more under way)")
    except BaseException:
        stopped.set()
        until = time.monotonic() + _STOP_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, until - time.monotonic()))
        raise
    for number in sorted(problems):
        raise problems[number]
    return [results[number] for number in range(len(pieces))]


def one_at_a_time(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return a log that several threads can write to."""
    lock = threading.Lock()

    def tell(message: str) -> None:
        with lock:
            log(message)

    return tell
