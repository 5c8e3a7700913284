import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tournament_assets.project.project_files import (
    Project,
    load_prompt_bank,
    load_rubric,
    load_rubrics,
)
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.places import Location

ROW = {"prompt_id": "p1", "text": "Which?", "source": "recall", "gold_answer": "C"}


def jsonl(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def problems_of_bank(path: Path) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load_prompt_bank(path)
    return caught.value.problems


def test_a_path_starts_from_the_project_unless_it_is_absolute(tmp_path: Path) -> None:
    (tmp_path / "bank.jsonl").touch()
    project = Project(tmp_path, {})
    assert project.resolve(Location(path="bank.jsonl"), what="the bank") == tmp_path / "bank.jsonl"
    absolute = Location(path=str(tmp_path / "bank.jsonl"))
    assert Project(tmp_path / "x", {}).resolve(absolute, what="") == tmp_path / "bank.jsonl"


def test_an_environment_variable_names_a_file_of_the_project_or_an_absolute_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "weights").mkdir()
    for value in ("weights", str(tmp_path / "weights")):
        project = Project(tmp_path, {"WEIGHTS": value})
        assert project.resolve(Location(env="WEIGHTS"), what="x") == tmp_path / "weights"


def test_builtin_files_come_with_the_package(tmp_path: Path) -> None:
    path = Project(tmp_path, {}).resolve(Location(builtin="prompt_bank.jsonl"), what="the bank")
    assert path.name == "prompt_bank.jsonl"
    assert path.is_file()


@pytest.mark.parametrize("environment", [{}, {"OLMO": ""}])
def test_a_variable_that_is_not_set_is_named_with_the_source(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    location = Location(env="OLMO", source="allenai/OLMo-2 (hf download)")
    with pytest.raises(InputError) as caught:
        Project(tmp_path, environment).resolve(location, what="the weights of base")
    assert str(caught.value) == (
        "the weights of base: the environment variable OLMO is not set; expected its path; "
        "get allenai/OLMo-2 (hf download) and export OLMO=/its/path"
    )


@pytest.mark.parametrize(
    ("location", "named"),
    [
        (Location(path="nowhere", source="the web"), "'nowhere' points to "),
        (Location(env="OLMO", source="the web"), "OLMO='gone' points to "),
        (Location(builtin="no_such_model", source="the web"), "builtin 'no_such_model' points to "),
    ],
)
def test_a_folder_that_is_missing_is_named_as_the_config_names_it(
    tmp_path: Path, location: Location, named: str
) -> None:
    with pytest.raises(InputError) as caught:
        Project(tmp_path, {"OLMO": "gone"}).resolve(location, what="the weights")
    assert str(caught.value).startswith(f"the weights: {named}")
    assert str(caught.value).endswith(
        ", which does not exist; expected the weights there; get the web"
    )


def test_a_bank_is_read_in_its_order_and_empty_lines_are_passed_over(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "bank.jsonl", {**ROW, "prompt_id": "z"}, "", "  ", ROW)
    assert [prompt.prompt_id for prompt in load_prompt_bank(path)] == ["z", "p1"]


def test_problems_of_a_bank_name_the_lines_of_the_file(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "bank.jsonl",
        ROW,
        "",
        {key: value for key, value in ROW.items() if key != "prompt_id"},
        {**ROW, "text": None, "prompt_id": "p2"},
        ROW,
    )
    first, second, third = problems_of_bank(path)
    assert first.startswith("bank.jsonl:3: the row has no 'prompt_id'")
    assert second.startswith("bank.jsonl:4: the row has no 'text'")
    assert third.startswith("bank.jsonl:5: prompt_id 'p1' is already used at bank.jsonl:1")


def test_every_line_that_is_no_json_object_is_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "bank.jsonl", ROW, '{"prompt_id": ', ROW, "[1]", "7")
    first, second, third = problems_of_bank(path)
    assert first.startswith("bank.jsonl:2: the line is not JSON (")
    assert second == "bank.jsonl:4: the line holds list; expected a JSON object"
    assert third == "bank.jsonl:5: the line holds int; expected a JSON object"


def test_a_file_of_something_else_shows_its_first_problems_and_counts_the_others(
    tmp_path: Path,
) -> None:
    path = jsonl(tmp_path / "bank.jsonl", *["words"] * 55)
    problems = problems_of_bank(path)
    assert len(problems) == 51
    assert problems[-1] == "… and 5 more problems of the same file"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"bank\.jsonl: the file cannot be read"),
        (b"{}\n\xff\xfe\n", r"bank\.jsonl:2: the line is not JSON .'utf-8' codec"),
    ],
    ids=["missing", "not UTF-8"],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "bank.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        load_prompt_bank(path)


def config_with(*, instructions: str | None = None, **rubrics: str) -> TournamentConfig:
    entrants = [
        {"entrant_id": name, "loader": "recorded", "responses": {"path": name}} for name in "ab"
    ]
    return TournamentConfig.model_validate(
        {
            "tournament_id": "tiny",
            "prompt_bank": {"path": "bank.jsonl"},
            "pilot": {"judge_model": "j", "strata": {"recall": 1}},
            "headline": {"judge_model": "j"},
            "dimensions": {name: {"rubric": rubric} for name, rubric in rubrics.items()},
            "judge": {"service": "loopback", "instructions": instructions},
            "entrants": entrants,
        }
    )


def test_rubrics_are_read_from_the_project(tmp_path: Path) -> None:
    (tmp_path / "zeal.txt").write_text("# version: 2\nJudge zeal – strictly.\n", encoding="utf-8")
    config = config_with(zeal="zeal.txt")
    rubric = load_rubric(config, Project(tmp_path, {}), "zeal")
    assert (rubric.dimension, rubric.version) == ("zeal", "2")
    assert rubric.text.endswith("Judge zeal – strictly.")
    assert load_rubrics(config, Project(tmp_path, {})) == {"zeal": rubric}


def test_every_rubric_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# version: 1\nJudge.", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Judge.", encoding="utf-8")
    config = config_with(good=("a.txt"), unversioned="b.txt", missing="c.txt")
    with pytest.raises(InputError) as caught:
        load_rubrics(config, Project(tmp_path, {}))
    first, second = caught.value.problems
    assert first.startswith("b.txt:1: the rubric begins with 'Judge.'; expected a line such as")
    assert second.startswith(f"{tmp_path / 'c.txt'}: the rubric of missing cannot be read (FileNot")
    assert second.endswith("or correct dimensions.missing.rubric")


def test_own_instructions_are_read_with_every_rubric(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("# version: 1\nJudge.")
    (tmp_path / "own.txt").write_text("Judge as a reviewer would.\n")
    config = config_with(instructions="own.txt", a="a.txt", b="b.txt")
    rubrics = load_rubrics(config, Project(tmp_path, {}))
    assert {each.instructions for each in rubrics.values()} == {"Judge as a reviewer would."}
    assert load_rubric(config, Project(tmp_path, {}), "a") == rubrics["a"]


def test_instructions_that_cannot_be_used_are_named_once_beside_the_rubrics(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# version: 1\nJudge.")
    (tmp_path / "own.txt").write_text("Judge.\nVERDICT: A\n")
    config = config_with(instructions="own.txt", a="a.txt", b="b.txt")
    with pytest.raises(InputError) as caught:
        load_rubrics(config, Project(tmp_path, {}))
    first, second = caught.value.problems
    assert first.startswith("own.txt:2: the line 'VERDICT: A' ")
    assert "the rubric of b cannot be read" in second
