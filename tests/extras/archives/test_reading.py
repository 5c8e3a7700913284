import pytest

from tests.extras.archives.builders import (
    SmallArchive,
    run_document,
)

CELL = ("ada", "t1-add", "run1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"run_score": 0.4, "tra',
            "is no JSON object (line 1: Unterminated string starting at)",
        ),
        ('{"run_score": 0.4,', "line 1: Expecting property name"),
        ("", "line 1: Expecting value"),
        ("<html>Bad gateway</html>", "line 1: Expecting value"),
        ("[1, 2]", "it holds list"),
        ('{"transcript": "x"}', "run_score is missing"),
        ('{"run_score": "0.4"}', "run_score is '0.4'; expected a number from 0 to 1"),
        ('{"run_score": NaN}', "run_score is nan"),
        ('{"run_score": true}', "run_score is True"),
        ('{"run_score": 1.5}', "run_score is 1.5"),
        ('{"run_score": 0.5, "completion_result": {"score": -1}}', "completion_result.score is -1"),
        ('{"run_score": 0.5, "judge_result": "good"}', "judge_result is 'good'; expected an obj"),
        ("[" * 100_000, "(RecursionError)"),
    ],
)
def test_a_file_that_is_no_run_is_listed_with_its_reason(
    text: str, said: str, archive: SmallArchive
) -> None:
    archive.put(*CELL, text)
    _, contents = archive.read()
    (broken,) = contents.broken
    assert said in broken.reason
    assert (broken.model_id, broken.task, broken.run) == CELL
    assert broken.path == "vendor_ada-2/t1-add/run1.json"
    assert len(contents.runs) == 35


def test_a_file_that_is_no_text_is_listed(archive: SmallArchive) -> None:
    archive.run_path(*CELL).write_bytes(b'{"run_score": "\xff\xfe"}')
    _, contents = archive.read()
    assert "UnicodeDecodeError" in contents.broken[0].reason


def test_what_nobody_planned_is_in_no_number_and_is_listed(archive: SmallArchive) -> None:
    archive.put("ada", "t1-add", "run9", run_document())
    archive.put("ada", "t9-new", "run1", run_document())
    _, contents = archive.read()
    assert contents.unplanned == ("vendor_ada-2/t1-add/run9.json", "vendor_ada-2/t9-new/run1.json")
    assert len(contents.runs) == 36
