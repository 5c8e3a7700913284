import re

import pytest

from tournament_assets.reports import progress_bars as progress
from tournament_assets.reports.progress_bars import GenerationProgress, JudgingBar


class Seconds:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    seconds = Seconds()
    monkeypatch.setattr(progress, "time", seconds)
    return seconds


def test_the_log_hears_of_the_end_with_the_speed(clock: Seconds) -> None:
    lines: list[str] = []
    with GenerationProgress("greedy", total=4, log=lines.append) as bar:
        clock.now += 2.0
        bar.advance(2, tokens=50)
        assert lines == []
        clock.now += 2.0
        bar.advance(2, tokens=150)
    assert [re.findall(r"\d+", line) for line in lines] == [["4", "4", "50"]]


def test_the_log_hears_of_long_work_every_fifteen_seconds(clock: Seconds) -> None:
    lines: list[str] = []
    with JudgingBar("factuality", total=100, log=lines.append) as bar:
        for done in range(1, 8):
            clock.now += 5.0
            bar.advance(done, 100)
    assert lines == ["factuality: 3 of 100", "factuality: 6 of 100"]


def test_a_note_is_logged_at_once() -> None:
    lines: list[str] = []
    with JudgingBar("factuality", total=2, log=lines.append) as bar:
        bar.note("submitted b1")
        bar.advance(2, 2)
    assert lines == ["factuality: submitted b1", "factuality: 2 of 2"]


def test_the_log_hears_of_a_wait_once_a_minute_however_often_somebody_looks(
    clock: Seconds,
) -> None:
    lines: list[str] = []
    with JudgingBar("factuality", total=2, log=lines.append) as bar:
        for _ in range(121):
            bar.note("waiting for 1 batches")
            bar.note("the service is busy; looking again")
            clock.now += 1.0
    assert lines == 3 * [
        "factuality: waiting for 1 batches",
        "factuality: the service is busy; looking again",
    ]


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    with JudgingBar("factuality", total=2, log=lambda _: None) as bar:
        bar.advance(1, 2)
    assert re.fullmatch(r"\s*", "".join(capsys.readouterr()))


def test_an_error_inside_is_not_swallowed() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        GenerationProgress("greedy", total=1, log=lambda _: None) as bar,
    ):
        bar.advance(1 // 0, tokens=0)
