"""Builds small tournament projects on disk: a bank, rubrics, recorded entrants and a config."""

import json
import pickle
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from tournament_assets.foundation.extensions import installed_extras
from tournament_assets.graph.automation.stage_runs import StageListener
from tournament_assets.graph.plain_runs import PlainRun, run_plainly, run_unrecorded
from tournament_assets.graph.run_options import RunOptions
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.launching import run_tournament
from tournament_assets.project.plan import load_plan
from tournament_assets.reports.csv_tables import read_csv_table
from tournament_assets.storage.tables import to_arrow
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.config import Mode

N_WITH_GOLD = 8
N_CURATED = 4
GOLD_SOURCE = "recall"
LOOKING_BACK = frozenset({"judging_estimate", "run_comparison"})
"""Assets that depend on what was done before a run."""
ENTRANTS = ("careful", "sloppy", "mixed")


@dataclass(frozen=True)
class SmallProject:
    """A project folder and the way to run its tournament."""

    folder: Path

    @property
    def config_path(self) -> Path:
        return self.folder / "configs" / "small.yaml"

    @property
    def environment(self) -> dict[str, str]:
        return {"DAGSTER_HOME": str(self.folder / ".dagster_home")}

    def run(
        self,
        mode: Mode = "pilot",
        *,
        environment: Any = None,
        **options: Any,
    ) -> RunSummary:
        """Run without Dagster; tables are stored where Dagster would store them."""
        return run_unrecorded(
            load_plan(self.config_path, {**self.environment, **(environment or {})}),
            RunOptions(mode=mode, **options),
            folder=self.folder / "storage",
        )

    def tables(
        self,
        until: str | None = None,
        *,
        mode: Mode = "pilot",
        environment: Any = None,
        **options: Any,
    ) -> PlainRun:
        """Make tables to an asset without Dagster, with their metadata and checks; stored alike."""
        return run_plainly(
            load_plan(self.config_path, {**self.environment, **(environment or {})}),
            RunOptions(mode=mode, **options),
            until=until,
            folder=self.folder / "storage",
        )

    def run_recorded(
        self,
        mode: Mode = "pilot",
        *,
        environment: Any = None,
        everything: bool = True,
        on_start: StageListener = lambda stage, label: None,
        **options: Any,
    ) -> RunSummary:
        """Run through Dagster, as the command does."""
        return run_tournament(
            load_plan(self.config_path, {**self.environment, **(environment or {})}),
            RunOptions(mode=mode, everything=everything, **options),
            on_start=on_start,
            on_done=lambda stage, label: None,
        )

    def stored_files(self) -> dict[str, bytes]:
        """Read what a run stores, but for what depends on what was done before it.

        The estimate says what is left to ask, and the comparison looks back at the run before.
        """
        storage = self.folder / "storage"
        return {
            str(path.relative_to(storage)): path.read_bytes()
            for path in sorted(storage.rglob("*"))
            if path.is_file() and LOOKING_BACK.isdisjoint(path.parts)
        }

    def edit_config(self, **changes: Any) -> None:
        config = yaml.safe_load(self.config_path.read_text())
        self.config_path.write_text(yaml.safe_dump({**config, **changes}, sort_keys=False))

    def merge_config(self, **changes: Any) -> None:
        """Change keys inside sections; all other keys of a section stay."""
        config = yaml.safe_load(self.config_path.read_text())
        self.edit_config(**merge(config, changes))

    def seat(self, *judges: Mapping[str, Any]) -> None:
        """Let some judges judge in every mode, each as the first does but for what is said."""
        config = yaml.safe_load(self.config_path.read_text())
        first = {key: value for key, value in config["judges"][0].items() if key != "name"}
        modes = {
            name: {key: value for key, value in mode.items() if key != "judges"}
            for name, mode in config["modes"].items()
        }
        self.edit_config(judges=[merge(first, judge) for judge in judges], modes=modes)

    def draw(self, **strata: int) -> None:
        """Let the pilot draw so many prompts of each source, and of no other."""
        modes = yaml.safe_load(self.config_path.read_text())["modes"]
        self.edit_config(modes={**modes, "pilot": {**modes["pilot"], "strata": strata}})

    def edit_judges(self, **changes: Any) -> None:
        """Change every judge; keys inside `waiting` are changed by themselves."""
        judges = yaml.safe_load(self.config_path.read_text())["judges"]
        self.edit_config(judges=[merge(judge, changes) for judge in judges])


def merge(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with changes at any depth; lists are replaced."""
    merged = dict(values)
    for key, value in changes.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge(old, value) if both else value  # type: ignore[arg-type]
    return merged


def modules_of_extras(name: str) -> list[Any]:
    """Import the modules of a name from the tests of the extras that are there and have one."""
    tests = Path(__file__).with_name("extras")
    names = (extra for extra in installed_extras() if (tests / extra / f"{name}.py").exists())
    return [import_module(f"tests.extras.{extra}.{name}") for extra in names]


@dataclass(frozen=True)
class FinishedPilot:
    """A small project after its pilot, for all tests that begin there: they change a copy of it."""

    project: SmallProject
    summary: RunSummary

    def copy(self, folder: Path) -> SmallProject:
        shutil.copytree(self.project.folder, folder)
        return SmallProject(folder)


def finish_pilot(folder: Path) -> FinishedPilot:
    """Run a pilot through Dagster in a folder, unless it was run to its end there before."""
    project, finished = SmallProject(folder / "project"), folder / "summary.pickle"
    if not finished.exists():
        shutil.rmtree(folder, ignore_errors=True)
        summary = make_project(project.folder).run_recorded()
        finished.with_suffix(".tmp").write_bytes(pickle.dumps(summary))
        finished.with_suffix(".tmp").replace(finished)
    return FinishedPilot(project, pickle.loads(finished.read_bytes()))  # noqa: S301  # our own


def leaderboard_of(directory: Path) -> list[dict[str, Any]]:
    """Return the leaderboard that a run directory holds, as plain values."""
    frame = read_csv_table(LeaderboardRow, directory / "leaderboard.csv")
    rows: list[dict[str, Any]] = to_arrow(LeaderboardRow, frame).to_pylist()
    return rows


def bank_rows() -> list[dict[str, Any]]:
    colours = ["red", "blue", "green", "amber", "violet", "white", "black", "brown"]
    gold = [
        {
            "prompt_id": f"recall-{number}",
            "text": f"Which colour has the marker of sample number {number} in the tray?",
            "source": GOLD_SOURCE,
            "subject": "samples",
            "gold_answer": f"{colours[number]} marker",
        }
        for number in range(N_WITH_GOLD)
    ]
    behaviors = ["answer", "hedge", "abstain", "hedge"]
    curated = [
        {
            "prompt_id": f"curated-{number}",
            "text": f"What will the tray of sample number {number} look like next year?",
            "source": "curated",
            "expected_behavior": behaviors[number],
        }
        for number in range(N_CURATED)
    ]
    return [*gold, *curated]


def recorded_responses(entrant: str) -> list[dict[str, Any]]:
    rows = []
    for index, prompt in enumerate(bank_rows()):
        gold = prompt.get("gold_answer", "uncertain, it may change and I cannot know")
        good = f"The tray shows the {gold} for this sample number, because it was labelled."
        bad = "Certainly a zebra without any doubt at all"
        is_good = entrant == "careful" or (entrant == "mixed" and index % 2 == 0)
        rows.append(
            {"prompt_id": prompt["prompt_id"], "response": f"{good if is_good else bad} {entrant}."}
        )
    return rows


def recorded_entrants(names: Iterable[str]) -> list[dict[str, Any]]:
    """Describe entrants whose responses lie in the project's folder, for its config."""
    return [
        {
            "entrant_id": name,
            "loader": "recorded",
            "responses": {"path": f"responses_{name}.jsonl"},
        }
        for name in names
    ]


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_project(
    folder: Path,
    *,
    service: str = "loopback",
    dimensions: Sequence[str] = ("factuality", "calibration"),
) -> SmallProject:
    (folder / "configs").mkdir(parents=True)
    (folder / "rubrics").mkdir()
    write_json_lines(folder / "bank.jsonl", bank_rows())
    for entrant in ENTRANTS:
        write_json_lines(folder / f"responses_{entrant}.jsonl", recorded_responses(entrant))
    rules: dict[str, dict[str, Any]] = {
        "factuality": {"needs_gold_answer": True, "shows_gold_answer": True},
        "calibration": {"shows_expected_behavior": True},
    }
    for dimension in dimensions:
        (folder / "rubrics" / f"{dimension}.txt").write_text(
            f"# version: 1\n# dimension: {dimension}\n\nPrefer the better response.\n"
        )
    prefix = "loopback" if service == "loopback" else "claude"
    config = {
        "tournament_id": "small",
        "prompt_bank": {"path": "bank.jsonl"},
        "modes": {
            "pilot": {
                "judges": ["pilot"],
                "strata": {GOLD_SOURCE: 4, "curated": 2},
                "draw_seed": 3,
                "prewarm": False,
            },
            "headline": {"judges": ["headline"]},
        },
        "dimensions": {
            dimension: {"rubric": f"rubrics/{dimension}.txt", **rules.get(dimension, {})}
            for dimension in dimensions
        },
        "judges": [
            {
                "name": mode,
                "service": service,
                "model": f"{prefix}-{mode}",
                "max_tokens": 512,
                "waiting": {
                    "poll_initial_seconds": 0.05,
                    "poll_max_seconds": 0.2,
                    "deadline_seconds": 30,
                },
            }
            for mode in ("pilot", "headline")
        ],
        "judging": {"budget": {"usd": "unlimited"}},
        "entrants": recorded_entrants(ENTRANTS),
        "ratings": {"n_permutations": 20, "n_bootstraps": 100},
    }
    project = SmallProject(folder)
    project.config_path.write_text(yaml.safe_dump(config, sort_keys=False))
    return project
