"""What a run skips, and that skipping changes nothing of what is stored."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.projects import (
    ENTRANTS,
    LOOKING_BACK,
    FinishedPilot,
    SmallProject,
    bank_rows,
    make_project,
    recorded_entrants,
    recorded_responses,
    write_json_lines,
)
from tournament_assets.definitions import build_definitions
from tournament_assets.foundation.errors import WorkError
from tournament_assets.graph.automation.jobs import Stage, build_stages
from tournament_assets.graph.partitions import asset_key
from tournament_assets.graph.run_summaries import RunSummary
from tournament_assets.graph.table import rows_of
from tournament_assets.project.plan import load_plan


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> FinishedPilot:
    """A pilot of one dimension that ran, for edits that need no second one."""
    folder = tmp_path_factory.mktemp("narrow") / "project"
    project = make_project(folder, dimensions=("factuality",))
    return FinishedPilot(project, project.run_recorded())


def run(project: SmallProject, **options: Any) -> tuple[list[tuple[str, str]], RunSummary]:
    """Run without what is fresh; return the jobs that ran, and what there is to show."""
    ran: list[tuple[str, str]] = []

    def note(stage: Stage, label: str) -> None:
        ran.append((stage.job_name.removeprefix("__ASSET_JOB_small_"), label))

    return ran, project.run_recorded(everything=False, on_start=note, **options)


def jobs_recorded(project: SmallProject) -> list[str]:
    """Return the job of every run that Dagster has recorded, the oldest first."""
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        return [run.job_name for run in instance.get_runs(ascending=True)]


def edit_rubric(project: SmallProject) -> None:
    path = project.folder / "rubrics" / "factuality.txt"
    path.write_text(path.read_text().replace("better", "truer").replace("version: 1", "version: 2"))


def edit_bank(project: SmallProject) -> None:
    rows = bank_rows()
    rows[0]["text"] += " Say it in a word."
    write_json_lines(project.folder / "bank.jsonl", rows)


def edit_responses(project: SmallProject) -> None:
    path = project.folder / "responses_sloppy.jsonl"
    path.write_text(path.read_text().replace("zebra", "giraffe"))


def edit_k_factor(project: SmallProject) -> None:
    project.edit_config(ratings={**ratings_of(project), "k_factor": 8.0})


def ratings_of(project: SmallProject) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(project.config_path.read_text()).get("ratings", {})
    return values


def edit_threshold(project: SmallProject) -> None:
    project.edit_config(checks={"max_unjudged_rate": 0.5})


def edit_description(project: SmallProject) -> None:
    project.edit_config(description="Another description.")


def delete_table(project: SmallProject) -> None:
    (project.folder / "storage" / "small" / "win_rates" / "factuality" / "pilot.parquet").unlink()


Edit = Callable[[SmallProject], None]
EDITS: list[Edit] = [
    *(edit_rubric, edit_responses, delete_table),
    *(edit_bank, edit_k_factor, edit_threshold, edit_description),
]


def test_a_run_with_nothing_changed_runs_nothing_and_shows_the_run_before(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    first = project.run_recorded()
    recorded = jobs_recorded(project)
    assert recorded == ["small_pilot"]
    ran, again = run(project)
    assert ran == []
    assert jobs_recorded(project) == recorded
    assert not again.is_new
    assert again.directory == first.directory
    assert len(list((project.folder / "runs").iterdir())) == 1
    assert again.leaderboard.equals(first.leaderboard)
    assert (again.warnings, again.cautions) == (first.warnings, first.cautions)

    shutil.rmtree(first.directory)
    ran, third = run(project)
    assert ran == [("report", "pilot")]
    assert third.is_new
    assert third.directory.is_dir()

    ran, _ = run(project, n_perms=7)
    assert ran == [("judging", "calibration · pilot"), ("report", "pilot")]
    # The orderings of the last run are not those that are asked for now.
    ran, _ = run(project)
    assert ("judging", "calibration · pilot") in ran


@pytest.mark.parametrize("change", EDITS)
def test_after_an_edit_a_run_that_skips_stores_what_one_of_everything_would(
    finished_pilot: FinishedPilot, narrow: FinishedPilot, tmp_path: Path, change: Edit
) -> None:
    # An edited rubric is the one edit that leaves another dimension as it was.
    finished = finished_pilot if change is edit_rubric else narrow
    project = finished.copy(tmp_path / "project")
    change(project)
    ran, _ = run(project)
    skipping = project.stored_files()
    project.run()
    assert skipping == project.stored_files()
    if change is edit_rubric:
        assert ran == [
            ("price", "pilot"),
            ("ask_judge", "pilot"),
            ("judging", "factuality · pilot"),
            ("report", "pilot"),
        ]
    if change is edit_bank:
        assert [job for job, _ in ran[:2]] == ["prompts", "responses"]
    else:
        assert ("responses", "careful · pilot") not in ran


def test_files_that_vanish_stop_no_other_entrant_and_are_named_together(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))

    def remove_two(stage: Stage, _: str) -> None:
        if stage.name == "responses":
            for entrant in ("careful", "sloppy"):
                (project.folder / f"responses_{entrant}.jsonl").unlink(missing_ok=True)

    with pytest.raises(WorkError) as failure:
        project.run_recorded(on_start=remove_two)
    lines = str(failure.value).splitlines()
    assert [line.partition(" failed: ")[0] for line in lines] == [
        "responses (careful · pilot)",
        "responses (sloppy · pilot)",
    ]
    storage = project.folder / "storage" / "small"
    assert [*(storage / "entrant_responses").rglob("*.parquet")] == [
        storage / "entrant_responses" / "mixed" / "pilot.parquet"
    ]
    assert not (storage / "match_list").exists()
    for entrant in ("careful", "sloppy"):
        path = project.folder / f"responses_{entrant}.jsonl"
        write_json_lines(path, recorded_responses(entrant))
    ran, _ = run(project)
    assert [label for job, label in ran if job == "responses"] == [
        "careful · pilot",
        "sloppy · pilot",
    ]


def test_every_entrant_has_a_step_whatever_signs_its_id_has(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    names = ("a-b", "a.b", "模型")
    entrants = [
        {**entrant, "entrant_id": name}
        for name, entrant in zip(names, recorded_entrants(ENTRANTS), strict=True)
    ]
    project.edit_config(entrants=entrants)
    project.run_recorded()
    stored = project.folder / "storage" / "small" / "entrant_responses"
    assert {path.parent.name for path in stored.rglob("*.parquet")} == {*names}


def test_dagster_knows_of_a_run_what_it_knows_of_its_own(tmp_path: Path) -> None:
    """By these tags its pages mark what is not in sync."""
    project = make_project(tmp_path / "project", dimensions=("calibration",))
    project.run_recorded()
    recorded = newest_tags(project)
    plan = load_plan(project.config_path, project.environment)
    definitions = build_definitions([plan], project.folder, project.environment)
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        for stage in build_stages(plan):
            for key in stage.partition_keys(plan, "pilot"):
                definitions.resolve_job_def(stage.job_name).execute_in_process(
                    instance=instance, partition_key=key
                )
    of_assets = newest_tags(project)
    for name, tags in recorded.items():
        assert [*tags] == [*of_assets[name]], name
    compared = {
        f"dagster/input_data_version/small/{name}" for name in ("prompt_file", "price_list")
    } | {"dagster/data_version"}
    for name, tags in recorded.items():
        for tag in () if name in LOOKING_BACK else compared & tags.keys():
            assert tags[tag] == of_assets[name][tag], (name, tag)
        if rows_of(plan)[name].settings is not None:
            assert tags["dagster/code_version"] == of_assets[name]["dagster/code_version"]


def newest_tags(project: SmallProject) -> dict[str, dict[str, str]]:
    """Return the tags of the newest materialisation of every asset, in alphabetical order."""
    plan = load_plan(project.config_path, project.environment)
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        return {
            name: dict(sorted((event.asset_materialization.tags or {}).items()))
            for name in rows_of(plan)
            if (event := instance.get_latest_materialization_event(asset_key(plan, name)))
            and event.asset_materialization
        }
