import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.archives.builders import (
    description,
    failed_document,
    make_archive,
    run_document,
    zero_document,
)
from tournament_assets.archives.reading import BrokenRunError, Edit, edit_document
from tournament_assets.archives.runs import JudgeState

CELL = ("ada", "t1-add", "run1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"run_score": 0.4, "tra', "is cut off in line 1"),
        ('{"run_score": 0.4,', "is cut off in line 1"),
        ("", "the file is empty"),
        ("<html>Bad gateway</html>", "is not JSON in line 1"),
        ("[1, 2]", "holds list; expected a JSON object"),
        ('{"transcript": "x"}', "run_score is missing"),
        ('{"run_score": "0.4"}', "run_score is '0.4'; expected a number from 0 to 1"),
        ('{"run_score": NaN}', "run_score is nan"),
        ('{"run_score": true}', "run_score is True"),
        ('{"run_score": 1.5}', "run_score is 1.5"),
        ('{"run_score": 0.5, "completion_result": {"score": -1}}', "completion_result.score is -1"),
        ('{"run_score": 0.5, "judge_result": "good"}', "judge_result is 'good'; expected an obj"),
        ("[" * 100_000, "is not JSON (RecursionError)"),
    ],
)
def test_a_file_that_is_no_run_is_listed_with_its_reason(
    tmp_path: Path, text: str, said: str
) -> None:
    archive = make_archive(tmp_path)
    archive.put(*CELL, text)
    _, contents = archive.read()
    (broken,) = contents.broken
    assert said in broken.reason
    assert (broken.model_id, broken.task, broken.run) == CELL
    assert broken.path == "vendor_ada-2/t1-add/run1.json"
    assert len(contents.runs) == 35


def test_a_file_that_is_no_text_is_listed(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    archive.run_path(*CELL).write_bytes(b'{"run_score": "\xff\xfe"}')
    _, contents = archive.read()
    assert "UnicodeDecodeError" in contents.broken[0].reason


def test_a_missing_component_is_absent_and_not_zero(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    document = run_document()
    del document["behaviour_result"]
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
    tmp_path: Path, judge: object, state: JudgeState, score: float | None
) -> None:
    archive = make_archive(tmp_path)
    archive.put(*CELL, {**run_document(), "judge_result": judge})
    run = archive.read()[1].runs[0]
    assert (run.judge_state, run.judge_score) == (state, score)


def test_a_phrase_beside_a_judges_own_score_can_be_the_judges_own_word(tmp_path: Path) -> None:
    document = run_document(judge=0.9, reason="It survived a bad gateway.")
    archive = make_archive(tmp_path)
    archive.put(*CELL, document)
    assert archive.read()[1].runs[0].judge_state is JudgeState.FAILED
    scores = description()["scores"]
    archive.describe(scores={**scores, "judge": {"weight": 0.1, "failure_score": 0.0}})
    assert archive.read()[1].runs[0].judge_state is JudgeState.SCORED


def test_phrases_are_the_descriptions(tmp_path: Path) -> None:
    scores = description()["scores"]
    judge = {"weight": 0.1, "phrases": ["the judge sleeps"]}
    archive = make_archive(tmp_path, scores={**scores, "judge": judge})
    archive.put(*CELL, failed_document("The Judge sleeps."))
    archive.put("ada", "t1-add", "run2", failed_document("Gateway is restarting"))
    states = [run.judge_state for run in archive.read()[1].runs[:2]]
    assert states == [JudgeState.FAILED, JudgeState.SCORED]


def test_what_nobody_planned_is_in_no_number_and_is_listed(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    archive.put("ada", "t1-add", "run9", run_document())
    archive.put("ada", "t9-new", "run1", run_document())
    _, contents = archive.read()
    assert contents.unplanned == ("vendor_ada-2/t1-add/run9.json", "vendor_ada-2/t9-new/run1.json")
    assert len(contents.runs) == 36


def test_an_empty_response_is_told_from_one_that_is_there(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    archive.put(*CELL, zero_document())
    archive.put("ada", "t1-add", "run2", run_document(transcript=[{"role": "user", "text": ""}]))  # type: ignore[arg-type]
    emptiness = [run.is_empty for run in archive.read()[1].runs[:3]]
    assert emptiness[0] is True
    assert emptiness[2] is False


def test_two_files_of_one_run_are_no_two_runs(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, run_files="run*")
    archive.run_path(*CELL).with_suffix(".txt").write_text("a note")
    _, contents = archive.read()
    assert contents.unplanned == ("vendor_ada-2/t1-add/run1.txt",)
    assert len(contents.runs) == 36


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
layouts = st.sampled_from(
    [{}, {"indent": 2}, {"indent": "\t"}, {"indent": 0}, {"separators": (",", ":")}]
)


def edited(text: str, *edits: Edit) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        path.write_bytes(text.encode())
        return edit_document(path, edits).decode()


@given(
    before=st.dictionaries(st.text(), values, max_size=3),
    judge=st.dictionaries(st.text(), values, max_size=3),
    new=values,
    after=st.dictionaries(st.text(), values, max_size=3),
    layout=layouts,
    is_ascii=st.booleans(),
)
def test_two_values_change_and_every_other_one_stays(
    before: dict[str, Any],
    judge: dict[str, Any],
    new: Any,
    after: dict[str, Any],
    layout: dict[str, Any],
    is_ascii: bool,
) -> None:
    taken = {"judge", "judge_before", "score", "score_before", "in"}
    rest = {f"{place}{key}" for place, each in (("a", before), ("b", after)) for key in each}
    document = {
        **{f"a{key}": value for key, value in before.items()},
        "judge": judge,
        "in": {"score": 0.25, "other": [1]},
        **{f"b{key}": value for key, value in after.items()},
    }
    assert not rest & taken
    text = json.dumps(document, ensure_ascii=is_ascii, **layout)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(document, **layout)
    found = edited(text, Edit("judge", new, "judge_before"), Edit("in.score", 0.5, "score_before"))
    assert json.loads(found) == {
        **document,
        "judge": new,
        "judge_before": judge,
        "in": {"score": 0.5, "score_before": 0.25, "other": [1]},
    }
    start, end = text.index('"judge"'), text.index('"in"')
    assert found.startswith(text[:start])
    assert found.endswith(text[text.index('"other"', end) :])


def test_what_was_kept_before_is_kept_on() -> None:
    text = '{"score": 2, "score_before": 1}'
    assert edited(text, Edit("score", 3, "score_before")) == '{"score": 3, "score_before": 1}'


def test_a_file_that_escapes_nothing_has_nothing_escaped() -> None:
    assert edited('{"x": "é", "s": 0}', Edit("s", "ü", "t")) == '{"x": "é", "s": "ü", "t": 0}'
    assert edited('{"x": "e", "s": 0}', Edit("s", "ü", "t")) == '{"x": "e", "s": "\\u00fc", "t": 0}'


def test_an_indented_object_stays_indented() -> None:
    text = '{\n  "judge": {\n    "score": 0\n  },\n  "x": 1.50\n}\n'
    assert edited(text, Edit("judge", {"score": 1, "why": ["a"]}, "old")) == (
        '{\n  "judge": {\n    "score": 1,\n    "why": [\n      "a"\n    ]\n  },\n'
        '  "old": {\n    "score": 0\n  },\n  "x": 1.50\n}\n'
    )


@pytest.mark.parametrize("text", ['{"a": 1}', '{"score": {}}', '{"in": 3}'])
def test_a_value_that_is_not_there_cannot_be_replaced(text: str) -> None:
    with pytest.raises(BrokenRunError, match="expected"):
        edited(text, Edit("in.score", 1, "before"))
