import json
import logging
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from markdown_it import MarkdownIt

from tests.projects import (
    FinishedPilot,
    SmallProject,
    recorded_responses,
    write_json_lines,
)
from tests.rows import table_rows
from tournament_assets.definitions import load_project
from tournament_assets.graph.assets.publishing import flip_measures, run_comparison
from tournament_assets.graph.outputs import Made
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.rows import Log, Step
from tournament_assets.project.plan import load_plan
from tournament_assets.run_comparison.differences import SettledPair, compare_judgments
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.verdicts import Outcome

EDITED = "# version: 2 <b>new</b> | bold\n# dimension: factuality\n\nPrefer the right one.\n"


def rows_of(project: SmallProject) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / "run_comparison" / "pilot.parquet"
    return table_rows(MeasureRow, decode_parquet(MeasureRow, path.read_bytes()))


def compare(project: SmallProject, newest: Path | None = None) -> Made[list[MeasureRow]]:
    """Call the asset's function; it must not fail, whatever it finds."""
    plan = load_plan(project.config_path, {})
    recorded = {"directory": str(newest or runs_of(project)[-1])}
    log = cast("Log", logging.getLogger("step"))
    return run_comparison(Step(plan, "pilot", "", log, lambda asset, partition: recorded))


def runs_of(project: SmallProject) -> list[Path]:
    return sorted((project.folder / "runs").iterdir())


@pytest.fixture(scope="module")
def project(
    finished_pilot: FinishedPilot, tmp_path_factory: pytest.TempPathFactory
) -> SmallProject:
    """Run a pilot, edit a rubric, let two entrants swap responses to curated prompts, run again."""
    project = finished_pilot.copy(tmp_path_factory.mktemp("project") / "small")
    assert rows_of(project) == []
    (project.folder / "rubrics" / "factuality.txt").write_text(EDITED)
    own = {name: recorded_responses(name) for name in ("careful", "sloppy")}
    for name, other in (("careful", "sloppy"), ("sloppy", "careful")):
        rows = [
            {**theirs, "response": f"{theirs['response']} Indeed, {name}."}
            if theirs["prompt_id"].startswith("curated")
            else mine
            for mine, theirs in zip(own[name], own[other], strict=True)
        ]
        write_json_lines(project.folder / f"responses_{name}.jsonl", rows)
    project.run()
    assert len(runs_of(project)) == 2
    return project


@pytest.fixture
def damaged(project: SmallProject, tmp_path: Path) -> Iterator[SmallProject]:
    """The project, whose run directories are put back afterwards."""
    runs = project.folder / "runs"
    shutil.copytree(runs, tmp_path / "runs")
    yield project
    shutil.rmtree(runs)
    shutil.copytree(tmp_path / "runs", runs)


def count_by_hand(project: SmallProject) -> Counter[tuple[str, str | None, str]]:
    """Compare two verdict files line by line: both runs list the same pairs in the same order."""
    counts: Counter[tuple[str, str | None, str]] = Counter()
    for dimension in ("factuality", "calibration"):
        then, now = (
            [
                json.loads(line)
                for line in (run / "verdicts" / f"{dimension}.jsonl").read_text().splitlines()
            ]
            for run in runs_of(project)
        )
        for before, after in zip(then, now, strict=True):
            assert (before["prompt_id"], before["entrant_a"]) == (
                after["prompt_id"],
                after["entrant_a"],
            )
            outcomes = {before["outcome"], after["outcome"]}
            assert "unjudged" not in outcomes
            for source in (None, before["source"]):
                counts[dimension, source, "settled"] += 1
                counts[dimension, source, "flipped"] += len(outcomes) == 2
                counts[dimension, source, "reversed"] += outcomes == {"a_wins", "b_wins"}
    return counts


def test_the_table_counts_the_flips_of_the_verdict_files(project: SmallProject) -> None:
    expected = count_by_hand(project)
    rows = rows_of(project)
    found = {(row["dimension"], row["stratum"], row["measure"]): row for row in rows}
    groups = {(dimension, source) for dimension, source, _ in expected}
    assert {(row["dimension"], row["stratum"]) for row in rows} == groups
    assert {(row["subject"], row["other"]) for row in rows} == {
        tuple(run.name for run in runs_of(project))
    }
    for group in groups:
        # Calibration's recall prompts were asked the same, so the edits could not touch them.
        touched = {
            ("calibration", "recall"): 0,
            ("calibration", None): expected["calibration", "curated", "settled"],
        }.get(group, expected[*group, "settled"])
        flipped, rate = expected[*group, "flipped"], found[*group, "flip_rate"]
        assert rate["n"] == touched
        assert found[*group, "flipped"]["n"] == found[*group, "other_texts"]["n"] == flipped
        assert found[*group, "reversed"]["n"] == expected[*group, "reversed"]
        assert rate["value"] == (flipped / touched if touched else None)
        assert found[*group, "kappa"]["n"] == touched
    assert expected["calibration", "curated", "flipped"] > 0


def test_the_first_thing_said_is_the_verdict(project: SmallProject) -> None:
    expected = count_by_hand(project)
    flipped, settled = (
        expected["factuality", None, name] + expected["calibration", "curated", name]
        for name in ("flipped", "settled")
    )
    metadata = compare(project).metadata
    assert next(iter(metadata)) == "verdict"
    assert f"{flipped} of {settled} judgments whose requests differ" in metadata["verdict"]
    causes, _ = metadata["verdict"].split("sloppy", 1)
    assert "version 1, then 2 <b>new</b> | bold" in causes
    assert "careful" in causes
    assert metadata["judgments_flipped"] == flipped
    assert metadata["cost_now_usd"] == 0.0
    text = metadata["comparison"].text
    for title in ("Inputs that differ", "Flips by dimension", "Ratings and places", "Cost"):
        assert f"## {title}" in text
    # The rubric's own words stand in an indented block, which knows no markup.
    assert not [each for each in MarkdownIt().parse(text) if "html" in each.type]
    assert "\n    +Prefer " in text
    assert metadata["comes_to_the_same"].startswith(("Undecided", "Differs"))
    assert "&lt;b&gt;new&lt;/b&gt; \\| " in text


def test_nothing_follows_from_the_comparison(project: SmallProject) -> None:
    plan = load_plan(project.config_path, {})
    graph = load_project(project.folder, {}).resolve_asset_graph()
    assert graph.get(asset_key(plan, "run_comparison")).child_keys == set()


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_run_that_was_deleted_is_no_failure(damaged: SmallProject, deleted: int) -> None:
    runs = runs_of(damaged)
    shutil.rmtree(runs[deleted])
    made = compare(damaged, runs[1])
    assert made.value == []
    assert made.metadata["verdict"].startswith(f"{runs[1] if deleted else runs[1].name} ")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("verdicts/calibration.jsonl", "no json\n", "calibration.jsonl:1: "),
        ("leaderboard.csv", None, "leaderboard.csv"),
    ],
)
def test_a_run_before_that_cannot_be_read_is_named_with_the_reason(
    damaged: SmallProject, file: str, content: str | None, said: str
) -> None:
    then, now = runs_of(damaged)
    (then / file).unlink()
    if content is not None:
        (then / file).write_text(content)
    made = compare(damaged)
    assert re.match(rf"{now.name} .*{then.name}: ", made.metadata["verdict"])
    assert said in made.metadata["verdict"]
    assert made.value == []


def test_a_run_of_another_version_is_no_failure(damaged: SmallProject) -> None:
    then = runs_of(damaged)[0]
    manifest = json.loads((then / "manifest.json").read_text())
    manifest["cost"]["by_dimension"] = {"factuality": {"cost_usd": "two dollars"}}
    (then / "manifest.json").write_text(json.dumps(manifest))
    made = compare(damaged)
    assert re.match(rf".*{then.name}: .*Error: ", made.metadata["verdict"])
    assert made.value == []


def test_a_manifest_that_cannot_be_read_is_passed_over_and_named(damaged: SmallProject) -> None:
    then = runs_of(damaged)[0]
    (then / "manifest.json").write_text("{")
    made = compare(damaged)
    assert made.value == []
    assert made.metadata["passed_over"].startswith(f"{then.name} ")


def test_a_flip_rate_counts_every_pair_by_its_weight_and_not_by_what_was_asked() -> None:
    first = SettledPair(
        "p1", "facts", "ada", "bob", Outcome.A_WINS, source="s", requests=("k", "l")
    )
    then = [
        first,
        replace(first, entrant_b="cyd"),
        replace(first, prompt_id="p2", requests=("m", "n"), weight=2.0),
    ]
    now = [
        *(replace(each, outcome=Outcome.B_WINS) for each in then[:2]),
        replace(then[2], weight=4.0),
    ]
    total = compare_judgments(then, now).total
    found = {name: each for name, _, each in flip_measures(total)}
    # Two of the three pairs are one question, and the third stands for four prompts.
    assert (found["flip_rate"].value, found["flip_rate"].n) == (2 / 6, 3)
    assert (found["flipped"].n, total.questions.value) == (2, 1 / 2)
    even = compare_judgments(
        [replace(each, weight=1.0) for each in then], [replace(each, weight=1.0) for each in now]
    )
    assert {name: each.value for name, _, each in flip_measures(even.total)}["flip_rate"] == 2 / 3
