"""The trust panel, the fair comparison and `tournament report`, through the graph."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.graph.paid_projects import PaidProject, paid_project
from tests.projects import ENTRANTS, SmallProject, make_project
from tests.rows import table_rows
from tournament_assets.cli import main
from tournament_assets.storage.tables import SCHEMAS, decode_parquet

JOB = "small_test_judge"
CHECKS = {
    "min_retest_agreement": 0.5,
    "min_identical_ties": 0.5,
    "min_transitivity_p": 0.01,
    "max_length_effect": 10_000,
}


def panel_of(paid: PaidProject) -> dict[tuple[str, str | None], dict[str, Any]]:
    return {(row["measure"], row["subject"]): row for row in paid.rows("trust_panel")}


def panel_checks(paid: PaidProject) -> dict[str, dg.AssetCheckEvaluation]:
    """Materialise the panel anew, and return what its checks say."""
    with dg.DagsterInstance.from_config(paid.project.environment["DAGSTER_HOME"]) as instance:
        job = paid.definitions().resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=instance,
            partition_key=dg.MultiPartitionKey({"mode": "pilot", "dimension": "factuality"}),
            asset_selection=[dg.AssetKey(["small", "trust_panel"])],
        )
        return {each.check_name: each for each in result.get_asset_check_evaluations()}


def fair_rows(project: SmallProject) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / "fair_comparison" / "pilot.parquet"
    return table_rows("fair_comparison", decode_parquet("fair_comparison", path.read_bytes()))


def invoke(project: SmallProject, *arguments: str | Path) -> Result:
    command = ["fair-comparison", "--config", project.config_path, "--mode", "pilot", *arguments]
    return CliRunner(env=project.environment).invoke(
        main, [str(each) for each in command], catch_exceptions=False
    )


@pytest.mark.slow
def test_lights_come_on_once_the_judge_is_tested_and_go_out_with_the_rubric(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid:
        paid.configure_judge(retest_pairs=5, control_pairs=2)
        paid.project.edit_config(checks=CHECKS)
        summary = paid.run_recorded()
        before = panel_of(paid)
        assert before["test_retest", None]["state"] == "not measured"
        assert f"the job {JOB} does it" in before["test_retest", None]["detail"]
        assert any("test_retest" in each and "not measured" in each for each in summary.warnings)
        assert before["unjudged", "careful"]["state"] == "green"

        assert paid.events(JOB).success
        checks = panel_checks(paid)
        after = panel_of(paid)
        assert set(checks) == {
            "position_bias",
            "flip_direction",
            "swap_consistency",
            "test_retest",
            "length_effect",
            "longer_wins",
            "identical_controls",
            "transitivity_within_prompts",
            "transitivity_of_majorities",
            "unjudged",
        }
        for measure in ("test_retest", "identical_controls"):
            assert after[measure, None]["state"] == "green"
            assert after[measure, None]["value"] == 1.0
            assert checks[measure].passed
        assert after["test_retest", None]["n"] == 5
        assert after["corrupted_controls", None]["state"] == "no threshold"
        assert after["judge_agreement", None]["state"] == "not measured"
        assert "no other judge model" in after["judge_agreement", None]["detail"]

        rubric = paid.project.folder / "rubrics" / "factuality.txt"
        rubric.write_text(rubric.read_text() + "\nAnd be strict.\n")
        paid.run_recorded()
        outdated = panel_of(paid)
        for measure in ("test_retest", "identical_controls"):
            assert outdated[measure, None]["state"] == "not measured"
            assert f"run the job {JOB} again" in outdated[measure, None]["detail"]


@pytest.mark.slow
def test_the_judges_of_two_modes_are_compared_on_what_both_were_shown(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        paid.configure_judge(retest_pairs=0, control_pairs=0)
        paid.run_recorded()
        paid.run_recorded(mode="headline")
        assert paid.events(JOB).success
        (row,) = paid.rows("judge_agreement")
        assert (row["judge_model"], row["other_judge_model"]) == ("claude-pilot", "claude-headline")
        assert row["other_mode"] == "headline"
        # One judge under two names: it says the same of the four prompts of the pilot.
        assert (row["n"], row["agreement"]) == (12, 1.0)
        panel_checks(paid)
        line = panel_of(paid)["judge_agreement", "claude-headline"]
        assert (line["value"], line["n"]) == (row["kappa"], 12)


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    """A finished pilot whose judge said nothing of any pair with `sloppy` on some prompts."""
    project = make_project(tmp_path_factory.mktemp("outage") / "project")
    rows = [
        json.loads(line)
        for line in (project.folder / "responses_sloppy.jsonl").read_text().splitlines()
    ]
    config = yaml.safe_load(project.config_path.read_text())
    project.edit_config(
        pilot={**config["pilot"], "strata": {"recall": 8, "curated": 4}},
        families={"careful": "loopback"},
    )
    # Whoever answers nothing to a prompt leaves it out for everyone.
    kept = [row for row in rows if row["prompt_id"] not in ("recall-1", "curated-0")]
    (project.folder / "responses_sloppy.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in kept)
    )
    project.run_recorded(partial=True)
    return project


def test_the_stored_comparison_counts_what_is_missing_as_nothing(outage: SmallProject) -> None:
    rows = {
        (row["dimension"], row["basis"], row["entrant_id"]): row
        for row in fair_rows(outage)
        if row["stratum_by"] == "all"
    }
    assert rows["factuality", "common", "careful"]["prompts"] == 7
    assert rows["factuality", "planned", "careful"]["prompts"] == 8
    assert rows["calibration", "common", "careful"]["prompts"] == 10
    planned = rows["calibration", "planned", "careful"]
    assert planned["pairs"] == 24
    assert planned["share"] == pytest.approx(planned["points"] / 24)
    assert rows["calibration", "all", "careful"]["pairs"] == 20
    assert rows["factuality", "common", "careful"]["same_family"] is True
    assert rows["factuality", "common", "mixed"]["same_family"] is False


def test_the_command_prints_what_is_stored_and_names_the_page(outage: SmallProject) -> None:
    result = invoke(outage)
    assert result.exit_code == 0, result.output
    assert "everyone answered and was judged on 7 of 8 planned prompts" in result.output
    assert "careful (judge's family)" in result.output
    (page,) = outage.folder.glob("runs/*/report.html")
    assert str(page) in result.output.replace("\n", "")
    found = json.loads(invoke(outage, "--json").stdout)
    assert found["fair_comparison"] == fair_rows(outage)
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
    assert named <= set(SCHEMAS["fair_comparison"].names)
    assert {"share", "share_rank", "rating", "gap_low", "prompts", "pairs"} <= named
    row = next(row for row in fair_rows(outage) if row["basis"] == "common")
    line = next(line for line in text.splitlines() if line.startswith(f"| {row['entrant_id']}"))
    assert f"{100 * row['share']:.1f} %" in line


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
    alone.run()
    assert found["fair_comparison"] == fair_rows(alone)


def test_what_cannot_be_left_out_or_is_not_stored_is_said(
    outage: SmallProject, tmp_path: Path
) -> None:
    result = invoke(outage, "--exclude", "nobody")
    assert result.exit_code == 2
    assert f"expected some of {', '.join(ENTRANTS)}" in result.output.replace("\n", "")
    empty = make_project(tmp_path / "empty")
    result = invoke(empty)
    assert result.exit_code == 2
    words = " ".join(result.output.split())
    assert "nothing is stored of fair_comparison, mode 'pilot'" in words
    assert "tournament run --config configs/small.yaml --mode pilot" in words
