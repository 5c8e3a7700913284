"""Every loader holds to the contract of `loader_contract.py`."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.chat_server import ChatServer
from tests.projects import recorded_responses, write_json_lines
from tests.responses.loader_contract import (
    PROMISES,
    LoaderCase,
    check_edit_makes_out_of_date,
    check_killed_run_goes_on,
    check_preflight,
)
from tournament_assets.tournament.entrants import LOADERS

DATA = Path(str(resources.files("tournament_assets") / "data"))


def copy_model(folder: Path) -> None:
    for name in ("tiny_olmo2", "tiny_olmo2_heads"):
        shutil.copytree(DATA / name, folder / name)


def edit_template(folder: Path) -> None:
    path = folder / "tiny_olmo2" / "chat_template.jinja"
    path.write_text(path.read_text() + " ")


def write_answers(folder: Path) -> None:
    write_json_lines(folder / "tested.jsonl", recorded_responses("mixed"))


def edit_answers(folder: Path) -> None:
    rows = recorded_responses("mixed")
    write_json_lines(folder / "tested.jsonl", [{**rows[0], "response": "Edited."}, *rows[1:]])


def touch(name: str) -> Callable[[Path], None]:
    return lambda folder: os.utime(folder / name, (1, 1))


MODEL: dict[str, Any] = {
    "write": copy_model,
    "edit": edit_template,
    "touch": touch("tiny_olmo2/config.json"),
    "remove": lambda folder: shutil.rmtree(folder / "tiny_olmo2"),
    "changed_keys": {"max_new_tokens": 5},
}
WEIGHTS = {"weights": {"path": "tiny_olmo2"}, "max_new_tokens": 4}
CASES = {
    "recorded": LoaderCase(
        name="recorded",
        keys={"responses": {"path": "tested.jsonl"}},
        write=write_answers,
        edit=edit_answers,
        touch=touch("tested.jsonl"),
        remove=lambda folder: (folder / "tested.jsonl").unlink(),
    ),
    "vanilla_hf": LoaderCase(name="vanilla_hf", keys=WEIGHTS, **MODEL),
    "custom_poe": LoaderCase(
        name="custom_poe",
        keys={
            **WEIGHTS,
            "hydra": {
                "heads_depth": 3,
                "n_heads": 9,
                "security": {
                    "folder": {"path": "tiny_olmo2_heads/security"},
                    "files": "shard_{head}_lora.safetensors",
                    "rank": 8,
                },
            },
        },
        **MODEL,
    ),
    "openai_api": LoaderCase(
        name="openai_api",
        keys={"base_url": {"env": "SERVER"}, "model": "tiny"},
        changed_keys={"revision": "later"},
    ),
    "anthropic_api": LoaderCase(
        name="anthropic_api",
        keys={"model": "loopback-lexical"},
        changed_keys={"revision": "later"},
    ),
}


def loaders_of_the_core() -> list[str]:
    core = [row.entrant for row in LOADERS if ".tournament." in row.entrant.__module__]
    names = (get_args(entrant.model_fields["loader"].annotation) for entrant in core)
    return [name for of_entrant in names for name in of_entrant]


def test_every_case_is_of_a_loader() -> None:
    assert {*CASES} <= {*loaders_of_the_core()}


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("name", loaders_of_the_core())
def test_a_loader_keeps_its_promise(
    name: str, promise: Callable[[LoaderCase, Path], None], tmp_path: Path, chat: ChatServer
) -> None:
    if name not in CASES:
        pytest.skip(f"nobody holds the loader {name!r} to its promises; write its LoaderCase above")
    case = CASES[name]
    if promise is check_preflight and case.remove is None:
        pytest.skip("no file has to be there")
    environment = {"SERVER": chat.url} if name == "openai_api" else {}
    promise(replace(case, environment=environment), tmp_path / "project")


@pytest.mark.e2e
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.edit is not None])
def test_the_sensor_notices_an_edit_of_what_an_entrant_is_made_of(
    name: str, tmp_path: Path
) -> None:
    check_edit_makes_out_of_date(CASES[name], tmp_path / "project")


@pytest.mark.e2e
@pytest.mark.parametrize(
    "name", [name for name in CASES if name not in ("recorded", "anthropic_api")]
)
def test_a_killed_loader_goes_on_where_it_was(name: str, tmp_path: Path, chat: ChatServer) -> None:
    environment = {"SERVER": chat.url} if name == "openai_api" else {}
    check_killed_run_goes_on(replace(CASES[name], environment=environment), tmp_path / "project")
