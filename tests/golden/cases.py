"""The cases: each makes its project in an empty folder, runs it, and returns its numbers.

Tournaments judge what the demo's entrants answered once, on one machine, as recorded responses:
another processor may generate other tokens. `inputs/` has these, and people's votes and battles.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

from tests.chat_server import MODEL, chat_server
from tests.extras.archives.builders import (
    RUNS,
    failed_document,
    failed_line,
    make_archive,
    run_document,
    zero_document,
)
from tests.golden.frozen_tables import Numbers, read_json, read_run
from tests.projects import SmallProject, write_json_lines
from tournament_assets.cli import main
from tournament_assets.tournament.config import Mode

ROOT = Path(__file__).parents[2]
BANK = ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl"
FROZEN = Path(__file__).parent / "numbers"
INPUTS = Path(__file__).parent / "inputs"
RESPONSES = INPUTS / "demo_responses.jsonl"
RECORDED = [
    {"entrant_id": each, "loader": "recorded", "model": each, "responses": {"path": RESPONSES.name}}
    for each in ("base_olmo", "security_only", "security_plus_robustness", "full_poe")
]


def demo(folder: Path) -> Numbers:
    """The pilot of `configs/demo.yaml`, but for generating its responses."""
    return _run(_project(folder), "pilot")


PANEL: list[dict[str, Any]] = [
    {"model": "loopback-lexical"},
    {"model": "loopback-hasty"},
    {"model": "loopback-coarse", "share": 0.5},
]
STOPPING = {"goal": "bank", "rounds": 4, "tail": 0.2, "min_prompts": 10}


def jury(folder: Path) -> Numbers:
    """Three judges, one of whom errs more often, and one who judges half of the pairs."""
    return _run(_project(folder, "factuality", judges=PANEL))


def adaptive(folder: Path) -> Numbers:
    """Pairs that stop once it is known who is ahead."""
    return _run(_project(folder, "calibration", adaptive=STOPPING))


def samples(folder: Path) -> Numbers:
    """Two samples of half of the prompts: two recorded entrants, two served, one of them greedy."""
    return _run_samples(folder)


def jury_adaptive(folder: Path) -> Numbers:
    """Three judges whose pairs stop."""
    return _of_pairs(_run(_project(folder, "factuality", **_TOGETHER)))


def jury_samples(folder: Path) -> Numbers:
    """Three judges of two samples of each prompt."""
    return _of_pairs(_run_samples(folder, judges=PANEL))


def adaptive_samples(folder: Path) -> Numbers:
    """Pairs of two samples of each prompt that stop."""
    return _of_pairs(_run_samples(folder, adaptive=STOPPING))


def adaptive_people(folder: Path) -> Numbers:
    """Labels and battles of people beside pairs that stop."""
    return _of_pairs(_run_with_people(folder, adaptive=STOPPING))


def everything(folder: Path) -> Numbers:
    """Three judges whose pairs stop, two samples, people, and the gate."""
    battles = {"file": {"path": "arena.jsonl"}, "min_battles": 5, "names": {"olmo": "base_olmo"}}
    numbers = _run_samples(folder, **_TOGETHER, human_battles=battles)
    (run,) = (folder / "runs").iterdir()
    who = ("--candidate", "security_plus_robustness", "--baseline", "base_olmo")
    gate = CliRunner().invoke(main, ["gate", str(run), *who, "--margin", "200", "--json"])
    found = {key: value for key, value in json.loads(gate.stdout).items() if key != "run"}
    return {**_of_pairs(numbers), **read_json("gate", json.dumps(found))}


_TOGETHER: dict[str, Any] = {"judges": PANEL, "adaptive": STOPPING}
_OF_PAIRS = (
    *("judge_verdicts", "judging_decisions", "jury", "win_rates", "elo_ratings", "ratings"),
    "people_ratings",
    "people_measures",
)


def _of_pairs(numbers: Numbers) -> Numbers:
    """Keep the tables that combinations of pairs show in; the other ones are like those alone."""
    return {name: numbers[name] for name in _OF_PAIRS if name in numbers}


def _run_samples(folder: Path, **more: Any) -> Numbers:
    texts = {(row["entrant_id"], row["prompt_id"]): row["response"] for row in _rows(RESPONSES)}
    ids = {row["text"]: row["prompt_id"] for row in _rows(BANK)}

    def reply(body: Mapping[str, Any]) -> str:
        is_lucky = body["seed"] % 2 if body["temperature"] else 0
        entrant = "full_poe" if is_lucky else "security_only"
        return str(texts[entrant, ids[body["messages"][-1]["content"]]])

    with chat_server() as chat:
        chat.reply = reply
        served: Any = {"loader": "openai_api", "base_url": {"url": chat.url}, "model": MODEL}
        served["max_new_tokens"] = 64
        sampling = {**served, "entrant_id": "sampling", "temperature": 0.9}
        entrants = [*RECORDED[::2], sampling, {**served, "entrant_id": "greedy"}]
        changes: dict[str, Any] = {"entrants": entrants, "generation": {"n_samples": 2}, **more}
        return _run(_project(folder, "clinical_utility", every=2, **changes))


def people(folder: Path) -> Numbers:
    """Labels of two people on most pairs, and an arena's battles with a model of its own."""
    return _run_with_people(folder)


def _run_with_people(folder: Path, **more: Any) -> Numbers:
    battles = {"file": {"path": "arena.jsonl"}, "min_battles": 5, "names": {"olmo": "base_olmo"}}
    project = _project(folder, "factuality", human_battles=battles, **more)
    scope = ("--mode", "headline", "--dimension", "factuality", "--format", "lmsys", "--random")
    _tournament("label", "import", "--config", project.config_path, *scope, folder / "votes.csv")
    return _run(project)


def archive(folder: Path) -> Numbers:
    """The audit of an archive with every trouble, and its report after judging again."""
    tasks = [f"t{tier}-{number:02}" for tier in (1, 2) for number in range(8)]
    made = make_archive(folder, fill=False, plan={"tasks": tasks, "runs": list(RUNS)})
    rng = Random(28)
    for (place, model), task, run in product(enumerate(("ada", "bob", "cyd")), tasks, RUNS):
        luck, skill, judge = (round(rng.random(), 3) for _ in range(3))
        document = run_document(
            completion=1.0 if task == "t1-00" else min(1.0, luck + 0.4),
            trajectory=skill * (1 - 0.4 * place),
            judge=judge if judge > 0.1 else None,
        )
        made.put(model, task, run, document)
    made.put("bob", "t1-03", "run1", failed_document())
    made.put("cyd", "t1-01", "run1", '{"run_score": 0.4, "tra')
    made.put("cyd", "t2-05", "run1", zero_document())
    made.run_path("cyd", "t2-06", "run2").unlink()
    made.log("cyd", failed_line("t2-06", "run2"))
    audit = read_json("audit", _tournament("archive", "audit", made.description_path, "--json"))
    _tournament("archive", "rejudge", made.description_path)
    report = _tournament("archive", "report", made.description_path, "--json")
    return audit | read_json("report", report)


ALONE = (demo, jury, adaptive, samples, people, archive)
TOGETHER = (jury_adaptive, jury_samples, adaptive_samples, adaptive_people, everything)
CASES = {case.__name__: case for case in (*ALONE, *TOGETHER)}


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _project(
    folder: Path,
    dimension: str = "",
    *,
    every: int = 1,
    judges: Sequence[Mapping[str, Any]] = ({},),
    adaptive: Any = None,
    **changes: Any,
) -> SmallProject:
    """Make the demo's project; of one dimension, its headline has the prompts of the pilot."""
    shutil.copytree(INPUTS, folder)
    shutil.copytree(ROOT / "rubrics", folder / "rubrics")
    shutil.copytree(ROOT / "configs", folder / "configs")
    config = yaml.safe_load((folder / "configs" / "demo.yaml").read_text())
    config |= {"entrants": RECORDED, **changes}
    (judge,) = config["judges"]
    judge["waiting"]["poll_initial_seconds"] = 0.02
    config["judges"] = [{**judge, **each} for each in judges]
    config["modes"]["headline"] |= {"adaptive": adaptive} if adaptive else {}
    if dimension:
        answered = {row["prompt_id"] for row in _rows(RESPONSES)}
        bank = [row for row in _rows(BANK) if row["prompt_id"] in answered]
        write_json_lines(folder / "bank.jsonl", bank[::every])
        config["prompt_bank"] = {"path": "bank.jsonl"}
        config["dimensions"] = {dimension: config["dimensions"][dimension]}
        config["modes"]["headline"]["prewarm"] = False
        config["ratings"] |= {"n_permutations": 40, "n_bootstraps": 200}
    project = SmallProject(folder)
    project.config_path.write_text(yaml.safe_dump(config, sort_keys=False))
    return project


def _run(project: SmallProject, mode: Mode = "headline") -> Numbers:
    return read_run(project.folder / "storage" / "demo", mode, project.run(mode).directory)


def _tournament(*words: str | Path) -> str:
    result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout
