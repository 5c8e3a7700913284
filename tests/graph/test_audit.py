import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.loopback.threaded_servers import LoopbackServer
from tests.projects import ENTRANTS, make_project, recorded_responses, write_json_lines
from tests.rows import stored_rows
from tournament_assets.cli import main
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.graph.table import settings_versions
from tournament_assets.preparing.estimates import estimate_tournament
from tournament_assets.project.plan import load_plan
from tournament_assets.python_api import Run
from tournament_assets.run_comparison.gate import GateSettings, Passage, hold_gate
from tournament_assets.run_comparison.run_reading import read_finished_runs

from .paid_projects import PaidProject, paid_project


def stored(paid: PaidProject, name: str) -> list[dict[str, Any]]:
    path = paid.project.folder / "storage" / "small" / name / "pilot.parquet"
    return stored_rows(name, path)


def audit_of(paid: PaidProject, dimension: str = "factuality") -> dict[str, dict[str, Any]]:
    return {
        row["entrant_id"]: row for row in stored(paid, "audit") if row["dimension"] == dimension
    }


def invoke(paid: PaidProject, *arguments: str, mode: str = "pilot") -> Result:
    words = ["audit", "--config", str(paid.project.config_path), "--mode", mode, *arguments]
    return CliRunner().invoke(main, words, env=paid.environment, catch_exceptions=False)


def directory_of(made: PlainRun) -> Path:
    return Path(made.metadata["run_artifacts", ""]["directory"])


def outages_of(made: PlainRun) -> list[str]:
    """The sentences that the manifest says first."""
    found: list[str] = json.loads((directory_of(made) / "manifest.json").read_text())["outages"]
    return found


def judge_without(paid: PaidProject, absent: str, folder: Path) -> None:
    """Let a sound judge settle all pairs but those of one entrant."""
    config = yaml.safe_load(paid.project.config_path.read_text())
    everyone = config["entrants"]
    paid.project.edit_config(entrants=[each for each in everyone if each["entrant_id"] != absent])
    with LoopbackServer(folder, processing_seconds=0) as server:
        environment = {**paid.environment, "ANTHROPIC_BASE_URL": server.url}
        paid.project.tables("judge_verdicts", environment=environment)
    paid.project.edit_config(entrants=everyone)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PaidProject, PlainRun]]:
    with paid_project(tmp_path_factory.mktemp("sound")) as paid:
        paid.let_length_win()
        yield paid, paid.tables()


def test_a_strip_that_cut_nothing_is_a_line_of_the_step(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        config = yaml.safe_load(paid.project.config_path.read_text())
        config["entrants"][0]["strip"] = "think"
        paid.project.edit_config(entrants=config["entrants"])
        made = paid.tables()
        cut = "responses_with_thought_cut"
        assert [made.metadata["entrant_responses", name].get(cut) for name in ENTRANTS] == [
            0,
            None,
            None,
        ]


def test_an_end_that_nobody_knows_counts_and_is_named(tmp_path: Path) -> None:
    with paid_project(tmp_path, "stop_unknown:3") as paid:
        made = paid.tables()
        assert {row["replies_unreadable"] for row in audit_of(paid).values()} == {0}
        metadata = made.metadata["judge_replies", "factuality"]
        assert metadata["ends_nobody_knows"] == {"a_stop_reason_of_tomorrow": 3}


def test_a_judge_that_is_dead_for_one_entrant_is_red_everywhere(tmp_path: Path) -> None:
    with paid_project(tmp_path, "text_empty:always") as paid:
        judge_without(paid, "sloppy", tmp_path / "sound")
        made = paid.tables()
        rows = audit_of(paid)
        missing = {name: row["pairs_planned"] - row["pairs_judged"] for name, row in rows.items()}
        assert missing == {"careful": 4, "sloppy": 8, "mixed": 4}
        for column in ("replies_unreadable", "infra_remaining"):
            assert [rows[name][column] for name in ENTRANTS] == [8, 16, 8]
        assert rows["sloppy"]["score_present"] is None
        assert rows["sloppy"]["score_normalised"] == 0
        (red,) = [each for each in made.warnings if each.startswith("even_missingness")]
        shares = [red.index(f"{each} of 8 (") for each in ("sloppy 8", "careful 4", "mixed 4")]
        assert shares == sorted(shares)
        outage, unevenness = outages_of(made)
        assert " factuality: 8 of 12 " in outage
        assert "sloppy 8 of 8" in unevenness
        first_screen, _ = (directory_of(made) / "report.md").read_text().split("\n## ", 1)
        title, _ = outage.split(":", 1)
        assert title in first_screen
        assert next(iter(made.metadata["leaderboard", ""])) == "outages"
        result = invoke(paid)
        assert result.exit_code == 1
        assert result.stdout.startswith(title)


def test_a_dimension_whose_judge_is_dead_is_named_on_the_first_line_and_the_other_is_not(
    tmp_path: Path,
) -> None:
    with paid_project(
        tmp_path, "stop_refusal:24", dimensions=("factuality", "calibration")
    ) as paid:
        result = CliRunner().invoke(
            main,
            ["run", "--config", str(paid.project.config_path), "--mode", "pilot"],
            env=paid.environment,
            catch_exceptions=False,
        )
        assert result.exit_code == 0, result.output
        printed = [line for line in result.stdout.splitlines() if line.strip()]
        values = json.loads(invoke(paid, "--json").stdout)
        # Both dimensions are sent at once: whichever is first meets the dead judge.
        (outage,) = values["outages"]
        dead = outage["dimension"]
        (alive,) = {"factuality", "calibration"} - {dead}
        planned = {"factuality": "12 pairs (100.0 %;", "calibration": "18 pairs (66.7 %;"}
        assert f" {dead}: 12 of {planned[dead]}" in printed[0]
        assert alive not in printed[0]
        # Missing for everybody alike: an outage, and even.
        assert "even_missingness" not in result.stdout
        assert values["even_missingness"]["passed"] is True
        assert values["passed"] is False


def test_an_empty_file_of_responses_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        write_json_lines(paid.project.folder / "responses_sloppy.jsonl", [])
        with pytest.raises(InputError, match=r"responses_sloppy\.jsonl: "):
            paid.run()
        assert paid.server.log.requests == 0


def test_thoughts_judged_as_answers_are_told_and_cutting_them_asks_only_what_changed(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid:
        rows = recorded_responses("sloppy")
        for row in rows[:3]:
            row["response"] = f"<thinking>Hm.</thinking>\n{row['response']}"
        write_json_lines(paid.project.folder / "responses_sloppy.jsonl", rows)
        summary = paid.run(mode="headline")
        assert "of 12 responses 3 hold <thinking>" in "".join(summary.warnings)
        log = paid.server.log
        n_asked = log.requests + log.messages
        config = yaml.safe_load(paid.project.config_path.read_text())
        entrants = [
            {**each, **({"strip": "think"} if each["entrant_id"] == "sloppy" else {})}
            for each in config["entrants"]
        ]
        paid.project.edit_config(entrants=entrants)
        plan = load_plan(paid.project.config_path, paid.project.environment)
        workloads = estimate_tournament(plan, "headline").workloads
        to_ask = sum(workload.to_ask for workload in workloads.values())
        assert to_ask == 2 * 3 * (len(entrants) - 1)
        again = paid.run(mode="headline")
        assert not any("<thinking>" in warning for warning in again.warnings)
        assert log.requests + log.messages == n_asked + to_ask


def test_a_file_of_blank_responses_is_judged_and_said_first_everywhere(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        blank = [{**row, "response": " "} for row in recorded_responses("sloppy")]
        write_json_lines(paid.project.folder / "responses_sloppy.jsonl", blank)
        summary = paid.run()
        assert "sloppy, pilot: 6 empty responses (" in "".join(summary.warnings)
        (outage,) = summary.outages
        words = "sloppy left 6 of 6 answers empty"
        assert outage.startswith(f"{words}. Unevenly missing")
        assert "sloppy 6 of 6" in outage
        directory = summary.directory
        manifest = json.loads((directory / "manifest.json").read_text())
        assert manifest["first_screen"]["doubts"][0]["short"] == words
        for name, result in (("report.md", "## Ratings"), ("report.html", '<section id="ladder"')):
            page = (directory / name).read_text()
            assert 0 < page.index(words) < page.index(result)
        assert Run(directory, manifest).cautions[0] == outage
        settings = GateSettings(candidate="careful", baseline="sloppy", margin=20)
        gate = hold_gate(read_finished_runs([directory])[0], settings)
        assert gate.passage is Passage.UNDECIDED
        assert gate.dimensions[0].doubts[0] == words
        assert invoke(paid).stdout.startswith(words)
        rows = audit_of(paid)
        assert [rows[name]["pairs_judged"] for name in ENTRANTS] == [8, 8, 8]
        assert [rows[name]["pairs_clean"] for name in ENTRANTS][1] == 0


def test_a_run_without_losses_says_nothing_of_them_and_the_audit_ends_well(
    sound: tuple[PaidProject, PlainRun],
) -> None:
    paid, made = sound
    assert outages_of(made) == []
    assert "outages" not in made.metadata["leaderboard", ""]
    rows = audit_of(paid).values()
    assert {row["coverage"] for row in rows} == {1}
    assert all(row["score_present"] == row["score_normalised"] for row in rows)
    # Everybody's scores add up to the pairs there are.
    assert sum(row["score_present"] * row["pairs_judged"] for row in rows) == 12
    result = invoke(paid)
    assert result.exit_code == 0
    said, audit = result.stdout.split("small, pilot: audit")
    # Twelve pairs are too few for any light, which is no loss.
    assert "4 of 5 lights amber, too few to tell" in said
    assert "lights red" not in said
    assert audit


def test_what_infrastructure_failed_and_was_asked_again_is_told_from_a_refusal(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path, "row_expired:2", "stop_refusal:1", "text_empty:1") as paid:
        paid.project.edit_judges(waiting={"max_rounds": 1, "direct_fallback": True})
        paid.tables("judge_verdicts")
        paid.tables("audit", rejudge=True)
        assert all(row["outcome"] != "unjudged" for row in paid.rows("judge_verdicts"))
        # Both that expired and the empty one; all three are presentations of two entrants.
        rows = audit_of(paid).values()
        assert sum(row["infra_rejudged"] for row in rows) == 6
        assert sum(row["infra_remaining"] for row in rows) == 0
        asked = [row for row in paid.rows("judge_replies") if row["channel"] == "direct"]
        assert len(asked) == 3  # the expired and the refused, which is not infrastructure's


def test_the_audit_of_prompts_knows_every_prompt_and_shows_the_worst_first(
    sound: tuple[PaidProject, PlainRun],
) -> None:
    paid, made = sound
    rows = stored(paid, "prompt_audit")
    measured = [row["prompt_id"] for row in rows if row["kind"] == "signal_to_noise"]
    assert len(measured) == len(set(measured)) == 4
    worst = made.metadata["prompt_audit", ""]["worst_first"]
    assert worst.splitlines()[0].startswith("- factuality: ")
    assert rows[0]["is_finding"]


def test_before_any_run_the_command_says_what_to_run(
    sound: tuple[PaidProject, PlainRun],
) -> None:
    result = invoke(sound[0], mode="headline")
    assert result.exit_code == 2
    assert "tournament run --config configs/small.yaml --mode headline" in result.output


def test_the_audits_are_written_as_markdown_and_as_json(
    tmp_path: Path, sound: tuple[PaidProject, PlainRun]
) -> None:
    paid, _ = sound
    out = tmp_path / "audit.md"
    result = invoke(paid, "--json", "--markdown", str(out), "--limit", "1")
    values = json.loads(result.stdout)
    assert len(values["audit"]) == len(ENTRANTS)
    assert len(values["prompt_audit"]) == len(stored(paid, "prompt_audit"))
    page = out.read_text()
    assert page.startswith("# small, pilot")
    assert page.count("\n## ") == 2
    nowhere = invoke(paid, "--markdown", str(out / "inside.md"))
    assert nowhere.exit_code == 2
    assert "inside.md" in nowhere.output


def test_other_thresholds_make_what_is_said_first_out_of_date(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")

    def versions() -> dict[str, str]:
        plan = load_plan(project.config_path, {})
        return settings_versions(plan)

    before = versions()
    project.edit_config(checks={"max_missing_spread": 0.1})
    changed = {name for name, version in versions().items() if version != before[name]}
    of_extras = {row.name for row in added_rows("assets")}
    assert changed - of_extras == {"audit", "leaderboard", "report", "measures"}


@pytest.mark.parametrize(
    "setting",
    [
        {"thinking": "adaptive"},
        {"thinking": {"budget": 1024}},
        {"effort": "low"},
    ],
)
def test_what_a_judge_is_sent_is_a_setting_of_its_requests(
    tmp_path: Path, setting: dict[str, Any]
) -> None:
    project = make_project(tmp_path / "project", service="anthropic")
    project.edit_judges(max_tokens=2048)
    before = settings_versions(load_plan(project.config_path, {}))
    project.edit_judges(**setting)
    after = settings_versions(load_plan(project.config_path, {}))
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"judge_requests", "judge_replies"}
