import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.generation.builders import TINY, edit_json
from tests.generation.hydra_projects import HEADS, describe_hydra, write_heads
from tournament_assets.foundation.errors import InputError
from tournament_assets.generation.loading import build_entrant
from tournament_assets.project.project_files import (
    Project,
    entrant_file_problems,
    find_entrant_files,
    load_prompt_bank,
    load_rubric,
    load_rubrics,
    prepare_dagster_home,
)
from tournament_assets.tournament.config import TournamentConfig
from tournament_assets.tournament.entrants import VanillaHfEntrant
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
    (problem,) = caught.value.problems
    assert problem.startswith("the weights of base: ")
    assert problem.endswith("get allenai/OLMo-2 (hf download) and export OLMO=/its/path")


@pytest.mark.parametrize(
    ("location", "named"),
    [
        (Location(path="nowhere", source="the web"), "'nowhere'"),
        (Location(env="OLMO", source="the web"), "OLMO='gone'"),
        (Location(builtin="no_such_model", source="the web"), "builtin 'no_such_model'"),
    ],
)
def test_a_folder_that_is_missing_is_named_as_the_config_names_it(
    tmp_path: Path, location: Location, named: str
) -> None:
    with pytest.raises(InputError) as caught:
        Project(tmp_path, {"OLMO": "gone"}).resolve(location, what="the weights")
    assert str(caught.value).startswith(f"the weights: {named} ")
    assert str(caught.value).endswith("; get the web")


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
    assert [re.findall(r":\d+|'\w+'", problem) for problem in problems_of_bank(path)] == [
        [":3", "'prompt_id'"],
        [":4", "'text'"],
        [":5", "'p1'", ":1"],
    ]


def test_every_line_that_is_no_json_object_is_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "bank.jsonl", ROW, '{"prompt_id": ', ROW, "[1]", "7")
    assert [re.findall(r":\d+:|not JSON|list|int\b", each) for each in problems_of_bank(path)] == [
        [":2:", "not JSON"],
        [":4:", "list"],
        [":5:", "int"],
    ]


def test_a_file_of_something_else_shows_its_first_problems_and_counts_the_others(
    tmp_path: Path,
) -> None:
    path = jsonl(tmp_path / "bank.jsonl", *["words"] * 55)
    problems = problems_of_bank(path)
    assert len(problems) == 51
    assert re.findall(r"\d+", problems[-1]) == ["5"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"bank\.jsonl: .*No such file"),
        (b"{}\n\xff\xfe\n", r"bank\.jsonl:2: .*not UTF-8"),
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
            "modes": {"pilot": {}, "headline": {}},
            "dimensions": {name: {"rubric": rubric} for name, rubric in rubrics.items()},
            "judges": [{"service": "loopback", "model": "loopback-j"}],
            "judging": {"instructions": instructions},
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
    assert re.match(r"b\.txt:1: .*'Judge\.'", first)
    assert second.startswith("dimensions.missing.rubric: ")
    assert str(tmp_path / "c.txt") in second


def test_own_instructions_are_read_with_every_rubric(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("# version: 1\nJudge.")
    own = tmp_path / "own.txt"
    own.write_text("Judge as a reviewer would.\n")
    config = config_with(instructions="own.txt", a="a.txt", b="b.txt")
    rubrics = load_rubrics(config, Project(tmp_path, {}))
    assert {f"{each.instructions}\n" for each in rubrics.values()} == {own.read_text()}
    assert load_rubric(config, Project(tmp_path, {}), "a") == rubrics["a"]


def test_instructions_that_cannot_be_used_are_named_once_beside_the_rubrics(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("# version: 1\nJudge.")
    (tmp_path / "own.txt").write_text("Judge.\nVERDICT: A\n")
    config = config_with(instructions="own.txt", a="a.txt", b="b.txt")
    with pytest.raises(InputError) as caught:
        load_rubrics(config, Project(tmp_path, {}))
    first, second = caught.value.problems
    assert re.match(r"own\.txt:2: .*'VERDICT: A'", first)
    assert second.startswith("dimensions.b.rubric: ")


ABSENT = Location(env="BASE_WEIGHTS", source="the hub")
ELSEWHERE = HEADS.model_copy(
    update={
        "security": HEADS.security.model_copy(update={"folder": Location(env="SECURITY_SHARDS")}),
        "robustness": HEADS.security.model_copy(update={"folder": Location(path="nowhere")}),
    }
)


def project_in(folder: Path) -> Project:
    return Project(folder=folder, environment={})


def test_the_files_of_an_entrant_are_found(tmp_path: Path) -> None:
    written = write_heads(tmp_path)
    project = project_in(tmp_path)
    assert find_entrant_files(describe_hydra(needs_uncertainty=True), project).shards == (
        written.shards
    )
    alone = find_entrant_files(describe_hydra(rob_checkpoint=None), project)
    assert alone.shards == {"security": written.shards["security"]}
    base = VanillaHfEntrant(
        entrant_id="base", loader="vanilla_hf", weights=Location(builtin="tiny_olmo2")
    )
    assert find_entrant_files(base, project).shards == {}


def test_everything_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    entrant = describe_hydra(weights=ABSENT, hydra=ELSEWHERE)
    with pytest.raises(InputError) as raised:
        find_entrant_files(entrant, project_in(tmp_path))
    weights, security, robustness = raised.value.problems
    assert re.search(r"\bBASE_WEIGHTS .*; get the hub\b", weights)
    assert "SECURITY_SHARDS" in security
    assert "nowhere" in robustness


def test_what_entrants_share_is_told_once_with_all_their_names(tmp_path: Path) -> None:
    write_heads(tmp_path)
    (tmp_path / "robustness" / "shard_2.safetensors").unlink()
    entrants = [
        describe_hydra(entrant_id="alone", rob_checkpoint=None, bypass_jury=True),
        describe_hydra(entrant_id="robust", bypass_jury=True),
        describe_hydra(entrant_id="poe"),
    ]
    (problem,) = entrant_file_problems(entrants, project_in(tmp_path))
    assert re.search(r"^the robustness .* robust, poe: .* 1 of 3 .*shard_2\.safetensors", problem)


def test_heads_on_a_base_that_carries_none_are_refused_before_anything_is_loaded(
    tmp_path: Path,
) -> None:
    bases: dict[str, dict[str, Any]] = {
        "llama": {"model_type": "llama"},
        "flat": {"num_hidden_layers": 2},
    }
    entrants: list[Any] = []
    loaded: list[str] = []
    files = write_heads(tmp_path)
    for name, changes in bases.items():
        base = Path(shutil.copytree(TINY, tmp_path / name))
        edit_json(base / "config.json", **changes)
        (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:-8])
        weights = Location(path=name)
        entrants += [describe_hydra(entrant_id=f"{name}_{n}", weights=weights) for n in range(2)]
        with pytest.raises(InputError) as raised:
            build_entrant(entrants[-1], files=replace(files, weights=base), device="cpu")
        loaded += raised.value.problems
    problems = entrant_file_problems(entrants, project_in(tmp_path))
    of_bases = [problem for problem in problems if "config.json" in problem]
    assert len(problems) == 4
    for refused in (of_bases, loaded):
        assert re.search(r"\bllama_1.*'llama'.*'olmo2'", refused[0])
        assert re.search(r"\bflat_1.*heads_depth is 3; expected 1 to 2", refused[1])


def test_a_project_gets_a_home_of_its_own_with_settings(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path, None)
    assert home == (tmp_path / ".dagster_home").resolve()
    settings = yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8"))
    assert settings["telemetry"] == {"enabled": False}
    files = [path for path in home.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".yaml", ".db"}
    assert {path.stat().st_mode & 0o777 for path in files if path.suffix == ".db"} == {0o600}


def test_a_home_that_is_configured_is_used(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path / "project", str(tmp_path / "a" / "home"))
    assert home == (tmp_path / "a" / "home").resolve()
    assert (home / "dagster.yaml").is_file()
    assert not (tmp_path / "project").exists()


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path, None)
    (home / "dagster.yaml").write_text("mine: true\n", encoding="utf-8")
    prepare_dagster_home(tmp_path, None)
    assert (home / "dagster.yaml").read_text(encoding="utf-8") == "mine: true\n"


def test_what_nobody_looks_at_any_more_is_purged_and_runs_wait_in_line(tmp_path: Path) -> None:
    import dagster as dg
    from dagster._core.scheduler.instigation import InstigatorType, TickStatus

    home = prepare_dagster_home(tmp_path, None)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        sensors = instance.get_tick_retention_settings(InstigatorType.SENSOR)
        schedules = instance.get_tick_retention_settings(InstigatorType.SCHEDULE)
        queue = instance.get_concurrency_config().run_queue_config
        assert sensors[TickStatus.SKIPPED] == 1
        assert set(schedules.values()) == {90}
        assert all(days > 0 for days in sensors.values())
        assert queue is not None
        assert queue.max_concurrent_runs == 4
        assert instance.python_log_level == "INFO"


def test_dagster_s_default_home_is_its_owner_s_alone(tmp_path: Path) -> None:
    (tmp_path / ".dagster_home").mkdir(mode=0o755)  # as earlier versions made it
    home = prepare_dagster_home(tmp_path, None)
    new = prepare_dagster_home(tmp_path, str(tmp_path / "new"))
    assert {each.stat().st_mode & 0o777 for each in (home, new)} == {0o700}
