"""Files that people name, read by the core and by the extras."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project.test_project_files import config_with
from tournament_assets.battles.registry import read_battles
from tournament_assets.extras.archives.documents import read_document
from tournament_assets.extras.banks.multiple_choice import read_questions
from tournament_assets.extras.people.votes import import_votes
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import read_json_lines
from tournament_assets.foundation.yaml_files import read_yaml
from tournament_assets.project.project_files import Project, load_prompt_bank, load_rubric
from tournament_assets.recorded.answer_tables import read_answers
from tournament_assets.recorded.samples import read_samples
from tournament_assets.storage.run_directory import read_manifest


def read_rubric(path: Path) -> object:
    config = config_with(zeal=path.name)
    return load_rubric(config, Project(path.parent, {}), "zeal")


def read_own_instructions(path: Path) -> object:
    (path.parent / "zeal.txt").write_text("# version: 1\nJudge zeal.")
    config = config_with(instructions=path.name, zeal="zeal.txt")
    return load_rubric(config, Project(path.parent, {}), "zeal")


READERS: dict[str, Callable[[Path], object]] = {
    "input": read_rubric,
    "instructions": read_own_instructions,
    "config.yaml": lambda path: read_yaml(path, what="the config"),
    "bank.jsonl": load_prompt_bank,
    "rows.jsonl": read_json_lines,
    "questions.parquet": lambda path: read_questions(path, "medqa"),
    "samples.jsonl": read_samples,
    "answers.csv": read_answers,
    "battles": lambda path: read_battles(path).table,
    "battles.csv": lambda path: read_battles(path, format_name="lmarena").table,
    "votes.json": lambda path: import_votes(path, tournament_id="tiny", ledger=NO_LEDGER),
    "run.json": read_document,
    "manifest.json": lambda path: read_manifest(path.parent),
}
NO_LEDGER: Any = None  # nothing gets as far


@pytest.mark.parametrize("kind", ["pipe", "/dev/null", "/dev/zero", "folder"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_at_once_wherever_one_is_expected(
    name: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)
    expected = "[Dd]irectory|no .jsonl file" if kind == "folder" else "pipe|NotARegularFile"
    with pytest.raises(InputError, match=expected):
        READERS[name](path)
