import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.extras.archives.builders import (
    RUNS,
    TASKS,
    SmallArchive,
    by_rule,
    description,
    failed_document,
    make_archive,
    run_document,
)
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.extras.archives.clawbench import ClawBench
from tournament_assets.extras.archives.harness import NewScore
from tournament_assets.extras.archives.rejudging import (
    FailedJudging,
    RejudgeResult,
    find_failed_judgings,
    rejudge_runs,
    write_scores,
)
from tournament_assets.foundation.errors import BudgetError, InputError, JudgeError
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.ledger import Ledger
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.tournament.judges import Waiting

KEY = "sk-test-9c1d44"
QUICK = Waiting(poll_initial_seconds=0.01, poll_max_seconds=0.02, deadline_seconds=1.0)
REAL = {
    **description()["rejudging"],
    "judge": {"service": "anthropic", "model": "claude-sonnet-4-6"},
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


@pytest.fixture
def archive(tmp_path: Path) -> SmallArchive:
    return broken_archive(tmp_path)


def failures(archive: SmallArchive) -> list[FailedJudging]:
    return list(find_failed_judgings(*archive.read()))


def ask_again(
    archive: SmallArchive,
    failed: list[FailedJudging],
    server: FaultyServer | None,
    *,
    client: type[AnthropicBatches] = AnthropicBatches,
) -> RejudgeResult:
    described = archive.load()

    @contextmanager
    def connect() -> Iterator[AnthropicBatches]:
        address = server.url if server is not None else "http://127.0.0.1:9"
        with closing(client(base_url=address, api_key=KEY)) as service:
            yield service

    with closing(Ledger(f"sqlite:///{archive.folder / 'ledger.sqlite'}")) as ledger:
        return rejudge_runs(
            described,
            failed,
            ledger=ledger,
            connect=connect,
            log=lambda message: None,
            waiting=QUICK,
        )


def rejudge(
    archive: SmallArchive, server: FaultyServer | None = None, *, limit: int | None = None
) -> RejudgeResult:
    asked = [each for each in failures(archive) if each.request is not None]
    return ask_again(archive, asked[:limit], server)


def files(archive: SmallArchive) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in (archive.folder / "runs").rglob("*")
        if path.is_file()
    }


def test_the_score_is_made_anew_and_what_stood_there_is_kept(archive: SmallArchive) -> None:
    before, untouched = archive.document(*JUDGED), files(archive)
    with FaultyServer() as server:
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, len(result.written), result.unscored) == (2, 2, [])
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


def test_a_second_call_asks_nothing_and_writes_nothing(archive: SmallArchive) -> None:
    with FaultyServer() as server:
        rejudge(archive, server)
        written = files(archive)
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, result.written, result.unscored) == (0, [], [])
    assert files(archive) == written


def test_what_was_paid_for_is_not_asked_again_beside_what_was_not(archive: SmallArchive) -> None:
    before = archive.document(*JUDGED)
    with FaultyServer() as server:
        rejudge(archive, server, limit=1)
        archive.put(*JUDGED, before)  # a backup is put back
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert (result.n_replies, len(result.written)) == (1, 2)


LAYOUTS = {
    "indented": json.dumps(failed_document(), indent=2) + "\n",
    "deeply": json.dumps(failed_document(), indent=4),
    "with tabs": json.dumps(failed_document(), indent="\t"),
    "on one line": json.dumps(failed_document(note="café 😀"), ensure_ascii=False),
    "without blanks": json.dumps(failed_document(note="\ud800"), separators=(",", ":")),
    "with other line ends": json.dumps(failed_document(), indent=2).replace("\n", "\r\n"),
    "with a byte order mark": "\ufeff" + json.dumps(failed_document(), indent=2),
    "with numbers as they were": json.dumps(failed_document(), indent=2).replace(
        '"notes": []', '"notes": [1.50, 1e3, 12345678901234567890, -0.0]'
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_other_byte_of_a_file_stays(layout: str, archive: SmallArchive) -> None:
    before = LAYOUTS[layout].encode()
    archive.run_path(*JUDGED).write_bytes(before)
    with FaultyServer() as server:
        assert rejudge(archive, server, limit=1).unscored == []
    after = archive.run_path(*JUDGED).read_bytes()
    was, now = (json.loads(content.decode("utf-8-sig")) for content in (before, after))
    assert (now["judge_result_before"], now["run_score_before"]) == (
        was["judge_result"],
        was["run_score"],
    )
    # What comes before, between and behind the two values that changed.
    text, found = before.decode(), after.decode()
    head, rest = text.split('"judge_result"')
    assert found.startswith(head)
    _, tail = rest.split('"run_score"')
    tail = tail[tail.index(",") :]
    assert found.endswith(tail)
    assert ("\n" in found, "\r\n" in found) == ("\n" in text, "\r\n" in text)
    assert found.count("\r\n") in (0, found.count("\n"))


def test_a_score_is_rounded_as_the_harness_rounds(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, rejudging=REAL, fill=False)
    document = run_document(trajectory=1.0, behaviour=1.0, judge=1.0)
    archive.put("ada", "t1-add", "run1", {**document, "run_score": 1})
    archive.put(*JUDGED, {**failed_document(trajectory=0.33337), "run_score": 0.6})
    with FaultyServer() as server:
        rejudge(archive, server)
    assert archive.document(*JUDGED)["run_score"] == round(by_rule(1.0, 0.33337, 0.5, WORDS), 4)


FAILED_CALL = {
    "enabled": True,
    "score": 0.0,
    "passed": False,
    "confidence": 0.0,
    "model": "gateway/judge",
    "reason": "Judge execution failed.",
    "error": "503",
    "rubric_hits": [],
    "duration_ms": 30012,
    "token_usage": {"input_tokens": 7, "output_tokens": 0, "total_cost_usd": 0.1},
    "rubric_version": 3,
}


@pytest.mark.parametrize(("threshold", "passed"), [(0.5, True), (0.7, False), (None, None)])
def test_nothing_of_the_failed_call_stands_beside_the_new_score(
    threshold: float | None, passed: bool | None, archive: SmallArchive
) -> None:
    judge = {**FAILED_CALL, "passing_threshold": threshold}
    archive.put(*JUDGED, failed_document(trajectory=0.9, judge_result=judge))
    with FaultyServer() as server:
        rejudge(archive, server)
    after = archive.document(*JUDGED)
    assert after["judge_result_before"] == judge
    found = after["judge_result"]
    assert (found["score"], found.get("passed"), found["error"]) == (WORDS, passed, None)
    assert found["model"] == found["rejudged_by"] == "claude-sonnet-4-6"
    assert found["token_usage"]["output_tokens"] > 0
    assert "total_cost_usd" not in found["token_usage"]
    assert not {"confidence", "rubric_hits", "duration_ms"} & found.keys()
    assert (found["rubric_version"], found["passing_threshold"]) == (3, threshold)


def otherwise_scored(judge: float | None, *, assertions: int) -> dict[str, Any]:
    """A run that is scored as ClawBench scores tasks without a verifier."""
    document = (
        failed_document(completion=0.5)
        if judge is None
        else run_document(completion=0.5, judge=judge)
    )
    document["completion_result"]["total_assertions"] = assertions
    weights = (0.2 * 0.5, 0.2 * 0.5, 0.1 * 0.5, 0.5 * (judge or 0.0))
    return {**document, "run_score": round(sum(weights), 4)}


def test_a_score_is_not_made_anew_by_a_rule_that_its_neighbours_do_not_follow(
    tmp_path: Path,
) -> None:
    archive = make_archive(tmp_path, rejudging=REAL)

    def put(assertions: int) -> None:
        for model, run in product(("ada", "cyd"), RUNS):
            archive.put(model, "t2-mail", run, otherwise_scored(0.8, assertions=assertions))
        archive.put("bob", "t2-mail", "run1", otherwise_scored(None, assertions=assertions))

    put(4)
    (failed,) = failures(archive)
    assert failed.request is None
    assert failed.problem.startswith("7 of ")
    # The failed run itself is one of them: without a judge it would be 0.5.
    put(0)
    with FaultyServer() as server:
        assert len(rejudge(archive, server).written) == 1
    score = archive.document("bob", "t2-mail", "run1")["run_score"]
    assert score == pytest.approx(0.25 + 0.5 * WORDS, abs=5e-5)


def test_runs_that_are_scored_otherwise_say_nothing_of_the_rule(archive: SmallArchive) -> None:
    off = {**run_document(completion=0.5), "run_score": 0.3}
    archive.put("ada", "t1-add", "run1", off)  # the judge does not count there
    archive.put("ada", "t1-sort", "run1", {**run_document(), "run_score": 0.3})  # another task
    assert [each.problem for each in failures(archive)] == ["", ""]
    archive.put("ada", "t1-add", "run2", {**run_document(), "run_score": 0.3})
    first, second = failures(archive)
    assert first.problem.startswith("1 of 7 ")
    assert "(vendor_ada-2/t1-add/run2" in first.problem
    assert second.problem == ""


@pytest.mark.parametrize(("recorded", "is_asked"), [(0.77, True), (0.8556, True), (0.5, False)])
def test_where_no_run_was_judged_the_failed_one_shows_the_rule(
    tmp_path: Path, recorded: float, is_asked: bool
) -> None:
    archive = make_archive(tmp_path, rejudging=REAL, fill=False)
    document = failed_document(trajectory=0.9)
    assert document["run_score"] == pytest.approx(0.77)  # the judge counted as 0; 0.8556 without
    archive.put(*JUDGED, {**document, "run_score": recorded})
    (failed,) = failures(archive)
    assert (failed.request is not None) == is_asked
    if not is_asked:
        assert "0.8556 or 0.77" in failed.problem


def test_runs_that_were_judged_again_are_no_proof_of_the_rule(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, rejudging=REAL, fill=False)
    again = run_document()
    again["judge_result"]["rejudged_at"] = "2026-05-01T00:00:00+00:00"
    archive.put("ada", "t1-add", "run1", again)
    archive.put(*JUDGED, {**failed_document(), "run_score": 0.5})
    (failed,) = failures(archive)
    assert (failed.request, bool(failed.problem)) == (None, True)


def test_the_judge_is_shown_files_beside_the_run(tmp_path: Path) -> None:
    parts = {
        "rubric": {"file": "tasks/**/{task}.yaml", "key": "judge.rubric"},
        "checks": {"file": "tasks/{task}.json", "key": "checks"},
        "notes": {"file": "notes/{model}_{run}.txt"},
        "transcript": {"key": "transcript", "max_chars": 200},
    }
    archive = make_archive(tmp_path, rejudging={**REAL, "parts": parts})
    long = f"It began. {'x' * 500} It ended."
    archive.put(*JUDGED, failed_document(transcript=long))
    (failed,) = failures(archive)
    assert "0 files match 'tasks/**/t1-add.yaml'" in failed.problem
    (tmp_path / "tasks" / "tier1").mkdir(parents=True)
    (tmp_path / "tasks" / "tier1" / "t1-add.yaml").write_text("judge:\n  rubric: Is it sorted?\n")
    (tmp_path / "tasks" / "t1-add.json").write_text('{"checks": ["mail", "plan"]}')
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "bob_run1.txt").write_text("He hesitated.")
    (failed,) = failures(archive)
    assert failed.request is not None
    message = failed.request.params["messages"][0]["content"]
    for shown in ("Is it sorted?", '"plan"', "He hesitated.", "It began.", "It ended."):
        assert shown in message
    assert re.search(r"\[… \d+ characters left out", message)
    assert "x" * 200 not in message
    (tmp_path / "tasks" / "t1-add.yaml").write_text("judge: {rubric: Another one}\n")
    (failed,) = failures(archive)
    assert "2 files match" in failed.problem


@pytest.mark.parametrize("text", ["judge: [", "judge: rubric", "\x00", "&a [*a]"])
def test_a_file_beside_the_run_that_cannot_be_used_is_said(tmp_path: Path, text: str) -> None:
    parts = {"rubric": {"file": "{task}.yaml", "key": "judge.rubric"}}
    archive = broken_archive(tmp_path, rejudging={**REAL, "parts": parts})
    (tmp_path / "t1-add.yaml").write_text(text)
    failed, _ = failures(archive)
    assert failed.request is None
    assert "expected" in failed.problem


_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.extras.archives import test_rejudging as tests
from tests.extras.archives.builders import SmallArchive
from tournament_assets.extras.archives import rejudging

class Server:
    url = sys.argv[2]

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

rejudging.write_scores = die
tests.rejudge(SmallArchive(Path(sys.argv[1])), Server())
"""


def test_a_kill_between_the_ledger_and_the_files_pays_nothing_twice(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    before = files(archive)
    with FaultyServer() as server:
        killed = subprocess.run(
            [sys.executable, "-c", _KILLED, str(tmp_path), server.url],
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert killed.returncode == -9, killed.stderr
        assert server.log.messages == 2
        assert files(archive) == before
    result = rejudge(archive)  # nobody listens any more, and nobody needs to
    assert (result.n_replies, len(result.written), result.unscored) == (0, 2, [])


def test_a_dead_judge_leaves_every_file_as_it_is(archive: SmallArchive) -> None:
    before = files(archive)
    with pytest.raises(JudgeError) as caught:
        rejudge(archive)
    assert KEY not in str(caught.value)
    assert files(archive) == before


def test_a_refused_key_writes_what_was_paid_before_it(archive: SmallArchive) -> None:
    before = archive.document(*JUDGED)
    with FaultyServer() as server:
        rejudge(archive, server, limit=1)
    archive.put(*JUDGED, before)  # a backup is put back
    with FaultyServer(faults=["message_401:1"]) as server:
        result = rejudge(archive, server)
        assert (len(result.written), len(result.unscored), result.n_replies) == (1, 1, 0)
        assert result.refusal
        assert KEY not in result.refusal
        again = rejudge(archive, server)
    assert len(result.written) + len(again.written) == 2
    assert again.unscored == []


@pytest.mark.parametrize(
    "fault",
    ["direct_text_empty", "direct_stop_max_tokens", "direct_two_verdicts", "direct_stop_refusal"],
)
def test_a_reply_without_a_score_is_asked_for_once_more(fault: str, archive: SmallArchive) -> None:
    with FaultyServer(faults=[f"{fault}:1"]) as server:
        result = rejudge(archive, server)
        assert server.log.messages == 3
    assert (len(result.written), result.unscored) == (2, [])
    assert archive.document(*JUDGED)["judge_result"]["score"] == WORDS


def test_a_reply_that_was_cut_off_is_asked_for_with_twice_the_cap(archive: SmallArchive) -> None:
    caps = []

    class Client(AnthropicBatches):
        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            caps.append(request.params["max_tokens"])
            return super().ask_directly(request)

    with FaultyServer(faults=["direct_stop_max_tokens:1"]) as server:
        ask_again(archive, failures(archive), server, client=Client)
    assert sorted(caps) == [8192, 8192, 2 * 8192]


def test_what_never_becomes_a_score_leaves_the_file_and_is_said(archive: SmallArchive) -> None:
    before = archive.document(*JUDGED)
    with FaultyServer(faults=["direct_text_empty:2"]) as server:
        result = rejudge(archive, server, limit=1)
        assert result.written == []
        (problem,) = result.unscored
        assert problem.startswith("vendor_bob/t1-add/run1.json: ")
        asked = server.log.messages
        assert rejudge(archive, server, limit=1).unscored == result.unscored
        assert server.log.messages == asked  # another judge or prompt would be asked
    assert archive.document(*JUDGED) == before


def test_what_the_service_refuses_as_it_stands_is_not_asked_twice(archive: SmallArchive) -> None:
    with FaultyServer(faults=["message_400:1"]) as server:
        result = rejudge(archive, server, limit=1)
        assert server.log.messages == 0
    assert result.written == []
    assert "'invalid_request_error'" in result.unscored[0]


def test_a_lost_answer_is_asked_for_again(archive: SmallArchive) -> None:
    with FaultyServer(faults=["message_500:1"]) as server:
        result = rejudge(archive, server)
    assert len(result.written) == 2


def test_two_runs_that_show_the_judge_the_same_are_one_request(archive: SmallArchive) -> None:
    archive.put("bob", "t1-add", "run2", failed_document(trajectory=0.1))
    with FaultyServer() as server:
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert len(result.written) == 3


def test_what_cannot_be_judged_says_why_and_is_not_paid_for(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    lost = failed_document()
    del lost["behavior_result"]
    archive.put("ada", "t1-add", "run1", lost)
    archive.put("ada", "t1-add", "run2", {**failed_document(), "transcript": {"messages": []}})
    first, second = failures(archive)
    assert (first.request, second.request) == (None, None)
    assert "behaviour" in first.problem
    assert "transcript" in second.problem


def test_a_file_that_changed_meanwhile_is_left_alone(archive: SmallArchive) -> None:
    failed = failures(archive)
    changed = archive.put(*JUDGED, failed_document(transcript="Something else."))
    judged_elsewhere = archive.put(*NOT_AT_CEILING, run_document())
    before = changed.read_bytes(), judged_elsewhere.read_bytes()
    with FaultyServer() as server:
        result = ask_again(archive, failed, server)
    assert result.written == []
    assert len(result.unscored) == 1
    assert (changed.read_bytes(), judged_elsewhere.read_bytes()) == before


QUOTING = {
    0.6: "The agent met a 503 Service Unavailable and gave up too early.",
    0.7: "It answers 'Bad Gateway' to the customer, which is what the log says.",
    0.8: "Names the gateway timeout as the cause.",
    0.9: "It saw that the gateway is restarting, and waited.",
    0.95: "The report says 'judge timed out', as the task asks.",
    1.0: "Explains why the judge unavailable banner appeared.",
}


def test_no_recorded_score_above_0_is_judged_again_or_written_over(archive: SmallArchive) -> None:
    good = [
        archive.put(
            "ada", TASKS[number % 4], RUNS[number % 3], run_document(judge=score, reason=said)
        )
        for number, (score, said) in enumerate(QUOTING.items())
    ]
    again = {"rejudged_at": "2026-05-01T00:00:00+00:00", "error": "cut off"}
    for run, more in (("run1", {"error": "503"}), ("run2", again)):
        document = run_document(judge=0.9)
        good.append(archive.put("cyd", "t1-add", run, document))
        document["judge_result"].update(more)
        archive.put("cyd", "t1-add", run, document)
    before = [path.read_bytes() for path in good]
    problems = {each.run.path: each.problem for each in failures(archive) if not each.request}
    assert sorted(problems) == ["cyd/t1-add/run1.json", "cyd/t1-add/run2.json"]
    assert all("0.9" in problem for problem in problems.values())
    with FaultyServer() as server:
        result = rejudge(archive, server)
        assert server.log.messages == 2
    assert len(result.written) == 2
    assert [path.read_bytes() for path in good] == before


class Interrupted(ClawBench):
    """Reads a run's file while another program replaces it."""

    path: Path
    content: bytes

    def rewrite(
        self, document: Mapping[str, Any], new: NewScore, run_score: float
    ) -> Mapping[str, Any]:
        self.path.write_bytes(self.content)
        return super().rewrite(document, new, run_score)


def test_a_file_that_changes_while_its_score_is_written_is_left_alone(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path)
    failed = failures(archive)[:1]
    reader = Interrupted()
    reader.path = archive.run_path(*JUDGED)
    reader.content = json.dumps(run_document(judge=1.0)).encode()
    described = archive.load()
    described.config.__dict__["harness"] = reader
    request = failed[0].request
    assert request is not None
    paid = NewScore(0.6, "good", "claude-sonnet-4-6", "2026-05-01T00:00:00+00:00")
    written, (problem,) = write_scores(described, failed, {request.request_key: paid})
    assert (written, "changed" in problem) == ([], True)
    assert reader.path.read_bytes() == reader.content


def test_a_budget_is_kept_before_the_first_request(tmp_path: Path) -> None:
    archive = broken_archive(tmp_path, rejudging={**REAL, "budget_usd": 0.0001})
    with FaultyServer() as server:
        with pytest.raises(BudgetError, match="budget_usd"):
            rejudge(archive, server)
        assert server.log.messages == 0


def test_a_prompt_that_is_not_there_is_refused(tmp_path: Path, archive: SmallArchive) -> None:
    (tmp_path / "judge.txt").unlink()
    with pytest.raises(InputError, match=r"judge\.txt: the file cannot be read"):
        failures(archive)
