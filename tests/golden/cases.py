"""The cases: each makes its project in a folder, runs it, and returns its numbers.

Tournaments judge what the demo's entrants answered once, on one machine, as recorded responses:
another processor may generate other tokens. `golden.py` in the tests of an extra has its own cases.
"""

import inspect
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from click.testing import CliRunner

from tests.chat_server import MODEL, chat_server
from tests.golden.frozen_tables import Names, Numbers, names_of, read, read_run
from tests.projects import SmallProject, modules_of_extras, write_json_lines
from tournament_assets.cli import main
from tournament_assets.tournament.config import Mode

Case = Callable[[Path], Numbers]
ROOT = Path(__file__).parents[2]
BANK = ROOT / "tournament_assets" / "data" / "prompt_bank.jsonl"
INPUTS = Path(__file__).parent / "inputs"
RESPONSES = INPUTS / "demo_responses.jsonl"
RECORDED = [
    {"entrant_id": each, "loader": "recorded", "model": each, "responses": {"path": RESPONSES.name}}
    for each in ("base_olmo", "security_only", "security_plus_robustness", "full_poe")
]


def demo(folder: Path) -> Numbers:
    """The pilot of `configs/demo.yaml`, but for generating its responses."""
    return run_case(project_of(folder), "pilot")


PANEL: list[dict[str, Any]] = [
    {"model": "loopback-lexical"},
    {"model": "loopback-hasty"},
    {"model": "loopback-coarse", "share": 0.5},
]


def jury(folder: Path) -> Numbers:
    """Three judges, one of whom errs more often, and one who judges half of the pairs."""
    return run_case(project_of(folder, "factuality", judges=PANEL))


def samples(folder: Path) -> Numbers:
    """Two samples of half of the prompts: two recorded entrants, two served, one of them greedy."""
    return run_samples(folder)


def jury_samples(folder: Path) -> Numbers:
    """Three judges of two samples of each prompt."""
    return of_pairs(run_samples(folder, judges=PANEL))


_OF_PAIRS = ("judge_verdicts", "judging_decisions", "jury", "win_rates", "elo_ratings", "ratings")


def of_pairs(numbers: Numbers, *others: str) -> Numbers:
    """Keep the tables that combinations of pairs show in; the other ones are like those alone."""
    return {name: numbers[name] for name in (*_OF_PAIRS, *others) if name in numbers}


def run_samples(folder: Path, **more: Any) -> Numbers:
    texts = {(row["entrant_id"], row["prompt_id"]): row["response"] for row in _rows(RESPONSES)}
    ids = {row["text"]: row["prompt_id"] for row in _rows(BANK)}

    def reply(body: Mapping[str, Any]) -> str:
        is_lucky = body["seed"] % 2 if body["temperature"] else 0
        entrant = "full_poe" if is_lucky else "security_only"
        return str(texts[entrant, ids[body["messages"][-1]["content"]]])

    with chat_server() as chat:
        chat.reply = reply
        served: Any = {"loader": "openai_api", "base_url": chat.url, "model": MODEL}
        served["max_new_tokens"] = 64
        sampling = {**served, "entrant_id": "sampling", "temperature": 0.9}
        entrants = [*RECORDED[::2], sampling, {**served, "entrant_id": "greedy"}]
        changes: dict[str, Any] = {"entrants": entrants, "generation": {"n_samples": 2}, **more}
        return run_case(project_of(folder, "clinical_utility", every=2, **changes))


_OWN = (
    demo,
    jury,
    samples,
    jury_samples,
)


def every_case() -> dict[str, Case]:
    """Return the cases by name, those of extras among them."""
    extras = (case for module in modules_of_extras("golden") for case in module.CASES)
    return {case.__name__: case for case in (*_OWN, *extras)}


def frozen(case: Case) -> Path:
    """Return the folder of a case's numbers, which lies beside its module."""
    return Path(inspect.getfile(case)).with_name("numbers") / case.__name__


@cache
def every_name() -> Names:
    """Return what is named in the frozen numbers of all cases."""
    return names_of(read(frozen(case)) for case in every_case().values())


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def project_of(
    folder: Path,
    dimension: str = "",
    *,
    every: int = 1,
    judges: Sequence[Mapping[str, Any]] = ({},),
    headline: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> SmallProject:
    """Make the demo's project; of one dimension, its headline has the prompts of the pilot."""
    shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
    shutil.copytree(ROOT / "rubrics", folder / "rubrics")
    shutil.copytree(ROOT / "configs", folder / "configs")
    config = yaml.safe_load((folder / "configs" / "demo.yaml").read_text())
    config |= {"entrants": RECORDED, **changes}
    (judge,) = config["judges"]
    judge["waiting"]["poll_initial_seconds"] = 0.02
    config["judges"] = [{**judge, **each} for each in judges]
    config["modes"]["headline"] |= headline
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


def run_case(project: SmallProject, mode: Mode = "headline") -> Numbers:
    return read_run(project.folder / "storage" / "demo", mode, project.run(mode).directory)


def command(*words: str | Path) -> str:
    result = CliRunner().invoke(main, [*map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout
