"""Cases of the numbers in `tests/golden`: what people say, beside a judge."""

import json
import shutil
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.extras.stopping.golden import STOPPING, TOGETHER
from tests.golden.cases import (
    command,
    of_pairs,
    project_of,
    run_case,
    run_samples,
)
from tests.golden.frozen_tables import Numbers, read_json
from tournament_assets.cli import main

_INPUTS = Path(__file__).parent / "inputs"
_ARENA = {"file": {"path": "arena.jsonl"}, "min_battles": 5, "names": {"olmo": "base_olmo"}}
_OWN = ("people_ratings", "people_measures")


def people(folder: Path) -> Numbers:
    """Labels of two people on most pairs, and an arena's battles with a model of its own."""
    return _run_with_people(folder)


def adaptive_people(folder: Path) -> Numbers:
    """Labels and battles of people beside pairs that stop."""
    return of_pairs(_run_with_people(folder, **STOPPING), *_OWN)


def everything(folder: Path) -> Numbers:
    """Three judges whose pairs stop, two samples, people, and the gate."""
    shutil.copytree(_INPUTS, folder)
    numbers = run_samples(folder, **TOGETHER, human_battles=_ARENA)
    (run,) = (folder / "runs").iterdir()
    who = ("--candidate", "security_plus_robustness", "--baseline", "base_olmo")
    gate = CliRunner().invoke(main, ["gate", str(run), *who, "--margin", "200", "--json"])
    found = {key: value for key, value in json.loads(gate.stdout).items() if key != "run"}
    return {**of_pairs(numbers, *_OWN), **read_json("gate", json.dumps(found))}


CASES = (people, adaptive_people, everything)


def _run_with_people(folder: Path, **more: Any) -> Numbers:
    shutil.copytree(_INPUTS, folder)
    project = project_of(folder, "factuality", human_battles=_ARENA, **more)
    scope = ("--mode", "headline", "--dimension", "factuality", "--format", "lmsys", "--random")
    command("label", "import", "--config", project.config_path, *scope, folder / "votes.csv")
    return run_case(project)
