"""What a run leaves behind: its directory, its tables, and what it does with bad input."""

import json
import math
import os
import platform
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from tests.loopback.threaded_servers import LoopbackServer
from tests.projects import (
    ENTRANTS,
    N_CURATED,
    N_WITH_GOLD,
    FinishedPilot,
    leaderboard_of,
    make_project,
)
from tournament_assets.cli.battles import battles_group
from tournament_assets.foundation.errors import InputError, WorkError
from tournament_assets.graph.automation.jobs import Stage
from tournament_assets.graph.local_runs import open_instance
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.judging.costs.prices import load_newest_prices, newest_prices_hash
from tournament_assets.project.project_files import prepare_dagster_home
from tournament_assets.storage.run_directory import find_runs
from tournament_assets.tournament.judges import parse_rubric

SECRET = "sk-test-8b1f2c"
PAIRS_PER_PROMPT = len(ENTRANTS) * (len(ENTRANTS) - 1) // 2
PILOT_PAIRS = {"factuality": 4 * PAIRS_PER_PROMPT, "calibration": 6 * PAIRS_PER_PROMPT}


@pytest.fixture
def judge_server(tmp_path: Path) -> Iterator[LoopbackServer]:
    # One for each test: a project whose ledger does not know what the server was asked by another
    # project of the same texts is stopped.
    with LoopbackServer(directory=tmp_path / "judge") as server:
        yield server


@pytest.fixture
def judge_environment(
    judge_server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    return {"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_BASE_URL": judge_server.url}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def alone(elsewhere: Path, tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    """A run of one dimension with a judge, a number of orderings and a folder of its own."""
    project = make_project(tmp_path_factory.mktemp("alone") / "project", dimensions=["calibration"])
    return project.run(judge_model="loopback-other", n_perms=7, output_dir=elsewhere)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_directory_holds_every_file_of_the_layout(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    paths = (path for path in summary.directory.rglob("*") if path.is_file())
    files = {str(path.relative_to(summary.directory)) for path in paths}
    assert files == {
        "SHA256SUMS",
        "manifest.json",
        "matches/matches.jsonl",
        "verdicts/factuality.jsonl",
        "verdicts/calibration.jsonl",
        "elo_results.json",
        "elo_ratings.json",
        "elo_per_perm.npz",
        "pairwise_winrates.csv",
        "battles.parquet",
        "report.md",
        "report.html",
        "leaderboard.csv",
    }


def test_the_rating_of_the_leader_stands_in_four_files_at_most(
    finished_pilot: FinishedPilot,
) -> None:
    directory = finished_pilot.summary.directory
    for dimension in PILOT_PAIRS:
        board = [row for row in leaderboard_of(directory) if row["dimension"] == dimension]
        rating = board[0]["rating"]
        written = rf"(?<![\w.])(?:{re.escape(repr(rating))}|{rating:.0f}|{rating:.1f})(?!\w|\.\d)"
        files = {
            path.name
            for path in directory.rglob("*")
            if path.is_file() and re.search(written.encode(), path.read_bytes())
        }
        assert {"leaderboard.csv", "elo_ratings.json"} <= files
        assert files <= {"leaderboard.csv", "elo_ratings.json", "report.md", "report.html"}


def test_the_manifest_says_what_a_result_was_made_with(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    versions = manifest["versions"]
    assert versions["program"] == metadata.version("tournament-assets")
    assert versions["python"].endswith(platform.python_version())
    assert versions["libraries"]["numpy"] == metadata.version("numpy")
    assert manifest["project_commit"] is None  # the project is not under version control
    assert manifest["thresholds"]["max_unjudged_rate"] == 0.02
    assert manifest["inputs"]["price_list"] == {
        "date": load_newest_prices().date,
        "hash": newest_prices_hash(),
    }
    # Recorded responses come from a file, which has a hash, and from no weights.
    assert [sorted(each) for each in manifest["inputs"]["entrants"].values()] == [["hash"]] * 3
    page = (summary.directory / "report.html").read_text()
    provenance = page[page.rindex("Provenance") :]
    assert f"numpy {versions['libraries']['numpy']}" in provenance
    assert "thresholds" in page


def test_the_rubrics_that_judged_stand_in_the_manifest(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    for dimension in PILOT_PAIRS:
        text = manifest["rubrics"][dimension]
        rubric = parse_rubric(text, dimension=dimension, where="the manifest")
        assert rubric.content_hash == manifest["inputs"]["rubrics"][dimension]["hash"]


def test_every_dimension_has_all_pairs_and_factuality_none_of_the_curated_prompts(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert manifest["selected_prompts"] == 6
    assert manifest["bank_size"] == N_WITH_GOLD + N_CURATED
    assert manifest["pairs"] == PILOT_PAIRS
    for dimension, pairs in PILOT_PAIRS.items():
        verdicts = json_lines(summary.directory / "verdicts" / f"{dimension}.jsonl")
        assert len(verdicts) == pairs
    factuality = json_lines(summary.directory / "verdicts" / "factuality.jsonl")
    assert {row["source"] for row in factuality} == {"recall"}
    assert len(json_lines(summary.directory / "matches" / "matches.jsonl")) == sum(
        PILOT_PAIRS.values()
    )


def test_the_traces_have_one_row_an_ordering_and_numbers_for_the_rated(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    results = json.loads((summary.directory / "elo_results.json").read_text())
    with np.load(summary.directory / "elo_per_perm.npz", allow_pickle=False) as archive:
        for dimension in PILOT_PAIRS:
            data = archive[f"{dimension}__data"]
            assert data.shape == (20, len(ENTRANTS))
            assert data.dtype == np.float64
            assert archive[f"{dimension}__entrants"].tolist() == list(ENTRANTS)
            means = [results["primary"][dimension][name]["mean"] for name in ENTRANTS]
            for column, mean in zip(data.T, means, strict=True):
                assert (
                    np.isnan(column).all() if mean is None else column.mean() == pytest.approx(mean)
                )


def test_the_better_entrant_leads_the_leaderboard(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    factuality = summary.leaderboard[summary.leaderboard["dimension"] == "factuality"]
    assert factuality["entrant_id"].tolist()[0] == "careful"
    assert factuality["entrant_id"].tolist()[-1] == "sloppy"
    results = json.loads((summary.directory / "elo_results.json").read_text())
    assert results["default_k"] == 16.0
    assert set(results["k_sensitivity"]["factuality"]) == {"1", "4", "8", "16", "32"}
    primary = results["primary"]["factuality"]["careful"]
    swept = results["k_sensitivity"]["factuality"]["16"]["careful"]
    assert primary["mean"] == swept["mean"]


def test_every_artifact_says_that_the_loopback_judge_is_no_language_model(
    finished_pilot: FinishedPilot,
) -> None:
    summary = finished_pilot.summary
    words = "loopback (lexical, not a language model)"
    assert words in (summary.directory / "report.md").read_text().split("## Verdict")[0]
    page = (summary.directory / "report.html").read_text()
    assert words in page
    assert 'id="battle-data"' in page
    assert words in (summary.directory / "manifest.json").read_text()
    assert set(summary.leaderboard["judge"]) == {words}


def test_a_second_run_asks_the_judge_nothing_and_stores_the_same_bytes(
    tmp_path: Path, judge_server: LoopbackServer, judge_environment: dict[str, str]
) -> None:
    project = make_project(tmp_path / "project", service="anthropic", dimensions=["calibration"])
    first = project.run(environment=judge_environment)
    asked = judge_server.log.to_dict()
    stored = project.stored_files()
    second = project.run(environment=judge_environment)
    assert first.requests_submitted > 0
    assert second.requests_submitted == 0
    assert judge_server.log.to_dict() == asked
    assert project.stored_files() == stored
    assert second.directory != first.directory


def test_any_deleted_file_is_made_again_byte_for_byte(
    finished_pilot: FinishedPilot, tmp_path: Path
) -> None:
    project = finished_pilot.copy(tmp_path / "project")
    stored = project.stored_files()
    assert len(stored) > 20
    for name in stored:
        (project.folder / "storage" / name).unlink()
    summary = project.run()
    assert project.stored_files() == stored
    assert summary.requests_submitted == 0


def test_the_headline_judges_the_whole_bank_and_warms_the_cache_first(
    tmp_path: Path, judge_server: LoopbackServer, judge_environment: dict[str, str]
) -> None:
    project = make_project(tmp_path / "project", service="anthropic")
    made = project.tables("judge_verdicts", mode="headline", environment=judge_environment)
    assert len(made.frame("selected_prompts")) == N_WITH_GOLD + N_CURATED
    verdicts = {name: made.frame("judge_verdicts", name) for name in PILOT_PAIRS}
    assert {name: len(frame) for name, frame in verdicts.items()} == {
        "factuality": N_WITH_GOLD * PAIRS_PER_PROMPT,
        "calibration": (N_WITH_GOLD + N_CURATED) * PAIRS_PER_PROMPT,
    }
    assert {*verdicts["factuality"]["settled_by"]} == {"claude-headline"}
    asked = judge_server.log
    assert asked.batches == len(PILOT_PAIRS)
    # A judge's trial asks one request in ten, each pair being two.
    assert asked.messages == sum(math.ceil(2 * len(frame) / 10) for frame in verdicts.values())
    submitted = made.metadata["judge_requests", ""]["requests_submitted_now"]
    assert asked.requests + asked.messages == submitted


def test_many_first_runs_at_once_share_a_fresh_home(tmp_path: Path) -> None:
    def count(_: int) -> int:
        with open_instance(tmp_path) as instance:
            return len(instance.get_runs())

    with ThreadPoolExecutor(6) as threads:
        assert [*threads.map(count, range(6))] == [0] * 6


def test_the_api_key_is_written_nowhere(
    tmp_path: Path, judge_environment: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    project = make_project(tmp_path / "project", service="anthropic", dimensions=["factuality"])
    project.run_recorded(environment=judge_environment)
    leaks = [
        path
        for path in project.folder.rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert leaks == []
    output = capfd.readouterr()
    assert SECRET not in output.out + output.err


def test_skipping_the_judge_with_an_empty_ledger_fails_and_publishes_nothing(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project")
    with pytest.raises(WorkError, match=" 24 presentations "):
        project.run(skip_judging=True)
    assert not (project.folder / "runs").exists()


def test_skipping_the_judge_rates_what_the_ledger_holds_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=["factuality"])
    project.tables("judge_verdicts", limit_pairs=6)
    summary = project.run(skip_judging=True)
    assert summary.requests_submitted == 0
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert manifest["replies_pending"] > 0
    assert any("unjudged_rate" in warning for warning in summary.warnings)
    assert "without a verdict" in (summary.directory / "report.html").read_text()


def test_another_judge_model_and_number_of_orderings_can_be_asked_for(
    alone: RunSummary, elsewhere: Path
) -> None:
    manifest = json.loads((alone.directory / "manifest.json").read_text())
    assert manifest["judge_model"] == "loopback-other"
    assert manifest["n_perms"] == 7
    command = "configs/small.yaml --mode pilot --judge-model loopback-other --n-perms 7"
    assert manifest["command"].endswith(command)
    assert f"{command}\n" in (alone.directory / "report.md").read_text()
    assert alone.directory.parent == elsewhere


def test_a_tournament_with_one_dimension_runs(alone: RunSummary) -> None:
    assert set(alone.leaderboard["dimension"]) == {"calibration"}


def test_all_bad_inputs_are_named_at_once_before_anything_is_spent(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", service="anthropic")
    (project.folder / "rubrics" / "factuality.txt").write_text("judge well\n")
    (project.folder / "responses_careful.jsonl").unlink()
    with (project.folder / "bank.jsonl").open("a") as file:
        file.write('{"prompt_id": "recall-0", "text": "again", "source": "curated"}\n{broken\n')
    with pytest.raises(InputError) as caught:
        project.run()
    text = str(caught.value)
    assert "bank.jsonl:14: " in text
    assert "rubrics/factuality.txt:1" in text
    assert "responses_careful.jsonl" in text
    assert "ANTHROPIC_API_KEY" in text
    assert not (project.folder / ".dagster_home").exists()
    assert not (project.folder / "ledger").exists()


def test_battles_hold_every_judged_pair(finished_pilot: FinishedPilot) -> None:
    summary = finished_pilot.summary
    battles = pd.read_parquet(summary.directory / "battles.parquet")
    assert len(battles) == sum(PILOT_PAIRS.values())
    assert set(battles["source"]) == {"llm-judge"}


def test_an_input_that_breaks_while_the_run_goes_on_is_failed_work_not_unspent_input(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project")

    def lose_the_responses(stage: Stage, label: str) -> None:
        if stage.title == "responses" and label.startswith("careful"):
            (project.folder / "responses_careful.jsonl").unlink()

    with pytest.raises(WorkError, match=r"responses_careful\.jsonl"):
        project.run_recorded(on_start=lose_the_responses)


def test_a_limited_run_says_so_before_any_number(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    summary = project.run(limit_pairs=5)
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert manifest["pairs"] == {"factuality": 5, "calibration": 5}
    assert manifest["pairs_left_out_by_limit"] == {"factuality": 7, "calibration": 13}
    head = (summary.directory / "report.md").read_text().split("## Verdict")[0]
    assert "factuality 7, calibration 13." in head
    assert manifest["command"].split()[-2:] == ["--limit-pairs", "5"]


def test_a_whole_run_leaves_nothing_out(finished_pilot: FinishedPilot) -> None:
    summary = finished_pilot.summary
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert manifest["pairs_left_out_by_limit"] == {"factuality": 0, "calibration": 0}


def test_a_mode_of_ones_own_runs_beside_the_others_and_leaves_its_own_run(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    (free, _) = yaml.safe_load(project.config_path.read_text())["judges"]
    claude = {"service": "anthropic", "model": "claude-opus-5-5"}
    project.merge_config(
        judges=[claude, {**free, "name": "free"}],
        modes={
            "pilot": {"judges": ["claude-opus-5-5"]},
            "headline": {"judges": ["claude-opus-5-5"]},
            "nightly": {"judges": ["free"], "share": 0.5},
        },
    )
    summary = project.run("nightly")
    assert set(summary.leaderboard["dimension"]) == {"factuality"}
    assert summary.directory.name.startswith("nightly_")
    found = find_runs(project.folder / "runs", tournament_id="small", mode="nightly")
    assert found.directories == (summary.directory,)
    assert found.problems == ()
    manifest = json.loads((summary.directory / "manifest.json").read_text())
    assert manifest["mode"] == "nightly"
    assert manifest["command"].endswith("--mode nightly")
    kept = {path.stem for path in (project.folder / "storage").rglob("leaderboard/*")}
    assert kept == {"nightly"}
    assert "loopback" in summary.leaderboard["judge"][0]


def test_the_ratings_of_a_run_come_back_from_its_battle_file(
    finished_pilot: FinishedPilot,
) -> None:
    path = finished_pilot.summary.directory / "battles.parquet"
    result = CliRunner().invoke(
        battles_group, ["rate", str(path), "--json"], catch_exceptions=False
    )
    rated = json.loads(result.stdout)["ratings"]
    assert [each["dimension"] for each in rated] == list(PILOT_PAIRS)
    tables = finished_pilot.project.folder / "storage" / "small"
    for each in rated:
        for name, table in (("elo", "elo_ratings"), ("ratings", "ratings")):
            stored = pq.read_table(tables / table / each["dimension"] / "pilot.parquet")
            methods = (None, "bradley_terry")
            rows = [row for row in stored.to_pylist() if row.get("method") in methods]
            for ours, theirs in zip(each[name], rows, strict=True):
                assert ours.pop("shown_above", None) == theirs.pop("shown_above", None)
                assert ours == pytest.approx(theirs)


def test_the_databases_of_a_projects_own_home_are_read_by_their_owner_alone(
    tmp_path: Path,
) -> None:
    @dg.asset
    def something() -> int:
        return 1

    home = prepare_dagster_home(tmp_path, None)
    before = os.umask(0)
    try:
        with open_instance(home) as instance:
            assert dg.materialize([something], instance=instance).success
    finally:
        os.umask(before)
    databases = [*home.rglob("*.db")]
    assert len(databases) >= 4, "one is of the run"
    assert {path.stat().st_mode & 0o777 for path in databases} == {0o600}
