"""Builds small archives of scored runs, with whatever is wrong with real ones."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tournament_assets.extras.archives.config import ArchiveFile, load_archive_config
from tournament_assets.extras.archives.reading import read_archive
from tournament_assets.extras.archives.runs import ArchiveContents

MODELS = ("ada", "bob", "cyd")
TASKS = ("t1-add", "t1-sort", "t2-mail", "t2-plan")
RUNS = ("run1", "run2", "run3")
COMPONENTS = ("completion", "trajectory", "behaviour")


def description(**changes: Any) -> dict[str, Any]:
    """A description of an archive, as its YAML holds it."""
    return {
        "archive_id": "spring",
        "title": "Spring sweep",
        "reader": "clawbench",
        "folder": "runs",
        "models": [
            {"model_id": "ada", "label": "Ada 2", "folder": "vendor_ada-2"},
            {"model_id": "bob", "label": "Bob", "folder": "vendor_bob"},
            {"model_id": "cyd"},
        ],
        "plan": {"tasks": list(TASKS), "runs": list(RUNS)},
        "conditions": {"image": "environment.image"},
        "stated": {"verifiers": "one version for all"},
        "logs": ["logs/{model}.log"],
        "rejudging": {
            "judge": {"service": "loopback", "model": "loopback-lexical"},
            "prompt": "judge.txt",
            "parts": {"task": "task.text", "rubric": "task.rubric", "transcript": "transcript"},
        },
        "n_bootstraps": 400,
        **changes,
    }


def by_rule(completion: float, trajectory: float, behaviour: float, judge: float | None) -> float:
    """A run's score, written out by hand for ClawBench's weights."""
    if completion >= 0.9999 and judge is not None:
        return 0.4 * completion + 0.3 * trajectory + 0.2 * behaviour + 0.1 * judge
    return (0.4 * completion + 0.3 * trajectory + 0.2 * behaviour) / 0.9


def run_document(
    *,
    completion: float = 1.0,
    trajectory: float = 0.5,
    behaviour: float = 0.5,
    judge: float | None = 0.8,
    reason: str = "It does what was asked.",
    transcript: str = "The mail was sorted and the plan was sent to the team.",
    **changes: Any,
) -> dict[str, Any]:
    """A run as a harness writes it; `judge` None means that nobody asked."""
    scores = {"completion": completion, "trajectory": trajectory, "behavior": behaviour}
    return {
        "task": {"text": "Sort the mail and send the plan.", "rubric": "Was the mail sorted?"},
        "transcript": {"messages": [{"role": "assistant", "text": transcript}]},
        **{f"{name}_result": {"score": score, "notes": []} for name, score in scores.items()},
        "judge_result": {
            "enabled": judge is not None,
            "score": judge or 0.0,
            "reason": reason if judge is not None else "",
            "error": None,
        },
        "run_score": by_rule(completion, trajectory, behaviour, judge),
        "environment": {"image": "harness:4"},
        **changes,
    }


def failed_document(reason: str = "Gateway is restarting", **changes: Any) -> dict[str, Any]:
    """A run whose judging failed: the judge's score is 0 and so counts against it."""
    return run_document(judge=0.0, reason=reason, **changes)


def zero_document(transcript: str = " ") -> dict[str, Any]:
    """A run that never came to anything."""
    return run_document(
        completion=0.0, trajectory=0.0, behaviour=0.0, judge=None, transcript=transcript
    )


def failed_line(task: str, run: str) -> str:
    """What ClawBench's harness logs of a run that failed."""
    return f"12:00:01 ERROR clawbench.harness: Run {task}/{run.removeprefix('run')} failed"


def documented(page: str) -> dict[str, str]:
    """The files that a page of the documentation prints, by the name that stands before each."""
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    return dict(re.findall(r"`([\w/.-]+)`:\n\n```\w+\n(.*?)```", text, flags=re.DOTALL))


@dataclass(frozen=True)
class SmallArchive:
    """A folder with an archive and its description."""

    folder: Path

    @property
    def description_path(self) -> Path:
        return self.folder / "archive.yaml"

    def run_path(self, model: str, task: str, run: str) -> Path:
        folders = {"ada": "vendor_ada-2", "bob": "vendor_bob"}
        return self.folder / "runs" / folders.get(model, model) / task / f"{run}.json"

    def put(self, model: str, task: str, run: str, document: Mapping[str, Any] | str) -> Path:
        """Write a run; a text is written as it is."""
        path = self.run_path(model, task, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = document if isinstance(document, str) else json.dumps(document, indent=2) + "\n"
        path.write_text(text)
        return path

    def document(self, model: str, task: str, run: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.run_path(model, task, run).read_text())
        return loaded

    def log(self, model: str, *lines: str) -> None:
        path = self.folder / "logs" / f"{model}.log"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def describe(self, **changes: Any) -> None:
        text = yaml.safe_dump(description(**changes), sort_keys=False)
        self.description_path.write_text(text)

    def load(self) -> ArchiveFile:
        return load_archive_config(self.description_path)

    def read(self, *exclude: str) -> tuple[ArchiveFile, ArchiveContents]:
        archive = self.load()
        return archive, read_archive(archive, exclude=frozenset(exclude))


def make_archive(folder: Path, *, fill: bool = True, **changes: Any) -> SmallArchive:
    """Make an archive in which every planned run is there and nothing is wrong."""
    archive = SmallArchive(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs").mkdir(exist_ok=True)
    (folder / "judge.txt").write_text("Score from 0 to 1 how far the rubric is met.\n")
    archive.describe(**changes)
    if fill:
        for place, model in enumerate(MODELS):
            for number, task in enumerate(TASKS):
                for turn, run in enumerate(RUNS):
                    trajectory = 0.9 - 0.2 * place - 0.05 * number + 0.02 * turn
                    archive.put(model, task, run, run_document(trajectory=trajectory))
    return archive
