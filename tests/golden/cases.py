"""The cases: each makes its project in an empty folder, runs it, and returns its numbers.

All tournaments judge the responses that the demo's entrants gave once, as recorded ones: another
processor may generate other tokens.
"""

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

from tests.archives.builders import (
    RUNS,
    failed_document,
    make_archive,
    run_document,
    zero_document,
)
from tests.chat_server import MODEL, chat_server
from tests.golden.numbers import Numbers, read_json, read_run
from tests.projects import SmallProject, write_json_lines
from tournament_assets.cli import main
from tournament_assets.tournament.config import Mode

ROOT = Path(__file__).parents[2]
RESPONSES = Path(__file__).parent / "inputs" / "demo_responses.jsonl"
ENTRANTS = ("base_olmo", "security_only", "security_plus_robustness", "full_poe")


def demo(folder: Path) -> Numbers:
    """The pilot of `configs/demo.yaml`, but for generating its responses."""
    return _run(_project(folder), "pilot")


def jury(folder: Path) -> Numbers:
    """Three judges, one of whom errs more often, and one who judges half of the pairs."""
    models = ("loopback-lexical", "loopback-hasty", "loopback-coarse")
    panel: list[dict[str, Any]] = [{"model": name} for name in models]
    panel[2]["share"] = 0.5
    return _run(_small(folder, "factuality", judge={"panel": panel}), "headline")


def adaptive(folder: Path) -> Numbers:
    """Pairs that stop once it is known who is ahead."""
    stopping = {"goal": "bank", "rounds": 4, "tail": 0.2, "min_prompts": 10}
    return _run(_small(folder, "calibration", judge={"adaptive": stopping}), "headline")


def samples(folder: Path) -> Numbers:
    """Two samples of every response: one entrant's differ, two answer alike, one is a file."""
    texts = {(row["entrant_id"], row["prompt_id"]): row["response"] for row in _responses()}
    ids = {row["text"]: row["prompt_id"] for row in _bank()}

    def reply(body: Mapping[str, Any]) -> str:
        is_lucky = body["seed"] % 2 if body["temperature"] else 0
        name = ids[body["messages"][-1]["content"]]
        return str(texts[ENTRANTS[3 if is_lucky else 1], name])

    with chat_server() as chat:
        chat.reply = reply
        served = {"loader": "openai_api", "base_url": {"url": chat.url}, "model": MODEL}
        sampling = {**served, "entrant_id": "sampling", "temperature": 0.9, "max_new_tokens": 64}
        greedy = {**served, "entrant_id": "greedy", "max_new_tokens": 64}
        project = _small(
            folder,
            "clinical_utility",
            entrants=[*_recorded()[::2], sampling, greedy],
            generation={"n_samples": 2},
        )
        return _run(project, "headline")


def people(folder: Path) -> Numbers:
    """Labels of two people on most pairs, and an arena's battles with a model of its own."""
    battles = {"file": {"path": "arena.jsonl"}, "min_battles": 5, "names": {"olmo": "base_olmo"}}
    project = _small(folder, "factuality", human_battles=battles)
    lengths = {(row["entrant_id"], row["prompt_id"]): len(row["response"]) for row in _responses()}
    prompts = [row["prompt_id"] for row in _bank() if row["source"] != "curated"]
    votes, arena = [], []
    for number, prompt in enumerate(prompts):
        for place, (a, b) in enumerate(combinations(ENTRANTS, 2)):
            # The longer response wins, but for a tie in five and a surprise in seven.
            longer = lengths[a, prompt] > lengths[b, prompt]
            said = "model_a" if longer != ((number + place) % 7 == 0) else "model_b"
            if (number + 2 * place) % 5 == 0:
                said = "tie (bothbad)" if number % 2 else "tie"
            row = {"question_id": prompt, "model_a": a, "model_b": b, "winner": said}
            if number % 4:
                votes.append({**row, "judge": "ann"})
            if (number + place) % 3 == 0 and number % 4:
                votes.append({**row, "winner": "model_b" if place % 2 else said, "judge": "ben"})
            if (a, b) == (ENTRANTS[0], ENTRANTS[3]):
                arena.append({**row, "model_a": "olmo", "source": "human"})
        winner = "model_a" if number % 3 == 0 else "model_b"
        arena.append(
            {"model_a": "rival", "model_b": "full_poe", "winner": winner, "source": "human"}
        )
    write_json_lines(folder / "arena.jsonl", arena)
    with (folder / "votes.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*votes[0]])
        writer.writeheader()
        writer.writerows(votes)
    scope = ("--mode", "headline", "--dimension", "factuality", "--format", "lmsys", "--random")
    _tournament("label", "import", "--config", project.config_path, *scope, folder / "votes.csv")
    return _run(project, "headline")


def archive(folder: Path) -> Numbers:
    """The audit of an archive with every trouble, and its report after judging again."""
    tasks = [f"t{tier}-{number:02}" for tier in (1, 2) for number in range(8)]
    made = make_archive(folder, fill=False, plan={"tasks": tasks, "runs": len(RUNS)})
    rng = Random(28)
    for place, model in enumerate(("ada", "bob", "cyd")):
        for task in tasks:
            level = rng.random()
            for run in RUNS:
                noise = [round(rng.uniform(-0.2, 0.2), 3) for _ in range(2)]
                made.put(
                    *(model, task, run),
                    run_document(
                        completion=1.0 if rng.random() < 0.6 else round(level, 3),
                        trajectory=round(0.5 + 0.2 * level - 0.12 * place + noise[0], 3),
                        behaviour=round(0.6 + noise[1], 3),
                        judge=None if rng.random() < 0.1 else round(rng.random(), 3),
                    ),
                )
    made.put("bob", "t1-03", "run1", failed_document())
    made.put("cyd", "t1-01", "run1", '{"run_score": 0.4, "tra')
    made.put("cyd", "t2-05", "run1", zero_document())
    made.run_path("cyd", "t2-06", "run2").unlink()
    made.log("cyd", "TIMEOUT task=t2-06 run=2")
    path = made.description_path
    audit = json.loads(_tournament("archive", "audit", path, "--json", codes=(0, 1)))
    _tournament("archive", "rejudge", path)
    report = json.loads(_tournament("archive", "report", path, "--json"))
    return {**read_json("audit", audit), **read_json("report", report)}


CASES: Mapping[str, Callable[[Path], Numbers]] = {
    case.__name__: case for case in (demo, jury, adaptive, samples, people, archive)
}
"""What makes the numbers of a case in an empty folder, by the case's name."""


def _responses() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESPONSES.read_text().splitlines()]


def _bank() -> list[dict[str, Any]]:
    """Return the prompts that were answered."""
    lines = (ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl").read_text().splitlines()
    answered = {row["prompt_id"] for row in _responses()}
    return [row for row in map(json.loads, lines) if row["prompt_id"] in answered]


def _recorded() -> list[dict[str, Any]]:
    place = {"loader": "recorded", "responses": {"path": RESPONSES.name}}
    return [{**place, "entrant_id": name, "model": name} for name in ENTRANTS]


def _project(folder: Path, **changes: Any) -> SmallProject:
    """Make the demo's project in a folder, with recorded entrants."""
    (folder / "configs").mkdir(parents=True)
    shutil.copytree(ROOT / "rubrics", folder / "rubrics")
    shutil.copy(RESPONSES, folder)
    project = SmallProject(folder)
    config = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text())
    judge = {**config["judge"], "poll_initial_seconds": 0.02, **changes.pop("judge", {})}
    config |= {"entrants": _recorded(), **changes, "judge": judge}
    project.config_path.write_text(yaml.safe_dump(config, sort_keys=False))
    return project


def _small(folder: Path, dimension: str, **changes: Any) -> SmallProject:
    """Make a project of one dimension and few resamples, whose headline is the demo's pilot."""
    project = _project(folder, **changes)
    # Two samples of half of the prompts are as many responses.
    n_samples = changes.get("generation", {}).get("n_samples", 1)
    write_json_lines(folder / "bank.jsonl", _bank()[::n_samples])
    config = yaml.safe_load(project.config_path.read_text())
    project.edit_config(
        prompt_bank={"path": "bank.jsonl"},
        dimensions={dimension: config["dimensions"][dimension]},
        headline={**config["headline"], "prewarm": False},
        ratings={**config["ratings"], "n_permutations": 40, "n_bootstraps": 200},
    )
    return project


def _run(project: SmallProject, mode: Mode) -> Numbers:
    directory = project.run(mode).directory
    return read_run(project.folder / "storage" / "demo", mode, directory)


def _tournament(*words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
    result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    if result.exit_code not in codes:
        raise RuntimeError(result.output)
    return result.stdout
