from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extras.archives.builders import (
    COMPONENTS,
    SmallArchive,
    by_rule,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.extras.archives.clawbench import ClawBench
from tournament_assets.extras.archives.harness import JudgeState, ScoredRun
from tournament_assets.extras.archives.models import audit_models

CELL = ("ada", "t1-add", "run1")


def test_a_missing_component_is_absent_and_not_zero(archive: SmallArchive) -> None:
    document = run_document()
    del document["behavior_result"]
    archive.put(*CELL, document)
    run = archive.read()[1].runs[0]
    assert run.components["behaviour"] is None


JUDGES = [
    ({"enabled": False, "score": 0.0, "reason": ""}, JudgeState.OFF, None),
    ({"score": 0.9, "reason": "nobody says it was asked"}, JudgeState.OFF, None),
    (None, JudgeState.OFF, None),
    ({"enabled": True, "score": 0.9, "reason": "good"}, JudgeState.SCORED, 0.9),
    ({"enabled": True, "score": 0.0, "reason": "useless"}, JudgeState.SCORED, 0.0),
    ({"enabled": True, "score": 0.7, "reason": ""}, JudgeState.SCORED, 0.7),
    ({"enabled": True, "score": 0.0, "reason": "  "}, JudgeState.FAILED, None),
    ({"enabled": True, "reason": "good"}, JudgeState.FAILED, None),
    ({"enabled": True, "score": 0.0, "reason": "GATEWAY is\nrestarting"}, JudgeState.FAILED, None),
    ({"enabled": True, "score": 0.9, "reason": "good", "error": "cut"}, JudgeState.FAILED, None),
    ({"enabled": True, "score": 0.9, "reason": "good", "error": False}, JudgeState.SCORED, 0.9),
    (
        {"enabled": True, "score": 0.9, "reason": "good", "error": {"message": None}},
        JudgeState.SCORED,
        0.9,
    ),
    (
        {
            "enabled": True,
            "score": 0.0,
            "reason": "It only says: gateway is restarting.",
            "rejudged_at": "2026-05-01T00:00:00+00:00",
        },
        JudgeState.REJUDGED,
        0.0,
    ),
    (
        {"enabled": True, "score": 0.0, "error": "dead", "rejudged_at": "2026-05-01"},
        JudgeState.FAILED,
        None,
    ),
]


@pytest.mark.parametrize(("judge", "state", "score"), JUDGES)
def test_what_became_of_the_judge(
    judge: object, state: JudgeState, score: float | None, archive: SmallArchive
) -> None:
    archive.put(*CELL, {**run_document(), "judge_result": judge})
    run = archive.read()[1].runs[0]
    assert (run.judge.state, run.judge.score) == (state, score)


GATEWAY = ("Gateway is restarting", "Judge execution failed.", "judge timed out")
QUOTED = ("503 Service Unavailable", "502 Bad Gateway", "504 Gateway Timeout", "judge unavailable")
"""Errors of other services, which ClawBench never writes in the reason's place."""


@pytest.mark.parametrize("around", ["{}", "It reports '{}', as it should.", " {}\n"])
@pytest.mark.parametrize("words", [*GATEWAY, *QUOTED, ""])
def test_a_reason_tells_of_a_failed_judging_only_beside_a_score_of_0(
    words: str, around: str
) -> None:
    reason = around.format(words)
    for score in (0.0, 1e-9, 0.5, 0.6, 0.95, 1.0, 1.00005):
        judge = {"enabled": True, "score": score, "reason": reason, "error": None}
        run = ClawBench().read({"run_score": 0.5, "judge_result": judge})
        is_failed = score == 0 and (words in GATEWAY or not reason.strip())
        assert run.judge.state is (JudgeState.FAILED if is_failed else JudgeState.SCORED)
        assert run.judge.score == (None if is_failed else score)


def test_an_empty_response_is_told_from_one_that_is_there(archive: SmallArchive) -> None:
    archive.put(*CELL, zero_document())
    asked = {"role": "user", "text": "Sort the mail."}
    acted = {"role": "assistant", "text": "", "tool_calls": [{"name": "read"}]}
    archive.put("ada", "t1-add", "run2", {**run_document(), "transcript": {"messages": [asked]}})
    archive.put(
        "ada", "t1-sort", "run1", {**run_document(), "transcript": {"messages": [asked, acted]}}
    )
    emptiness = [run.is_empty for run in archive.read()[1].runs[:4]]
    assert emptiness == [True, True, False, False]


def scored_run(components: Mapping[str, float], *, assertions: int = 4) -> ScoredRun:
    document: dict[str, Any] = {
        f"{name.replace('our', 'or')}_result": {"score": score}
        for name, score in components.items()
    }
    document["completion_result"]["total_assertions"] = assertions
    return ClawBench().read({**document, "run_score": 0.5})


@given(
    completion=st.sampled_from([0.0, 0.5, 0.999, 0.9999, 0.99995, 1.0]),
    trajectory=st.floats(0, 1),
    behaviour=st.floats(0, 1),
    judge=st.none() | st.floats(0, 1),
)
def test_the_judge_counts_at_the_ceiling_only(
    completion: float, trajectory: float, behaviour: float, judge: float | None
) -> None:
    run = scored_run(dict(zip(COMPONENTS, (completion, trajectory, behaviour), strict=True)))
    score = run.score_with(judge)
    assert score == pytest.approx(by_rule(completion, trajectory, behaviour, judge))
    assert score is not None
    assert 0 <= score <= 1
    if completion < 0.9999:
        assert score == run.score_with(None)


def test_tasks_without_a_verifier_have_weights_of_their_own(tmp_path: Path) -> None:
    components = {"completion": 0.0, "trajectory": 0.5, "behaviour": 1.0}
    assert scored_run(components).score_with(0.8) == pytest.approx(by_rule(0.0, 0.5, 1.0, 0.8))
    special = scored_run(components, assertions=0)
    assert special.score_with(0.8) == pytest.approx(0.2 * 0.5 + 0.1 + 0.5 * 0.8)
    # Without the judge's score there is nothing to give half of the weight to.
    assert special.score_with(None) == pytest.approx(by_rule(0.0, 0.5, 1.0, None))
    archive = make_archive(tmp_path)
    document = run_document(completion=0.5, run_score=0.65)
    archive.put("ada", "t2-mail", "run1", document)
    document["completion_result"]["total_assertions"] = 0
    archive.put("ada", "t2-mail", "run2", document)
    assert audit_models(archive.read()[1])[0].off_rule == 1


def test_a_missing_component_leaves_the_score_unknown() -> None:
    assert scored_run({"completion": 1.0, "behaviour": 0.5}).score_with(0.8) is None
