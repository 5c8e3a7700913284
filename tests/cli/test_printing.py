"""What people name in letters that a terminal, a file or YAML does not know."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.projects import make_project
from tournament_assets.foundation.errors import InputError
from tournament_assets.project.plan import load_plan
from tournament_assets.project.project_files import load_rubric

NAMES = ("模型α", "Müller")


def run(*arguments: str | Path, encoding: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    words = [sys.executable, "-m", "tournament_assets", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_no_command_ends_in_an_error_of_the_terminals_encoding(
    tmp_path: Path, encoding: str
) -> None:
    votes = tmp_path / "votes.jsonl"
    names = {"model_a": NAMES[0], "model_b": NAMES[1], "source": "human"}
    rows = [{**names, "question_id": f"q{n}", "winner": f"model_{'ab'[n % 2]}"} for n in range(9)]
    votes.write_text("".join(json.dumps(row) + "\n" for row in rows))
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    project.merge_config(report={"title": " ".join(NAMES)})
    config = ("--config", project.config_path)
    for words in (
        ("battles", "rate", votes, "--n-permutations", "4", "--n-bootstraps", "40"),
        ("battles", "import", votes, "--out", tmp_path / "ours.parquet"),
        ("configuration",),
        ("estimate", *config),
        ("estimate", "--config", tmp_path / "模型.yaml"),
        ("--help",),
    ):
        done = run(*words, encoding=encoding)
        assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
        assert done.returncode == (2 if words[-1] == tmp_path / "模型.yaml" else 0), done.stderr
    if encoding == "utf-8":
        printed = run("battles", "rate", votes, "--n-bootstraps", "40", encoding=encoding).stdout
        assert all(name in printed.decode() for name in NAMES)


def test_a_byte_order_mark_is_no_letter_of_a_text(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    before = load_plan(project.config_path, {})
    rubric = load_rubric(before.config, before.project, "factuality")
    for path in [
        project.config_path,
        *project.folder.rglob("*.txt"),
        *project.folder.rglob("*.md"),
    ]:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    after = load_plan(project.config_path, {})
    assert after.config == before.config
    assert load_rubric(after.config, after.project, "factuality") == rubric


def test_a_question_mark_in_the_name_of_a_folder_is_one_sentence(tmp_path: Path) -> None:
    project = make_project(tmp_path / "why?", dimensions=("factuality",))
    with pytest.raises(InputError, match="holds a question mark") as caught:
        load_plan(project.config_path, {})
    assert len(caught.value.problems) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["why?"]


@pytest.mark.parametrize(
    "written", ["no", "on", "12:30", "2024-01-01", "0x1F", "1.0", "1_000", "~"]
)
@pytest.mark.parametrize("place", ["entrant", "dimension", "tournament"])
def test_what_yaml_reads_otherwise_is_put_in_quotes(
    tmp_path: Path, written: str, place: str
) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    text = project.config_path.read_text()
    old = {
        "entrant": "entrant_id: careful",
        "dimension": "  factuality:",
        "tournament": "tournament_id: small",
    }[place]
    assert old in text
    new = {
        "entrant": f"entrant_id: {written}",
        "dimension": f"  {written}:",
        "tournament": f"tournament_id: {written}",
    }[place]
    project.config_path.write_text(text.replace(old, new))
    with pytest.raises(InputError) as caught:
        load_plan(project.config_path, {})
    said = "\n".join(caught.value.problems)
    quoted = f'"{written}":' if place == "dimension" else f': "{written}"'
    assert f"put it in quotes: {quoted if place == 'dimension' else ''}" in said
    assert quoted in said


def test_names_are_shown_as_people_write_them(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    entrants = yaml.safe_load(project.config_path.read_text())["entrants"]
    names = ("模型甲", "Müller")
    for entrant, name in zip(entrants, names, strict=False):
        entrant["entrant_id"] = name
    project.edit_config(entrants=entrants)
    summary = project.run()
    assert {*names} <= {*summary.leaderboard["entrant_id"]}
    for file in ("report.md", "report.html", "leaderboard.csv", "manifest.json"):
        text = (summary.directory / file).read_text(encoding="utf-8")
        if file == "manifest.json":
            text = json.dumps(json.loads(text), ensure_ascii=False)
        assert all(name in text for name in names), file
