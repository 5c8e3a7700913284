import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.projects import (
    ENTRANTS,
    FinishedPilot,
    SmallProject,
    leaderboard_of,
    recorded_responses,
    write_json_lines,
)
from tournament_assets.cli import main

EDITED = "# version: 2\n# dimension: factuality\n\nPrefer the response that is right.\n"


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compare", *map(str, arguments)], catch_exceptions=False)


def newest_run(project: SmallProject) -> Path:
    before = set((project.folder / "runs").glob("*"))
    project.run()
    (made,) = set((project.folder / "runs").glob("*")) - before
    return made


@pytest.fixture(scope="module")
def runs(
    finished_pilot: FinishedPilot, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """Run a pilot, edit the rubric of factuality, let two entrants swap some responses, run again.

    What they swap are the responses to curated prompts, which are judged on calibration alone.
    """
    project = finished_pilot.copy(tmp_path_factory.mktemp("project") / "small")
    (first,) = (project.folder / "runs").iterdir()
    (project.folder / "rubrics" / "factuality.txt").write_text(EDITED)
    own = {name: recorded_responses(name) for name in ("careful", "sloppy")}
    # A word more, or the judge would be asked the same of the two, the other way round.
    for name, other, more in (("careful", "sloppy", ""), ("sloppy", "careful", " Indeed.")):
        rows = [
            {**theirs, "response": theirs["response"] + more}
            if theirs["prompt_id"].startswith("curated")
            else mine
            for mine, theirs in zip(own[name], own[other], strict=True)
        ]
        write_json_lines(project.folder / f"responses_{name}.jsonl", rows)
    return first, newest_run(project)


def values(*arguments: str | Path) -> Any:
    result = invoke(*arguments, "--json")
    found = json.loads(result.output)
    assert result.exit_code == found["verdict"]["exit_code"], result.output
    return found


def test_a_run_and_itself_differ_in_nothing(runs: tuple[Path, Path]) -> None:
    found = values(runs[0], runs[0])
    assert found["inputs"] == {"changes": []}
    assert found["flips"]["changed"] == []
    assert found["flips"]["total"]["agreement"]["kappa"]["value"] == 1
    # Who never lost, or never won, has no rating, so that nothing is known of its move.
    assert {move["difference"] for move in found["ratings"]} - {None} == {0}
    assert found["verdict"]["sameness"] == "same"
    printed = invoke(runs[0], runs[0])
    assert printed.exit_code == 0
    assert "exit code 0" in printed.output.replace("(", "")


def test_what_was_edited_in_the_rubric_is_shown(runs: tuple[Path, Path]) -> None:
    (edit,) = values(*runs)["rubric_edits"]
    assert edit["dimension"] == "factuality"
    added = f"+{EDITED.splitlines()[-1]}"
    assert added in edit["diff"]
    assert f"{added}\n" in invoke(*runs).output


def test_a_text_that_the_judge_did_not_have_is_not_taken_for_its_rubric(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(runs[0], edited)
    manifest = json.loads((edited / "manifest.json").read_text())
    manifest["rubrics"]["factuality"] = "# version: 1\n\nSomething else."
    (edited / "manifest.json").write_text(json.dumps(manifest))
    result = invoke(edited, runs[1])
    assert result.exit_code == 2
    assert "manifest.json: the rubric 'factuality' is not the text" in result.stderr


def test_the_inputs_that_differ_are_named_and_no_others(runs: tuple[Path, Path]) -> None:
    found = values(*runs)
    assert [each["name"] for each in found["inputs"]["changes"]] == [
        "inputs.rubrics.factuality.version",
        "inputs.rubrics.factuality.hash",
        "inputs.responses.careful",
        "inputs.responses.sloppy",
        "inputs.judge_requests.factuality",
        "inputs.judge_requests.calibration",
        "inputs.entrants.careful.hash",
        "inputs.entrants.sloppy.hash",
    ]
    assert "factuality (12 of 12" in found["summary"][0]
    assert "calibration (6 of 18" in found["summary"][0]


def test_requests_in_both_are_those_that_the_edit_left_alone(runs: tuple[Path, Path]) -> None:
    cost = values(*runs)["cost"]["by_dimension"]
    assert cost["factuality"]["requests_in_both"] == 0
    assert 0 < cost["calibration"]["requests_in_both"] < cost["calibration"]["now"]["requests"]


def test_flips_are_those_of_the_verdict_files_and_marked_as_of_other_responses(
    runs: tuple[Path, Path],
) -> None:
    found = values(*runs)
    rows = found["flips"]["changed"]
    # The loopback judge does not read rubrics, so nothing flips on factuality.
    assert not changed_rows(*runs, "factuality")
    expected = {pair_of(row) for row in changed_rows(*runs, "calibration")}
    assert expected
    assert {pair_of(row) for row in rows} == expected
    assert {row["source"] for row in rows} == {"curated"}
    assert {row["dimension"] for row in rows} == {"calibration"}
    assert all(row["responses_changed"] for row in rows)
    assert not any(row["question_changed"] for row in rows)
    # Every pair on factuality, and those on calibration's two curated prompts.
    assert found["flips"]["asked_otherwise"] == {"factuality": 12, "calibration": 6}
    assert f"{len(rows)} of 18 judgments" in found["summary"][1]
    assert "other 12 pairs" in found["summary"][1]
    strata = {
        (count["dimension"], count["source"]): (count["flipped"], count["flips"]["n"])
        for count in found["flips"]["by_stratum"]
    }
    assert strata == {
        ("factuality", "recall"): (0, 12),
        ("calibration", "curated"): (len(rows), 6),
        ("calibration", "recall"): (0, 0),
    }


def test_ratings_move_only_where_judgments_flipped(runs: tuple[Path, Path]) -> None:
    moves = values(*runs)["ratings"]
    assert len(moves) == 2 * len(ENTRANTS)
    moved = {move["dimension"] for move in moves if move["difference"]}
    assert moved <= {"calibration"}
    boards = [
        {(row["dimension"], row["entrant_id"]): row for row in leaderboard_of(run)} for run in runs
    ]
    for move in moves:
        then, now = (board[move["dimension"], move["entrant_id"]] for board in boards)
        if None in (then["rating"], now["rating"]):
            assert move["difference"] is None
            continue
        assert move["difference"] == pytest.approx(now["rating"] - then["rating"])
        assert (move["then"]["rank"], move["now"]["rank"]) == (then["rank"], now["rank"])


def pair_of(row: dict[str, Any]) -> tuple[str, frozenset[str]]:
    return row["prompt_id"], frozenset((row["entrant_a"], row["entrant_b"]))


def changed_rows(then: Path, now: Path, dimension: str) -> list[dict[str, Any]]:
    """Compare two verdict files line by line: both runs list the same pairs in the same order."""
    old, new = (
        [
            json.loads(line)
            for line in (run / f"verdicts/{dimension}.jsonl").read_text().rstrip("\n").split("\n")
        ]
        for run in (then, now)
    )
    return [
        after
        for before, after in zip(old, new, strict=True)
        if before["outcome"] != after["outcome"]
    ]


def test_the_list_of_flips_is_cut_and_says_so(runs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "comparison.md"
    printed = invoke(*runs, "--limit", "1", "--markdown", out).output
    n_more = len(values(*runs)["flips"]["changed"]) - 1
    assert f"{n_more} more; raise" in printed
    markdown = out.read_text()
    assert markdown.startswith("# ")
    assert f"{n_more} more; raise" in markdown
    assert markdown.count("| other responses |") == 1
    assert "other responses" not in invoke(*runs, "--limit", "0").output


def test_without_the_texts_nobody_knows_what_was_shown(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(runs[0], bare)
    shutil.rmtree(bare / "matches")
    found = values(bare, runs[1])
    assert {row["responses_changed"] for row in found["flips"]["changed"]} == {None}


def test_everything_wrong_with_both_directories_is_said_at_once(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(runs[0], broken)
    (broken / "leaderboard.csv").write_text("{")
    (broken / "verdicts" / "factuality.jsonl").unlink()
    calibration = broken / "verdicts" / "calibration.jsonl"
    calibration.write_text(calibration.read_text().replace('"outcome": "tie"', '"outcome": "x"'))
    calibration.write_text(calibration.read_text() + '{"prompt_id": "p"}\n')
    result = invoke(broken, tmp_path)
    assert result.exit_code == 2
    for words in (
        "4 problems in the input",
        "leaderboard.csv: the header has no dimension",
        "factuality.jsonl: the file is missing",
        "calibration.jsonl:",
        f"{tmp_path / 'manifest.json'}: the manifest cannot be read",
    ):
        assert words in result.stderr
