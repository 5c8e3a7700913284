import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torture.forking import Nursery, _Parent
from tests.torture.judges import Judge


def test_a_process_that_was_killed_is_gone_for_everybody(tmp_path: Path, nursery: Nursery) -> None:
    judge = Judge(nursery, tmp_path)
    pid = judge.pid
    os.kill(pid, 0)
    end = nursery.wait(pid, seconds=120, kill_after=0.0)
    assert end.was_killed
    assert not nursery.is_alive(pid)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_is_killed_as_long_after_its_start_as_was_asked(
    tmp_path: Path, nursery: Nursery
) -> None:
    judge = Judge(nursery, tmp_path)
    end = nursery.wait(judge.pid, seconds=1200, kill_after=0.5)
    assert end.status == -signal.SIGKILL
    assert end.seconds >= 0.5


def test_a_judge_comes_back_on_its_port(tmp_path: Path, nursery: Nursery) -> None:
    judge = Judge(nursery, tmp_path)
    url, pid = judge.url, judge.pid
    judge.kill()
    judge.restart()
    assert (judge.url, judge.pid != pid) == (url, True)
    judge.kill()


def test_what_a_process_prints_and_raises_is_in_its_log(tmp_path: Path, nursery: Nursery) -> None:
    log = tmp_path / "log"
    pid = nursery.start("worker", log, scenario="none of that name")
    assert nursery.wait(pid, seconds=120).status == 1
    assert "TypeError" in log.read_text()


def test_a_process_is_not_taken_for_an_earlier_one_that_had_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order = {"do": "start", "role": "worker", "log": os.devnull, "arguments": {}}
    parent = _Parent()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(os, "fork", lambda: process.pid)
        parent._ended[process.pid] = -signal.SIGKILL, 1.0
        assert parent.obey(order) == {"pid": process.pid}
        assert parent.obey({"do": "look", "pid": process.pid}) == {"is_alive": True}
        parent.stop()
        assert parent._ended[process.pid][0] == -signal.SIGKILL
        assert process.wait() is not None
