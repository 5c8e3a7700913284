import csv
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.extras.archives.builders import (
    MODELS,
    RUNS,
    TASKS,
    SmallArchive,
    description,
    documented,
    failed_document,
    failed_line,
    make_archive,
    run_document,
    zero_document,
)
from tests.loopback.threaded_servers import LoopbackServer
from tournament_assets.cli import main

HOSTILE = "=cmd|'/C calc'!A0 <script>alert(1)</script> [x](http://evil) \x1b[31m| *b*"


def run(*words: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(
        main, ["archive", *map(str, words)], env={"COLUMNS": "200"}, catch_exceptions=False
    )
    assert result.exit_code == code, result.output
    return result


def troubled_archive(folder: Path, **changes: Any) -> SmallArchive:
    """An archive with one of every trouble."""
    archive = make_archive(folder, **changes)
    archive.put("bob", "t1-add", "run1", failed_document())
    archive.put("cyd", "t1-add", "run1", '{"run_score": 0.4, "tra')
    archive.put("cyd", "t2-plan", "run1", zero_document())
    archive.run_path("cyd", "t2-plan", "run2").unlink()
    archive.log("cyd", failed_line("t2-plan", "run2"))
    return archive


def asking(model: str) -> dict[str, Any]:
    """How a real judge is asked again."""
    judge = {"service": "anthropic", "model": model}
    return {**description()["rejudging"], "judge": judge}


def tables(folder: Path) -> dict[str, list[dict[str, str]]]:
    return {
        path.stem: list(csv.DictReader(path.read_text().splitlines()))
        for path in sorted(folder.glob("*.csv"))
    }


def test_the_audit_shows_every_trouble_where_it_should(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    text = run("audit", archive.description_path, code=1).stdout
    assert "cyd/t1-add/run1.json" in text
    values = json.loads(run("audit", archive.description_path, "--json", code=1).stdout)
    models = {row["model_id"]: row for row in values["models"]}
    assert (models["bob"]["planned"], models["bob"]["judge_failed"]) == (12, 1)
    assert (models["cyd"]["broken"], models["cyd"]["absent"], models["cyd"]["zero"]) == (1, 1, 1)
    assert values["broken_files"][0]["path"] == "cyd/t1-add/run1.json"
    cyd = next(row for row in values["logs"] if row["model_id"] == "cyd")
    assert (cyd["missing_explained"], cyd["missing_unexplained"]) == (1, 1)
    broken = next(row for row in values["runs"] if row["path"] == "cyd/t1-add/run1.json")
    assert (broken["run_score"], bool(broken["problem"])) == (None, True)


def test_a_model_can_be_left_out_everywhere(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    values = json.loads(
        run("report", archive.description_path, "--exclude", "cyd,bob", "--json").stdout
    )
    assert values["ranking"] == ["ada"]
    assert {row["model_id"] for row in values["runs"]} == {"ada"}
    assert values["excluded"] == ["bob", "cyd"]
    refused = run("report", archive.description_path, "--exclude", "dan", code=2)
    assert "ada, bob, cyd" in refused.stderr
    run("audit", archive.description_path, "--exclude", "ada,bob,cyd", code=2)


def test_every_number_of_the_report_stands_in_a_table_beside_it(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    out = tmp_path / "out" / "fair.md"
    shown = run("report", archive.description_path, "--markdown", out).stdout
    markdown = out.read_text()
    for heading in (
        *("Verdict", "Ranking by clean mean", "Gaps and significance", "On common support"),
        *("The same for all", "Coverage in detail", "Means by tier", "Glossary", "Caveats"),
        "Where the numbers are",
    ):
        assert f"## {heading}\n" in markdown
        assert heading in shown
    found = tables(tmp_path / "out" / "fair_tables")
    ranking = markdown.split("## Ranking by clean mean")[1].split("##")[0]
    rows = [line.strip("| ").split(" | ") for line in ranking.splitlines() if line[:3] == "| 1"]
    by_model = {row["label"]: row for row in found["models"]}
    (first,) = rows
    model = by_model[first[1]]
    assert first[2] == f"{float(model['clean_mean']):.4f}"
    assert first[3] == f"{float(model['judge_mean']):.3f}"
    assert first[4:7] == [model["at_ceiling"], model["archived"], model["planned"]]
    assert first[9] == f"{float(model['normalised']):.4f}"
    # The means are those of the runs in the other table.
    for label, row in by_model.items():
        clean = [
            float(each["run_score"])
            for each in found["runs"]
            if each["model_id"] == row["model_id"] and each["is_clean"] == "True"
        ]
        assert float(row["clean_mean"]) == pytest.approx(sum(clean) / len(clean)), label
        assert float(row["normalised"]) == pytest.approx(sum(clean) / 12)
    assert "runs: cyd 2." in markdown
    assert "repeated: Bob 1." in markdown


def test_the_same_archive_gives_the_same_bytes(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    run("report", archive.description_path, "--markdown", tmp_path / "a.md")
    run("report", archive.description_path, "--markdown", tmp_path / "b.md")
    first = (tmp_path / "a.md").read_text().replace("a_tables", "b_tables")
    assert first == (tmp_path / "b.md").read_text()
    for path in (tmp_path / "a_tables").iterdir():
        assert path.read_bytes() == (tmp_path / "b_tables" / path.name).read_bytes()


def test_what_others_wrote_is_harmless_everywhere(tmp_path: Path) -> None:
    models = description()["models"]
    models[1]["label"] = HOSTILE
    archive = make_archive(tmp_path, models=models)
    for turn in RUNS:
        archive.put("bob", "t1-add", turn, run_document(environment={"image": HOSTILE}))
    archive.put("bob", "t1-sort", "run1", failed_document(f"gateway is restarting {HOSTILE}"))
    archive.put("bob", "t1-sort", "run2", run_document(error="=1+1"))
    out = tmp_path / "fair.md"
    shown = run("report", archive.description_path, "--markdown", out).stdout
    shown += run("audit", archive.description_path, code=1).stdout
    shown += run("rejudge", archive.description_path, "--dry-run").stdout
    assert "\x1b[31m" not in shown
    markdown = out.read_text()
    assert "<script" not in markdown
    assert "\\[x\\](" in markdown
    assert markdown.count("](") == markdown.count("\\](")
    for name, rows in tables(tmp_path / "fair_tables").items():
        for row in rows:
            for column, cell in row.items():
                is_number = cell.lstrip("-").replace(".", "").replace("e-", "").isdigit()
                assert is_number or not cell.startswith(("=", "+", "-", "@")), (name, column)
    assert any(row["problem"] == "'=1+1" for row in tables(tmp_path / "fair_tables")["runs"])


def test_differing_conditions_are_said_loudly(archive: SmallArchive) -> None:
    archive.put("bob", "t1-add", "run1", run_document(environment={"image": "harness:5"}))
    shown = run("report", archive.description_path).stdout
    assert "NOT THE SAME for all runs: image" in shown


def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shown = run("rejudge", archive.description_path, "--dry-run").stdout
    assert "failed for 1 runs; 1 of" in shown
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_dry_run_shows_the_recorded_score_of_every_run_it_would_judge_again(
    tmp_path: Path,
) -> None:
    runs = [f"run{number}" for number in range(20)]
    archive = make_archive(tmp_path, plan={"tasks": list(TASKS), "runs": runs}, fill=False)
    for task, turn in product(TASKS, runs):
        archive.put("cyd", task, turn, failed_document())
    unscored = failed_document()
    del unscored["judge_result"]["score"]
    archive.put("cyd", TASKS[0], "run0", unscored)
    shown = run("rejudge", archive.description_path, "--dry-run").stdout
    rows = re.findall(r"(cyd/t\S+)\.json +(\S+) .* can be judged again", shown)
    recorded = {f"cyd/{task}/{turn}": "0.000" for task, turn in product(TASKS, runs)}
    assert dict(rows) == {**recorded, f"cyd/{TASKS[0]}/run0": "–"}


def test_a_dry_run_says_what_it_would_cost(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    shown = run("rejudge", archive.description_path, "--dry-run").stdout
    assert "1 requests of loopback-lexical" in shown
    assert "up to $0.00." in shown
    for model, cost in (("claude-sonnet-5-5", r"up to \$0\.08"), ("claude-of-tomorrow", "unknown")):
        archive.describe(rejudging=asking(model))
        assert re.search(cost, run("rejudge", archive.description_path, "--dry-run").stdout)


def test_judging_again_with_the_loopback_judge_mends_the_archive(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    shown = run("rejudge", archive.description_path).stdout
    assert re.findall(r"\d+", shown)[-3:] == ["1", "1", "0"]  # received, rewritten, left
    values = json.loads(run("audit", archive.description_path, "--json", code=1).stdout)
    bob = next(row for row in values["models"] if row["model_id"] == "bob")
    assert (bob["judge_failed"], bob["rejudged"], bob["off_rule"]) == (0, 1, 0)
    assert "loopback-lexical" in run("report", archive.description_path).stdout
    again = archive.run_path("bob", "t1-add", "run1").read_bytes()
    run("rejudge", archive.description_path)
    assert archive.run_path("bob", "t1-add", "run1").read_bytes() == again


def test_the_documented_example_can_be_judged_again_as_it_is_printed(tmp_path: Path) -> None:
    for name, text in documented("archives.md").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    path = tmp_path / "runs" / "vendor_ada-2" / "t1-sort-mail" / "run1.json"
    before = path.read_text()
    with LoopbackServer() as server:
        result = CliRunner().invoke(
            main,
            ["archive", "rejudge", str(tmp_path / "archive.yaml")],
            env={"ANTHROPIC_API_KEY": "sk-test", "ANTHROPIC_BASE_URL": server.url},
            catch_exceptions=False,
        )
    assert result.exit_code == 0, result.output
    after = json.loads(path.read_text())
    judge = after["judge_result"]
    assert "passed" not in judge
    assert after["run_score"] == round(0.74 + 0.1 * judge["score"], 4)
    assert after["judge_result_before"] == json.loads(before)["judge_result"]
    assert path.read_text().startswith(before[: before.index('"judge_result"')])


def test_the_key_is_asked_for_before_anything_else(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    archive.describe(rejudging=asking("claude-sonnet-5-5"))
    before = sorted(tmp_path.rglob("*"))
    refused = run("rejudge", archive.description_path, code=2)
    assert "ANTHROPIC_API_KEY" in refused.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_only_some_are_judged_on_request(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    archive.put("ada", "t1-add", "run1", failed_document(transcript="Another one."))
    run("rejudge", archive.description_path, "--limit", "1")
    values = json.loads(run("audit", archive.description_path, "--json", code=1).stdout)
    assert sum(row["judge_failed"] for row in values["models"]) == 1


def test_a_rule_that_is_not_the_harnesses_is_warned_of(tmp_path: Path) -> None:
    archive = troubled_archive(tmp_path)
    archive.put("ada", "t1-add", "run1", {**run_document(), "run_score": 0.11})
    shown = run("rejudge", archive.description_path, "--dry-run").stdout
    assert "warning: 1 of 33 recorded run scores are not what" in shown


def test_an_archive_of_one_model_and_an_empty_one_are_reported_on(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "one")
    shown = run("report", archive.description_path, "--exclude", "ada,bob").stdout
    assert "Only cyd" in shown
    empty = make_archive(tmp_path / "none", fill=False)
    assert json.loads(run("report", empty.description_path, "--json").stdout)["ranking"] == []
    run("report", empty.description_path)
    run("audit", empty.description_path, code=1)


def test_the_audit_ends_with_1_where_a_reader_must_be_warned_first(archive: SmallArchive) -> None:
    run("audit", archive.description_path)
    # Bob lost more than the others, and than chance explains.
    for task in ("t1-add", "t1-sort"):
        for turn in RUNS:
            archive.run_path("bob", task, turn).unlink()
    archive.describe(checks={"max_missing_rate": 0.5})
    values = json.loads(run("audit", archive.description_path, "--json", code=1).stdout)
    assert values["passed"] is False
    (outage,) = values["outages"]
    assert "Bob 6 of 12 (50.0 %), Ada 2 0 of 12" in outage
    assert outage in json.loads(run("report", archive.description_path, "--json").stdout)["outages"]
    archive.describe(checks={"max_missing_rate": 0.5, "max_missing_spread": 0.5})
    run("audit", archive.description_path)
    archive.describe(checks={"max_missing_rate": 0.1, "max_missing_spread": 0.5})
    assert "6 of 36" in run("audit", archive.description_path, code=1).stdout


def test_the_audit_ends_with_1_where_judging_failed_too_often(tmp_path: Path) -> None:
    archive = make_archive(tmp_path, checks={"max_unjudged_rate": 0.06})
    archive.put("ada", "t1-add", "run1", failed_document())
    archive.put("bob", "t1-add", "run1", failed_document())
    run("audit", archive.description_path)
    archive.put("cyd", "t1-add", "run1", failed_document())
    assert "3 of 36" in run("audit", archive.description_path, code=1).stdout


def test_a_ratio_without_bound_is_readable_json(archive: SmallArchive) -> None:
    for turn in RUNS:
        archive.put("ada", "t1-add", turn, {**run_document(), "run_score": 1.0})
        archive.put("bob", "t1-add", turn, {**run_document(), "run_score": 0.0})
        archive.put("cyd", "t1-add", turn, {**run_document(), "run_score": 1.0})
        for model in MODELS:
            archive.put(model, "t1-sort", turn, {**run_document(), "run_score": 0.77})
    text = run("audit", archive.description_path, "--json").stdout
    tasks = {row["task"]: row for row in json.loads(text, parse_constant=pytest.fail)["tasks"]}
    assert tasks["t1-add"]["signal_to_noise"] == "inf"
    assert tasks["t1-sort"]["signal_to_noise"] is None
    assert tasks["t1-sort"]["chance_level"] == pytest.approx(5.143 - 1, abs=1e-3)
    assert " inf " in run("audit", archive.description_path).stdout


def test_an_archive_that_cannot_be_described_ends_with_2(tmp_path: Path) -> None:
    assert "none.yaml" in run("audit", tmp_path / "none.yaml", code=2).stderr
