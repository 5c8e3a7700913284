import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.archives.builders import (
    SmallArchive,
    by_rule,
    description,
    failed_document,
    make_archive,
    run_document,
)
from tournament_assets.adapters.archive_rejudging import find_failed_judgings
from tournament_assets.judging.sessions import WaitingPolicy
from tournament_assets.loopback.running import LoopbackServer
from tournament_assets.resources.archive_judging import (
    JudgeAddress,
    RejudgeResult,
    rejudge_runs,
)
from tournament_assets.tournament.errors import BudgetError, InputError, JudgeError

KEY = "sk-test-9c1d44"
QUICK = WaitingPolicy(poll_initial_seconds=0.01, poll_max_seconds=0.02, deadline_seconds=1.0)
REAL = {
    **description()["rejudging"],
    "service": "anthropic",
    "judge_model": "claude-sonnet-4-6",
}
JUDGED = ("bob", "t1-add", "run1")
NOT_AT_CEILING = ("bob", "t2-mail", "run2")
WORDS = 0.6  # the share of the task's words that the transcript holds


def broken_archive(folder: Path, **changes: Any) -> SmallArchive:
    """Two runs whose judging failed, the judge counts in the first; the real judge is asked."""
    archive = make_archive(folder, **{"rejudging": REAL, **changes})
    archive.put(*JUDGED, failed_document(trajectory=0.9))
    other = "They planned to send the mail to the team at once."
    archive.put(*NOT_AT_CEILING, failed_document(completion=0.5, transcript=other))
    return archive


def rejudge(
    archive: SmallArchive, server: LoopbackServer | None = None, *, limit: int | None = None
) -> RejudgeResult:
    described, contents = archive.read()
    failed = list(find_failed_judgings(described, contents))
    return rejudge_runs(
        described,
        [each for each in failed if each.request is not None][:limit],
        address=JudgeAddress(
            ledger_url=f"sqlite:///{archive.folder / 'ledger.sqlite'}",
            api_key=KEY,
            base_url=server.url if server is not None else "http://127.0.0.1:9",
        ),
        log=lambda message: None,
        policy=QUICK,
    )


def files(archive: SmallArchive) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in (archive.folder / "runs").rglob("*")
        if path.is_file()
    }


def test_the_score_is_made_anew_and_what_stood_there_is_kept(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before, untouched = archive.document(*JUDGED), files(archive)
    with LoopbackServer() as server:
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, len(result.written), result.left) == (2, 2, ())
    after = archive.document(*JUDGED)
    assert after["judge_result_before"] == before["judge_result"]
    assert after["run_score_before"] == before["run_score"] == pytest.approx(0.77)
    assert after["judge_result"]["score"] == WORDS
    assert after["judge_result"]["error"] is None
    assert after["judge_result"]["rejudged_by"] == "claude-sonnet-4-6"
    assert after["judge_result"]["rejudged_at"].endswith("+00:00")
    assert after["run_score"] == pytest.approx(by_rule(1.0, 0.9, 0.5, WORDS))
    kept = {key: value for key, value in after.items() if key in before}
    assert list(kept) == list(before)
    assert {key for key in before if before[key] != kept[key]} == {"judge_result", "run_score"}
    # Away from the ceiling the judge does not count.
    other = archive.document(*NOT_AT_CEILING)
    assert other["judge_result"]["score"] > 0
    assert other["run_score"] == pytest.approx(by_rule(0.5, 0.5, 0.5, None))
    changed = {path for path, content in files(archive).items() if untouched.get(path) != content}
    assert changed == {str(archive.run_path(*JUDGED)), str(archive.run_path(*NOT_AT_CEILING))}


def test_a_second_call_asks_nothing_and_writes_nothing(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    with LoopbackServer() as server:
        rejudge(archive, server)
        written = files(archive)
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, result.written, result.left) == (0, (), ())
    assert files(archive) == written


def test_what_was_paid_for_is_not_asked_again_beside_what_was_not(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before = archive.document(*JUDGED)
    with LoopbackServer() as server:
        rejudge(archive, server, limit=1)
        archive.put(*JUDGED, before)  # a backup is put back
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, len(result.written)) == (1, 2)


def test_the_manner_in_which_a_file_was_written_stays(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    compact = json.dumps(failed_document(note="café 😀"), ensure_ascii=False)
    archive.put(*JUDGED, compact)
    archive.run_path(*NOT_AT_CEILING).write_text(
        json.dumps(failed_document(note="\ud800"), indent=4)
    )
    with LoopbackServer() as server:
        rejudge(archive, server)
    text = archive.run_path(*JUDGED).read_text()
    assert "café" in text
    assert "\n" not in text
    text = archive.run_path(*NOT_AT_CEILING).read_text()
    assert text.startswith('{\n    "task"')
    assert "\\ud800" in text


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.archives import test_rejudging as tests
from tests.archives.builders import SmallArchive
from tournament_assets.resources import archive_judging

class Server:
    url = sys.argv[2]

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

archive_judging.write_scores = die
tests.rejudge(SmallArchive(Path(sys.argv[1])), Server())
"""


def test_a_kill_between_the_ledger_and_the_files_pays_nothing_twice(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before = files(archive)
    with LoopbackServer() as server:
        killed = subprocess.run(
            [sys.executable, "-c", _KILLED, str(tmp_path), server.url],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
        assert server.log.messages == 2
        assert files(archive) == before
    result = rejudge(archive)  # nobody listens any more, and nobody needs to
    assert (result.n_replies, len(result.written), result.left) == (0, 2, ())


def test_a_dead_judge_leaves_every_file_as_it_is(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before = files(archive)
    with pytest.raises(JudgeError) as caught:
        rejudge(archive)
    assert KEY not in str(caught.value)
    assert files(archive) == before


def test_a_refused_key_writes_what_came_before_it(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    with LoopbackServer(faults=["message_401:1"]) as server:
        result = rejudge(archive, server)
        assert (len(result.written), len(result.left), result.n_replies) == (1, 1, 1)
        assert "could not ask one request" in result.refusal
        assert KEY not in result.refusal
        again = rejudge(archive, server)
    assert len(result.written) + len(again.written) == 2
    assert again.left == ()


@pytest.mark.parametrize(
    "fault",
    ["direct_text_empty", "direct_stop_max_tokens", "direct_two_verdicts", "direct_stop_refusal"],
)
def test_a_reply_without_a_score_is_asked_for_once_more(tmp_path: Path, fault: str) -> None:
    archive = broken_archive(tmp_path)
    with LoopbackServer(faults=[f"{fault}:1"]) as server:
        result = rejudge(archive, server)
        assert server.log.messages == 3
    assert (len(result.written), result.left) == (2, ())
    assert archive.document(*JUDGED)["judge_result"]["score"] == WORDS


def test_what_never_becomes_a_score_leaves_the_file_and_is_said(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before = archive.document(*JUDGED)
    with LoopbackServer(faults=["direct_text_empty:2"]) as server:
        result = rejudge(archive, server, limit=1)
    assert result.written == ()
    (problem,) = result.left
    assert problem.startswith("vendor_bob/t1-add/run1.json: the judge's reply is no JSON")
    assert archive.document(*JUDGED) == before


def test_what_the_service_refuses_as_it_stands_is_not_asked_twice(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    with LoopbackServer(faults=["message_400:1"]) as server:
        result = rejudge(archive, server, limit=1)
        assert server.log.messages == 0
    assert result.written == ()
    assert "the service answered 'invalid_request_error'" in result.left[0]


def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    with LoopbackServer(faults=["message_500:1"]) as server:
        result = rejudge(archive, server)
    assert len(result.written) == 2


def test_two_runs_that_show_the_judge_the_same_are_one_request(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    archive.put("bob", "t1-add", "run2", failed_document(trajectory=0.1))
    with LoopbackServer() as server:
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert len(result.written) == 3


def test_what_cannot_be_judged_says_why_and_is_not_paid_for(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    lost = failed_document()
    del lost["behaviour_result"]
    archive.put("ada", "t1-add", "run1", lost)
    archive.put("ada", "t1-add", "run2", failed_document(transcript=" "))
    described, contents = archive.read()
    first, second = find_failed_judgings(described, contents)
    assert (first.request, second.request) == (None, None)
    assert "no score of behaviour" in first.problem
    assert "transcript holds nothing; expected the transcript" in second.problem


def test_other_recorded_weights_are_not_written_over(tmp_path: Path) -> None:
    scores = description()["scores"]
    components = [
        {**part, "weight_key": f"weights.{part['name']}"} for part in scores["components"]
    ]
    archive = make_archive(tmp_path, scores={**scores, "components": components})
    archive.put(*JUDGED, failed_document(weights={"completion": 0.9}))
    described, contents = archive.read()
    (failed,) = find_failed_judgings(described, contents)
    assert "records another weight of completion" in failed.problem


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    described, contents = archive.read()
    failed = list(find_failed_judgings(described, contents))
    changed = archive.put(*JUDGED, failed_document(transcript="Something else."))
    judged_elsewhere = archive.put(*NOT_AT_CEILING, run_document())
    before = changed.read_bytes(), judged_elsewhere.read_bytes()
    with LoopbackServer() as server:
        result = rejudge_runs(
            described,
            failed,
            address=JudgeAddress(f"sqlite:///{tmp_path / 'l.sqlite'}", KEY, server.url),
            log=lambda message: None,
            policy=QUICK,
        )
    assert result.written == ()
    assert ["has changed since" in problem for problem in result.left] == [True]
    assert (changed.read_bytes(), judged_elsewhere.read_bytes()) == before


def test_a_budget_is_kept_before_the_first_request(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path, rejudging={**REAL, "budget_usd": 0.0001})
    with LoopbackServer() as server:
        with pytest.raises(BudgetError, match=r"expected at most .*budget_usd"):
            rejudge(archive, server)
        assert server.log.messages == 0


def test_the_key_is_asked_for_before_anything_else(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    described, contents = archive.read()
    with pytest.raises(InputError, match="ANTHROPIC_API_KEY"):
        rejudge_runs(
            described,
            list(find_failed_judgings(described, contents)),
            address=JudgeAddress(f"sqlite:///{tmp_path / 'l.sqlite'}", "", ""),
            log=lambda message: None,
        )
    assert KEY not in repr(JudgeAddress("", KEY, ""))


def test_a_prompt_that_is_not_there_is_refused(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    (tmp_path / "judge.txt").unlink()
    described, contents = archive.read()
    with pytest.raises(InputError, match=r"rejudging.prompt is 'judge.txt'"):
        list(find_failed_judgings(described, contents))
