"""The graph without Dagster: the same tables and budget, to any asset, from given tables."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import tournament_assets as ta
from tests.graph.paid_projects import paid_project
from tests.projects import SmallProject, make_project, modules_of_extras
from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.storage.tables import StoredTable, rows_of
from tournament_assets.tournament.asset_rows import MatchRow, VerdictRow, WinRateRow
from tournament_assets.tournament.prompts import Prompt

JURY = (("loopback-pilot", 1.0), ("loopback-b", 1.0), ("loopback-c", 0.5))
NIGHTLY = {"strata": {"recall": 5}, "draw_seed": 4}


def tournament(project: SmallProject) -> ta.Tournament:
    return ta.load(project.config_path, environment={})


def draw_project(folder: Path, seed: int) -> tuple[SmallProject, str]:
    """Draw a tournament of one of the kinds that a config can describe, and a mode of it."""
    rng = np.random.default_rng(seed)
    kind = ("one judge", "jury", "samples")[seed % 3]
    dimensions = ("factuality", "calibration")[: int(rng.integers(1, 3))]
    project = make_project(folder, dimensions=dimensions)
    config = yaml.safe_load(project.config_path.read_text())
    pilot, _ = config["judges"]
    jury = [{**pilot, "name": name, "model": name, "share": share} for name, share in JURY]
    judges = {"judges": [] if kind == "jury" else ["pilot"]}
    modes = {"pilot": judges, "headline": judges, "nightly": {**NIGHTLY, **judges}}
    project.merge_config(modes=modes)
    project.edit_config(
        judges=jury if kind == "jury" else [pilot],
        entrants=config["entrants"][: int(rng.integers(2, 4))],
        ratings={**config["ratings"], "k_factor": float(rng.choice([8, 16]))},
        generation={"n_samples": 2 if kind == "samples" else 1},
    )
    mode = str(rng.choice(["pilot", "headline", "nightly"]))
    if kind != "samples" and rng.random() < 0.7:
        mode = "pilot"
        for extra in modules_of_extras("additions"):
            extra.add_to(project, dimensions[0])
    return project, mode


def files_of(project: SmallProject) -> dict[str, bytes]:
    storage = project.folder / "storage"
    files = (path for path in storage.rglob("*") if path.is_file())
    return {str(path.relative_to(storage)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.e2e) for n in range(3, 12))]
)
def test_both_engines_store_the_same_bytes(seed: int, tmp_path: Path) -> None:
    compare_engines(*draw_project(tmp_path / "plain", seed))


def compare_engines(project: SmallProject, mode: str) -> None:
    """Run a mode of a project by each engine, and compare everything that they store."""
    recorded_folder = project.folder.with_name("recorded")
    other = SmallProject(shutil.copytree(project.folder, recorded_folder))
    plain, recorded = project.run(mode, n_perms=7), other.run_recorded(mode, n_perms=7)
    ours, theirs = files_of(project), files_of(other)
    assert len(ours) > 15
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
    pd.testing.assert_frame_equal(plain.leaderboard, recorded.leaderboard)
    for fact in ("requests_submitted", "responses_generated", "warnings", "outages", "cautions"):
        assert getattr(plain, fact) == getattr(recorded, fact)
    assert sum(path.is_file() for path in plain.directory.rglob("*")) == sum(
        path.is_file() for path in recorded.directory.rglob("*")
    )


def test_a_run_to_an_asset_makes_what_it_needs_and_writes_nothing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    before = {path.name for path in project.folder.iterdir()}
    made = tournament(project).tables("pilot", until="match_list")
    shown = repr(made)
    assert shown.startswith("PlainRun(pilot: prompt_bank")
    assert ("match_list factuality" in shown, len(shown) < 300) == (True, True), shown
    assert {name for name, _ in made.values} == {
        "prompt_bank",
        "selected_prompts",
        "entrant_responses",
        "match_list",
    }
    assert len(made.frame("match_list", "factuality")) == 4 * 3
    assert {path.name for path in project.folder.iterdir()} - before <= {"ledger"}


def test_verdicts_that_are_given_are_rated_and_nobody_is_asked(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        judged = ta.load(paid.project.config_path, environment=paid.environment)
        made = judged.tables("pilot", until="judge_verdicts")
        asked = paid.n_asked
        assert asked == 24
        rows = list(rows_of(VerdictRow, made.frame("judge_verdicts", "factuality")))
        given = {("judge_verdicts", "factuality"): rows[:6]}
        rated = judged.tables("pilot", until="win_rates", given=given)
        assert {name for name, _ in rated.values} == {"judge_verdicts", "win_rates"}
        counted = list(rows_of(WinRateRow, rated.frame("win_rates", "factuality")))
        assert sum(row.judged + row.same_text for row in counted) == 6
        assert paid.n_asked == asked


@pytest.mark.parametrize("kept", [False, True])
def test_a_table_is_given_as_rows_as_a_frame_or_as_its_file(kept: bool, tmp_path: Path) -> None:
    small = tournament(make_project(tmp_path / "project"))
    made = small.tables("pilot", until="match_list")
    stored = made.values["match_list", "factuality"]
    bank = made.frame("prompt_bank")
    for number, given in enumerate((stored, stored.frame(), list(rows_of(MatchRow, stored)))):
        folder = tmp_path / f"storage{number}" if kept else None
        tables = {("match_list", "factuality"): given, ("prompt_bank", ""): bank}
        again = small.tables("pilot", until="win_rates", given=tables, folder=folder)
        pd.testing.assert_frame_equal(again.frame("match_list", "factuality"), stored.frame())
        assert len(again.frame("win_rates", "factuality")) == 3
        if folder is not None:
            path = folder / "small" / "match_list" / "factuality" / "pilot.parquet"
            assert list(rows_of(MatchRow, StoredTable(MatchRow, path))) == list(
                rows_of(MatchRow, stored)
            )


def test_rows_that_are_given_are_the_table(tmp_path: Path) -> None:
    small = tournament(make_project(tmp_path / "project"))
    bank = list(rows_of(Prompt, small.tables("pilot", until="prompt_bank").frame("prompt_bank")))
    given = small.tables("pilot", until="prompt_bank", given={("prompt_bank", ""): bank[:2]})
    assert list(rows_of(Prompt, given.frame("prompt_bank"))) == bank[:2]


def test_a_check_that_stops_what_comes_next_stops_it_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid:
        paid.project.merge_config(
            judging={
                "budget": {"usd": 0.0},
                "prices": {"claude-pilot": {"input": 4.0, "output": 20}},
            }
        )
        with pytest.raises(WorkError, match=r"\(pilot\) .*within_budget"):
            paid.tables()
        assert paid.n_asked == 0


def test_an_asset_or_a_partition_that_is_not_there_is_named(tmp_path: Path) -> None:
    small = tournament(make_project(tmp_path / "project"))
    with pytest.raises(InputError, match=r"'elo'.*elo_ratings"):
        small.tables("pilot", until="elo")
    with pytest.raises(InputError, match=r"'match_list'.*'tone'"):
        small.tables("pilot", given={("match_list", "tone"): []})
    made = small.tables("pilot", until="prompt_bank")
    with pytest.raises(InputError, match=r"match_list.*prompt_bank"):
        made.frame("match_list", "factuality")


def test_a_run_that_is_not_recorded_needs_no_dagster_and_its_loopback_judge_no_sdk(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    script = (
        "import sys, tournament_assets as ta\n"
        f"small = ta.load({str(project.config_path)!r}, environment={{}})\n"
        "run = small.run('pilot', record=False)\n"
        "found = {'dagster', 'anthropic', 'openai', 'starlette', 'torch'} & set(sys.modules)\n"
        "print(run.directory.name, len(run.frame), *sorted(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    name, rows, *imported = done.stdout.split()
    assert (rows, imported) == ("3", [])
    assert (project.folder / "runs" / name / "report.html").is_file()
    assert not (project.folder / ".dagster_home").exists()
    assert not (project.folder / "storage").exists()
