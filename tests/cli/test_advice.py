"""What `tournament doctor` advises is done as it is written, and helps.

The advice to serve the pages and the daemon is followed in `tests/daemon/test_served.py`.
"""

import ast
import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.graph.paid_projects import UNTIL_ENDED, paid_project
from tests.projects import make_project
from tournament_assets import launching
from tournament_assets.cli import main
from tournament_assets.graph.automation import scheduled_reruns
from tournament_assets.preparing import preflight

SERVED = ("tournament ui", "tournament ui --daemon")


class Person:
    """Somebody at a command line, in a folder and with some variables.

    Attributes:
        followed: What the person has typed.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
        self.followed: list[str] = []
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        for name, value in {"TOURNAMENT_PROJECT": "", **variables}.items():
            monkeypatch.setenv(name, value)

    def finding(self, subject: str) -> Mapping[str, Any]:
        done = CliRunner().invoke(main, ["doctor", "--json"])
        found: dict[str, dict[str, Any]] = {
            each["subject"]: each for each in json.loads(done.stdout)
        }
        return found.get(subject, {"health": "ok", "advice": ""})

    def follow(self, command: str) -> None:
        self.followed.append(command)
        program, *arguments = shlex.split(command)
        if program == "unset":
            self._monkeypatch.delenv(arguments[0])
        elif program == "export":
            self._monkeypatch.setenv(*arguments[0].split("=", 1))
        else:
            assert program == "tournament"
            done = CliRunner().invoke(main, arguments)
            assert done.exit_code == 0, done.output


def commands_in(advice: str) -> list[str]:
    return [each for each in re.findall(r"`([^`]+)`", advice) if each not in SERVED]


def no_configs(folder: Path) -> dict[str, str]:
    return {"DAGSTER_HOME": str(folder / "home")}


def wrong_ledger(folder: Path) -> dict[str, str]:
    return {**make_project(folder / "p").environment, "TOURNAMENT_LEDGER_URL": "nonsense"}


def wrong_storage(folder: Path) -> dict[str, str]:
    return {**make_project(folder / "p").environment, "TOURNAMENT_STORAGE": "/proc/nowhere"}


def no_gpu(folder: Path) -> dict[str, str]:
    project = make_project(folder / "p")
    weights = {"loader": "vanilla_hf", "weights": {"builtin": "tiny_olmo2"}, "max_new_tokens": 8}
    project.edit_config(entrants=[{"entrant_id": each, **weights} for each in ("greedy", "tiny")])
    return {**project.environment, "TOURNAMENT_DEVICE": "cuda"}


SITUATIONS: Mapping[str, tuple[str, Callable[[Path], dict[str, str]], str]] = {
    "no config": ("configs", no_configs, "ok"),
    "a ledger that is none": ("ledger", wrong_ledger, "ok"),
    "a storage that is none": ("storage", wrong_storage, "ok"),
    "no GPU": ("device", no_gpu, "look"),
}
"""What is wrong: the finding's subject, what brings it about, and its health afterwards."""


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_advised_helps(
    situation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    subject, bring_about, health = SITUATIONS[situation]
    variables = bring_about(tmp_path)
    here = tmp_path / "p" if (tmp_path / "p").exists() else tmp_path
    person = Person(here, monkeypatch, **variables)
    finding = person.finding(subject)
    assert finding["health"] == "broken"
    (command,) = commands_in(finding["advice"])
    person.follow(command)
    assert person.finding(subject)["health"] == health


def test_batches_are_collected_as_advised(tmp_path: Path) -> None:
    with (
        paid_project(tmp_path, processing_seconds=UNTIL_ENDED) as paid,
        # Undone before the project's own variables are, or it would bring them back.
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
        paid.project.edit_judges(waiting={"slot_seconds": 0.1})
        paid.tables("judging_estimate")
        paid.events("__ASSET_JOB_small_judging")
        person = Person(paid.project.folder, monkeypatch, **paid.environment)
        finding = person.finding("ledger")
        assert finding["health"] == "look"
        paid.end_batches()
        (command,) = commands_in(finding["advice"])
        person.follow(command)
        assert person.finding("ledger")["health"] == "ok"


def test_every_command_that_is_advised_is_followed_in_a_test() -> None:
    named: set[str] = set()
    for module in (preflight, scheduled_reruns, launching):
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Finding"):
                named |= set(re.findall(r"`([^`{]+)`", ast.unparse(node)))
                assert not re.search(r"(?<!`)\btournament [a-z]", ast.unparse(node))
    kinds = {each if each.startswith("tournament") else each.split()[0] for each in named}
    assert kinds == {"tournament init", "export", "unset", *SERVED}
