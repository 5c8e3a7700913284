"""The stored fair comparison, and `tournament fair-comparison`, which prints it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.projects import ENTRANTS, SmallProject, make_project
from tests.rows import table_rows
from tournament_assets.audits.fair_comparison import COMPARED
from tournament_assets.cli import main
from tournament_assets.storage.tables import decode_parquet, derive_schema
from tournament_assets.tournament.asset_rows import RatingRow


def fair_rows(project: SmallProject) -> list[dict[str, Any]]:
    """Return what is stored, and the ratings on all judged pairs, which another table holds."""
    own, *ratings = (
        table_rows(RatingRow, decode_parquet(RatingRow, path.read_bytes()))
        for name in ("fair_comparison", "ratings")
        for path in sorted((project.folder / "storage" / "small" / name).rglob("pilot.parquet"))
    )
    assert not any((row["basis"], row["stratum"]) == ("all", "all") for row in own)
    return [*own, *(row for rows in ratings for row in rows if row["method"] in COMPARED)]


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = ("dimension", "stratum", "basis", "method", "entrant_id")
    return sorted(rows, key=lambda row: [row[key] for key in keys])


def invoke(project: SmallProject, *arguments: str | Path) -> Result:
    command = ["fair-comparison", "--config", project.config_path, "--mode", "pilot", *arguments]
    return CliRunner(env=project.environment).invoke(
        main, [str(each) for each in command], catch_exceptions=False
    )


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    """A finished pilot whose judge said nothing of any pair with `sloppy` on some prompts."""
    project = make_project(tmp_path_factory.mktemp("outage") / "project")
    rows = [
        json.loads(line)
        for line in (project.folder / "responses_sloppy.jsonl").read_text().splitlines()
    ]
    project.merge_config(
        modes={"pilot": {"strata": {"recall": 8, "curated": 4}}},
        families={"careful": "own", "loopback-pilot": "own"},
    )
    # Whoever answers nothing to a prompt leaves it out for everyone.
    kept = [row for row in rows if row["prompt_id"] not in ("recall-1", "curated-0")]
    (project.folder / "responses_sloppy.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in kept)
    )
    project.run_recorded(partial=True)  # The command names the page that Dagster has recorded.
    return project


def test_the_stored_comparison_counts_what_is_missing_as_nothing(outage: SmallProject) -> None:
    rows = {
        (row["method"], row["dimension"], row["basis"]): row
        for row in fair_rows(outage)
        if (row["stratum"], row["entrant_id"]) == ("all", "careful")
    }
    assert rows["bradley_terry", "factuality", "common"]["n"] == 7
    assert rows["bradley_terry", "factuality", "planned"]["n"] == 8
    assert rows["bradley_terry", "calibration", "common"]["n"] == 10
    planned, judged = (rows["win_share", "calibration", basis] for basis in ("planned", "all"))
    assert (planned["n"], judged["n"]) == (24, 20)
    assert planned["rating"] == pytest.approx(judged["rating"] * 20 / 24)


def test_the_command_prints_what_is_stored_and_names_the_page(outage: SmallProject) -> None:
    result = invoke(outage)
    assert result.exit_code == 0, result.output
    assert "7 of 8 planned" in result.output
    assert "judge's family" in result.output
    (page,) = outage.folder.glob("runs/*/report.html")
    assert str(page) in result.output.replace("\n", "")
    found = json.loads(invoke(outage, "--json").stdout)
    assert in_order(found["fair_comparison"]) == in_order(fair_rows(outage))
    assert found["page"] == str(page)


def test_markdown_names_the_column_of_every_number(outage: SmallProject, tmp_path: Path) -> None:
    path = tmp_path / "fair.md"
    assert invoke(outage, "--markdown", path).exit_code == 0
    text = path.read_text()
    origin = text.split("## Where every number comes from")[1]
    named = {
        name.strip().split(" ")[0].replace("\\", "")
        for line in origin.splitlines()
        if line.startswith("| ")
        for name in line.split("|")[2].split(",")
    } - {"column", "---"}
    assert named <= set(derive_schema(RatingRow).names)
    assert {"rank", "rating", "low", "n", "shown_above", "stratum"} <= named
    row = next(row for row in fair_rows(outage) if row["method"] == "win_share")
    line = next(line for line in text.splitlines() if line.startswith(f"| {row['entrant_id']}"))
    assert f"{100 * row['rating']:.1f} %" in line


def test_leaving_an_entrant_out_gives_the_tournament_without_it(
    outage: SmallProject, tmp_path: Path
) -> None:
    found = json.loads(invoke(outage, "--exclude", "sloppy", "--json").stdout)
    assert found["excluded"] == ["sloppy"]
    # The same tournament, in which sloppy never was; its prompts are those that all three share.
    alone = make_project(tmp_path / "alone")
    config = yaml.safe_load(outage.config_path.read_text())
    config["entrants"] = [e for e in config["entrants"] if e["entrant_id"] != "sloppy"]
    alone.config_path.write_text(yaml.safe_dump(config, sort_keys=False))
    for name in ("careful", "mixed"):
        path = alone.folder / f"responses_{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(
                json.dumps(row) + "\n"
                for row in rows
                if row["prompt_id"] not in ("recall-1", "curated-0")
            )
        )
    alone.tables("fair_comparison")
    pairs = zip(in_order(found["fair_comparison"]), in_order(fair_rows(alone)), strict=True)
    for ours, theirs in pairs:
        assert ours.pop("shown_above") == theirs.pop("shown_above")
        assert ours == pytest.approx(theirs)


def test_what_cannot_be_left_out_or_is_not_stored_is_said(
    outage: SmallProject, tmp_path: Path
) -> None:
    result = invoke(outage, "--exclude", "nobody")
    assert result.exit_code == 2
    assert ", ".join(ENTRANTS) in result.output.replace("\n", "")
    empty = make_project(tmp_path / "empty")
    result = invoke(empty)
    assert result.exit_code == 2
    assert "--mode pilot" in " ".join(result.output.split())
