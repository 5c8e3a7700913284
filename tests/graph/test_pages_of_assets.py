"""Assets that a report shows link to it, and nothing else of them changes with the address."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from tests.projects import FinishedPilot, SmallProject
from tournament_assets.definitions import build_definitions
from tournament_assets.graph.assets.publishing import page_address
from tournament_assets.graph.recipe_book import RecipeBook
from tournament_assets.project.plan import TournamentPlan, load_plan

SITE = "http://127.0.0.1:3001"


@pytest.fixture
def project(finished_pilot: FinishedPilot, tmp_path: Path) -> SmallProject:
    return finished_pilot.copy(tmp_path / "project")


def load(project: SmallProject, **variables: str) -> tuple[TournamentPlan, Any]:
    environment = {**project.environment, **variables}
    plan = load_plan(project.config_path, environment)
    definitions = build_definitions([plan], project.folder, environment)
    return plan, definitions.resolve_asset_graph()


def pages_of(graph: Any, asset: str) -> dict[str, str]:
    metadata = graph.get(dg.AssetKey(["small", asset])).metadata
    return {name: each.value for name, each in metadata.items() if name.startswith("page_")}


@pytest.mark.parametrize(
    ("asset", "anchor"),
    [
        ("report", ""),
        ("leaderboard", ""),
        ("run_artifacts", ""),
        ("judge_verdicts", "#battles"),
        ("entrant_responses", "#battles"),
        ("win_rates", "#win-grid"),
        ("audit", "#audit"),
    ],
)
def test_an_asset_leads_to_where_the_newest_report_of_each_mode_shows_it(
    project: SmallProject, asset: str, anchor: str
) -> None:
    _, graph = load(project, TOURNAMENT_SITE_URL=f"{SITE}/")
    assert pages_of(graph, asset) == {
        f"page_{mode}": f"{SITE}/latest/small_{mode}/report.html{anchor}"
        for mode in ("pilot", "headline")
    }
    assert pages_of(load(project)[1], asset) == {}


def test_what_no_report_shows_leads_nowhere(project: SmallProject) -> None:
    _, graph = load(project, TOURNAMENT_SITE_URL=SITE)
    assert pages_of(graph, "match_list") == pages_of(graph, "rubrics") == {}


def test_a_run_leads_to_its_own_report_if_the_site_has_it(project: SmallProject) -> None:
    plan, _ = load(project, TOURNAMENT_SITE_URL=SITE)
    runs = project.folder / "runs"
    address = page_address(plan, "run_artifacts", "pilot", runs / "pilot_1")
    assert address == f"{SITE}/runs/pilot_1/report.html"
    assert page_address(plan, "run_artifacts", "pilot", project.folder / "elsewhere") is None


def test_no_version_and_no_recipe_changes_with_the_address(project: SmallProject) -> None:
    plan, graph = load(project)
    linked, linked_graph = load(project, TOURNAMENT_SITE_URL=SITE)
    for key in graph.get_all_asset_keys():
        assert graph.get(key).code_version == linked_graph.get(key).code_version
    with dg.DagsterInstance.from_config(project.environment["DAGSTER_HOME"]) as instance:
        book = RecipeBook(plan, instance)
        places = book.places_of("pilot")
        other = replace(book, plan=linked, _versions={}, _stored={}, _newest={})
        assert [book.recipe(each) for each in places] == [other.recipe(each) for each in places]
        assert other.out_of_date(places) == book.out_of_date(places)
