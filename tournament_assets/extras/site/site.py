"""A folder of static pages over all finished runs: ratings over time, and every report.

Nothing is asked and nothing is rated: the pages hold what the runs' own files say. They work from
disk and behind any static host, run no script, and load nothing from elsewhere. The same runs give
the same bytes.
"""

import base64
import hashlib
import itertools
import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Estimate, Rating
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_interval,
    format_plural,
    format_rating,
    join_names,
)
from tournament_assets.graph.outputs import Check
from tournament_assets.ratings.rating_tables import LEVEL
from tournament_assets.reports.figures.canvas import short_label
from tournament_assets.reports.figures.figures import spread
from tournament_assets.reports.rendering import render_template
from tournament_assets.run_comparison.run_reading import read_standings
from tournament_assets.storage.run_directory import read_manifest

GENERATOR = "tournament site"
"""The mark on the first page that shows it is a site of ours, which may be replaced."""
MOST_RUNS = 24
"""Runs in a picture, the newest; the table has all."""
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860.0, 300.0, 46.0, 190.0, 12.0, 40.0
_N_COLOURS = 7


@dataclass(frozen=True, slots=True)
class SiteRun:
    """One finished run.

    Attributes:
        mode: The mode, such as `pilot`.
        config: Its config, from the project's folder.
        screen: The first screen of its report.
        facts: Prompts, entrants and amber lights, in a few words.
        standings: Every entrant's standing by dimension, best first.
        inputs: Fingerprints of what makes two runs comparable, by name.
    """

    folder: Path
    tournament: str
    mode: str
    config: str
    screen: Mapping[str, Any]
    finished_at: datetime
    judge: str
    facts: tuple[str, ...]
    standings: Mapping[str, tuple[Rating, ...]]
    inputs: Mapping[str, str]

    @property
    def page(self) -> str:
        """The page of its tournament and mode."""
        return f"{self.tournament}_{self.mode}.html"

    @property
    def latest_report(self) -> str:
        """The report of the latest run of its mode, from the index."""
        return f"latest/{self.tournament}_{self.mode}/report.html"

    @property
    def report(self) -> str:
        """Its report, from a page of the site."""
        return f"runs/{self.folder.name}/report.html"

    def level_with_the_first(self, dimension: str) -> str:
        """Return the entrants that share a letter with the first of a dimension."""
        first, *others = self.standings[dimension]
        letters = {*(first.group or "").split()}
        level = [row.entrant for row in others if letters & {*(row.group or "").split()}]
        return join_names(level) or "no entrant"

    @property
    def day(self) -> str:
        """The day it finished, in UTC."""
        return f"{self.finished_at:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A rating in the picture: where it and its interval are, in the picture's units."""

    x: float
    y: Estimate
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """An entrant in the picture: its marks from left to right, and where its name stands."""

    label: str
    colour: int
    marks: tuple[Mark, ...]
    label_y: float


@dataclass(frozen=True, slots=True)
class History:
    """Ratings on one dimension, run by run; ticks are a place and its text."""

    dimension: str
    lines: tuple[Line, ...]
    ratings: tuple[tuple[float, str], ...]
    days: tuple[tuple[float, str], ...]
    sentence: str


def read_runs(folder: Path) -> tuple[list[SiteRun], list[str]]:
    """Read all finished runs of a folder, the newest first.

    Returns:
        The runs, and a sentence for each directory that cannot be shown.
    """
    runs, problems = [], []
    for path in sorted(folder.glob("[!.]*/manifest.json")):
        try:
            runs.append(_read_run(path.parent))
        except (InputError, OSError, KeyError, TypeError, ValueError) as error:
            problems.append(
                f"{path.parent} is left out ({type(error).__name__}: {error}); expected the "
                "directory of a finished run, as `tournament run` writes it"
            )
    if not runs:
        raise InputError(
            f"{folder} holds no finished run"
            + (f": {problems[0]}" if problems else "; run `tournament run`, or name another --runs")
        )
    return sorted(runs, key=lambda run: (run.finished_at, run.folder.name), reverse=True), problems


def write_site(runs: Sequence[SiteRun], out: Path) -> list[Path]:
    """Write the pages, and a copy of every run's report beside them.

    Args:
        runs: The runs, the newest first.
        out: The folder to write; what an earlier call wrote there is replaced as a whole.

    Returns:
        The files, by name.
    """
    _refuse_another_folder(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.parent / f".{out.name}.{secrets.token_hex(4)}.partial"
    try:
        for name, text in site_pages(runs).items():
            temporary.mkdir(exist_ok=True)
            (temporary / name).write_text(text, encoding="utf-8")
        for name, file in report_files(runs).items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, temporary / name)
        if out.exists():
            shutil.rmtree(out)
        temporary.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(path for path in out.rglob("*") if path.is_file())


def report_files(runs: Sequence[SiteRun]) -> dict[str, Path]:
    """Return the files of reports by their places: of every run, and of the latest of each mode."""
    places = {run.report: run for run in runs}
    places |= {run.latest_report: run for run in reversed(runs)}
    return {
        f"{Path(place).parent}/{file.name}": file
        for place, run in places.items()
        for file in run.folder.glob("report*.html")
    }


def site_pages(
    runs: Sequence[SiteRun], states: Mapping[str, tuple[Check, str]] = MappingProxyType({})
) -> dict[str, str]:
    """Return the pages by file name: the index, and one for each tournament and mode.

    Args:
        runs: The runs, the newest first.
        states: By page, whether it is up to date now, and where a rerun starts.
    """
    by_page: dict[str, list[SiteRun]] = {}
    for run in runs:
        by_page.setdefault(run.page, []).append(run)
    pages = {"index.html": _render("index.html.jinja", by_page=by_page, runs=runs, states=states)}
    for name, of_page in by_page.items():
        pages[name] = _render(
            "runs.html.jinja",
            latest=of_page[0],
            state=states.get(name),
            rows=list(zip(of_page, _changes(of_page), strict=True)),
            histories=[_history(of_page[::-1], dimension) for dimension in of_page[0].standings],
        )
    return pages


def with_state(report: Path, page: tuple[str, tuple[Check, str]]) -> str:
    """Return a report, headed by its mode's state and a link to the page of the mode's runs."""
    head = _render("bar.html.jinja", page=page[0], state=page[1])
    return report.read_text(encoding="utf-8").replace("<body>", f"<body>\n{head}", 1)


def _refuse_another_folder(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    index = out / "index.html"
    mark = f'<meta name="generator" content="{GENERATOR}">'
    if not index.is_file() or mark not in index.read_text(encoding="utf-8", errors="replace"):
        raise InputError(
            f"{out} holds files that `tournament site` did not write; "
            "expected a new folder, an empty one, or an earlier site; name another --out"
        )


def _read_run(folder: Path) -> SiteRun:
    manifest = read_manifest(folder)
    tournament, mode = str(manifest["tournament"]), str(manifest["mode"])
    for name in (tournament, mode):
        if not _SAFE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a tournament or mode")
    if not (folder / "report.html").is_file():
        raise ValueError("report.html is missing")
    return SiteRun(
        folder=folder,
        tournament=tournament,
        mode=mode,
        config=str(manifest["config"]),
        screen=manifest["first_screen"],
        finished_at=datetime.fromisoformat(str(manifest["finished_at"])),
        judge=f"{manifest['judge_model']}, {manifest['judge']}",
        facts=tuple(_facts(manifest)),
        standings=read_standings(folder),
        inputs=_fingerprints(manifest),
    )


def _facts(manifest: Mapping[str, Any]) -> list[str]:
    facts = [
        format_plural(int(manifest["selected_prompts"]), "prompt"),
        format_plural(len(manifest["entrants"]), "entrant"),
    ]
    trust = manifest.get("trust", {}).values()
    amber = sum(state == "amber" for lights in trust for state in lights.values())
    if amber:
        facts.append(f"{format_plural(amber, 'amber light')} on the judge: too few to tell")
    return facts


def _fingerprints(manifest: Mapping[str, Any]) -> dict[str, str]:
    inputs = manifest.get("inputs", {})
    values = {
        "judge": manifest["judge_model"],
        "prompts": inputs.get("selected_prompts"),
        **{name: inputs.get(name) for name in ("rubrics", "entrants")},
    }
    return {name: json.dumps(value, sort_keys=True) for name, value in values.items()}


def _changes(runs: Sequence[SiteRun]) -> list[str]:
    """List for each run, the newest first, which inputs are not those of the run before."""
    lines = []
    for now, then in itertools.pairwise(runs):
        changed = [name for name, value in now.inputs.items() if value != then.inputs[name]]
        lines.append(", ".join(changed) or "nothing")
    return [*lines, "first run"]


def _history(runs: Sequence[SiteRun], dimension: str) -> History:
    """Lay out the picture of one dimension.

    Args:
        runs: The runs of one tournament and mode, the oldest first.
    """
    recent = [run for run in runs if dimension in run.standings][-MOST_RUNS:]
    rated = [row for run in recent for row in run.standings[dimension] if row.value is not None]
    ends = [end for row in rated for end in (row.value, row.low, row.high) if end is not None]
    low, high = (min(ends) - 10, max(ends) + 10) if ends else (1300.0, 1500.0)
    bottom = _HEIGHT - _BOTTOM
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(recent), 1)

    def height(points: float) -> float:
        return round(bottom - (points - low) / (high - low) * (bottom - _TOP), 1)

    names = sorted({row.entrant for row in rated})
    gap = min(9.0, 0.7 * step / max(len(names), 1))
    marks: dict[str, list[Mark]] = {name: [] for name in names}
    for place, run in enumerate(recent):
        for row in run.standings[dimension]:
            if row.value is None:
                continue
            aside = (names.index(row.entrant) - (len(names) - 1) / 2) * gap
            interval = format_interval(row.low, row.high, absent="unbounded")
            marks[row.entrant].append(
                Mark(
                    x=round(_LEFT + (place + 0.5) * step + aside, 1),
                    y=Estimate(
                        height(row.value),
                        height(low if row.low is None else row.low),
                        height(high if row.high is None else row.high),
                    ),
                    text=f"{row.entrant}, {run.day}: {format_rating(row.value)} ({interval})",
                )
            )
    last = {name: marks[name][-1].y.value or 0.0 for name in names}
    order = sorted(names, key=last.__getitem__)
    heights = spread([last[name] for name in order], gap=14.0)
    return History(
        dimension=dimension,
        lines=tuple(
            Line(short_label(name), names.index(name) % _N_COLOURS, tuple(marks[name]), place)
            for name, place in zip(order, heights, strict=True)
        ),
        ratings=tuple((height(each), f"{each:.0f}") for each in _ticks(low, high)),
        days=tuple(_days(recent, step)),
        sentence=_history_sentence(runs, dimension),
    )


def _ticks(low: float, high: float) -> list[float]:
    width = next((each for each in (10, 20, 50, 100, 200) if (high - low) / each <= 6), 500)
    first = -(-low // width) * width
    return [first + n * width for n in range(int((high - first) // width) + 1)]


def _days(runs: Sequence[SiteRun], step: float) -> list[tuple[float, str]]:
    every = max(1, round(90 / step))
    return [
        (round(_LEFT + (place + 0.5) * step, 1), run.day)
        for place, run in enumerate(runs)
        if (len(runs) - 1 - place) % every == 0
    ]


def _history_sentence(runs: Sequence[SiteRun], dimension: str) -> str:
    latest = runs[-1].standings[dimension]
    # Where judging stopped early, who is first need not be rated highest.
    highest = max((row.value for row in latest if row.value is not None), default=None)
    if highest is None:
        return f"On {dimension}, the latest run rates no entrant."
    names = [
        row.entrant for row in latest if row.value is not None and row.value >= highest - LEVEL
    ]
    words = f"highest rating of the latest run, {format_rating(highest)}"
    if len(names) > 1:
        return f"On {dimension}, {join_names(names)} have the {words}."
    boards = [board for run in runs if (board := run.standings.get(dimension))]
    times = sum(any((row.entrant, row.rank) == (names[0], 1) for row in each) for each in boards)
    return (
        f"On {dimension}, {names[0]} has the {words}, and was first in {times} of "
        f"{format_plural(len(boards), 'run')}."
    )


def _render(template: str, **values: Any) -> str:
    style = render_template("report.css") + render_template("site/templates/site.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return render_template(
        f"site/templates/{template}",
        style=style,
        style_hash=f"sha256-{digest}",
        script_hash="none",
        generator=GENERATOR,
        absent=ABSENT,
        interval=format_interval,
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        **values,
    )
