from pathlib import Path
from typing import Any

import pytest

from tests.extras.archives.builders import (
    MODELS,
    SmallArchive,
    description,
    documented,
    make_archive,
)
from tournament_assets.foundation.errors import InputError


def problems(folder: Path, text: str) -> list[str]:
    archive = make_archive(folder, fill=False)
    archive.description_path.write_text(text)
    with pytest.raises(InputError) as caught:
        archive.load()
    return [each.removeprefix(f"{archive.description_path}:") for each in caught.value.problems]


def test_every_problem_is_said_at_once_each_with_its_line(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "archive_id: spring\n"
        "reader: clawbnch\n"
        "folder: runs\n"
        "models:\n"
        "  - model_id: ada\n"
        "    labell: Ada\n"
        "plan: {tasks: many, runs: 3}\n"
        "logs: [/var/log/x]\n"
        "checks: {max_missing_rate: 2}\n",
    )
    lines = [int(problem.split(":")[0]) for problem in found]
    assert lines == [2, 6, 7, 8, 9]
    named = ("clawbench", "'models.0.labell'", "'many'", "/var/log/x", "max_missing_rate")
    assert [word for word, said in zip(named, found, strict=True) if word not in said] == []
    assert "'label'?" in found[1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": [{"model_id": "a"}, {"model_id": "a"}]}, "two models have model_id 'a'"),
        (
            {"models": [{"model_id": "a", "folder": "x"}, {"model_id": "b", "folder": "x"}]},
            "two models have folder 'x'",
        ),
        ({"plan": {"tasks": 0, "runs": 3}}, "expected a number from 1 on"),
        ({"plan": {"tasks": ["a", "a"], "runs": 3}}, "a list of unique names"),
        (
            {
                "rejudging": {
                    **description()["rejudging"],
                    "judge": {"service": "loopback", "model": "claude-sonnet-4-6"},
                }
            },
            "expected a name that begins with 'loopback'",
        ),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    archive = make_archive(tmp_path, fill=False, **changes)
    with pytest.raises(InputError, match=said):
        archive.load()


def test_a_number_of_runs_is_named_as_the_harness_names_them(tmp_path: Path) -> None:
    _, contents = make_archive(tmp_path, plan={"tasks": 5, "runs": 3}).read()
    assert contents.config.n_planned == 15
    assert contents.config.run_names == ("run0", "run1", "run2")
    assert len(contents.tasks) == 4
    assert len(contents.runs) == 4 * 2 * len(MODELS)


def test_more_tasks_than_were_planned_are_refused(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, plan={"tasks": 3, "runs": 3})
    with pytest.raises(InputError, match=r"plan\.tasks is 3.* 4 "):
        archive.read()


def test_a_folder_that_is_not_there_is_said(archive: SmallArchive) -> None:
    archive.describe(folder="elsewhere")
    with pytest.raises(InputError, match="'elsewhere'"):
        archive.read()


def test_the_description_in_the_documentation_is_one(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, fill=False)
    archive.description_path.write_text(documented("archives.md")["archive.yaml"])
    config = archive.load().config
    assert config.n_planned == 120
    assert config.rejudging is not None


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({}, "neither key nor file is given"),
        ({"file": "/etc/passwd"}, "not relative to the project folder"),
        ({"file": "../secret"}, "not relative to the project folder"),
        ({"key": "a", "max_chars": 3}, "max_chars"),
        ({"path": "a"}, "unknown key 'rejudging.parts.rubric.path'; expected one of file, key"),
    ],
)
def test_a_part_that_stands_nowhere_is_refused(
    tmp_path: Path, part: dict[str, Any], said: str
) -> None:
    rejudging = {**description()["rejudging"], "parts": {"rubric": part}}
    archive = make_archive(tmp_path, fill=False, rejudging=rejudging)
    with pytest.raises(InputError, match=said):
        archive.load()
