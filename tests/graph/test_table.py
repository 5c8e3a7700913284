"""The table of the graph, and the functions that its rows name."""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.projects import SmallProject, make_project
from tournament_assets.definitions import build_definitions
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph import adapter
from tournament_assets.graph.assets.ratings import EloOptions, elo_traces, win_rates
from tournament_assets.graph.outputs import Made
from tournament_assets.graph.partitions import edge_between, loaded_over
from tournament_assets.graph.rows import (
    MODE,
    MODE_BY_DIMENSION,
    MODE_BY_ENTRANT,
    AssetRow,
    Blocking,
)
from tournament_assets.graph.run_options import RunOptions, asks_again
from tournament_assets.graph.table import ASSETS, JOBS, rows_of
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.storage.tables import StoredTable, write_table
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict

ROOT = Path(__file__).parents[2]
LONGEST_BODY = 25
OBSERVED = {row.name for row in ASSETS if row.stored_as == "file"}
NAMES = {row.name for row in ASSETS}

each_asset = pytest.mark.parametrize("row", ASSETS, ids=lambda row: row.name)


def body_lines(row: AssetRow) -> int:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(row.make))).body
    assert isinstance(function, ast.FunctionDef)
    first = function.body[1]  # what comes after the docstring
    return (function.end_lineno or 0) - first.lineno + 1


def inputs_with_defaults(row: AssetRow) -> set[str]:
    functions = (function for function in (row.make, row.type_of("inputs")) if function)
    arguments = [
        each for function in functions for each in inspect.signature(function).parameters.values()
    ]
    return {each.name for each in arguments if each.default is not each.empty}


@each_asset
def test_an_asset_is_a_short_function_of_a_module(row: AssetRow) -> None:
    assert row.make.__qualname__ == row.name
    assert "<locals>" not in row.make.__qualname__
    assert inspect.getclosurevars(row.make).nonlocals == {}
    assert body_lines(row) <= LONGEST_BODY


@each_asset
def test_a_function_asks_for_its_inputs_and_for_what_every_asset_can_have(row: AssetRow) -> None:
    roles = {role for role, _ in row.arguments.values()}
    assert row.type_of("tables") is not None or not row.tables
    # What only an extra makes is absent without it.
    assert row.input_types.keys() - NAMES <= inputs_with_defaults(row)
    assert not {"mode", "dimension"} & roles or row.axes


def test_every_row_reads_rows_that_are_there_and_names_a_job() -> None:
    names = [row.name for row in ASSETS]
    assert len(set(names)) == len(names)
    jobs = {job.name for job in JOBS}
    for row in ASSETS:
        assert set(row.after) <= set(names), row.name
        assert row.job in jobs, row.name


@pytest.mark.parametrize(
    ("upstream", "downstream", "over"),
    [
        ((), MODE, None),
        (MODE_BY_DIMENSION, MODE_BY_DIMENSION, None),
        (MODE, MODE_BY_ENTRANT, None),
        (MODE_BY_ENTRANT, MODE, "entrant"),
        (MODE_BY_DIMENSION, MODE, "dimension"),
        (MODE_BY_ENTRANT, MODE_BY_DIMENSION, "entrant"),
    ],
)
def test_an_edge_loads_everything_along_the_axis_that_only_the_upstream_has(
    upstream: Any, downstream: Any, over: str | None
) -> None:
    assert edge_between(upstream, downstream).over == over


def test_all_of_an_axis_that_both_ends_have_is_loaded_where_a_row_says_so() -> None:
    assert edge_between(MODE_BY_DIMENSION, MODE_BY_DIMENSION, over="mode").over == "mode"


def test_what_is_loaded_along_an_axis_comes_in_config_order_and_without_what_is_missing() -> None:
    loaded = {"b|pilot": 2, "a|pilot": 1}
    by_name = loaded_over(loaded, "dimension", axes=MODE_BY_DIMENSION, names=("a", "c", "b"))
    assert list(by_name.items()) == [("a", 1), ("b", 2)]
    by_mode = loaded_over({"a|headline": 3}, "mode", axes=MODE_BY_DIMENSION, names=("headline",))
    assert by_mode == {"headline": 3}
    # Dagster hands over a single partition as it is.
    assert loaded_over(4, "dimension", axes=MODE_BY_DIMENSION, names=("a",)) == {"a": 4}


@pytest.fixture
def plan(tmp_path: Path) -> TournamentPlan:
    return load_plan(make_project(tmp_path / "project").config_path, {})


def stored_verdicts(path: Path, winners: Mapping[tuple[str, str], str]) -> StoredTable:
    rows = [
        VerdictRow(
            prompt_id=f"p{number}",
            source="recall",
            dimension="factuality",
            entrant_a=a,
            entrant_b=b,
            verdict_ab=Verdict.A if winner == a else Verdict.B,
            verdict_ba=Verdict.B if winner == a else Verdict.A,
            outcome=Outcome.A_WINS if winner == a else Outcome.B_WINS,
            share=float(winner == a),
            winner=winner,
            request_key_ab=f"{number} ab",
            request_key_ba=f"{number} ba",
            attempt_ab=1,
            attempt_ba=1,
            settled_by="judge",
        )
        for number, ((a, b), winner) in enumerate(winners.items())
    ]
    with path.open("wb") as file:
        write_table(VerdictRow, rows).content.copy_to(file)
    return StoredTable(VerdictRow, path)


WON = {("careful", "mixed"): "careful", ("careful", "sloppy"): "careful"}


def test_ratings_are_made_without_dagster(plan: TournamentPlan, tmp_path: Path) -> None:
    verdicts = stored_verdicts(tmp_path / "verdicts.parquet", WON)
    made = elo_traces(plan.config, "pilot", verdicts, EloOptions(n_permutations=3))
    assert made.metadata["permutations"] == 3
    assert made.metadata["decisive_matches"] == 2
    ratings = dict(zip(made.value.entrants, made.value.ratings.mean(axis=0), strict=True))
    assert ratings["careful"] > 1400 > ratings["mixed"]
    same = elo_traces(plan.config, "pilot", verdicts, EloOptions(n_permutations=3))
    assert made.version == same.version
    more = elo_traces(plan.config, "pilot", verdicts, EloOptions(n_permutations=4))
    assert made.version != more.version


def test_win_rates_are_made_without_dagster(plan: TournamentPlan, tmp_path: Path) -> None:
    verdicts = stored_verdicts(tmp_path / "verdicts.parquet", WON)
    made = win_rates(plan.config, "pilot", verdicts)
    assert [(row.entrant_b, row.win_rate_a, row.claim) for row in made.value] == [
        ("mixed", 1.0, "undecided"),
        ("sloppy", 1.0, "undecided"),
    ]
    assert "(data:image/svg+xml" in made.metadata["matrix"].text


def test_a_tournament_has_no_row_of_what_its_config_does_not_ask_for(plan: TournamentPlan) -> None:
    conditional = {"entrant_requests", "jury"}
    assert conditional <= {row.name for row in ASSETS}
    assert conditional.isdisjoint(rows_of(plan))


def test_a_row_that_says_no_version_of_what_it_made_is_refused() -> None:
    row = next(row for row in ASSETS if row.name == "elo_traces")
    with pytest.raises(TypeError, match="elo_traces"):
        adapter._result(row, Made(None, metadata={}), tags={})


def test_every_asset_that_the_button_runs_begins_at_partitions_of_the_mode(
    plan: TournamentPlan,
) -> None:
    # The UI offers a choice of partitions where the roots of a selection share one definition.
    rows = rows_of(plan)
    observed = {name for name, row in rows.items() if row.stored_as == "file"}
    roots = [
        row for row in ASSETS if row.name not in observed and {*row.reads, *row.after} <= observed
    ]
    assert "prompt_bank" in {row.name for row in roots}
    assert {row.axes for row in roots} == {MODE}


def test_responses_are_marked_with_what_gives_them(plan: TournamentPlan) -> None:
    assert rows_of(plan)["entrant_responses"].kinds_of(plan) == {"parquet"}
    assert rows_of(plan)["judge_replies"].kinds_of(plan) == {"parquet", "loopback"}


def test_every_asset_has_the_owners_that_the_config_names(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    owners = ["team:evaluation", "ada@example.org"]
    fingerprint = load_plan(project.config_path, {}).config.fingerprint
    project.edit_config(owners=owners)
    plan = load_plan(project.config_path, {})
    assert plan.config.fingerprint == fingerprint
    graph = build_definitions([plan], project.folder, {}).resolve_asset_graph()
    # Dagster's observed inputs have none.
    owned = [key for key in graph.get_all_asset_keys() if key.path[-1] not in OBSERVED]
    assert {tuple(graph.get(key).owners) for key in owned} == {tuple(owners)}


def test_an_owner_that_dagster_would_refuse_is_refused_with_its_line(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.edit_config(owners=["evaluation"])
    with pytest.raises(InputError, match=r"\.yaml:\d+: owners\.0"):
        load_config(project.config_path)


def test_a_development_server_leads_to_the_function_and_to_the_config(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    assert linked(project, {}) == set()
    assert linked(project, {"DAGSTER_IS_DEV_CLI": "1"}) == {
        ("ratings.py", "win_rates"),
        ("small.yaml", "small.yaml"),
    }


def linked(project: SmallProject, environment: Mapping[str, str]) -> set[tuple[str, str | None]]:
    plan = load_plan(project.config_path, environment)
    graph = build_definitions([plan], project.folder, environment).resolve_asset_graph()
    found = graph.get(dg.AssetKey(["small", "win_rates"])).metadata.get("dagster/code_references")
    references = found.code_references if isinstance(found, dg.CodeReferencesMetadataValue) else []
    return {
        (Path(each.file_path).name, each.label)
        for each in references
        if isinstance(each, dg.LocalFileCodeReference)
    }


def test_a_run_tells_every_asset_the_options_that_its_function_has() -> None:
    rows = {row.name: row for row in ASSETS}
    asked: Mapping[str, Any] = {"n_permutations": 7, "pay_again": True, "run_began_at": "now"}
    assert rows["elo_traces"].told(asked) == {"n_permutations": 7}
    assert rows["win_rates"].told(asked) == {}
    # What was paid for again when everybody was asked is not paid for a third time.
    assert rows["judge_requests"].told(asked) == {"pay_again": True, "run_began_at": "now"}
    assert rows["judge_replies"].told(asked) == {"run_began_at": "now"}
    again = {name for name, row in rows.items() if asks_again(row, asked)}
    assert again == {"entrant_requests", "entrant_responses", "judge_requests", "judge_replies"}
    rejudging = RunOptions("pilot", rejudge=True)
    passed_over = {job.name for job in JOBS if rejudging.passes_over(job.prepares)}
    assert {name for name, row in rows.items() if row.job in passed_over} == {
        "judging_estimate",
        "judge_requests",
    }


def test_a_check_that_a_plan_decides_can_block(plan: TournamentPlan) -> None:
    def checks(plan: TournamentPlan) -> dict[str, str]:
        return {"slow": "Ends.", plan.tournament_id: Blocking("Stops what comes next.")}

    row = AssetRow(win_rates, stage="ratings", job="judging", checks=checks)
    assert row.blocking_checks(plan) == {plan.tournament_id}
