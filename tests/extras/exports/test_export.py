"""A finished run in other forms, and that its directory holds what is needed for all of them."""

import csv
import hashlib
import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tests.projects import FinishedPilot, leaderboard_of
from tournament_assets.cli import main
from tournament_assets.extras.exports.forms import FORMS

DIMENSIONS = ("factuality", "calibration")


@pytest.fixture
def copied(finished_pilot: FinishedPilot, tmp_path: Path) -> Path:
    """Copy a run directory to where nothing else of its project is."""
    return Path(shutil.copytree(finished_pilot.summary.directory, tmp_path / "copied"))


def export(folder: Path, out: Path, *forms: str) -> Result:
    options = [option for form in forms for option in ("--to", form)]
    return CliRunner().invoke(main, ["export", str(folder), "-o", str(out), *options])


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_copied_run_directory_gives_every_form_and_stays_as_it_is(
    copied: Path, tmp_path: Path
) -> None:
    before, out = hashes(copied), tmp_path / "out"
    result = export(copied, out)
    assert result.exit_code == 0, result.output
    assert hashes(copied) == before
    pictures = ("forest", "ladder", "win_rates")
    assert set(hashes(out)) == {
        *("battles.csv", "leaderboard.parquet", "win_rates.parquet"),
        "figures/ladders.svg",
        *(f"every_eval_ever/{row['entrant_id']}.json" for row in leaderboard_of(copied)),
        *(f"figures/{kind}_{dimension}.svg" for kind in pictures for dimension in DIMENSIONS),
        "paper/figure1.pdf",
        *(f"paper/{name}.tex" for name in ("leaderboard", "limitations", "methods", "paper")),
        *(f"rubrics/{dimension}.txt" for dimension in DIMENSIONS),
    }


def test_the_forms_hold_what_the_run_holds(copied: Path, tmp_path: Path) -> None:
    export(copied, tmp_path)
    board = pq.read_table(tmp_path / "leaderboard.parquet").to_pylist()
    assert board == leaderboard_of(copied)
    (paper,) = tmp_path.rglob("leaderboard.tex")
    assert {f"{row['rating']:.0f}" for row in board if row["rating"] is not None} <= {
        *re.findall(r"\d+", paper.read_text())
    }
    with (tmp_path / "battles.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    battles = pq.read_table(copied / "battles.parquet").to_pylist()
    keys = ("model_a", "model_b", "winner", "question_id", "dimension")
    assert [[row[key] for key in keys] for row in rows] == [
        [battle[key] for key in keys] for battle in battles
    ]
    manifest = json.loads((copied / "manifest.json").read_text())
    texts = {path.stem: path.read_text() for path in (tmp_path / "rubrics").iterdir()}
    assert texts == {name: f"{text}\n" for name, text in manifest["rubrics"].items()}


def test_a_record_of_every_eval_ever_follows_its_schema(copied: Path, tmp_path: Path) -> None:
    schemas = files(pytest.importorskip("every_eval_ever")) / "schemas"
    schema = json.loads((schemas / "eval.schema.json").read_text())
    export(copied, tmp_path, "every_eval_ever")
    for path in (tmp_path / "every_eval_ever").iterdir():
        pytest.importorskip("jsonschema").validate(json.loads(path.read_text()), schema)


def test_a_record_of_every_eval_ever_holds_every_rating(copied: Path, tmp_path: Path) -> None:
    export(copied, tmp_path, "every_eval_ever")
    board = leaderboard_of(copied)
    for path in (tmp_path / "every_eval_ever").iterdir():
        record = json.loads(path.read_text())
        assert {
            (row["evaluation_name"], row["score_details"]["score"])
            for row in record["evaluation_results"]
        } == {(row["dimension"], row["rating"]) for row in board if row["entrant_id"] == path.stem}


def test_each_form_alone_is_a_part_of_all_of_them(copied: Path, tmp_path: Path) -> None:
    described = CliRunner().invoke(main, ["export", "--help"]).output
    export(copied, tmp_path / "all")
    for name, form in FORMS.items():
        export(copied, tmp_path / name, name)
        assert hashes(tmp_path / name) != {}
        assert hashes(tmp_path / name).items() <= hashes(tmp_path / "all").items()
        assert f"{name:<8} {form.__doc__}" in described


def test_a_file_with_another_content_is_named_and_nothing_is_written(
    copied: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert export(copied, out, "csv", "rubrics").exit_code == 0
    before = hashes(out)
    assert export(copied, out, "csv").exit_code == 0
    assert hashes(out) == before
    (out / "battles.csv").write_text("mine")
    before = hashes(out)
    result = export(copied, out)
    assert result.exit_code == 2
    assert f"{out / 'battles.csv'}: " in result.stderr
    assert hashes(out) == before


def test_what_is_no_run_or_lies_inside_one_is_refused(copied: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent", copied / "manifest.json"):
        result = export(folder, tmp_path / "out")
        assert result.exit_code == 2
        assert "expected the directory of a finished run" in result.stderr
    result = export(copied, copied / "paper")
    assert result.exit_code == 2
    assert "inside the run directory" in result.stderr
    (copied / "manifest.json").write_text("{}")
    result = export(copied, tmp_path / "out")
    assert result.exit_code == 2
    assert "run the mode again" in result.stderr
    (copied / "leaderboard.csv").unlink()
    assert (
        "leaderboard.csv: the file cannot be read"
        in export(copied, tmp_path / "out", "parquet").stderr
    )
    assert not (tmp_path / "out").exists()
