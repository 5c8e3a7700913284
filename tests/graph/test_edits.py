import re
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.projects import (
    FinishedPilot,
    SmallProject,
    bank_rows,
    make_project,
    write_json_lines,
)
from tests.rows import table_rows
from tournament_assets.definitions import build_definitions, build_resources
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.graph.assets import observed_inputs as inputs
from tournament_assets.graph.assets.observed_inputs import read_inputs
from tournament_assets.graph.automation import edits
from tournament_assets.graph.automation.jobs import Stage, build_stages, observations
from tournament_assets.graph.automation.reruns import find_out_of_date
from tournament_assets.graph.recipe_book import RecipeBook
from tournament_assets.graph.table import rows_of
from tournament_assets.judging.requests import verdict_parsing as parsing
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import JudgeReplyRow


def rated(project: SmallProject) -> list[str]:
    """Return what is made of the judge's replies, these first, by extras too."""
    rows = rows_of(load_plan(project.config_path, {}))
    names = [name for name, row in rows.items() if row.job == "judging"]
    assert names[:2] == ["judge_replies", "judge_verdicts"]
    assert {"elo_traces", "elo_ratings", "ratings", "win_rates", "measures"} <= {*names}
    return names


@pytest.fixture
def project(finished_pilot: FinishedPilot, tmp_path: Path) -> SmallProject:
    """A project whose pilot has run."""
    return finished_pilot.copy(tmp_path / "project")


def load(project: SmallProject) -> tuple[TournamentPlan, dg.Definitions]:
    plan = load_plan(project.config_path, project.environment)
    return plan, build_definitions([plan], project.folder, project.environment)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def out_of_date(project: SmallProject) -> dict[str, list[str]]:
    """Observe every input, and return what is out of date in the pilot, by partition."""
    plan, _ = load(project)
    found: dict[str, list[str]] = {}
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        for each in observations(plan, read_inputs(plan)):
            instance.report_runless_asset_event(each)
        for stage in build_stages(plan):
            parts = find_out_of_date(RecipeBook(plan, instance), stage, "pilot")
            for partition, keys in parts.items():
                found.setdefault(str(partition), []).extend(key.path[-1] for key in keys)
    return found


def evaluate(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    project: SmallProject,
    cursor: str | None = None,
) -> Any:
    """Evaluate the sensor once."""
    resources = build_resources(project.folder, project.environment)
    context = dg.build_sensor_context(
        instance=instance,
        definitions=definitions,
        cursor=cursor,
        resources={name: resources[name] for name in ("ledger", "judge")},
    )
    return definitions.resolve_sensor_def("tournaments").evaluate_tick(context)


class Watcher:
    """The sensor, tick after tick."""

    def __init__(self, project: SmallProject) -> None:
        self.project = project
        self.cursor: str | None = None
        self.said = ""

    def tick(self) -> tuple[list[str], dict[str, tuple[bool, str]]]:
        """Return the inputs that were observed, and the checks that were evaluated."""
        _, definitions = load(self.project)
        home = self.project.environment["DAGSTER_HOME"]
        with dg.DagsterInstance.from_config(home) as instance:
            data = evaluate(definitions, instance, self.project, self.cursor)
            for event in data.asset_events:
                instance.report_runless_asset_event(event)
        self.cursor, self.said = data.cursor, str(data.skip_message)
        observed = [
            "/".join(filter(None, (event.asset_key.path[-1], event.partition)))
            for event in data.asset_events
            if isinstance(event, dg.AssetObservation)
        ]
        checks = {
            event.check_name: (event.passed, event.description or "")
            for event in data.asset_events
            if isinstance(event, dg.AssetCheckEvaluation)
        }
        return observed, checks


def test_after_a_run_nothing_is_out_of_date(project: SmallProject) -> None:
    assert out_of_date(project) == {}


def test_an_edited_rubric_makes_exactly_its_dimension_out_of_date(project: SmallProject) -> None:
    rubric = project.folder / "rubrics" / "factuality.txt"
    edit(rubric, "version: 1", "version: 2")
    assert out_of_date(project) == {
        "pilot": ["judging_estimate", "judge_requests"],
        "factuality|pilot": rated(project),
    }
    edit(rubric, "version: 2", "version: 1")
    assert out_of_date(project) == {}


def test_line_ends_and_outer_white_space_of_a_rubric_do_not_count(project: SmallProject) -> None:
    rubric = project.folder / "rubrics" / "factuality.txt"
    rubric.write_bytes(b"\r\n" + rubric.read_bytes().replace(b"\n", b"\r\n") + b"\r\n  \r\n")
    assert out_of_date(project) == {}


def test_an_edited_prompt_makes_bank_and_selection_out_of_date_and_its_layout_does_not(
    project: SmallProject,
) -> None:
    bank = project.folder / "bank.jsonl"
    write_json_lines(bank, [dict(reversed(row.items())) for row in bank_rows()])
    assert out_of_date(project) == {}
    edit(bank, "sample number 1 ", "sample number one ")
    assert out_of_date(project) == {"pilot": ["prompt_bank", "selected_prompts"]}


def test_other_responses_of_a_recorded_entrant_make_only_its_own_out_of_date(
    project: SmallProject,
) -> None:
    edit(project.folder / "responses_sloppy.jsonl", "zebra", "horse")
    assert out_of_date(project) == {"sloppy|pilot": ["entrant_responses"]}


def test_a_new_entrant_makes_its_responses_and_the_pairs_out_of_date(project: SmallProject) -> None:
    twin = {
        "entrant_id": "twin",
        "loader": "recorded",
        "responses": {"path": "responses_careful.jsonl"},
    }
    config = yaml.safe_load(project.config_path.read_text())
    write_json_lines(
        project.folder / "responses_careful.jsonl",
        [{"prompt_id": row["prompt_id"], "response": "It is so."} for row in bank_rows()],
    )
    project.edit_config(entrants=[*config["entrants"], twin])
    assert out_of_date(project) == {
        "careful|pilot": ["entrant_responses"],
        "twin|pilot": ["entrant_responses"],
        "factuality|pilot": ["match_list"],
        "calibration|pilot": ["match_list"],
    }


def test_a_price_in_the_config_is_part_of_the_price_lists_version(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")

    def version() -> str | None:
        (found,) = read_inputs(load_plan(project.config_path, {}), "price_list")
        return found.version

    listed = version()
    project.merge_config(judging={"prices": {"own": {"input": 1.0, "output": 2.0}}})
    assert version() != listed


def test_a_new_price_list_makes_only_the_estimate_out_of_date(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "newest_prices_hash", lambda: "another")
    assert out_of_date(project) == {"pilot": ["judging_estimate"]}


def test_a_corrected_parser_makes_verdicts_out_of_date_and_nothing_before_them(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "READING_VERSION", "another")
    after_replies = rated(project)[1:]
    assert out_of_date(project) == {
        "factuality|pilot": after_replies,
        "calibration|pilot": after_replies,
    }


def test_within_a_tick_the_check_says_what_was_made_from_an_older_rubric(
    project: SmallProject,
) -> None:
    watcher = Watcher(project)
    assert watcher.tick() == ([], {}), "the run has observed what it read, and said what it found"
    assert watcher.said.startswith("small: nothing ")
    rubric = project.folder / "rubrics" / "factuality.txt"
    edit(rubric, "version: 1", "version: 2")
    observed, checks = watcher.tick()
    assert observed == ["rubrics/factuality"]
    ((name, (passed, sentence)),) = checks.items()
    assert (name, passed) == ("up_to_date", False)
    assert re.match(r"rubrics factuality was v1 \(.*\), is v2 \(.*\) now: ", sentence)
    assert "judge_replies factuality|pilot" in sentence
    assert "calibration" not in sentence
    assert watcher.tick() == ([], {})
    edit(rubric, "version: 2", "version: 1")
    observed, checks = watcher.tick()
    assert observed == ["rubrics/factuality"]
    assert all(passed for passed, _ in checks.values())


def test_what_no_run_has_observed_is_observed_at_the_first_tick(tmp_path: Path) -> None:
    made = make_project(tmp_path / "project")
    Path(made.environment["DAGSTER_HOME"]).mkdir()
    watcher = Watcher(made)
    observed, checks = watcher.tick()
    # Each of an extra's has versions by mode and dimension.
    n_of_extras = sum(row.stored_as == "file" for row in added_rows("assets")) * 2 * 2
    assert len(observed) == 1 + 3 + 2 + 1 + n_of_extras
    assert checks == {}
    assert watcher.tick() == ([], {})


def test_an_edit_that_kept_its_version_line_is_asked_to_raise_it(project: SmallProject) -> None:
    edit(project.folder / "rubrics" / "factuality.txt", "Prefer", "Always prefer")
    _, checks = Watcher(project).tick()
    passed, sentence = checks["up_to_date"]
    assert not passed
    assert "; raise its version line with every edit: " in sentence


def test_a_rubric_that_cannot_be_read_is_said_and_not_observed(project: SmallProject) -> None:
    watcher = Watcher(project)
    watcher.tick()
    (project.folder / "rubrics" / "factuality.txt").unlink()
    observed, checks = watcher.tick()
    assert observed == []
    assert not checks["up_to_date"][0]
    assert "factuality" in watcher.said


def test_an_entrant_whose_file_is_on_another_machine_is_not_out_of_date(
    project: SmallProject,
) -> None:
    watcher = Watcher(project)
    watcher.tick()
    (project.folder / "responses_careful.jsonl").unlink()
    _, checks = watcher.tick()
    assert checks.get("up_to_date", (True, ""))[0]
    assert "careful" in watcher.said


def test_a_tick_reads_the_inputs_again_only_after_a_file_or_an_event(
    project: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[str] = []

    def count(plan: TournamentPlan) -> list[inputs.InputVersion]:
        readings.append("read")
        return read_inputs(plan)

    project.merge_config(modes={"pilot": {"rerun_after_edits": True}})
    plan, definitions = load(project)
    monkeypatch.setattr(edits, "read_inputs", count)
    cursor: str | None = None
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:

        def tick() -> tuple[int, str]:
            nonlocal cursor
            data = evaluate(definitions, instance, project, cursor)
            cursor = data.cursor
            return len(readings), str(data.skip_message)

        tick()
        quiet = "small: pilot: nothing is out of date"
        assert tick() == (2, quiet)
        assert tick() == (2, quiet)
        for each in observations(plan, read_inputs(plan, "price_list")):
            instance.report_runless_asset_event(each)
        assert tick() == (3, quiet)
        assert tick() == (3, quiet)
        edit(project.folder / "rubrics" / "factuality.txt", "better", "truer")
        readings_so_far, said = tick()
        assert readings_so_far == 4
        assert said != quiet


def test_an_edited_config_asks_for_a_reload(project: SmallProject) -> None:
    plan, definitions = load(project)
    project.edit_config(description="Another one.")
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        data = evaluate(definitions, instance, project)
    told = f"{plan.config_path} was edited since it was loaded; reload the code location"
    assert told in str(data.skip_message)
    (check,) = [event for event in data.asset_events if isinstance(event, dg.AssetCheckEvaluation)]
    assert not check.passed
    assert str(check.description).startswith(told)


def test_a_run_finishes_with_the_rubrics_it_began_with(project: SmallProject) -> None:
    rubric = project.folder / "rubrics" / "factuality.txt"

    def edit_rubric(stage: Stage, label: str) -> None:
        if label.startswith("factuality") and "judge_replies" in stage.assets:
            edit(rubric, "version: 1", "version: 2")

    summary = project.run_recorded(on_start=edit_rubric)
    assert summary.requests_submitted == 0
    stored = project.folder / "storage" / "small" / "judge_replies" / "factuality" / "pilot.parquet"
    rows = table_rows(JudgeReplyRow, decode_parquet(JudgeReplyRow, stored.read_bytes()))
    assert {row["rubric_version"] for row in rows} == {"1"}
    (said,) = [warning for warning in summary.warnings if warning.startswith("up_to_date")]
    assert "rubrics factuality was v1 (" in said
    observed, checks = Watcher(project).tick()
    assert (observed, checks) == (["rubrics/factuality"], {})
