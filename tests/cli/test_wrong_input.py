"""Wrong input of every kind: each is answered once, with place, find, expectation and a way on."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import tournament_assets
from tournament_assets.cli import main
from tournament_assets.foundation.errors import InputError
from tournament_assets.project.new_projects import write_new_project

CASES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("wrong_input.yaml").read_text(encoding="utf-8")
)
COLUMNS = ("file and line", "found", "expected", "meant", "way on")
NONE = "-"


@pytest.mark.parametrize("name", CASES)
def test_wrong_input_is_answered_once_with_all_that_helps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, project = CASES[name], tmp_path / "mine"
    write_new_project(project)
    for path, edit in case.get("edits", {}).items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(edit, str):
            (project / path).write_bytes(edit.encode("latin-1"))
        else:
            text = (project / path).read_text()
            assert edit[0] in text
            (project / path).write_text(text.replace(*edit, 1))
    monkeypatch.chdir(project)
    monkeypatch.setenv("TOURNAMENT_PROJECT", "")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    if "python" in case:
        with pytest.raises(InputError) as refusal:
            eval(case["python"], {"ta": tournament_assets, "pd": pd})  # noqa: S307
        told = "".join(f"\n  - {each}" for each in refusal.value.problems)
    else:
        done = CliRunner().invoke(main, shlex.split(case.get("command", "run")))
        assert done.exit_code == 2
        told = done.stderr
    says = dict(zip(COLUMNS, case["says"], strict=True))
    answer = {column: words == NONE or words in told for column, words in says.items()}
    n_problems = told.count("\n  - ") + told.count("\nError: ")
    assert all(answer.values()), (answer, told)
    assert n_problems == 1, told
