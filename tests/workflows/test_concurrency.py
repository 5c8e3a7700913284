import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from tournament_assets.judging.settlement.sessions import Piece, Sleep, run_together
from tournament_assets.tournament.errors import InterruptedWorkError, JudgeError


def piece(title: str, do: Callable[[Sleep], str]) -> Piece[str]:
    return Piece(title, do)


def test_pieces_wait_for_each_other_and_come_back_in_their_order() -> None:
    together = threading.Barrier(3, timeout=30)

    def meet(name: str, _sleep: Sleep) -> str:
        together.wait()
        return name

    pieces = [piece(name, partial(meet, name)) for name in "cab"]
    assert run_together(pieces, log=print) == ["c", "a", "b"]


def test_a_piece_that_fails_stops_no_other_and_is_told_at_once() -> None:
    heard: list[str] = []
    told = threading.Event()
    finished: list[str] = []

    def log(message: str) -> None:
        heard.append(message)
        told.set()

    def fail(_sleep: Sleep) -> str:
        raise JudgeError("the judge is away")

    def go_on(_sleep: Sleep) -> str:
        assert told.wait(30)
        finished.append("done")
        return "done"

    with pytest.raises(JudgeError, match="the judge is away"):
        run_together([piece("factuality", fail), piece("calibration", go_on)], log=log)
    assert heard == ["factuality: the judge is away (1 more under way)"]
    assert finished == ["done"]


def test_of_several_failures_the_first_piece_says_why() -> None:
    def fail(message: str, _sleep: Sleep) -> str:
        raise JudgeError(message)

    pieces = [piece(name, partial(fail, name)) for name in ("first", "second")]
    with pytest.raises(JudgeError, match="first"):
        run_together(pieces, log=lambda _message: None)


def test_an_interruption_ends_every_piece_at_its_next_wait() -> None:
    ended: list[str] = []

    def wait(name: str, sleep: Sleep) -> str:
        try:
            sleep(3600)
        except InterruptedWorkError:
            ended.append(name)
            raise
        return name

    def interrupt(_message: str) -> None:
        raise KeyboardInterrupt

    def fail(_sleep: Sleep) -> str:
        raise JudgeError("it begins")

    waiting = [piece(name, partial(wait, name)) for name in "ab"]
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_together([piece("c", fail), *waiting], log=interrupt)
    assert sorted(ended) == ["a", "b"]
    assert time.monotonic() - before < 300


def test_a_single_piece_runs_in_the_thread_that_asks_for_it() -> None:
    (thread,) = run_together(
        [Piece("one", lambda _sleep: threading.current_thread())], log=lambda _message: None
    )
    assert thread is threading.current_thread()
