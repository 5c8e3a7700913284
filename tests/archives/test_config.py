from pathlib import Path
from typing import Any

import pytest

from tests.archives.builders import MODELS, description, documented, make_archive
from tournament_assets.tournament.errors import InputError


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
        "folder: runs\n"
        "models:\n"
        "  - model_id: ada\n"
        "    labell: Ada\n"
        "plan: {tasks: many, runs: 3}\n"
        "tiers: {pattern: '^t(\\d)'}\n"
        "scores:\n"
        "  components: [{name: c, key: c.score, weight: 0}]\n"
        "  deciding: d\n"
        "  judge: {weight: 0.1}\n"
        "conditions:\n"
        "  - {name: image, key: image, stated: x}\n",
    )
    lines = [int(problem.split(":")[0]) for problem in found]
    assert lines == [5, 6, 7, 9, 13]
    named = ("'models.0.labell'", "'many'", "tiers", "weight", "stated")
    assert [word for word, said in zip(named, found, strict=True) if word not in said] == []
    assert "'label'?" in found[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": [{"model_id": "a"}, {"model_id": "a"}]}, "two models have model_id 'a'"),
        (
            {"models": [{"model_id": "a", "folder": "x"}, {"model_id": "b", "folder": "x"}]},
            "two models have folder_name 'x'",
        ),
        ({"plan": {"tasks": 0, "runs": 3}}, "expected at least one"),
        ({"plan": {"tasks": ["a", "a"], "runs": 3}}, "given twice"),
        (
            {"logs": {"files": ["/var/log/x"], "patterns": [{"name": "n", "pattern": "x"}]}},
            "not a relative pattern",
        ),
        (
            {"logs": {"files": ["x"], "patterns": [{"name": "n", "pattern": "("}]}},
            "not a regular expression",
        ),
        (
            {"rejudging": {**description()["rejudging"], "judge_model": "claude-sonnet-4-6"}},
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


def test_deciding_must_be_a_component(tmp_path: Path) -> None:
    scores = {**description()["scores"], "deciding": "beauty"}
    archive = make_archive(tmp_path, fill=False, scores=scores)
    with pytest.raises(InputError, match=r"'beauty'.*completion"):
        archive.load()


def test_a_number_of_tasks_and_runs_names_the_runs(tmp_path: Path) -> None:
    archive, contents = make_archive(tmp_path, plan={"tasks": 5, "runs": 3}).read()
    plan = archive.config.plan
    assert plan.n_cells == 15
    assert plan.run_names == ("run1", "run2", "run3")
    assert len(contents.tasks) == 4
    assert len(contents.runs) == 4 * 3 * len(MODELS)


def test_more_tasks_than_were_planned_are_refused(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, plan={"tasks": 3, "runs": 3})
    with pytest.raises(InputError, match=r"plan\.tasks is 3.* 4 "):
        archive.read()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    archive.describe(folder="elsewhere")
    with pytest.raises(InputError, match="'elsewhere'"):
        archive.read()


def test_the_description_in_the_documentation_is_one(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, fill=False)
    archive.description_path.write_text(documented("archives.md")["archive.yaml"])
    config = archive.load().config
    assert config.plan.n_cells == 120
    assert config.tier_of("t3-sort") == "tier 3"
    assert config.rejudging is not None
    assert [weighting.name for weighting in config.scores.weightings] == ["no verifier"]


@pytest.mark.parametrize(
    ("weighting", "said"),
    [
        ({"when": {"key": "a"}, "weights": {"completion": 1}}, "expected key and equals together"),
        ({"when": {"equals": 1}, "weights": {"completion": 1}}, "neither key nor tasks is given"),
        ({"when": {"tasks": "("}, "weights": {"completion": 1}}, "not a regular expression"),
        (
            {"when": {"key": "a", "equals": {"b": 1}}, "weights": {"completion": 1}},
            "expected a value, or a list of values",
        ),
        ({"weights": {"beauty": 1}}, "weightings name 'beauty'; expected some of completion"),
        ({"name": "at the ceiling", "weights": {"judge": 1}}, "have the same name"),
        ({"when": {"task": "t1"}, "weights": {"judge": 1}}, "did you mean 'tasks'"),
    ],
)
def test_a_weighting_that_makes_no_sense_is_refused(
    tmp_path: Path, weighting: dict[str, Any], said: str
) -> None:
    scores = {**description()["scores"], "weightings": [{"name": "other", **weighting}]}
    archive = make_archive(tmp_path, fill=False, scores=scores)
    with pytest.raises(InputError, match=said):
        archive.load()


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
