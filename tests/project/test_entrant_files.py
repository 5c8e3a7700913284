from pathlib import Path

import pytest

from tests.generation.hydra_projects import HEADS, describe_hydra, write_heads
from tournament_assets.project.project_files import (
    Project,
    entrant_file_problems,
    find_entrant_files,
)
from tournament_assets.tournament.entrants import VanillaHfEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.places import Location

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
    assert "BASE_WEIGHTS is not set" in weights
    assert "get the hub" in weights
    assert security.startswith("the security shards of poe: the environment variable")
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
    assert problem.startswith("the robustness shards of robust, poe: ")
    assert "lacks 1 of 3 files, shard_2.safetensors" in problem
