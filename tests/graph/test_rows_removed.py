"""Tables of rows without any row that nothing needs.

The rows taken away come from the tables themselves, so that a new one is tested as it is added.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import tournament_assets as ta
from tests.battles.builders import fight, problems_of, read
from tests.projects import make_project, modules_of_extras
from tournament_assets.audits.fair_comparison import COMPARED
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.registry import (
    FORMATS,
    WRITTEN_FORMATS,
    detect_format,
    write_battles,
)
from tournament_assets.definitions import build_definitions
from tournament_assets.graph import table
from tournament_assets.graph.assets import publishing
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.graph.rows import AssetRow, Blocking
from tournament_assets.project.plan import load_plan
from tournament_assets.ratings.rating_methods import BRADLEY_TERRY, METHODS
from tournament_assets.reports.run.section_table import SECTIONS
from tournament_assets.reports.sections import Page, SectionRow
from tournament_assets.trust.measures import LIGHT_TABLES, MEASURES, lights_of

ON_REQUEST = tuple(row.name for row in table.ASSETS if row.on_request)
PAGE = "report"


def take_out(monkeypatch: pytest.MonkeyPatch, rows: Mapping[str, Any], name: str) -> None:
    """Delete a row until the test ends; then the rows are back, in the order they had."""
    kept = {each: row for each, row in rows.items() if each != name}
    for each in reversed([*rows]):
        monkeypatch.delitem(rows, each)
    for each, row in kept.items():
        monkeypatch.setitem(rows, each, row)


@dataclass(frozen=True)
class Pilot:
    """A pilot that ran to its end, with tests of the judge and what extras add."""

    tournament: ta.Tournament
    values: Mapping[tuple[str, str], Any]

    def remake(self, *assets: str, until: str | None = PAGE, without: str = "") -> PlainRun:
        """Make some assets again, from all other tables but one."""
        known = {row.name for row in table.ASSETS}
        given = {
            place: value
            for place, value in self.values.items()
            if place[0] in known - {*assets, without}
        }
        return self.tournament.tables("pilot", until=until, given=given)


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Pilot:
    project = make_project(tmp_path_factory.mktemp("rows") / "project", dimensions=("factuality",))
    for extra in modules_of_extras("additions"):
        extra.add_to(project, "factuality")
    small, folder = ta.load(project.config_path, environment={}), project.folder / "storage"
    values = small.tables("pilot", folder=folder).values
    for name in ON_REQUEST:
        values |= small.tables("pilot", until=name, given=values).values
    values |= small.tables("pilot", until="measures", given=_but(values, "measures")).values
    return Pilot(small, values)


def _but(values: Mapping[tuple[str, str], Any], *assets: str) -> dict[tuple[str, str], Any]:
    return {place: value for place, value in values.items() if place[0] not in assets}


def _page(made: PlainRun) -> str:
    pages = made.frame(PAGE).set_index("format")["content"]
    return str(pages["html"])


def _needed_assets() -> set[str]:
    """Name what another asset cannot do without; the page does without what a section reads."""
    rows = {row.name: row for row in table.ASSETS}
    read = {
        name
        for row in table.ASSETS
        for name, source in row.inputs_among(rows).items()
        if name in row.input_types and not source.may_be_missing
    }
    return read | set(publishing.tables_of(()))


NEEDED = _needed_assets()


@pytest.mark.parametrize(
    "name",
    [name for name, each in METHODS.items() if name not in COMPARED and not each.beside],
)
def test_a_rating_method(name: str, pilot: Pilot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the fair comparison stay; the leaderboard and the page go by Bradley-Terry, too."""
    take_out(monkeypatch, METHODS, name)
    made = pilot.remake("ratings", "measures", "leaderboard", PAGE)
    methods = set(made.frame("ratings", "factuality")["method"])
    assert {each for each, row in METHODS.items() if row.rate is not None} <= methods
    assert name not in methods
    assert METHODS[BRADLEY_TERRY].title in _page(made)


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure(name: str, pilot: Pilot, monkeypatch: pytest.MonkeyPatch) -> None:
    take_out(monkeypatch, MEASURES, name)
    made = pilot.remake(*LIGHT_TABLES, PAGE)
    lights = lights_of(made.frame(asset, "factuality") for asset in LIGHT_TABLES)
    assert {row.measure for row in lights} <= set(MEASURES)
    assert lights
    assert _page(made)
    for asset in ON_REQUEST:
        pilot.remake(asset, until=asset)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_out(monkeypatch, FORMATS, name)
    for other in WRITTEN_FORMATS:
        path = tmp_path / f"{other}.{'csv' if other == 'csv' else 'jsonl'}"
        if other != name:
            write_battles(path, make_battle_table([fight()]), format_name=other)
            assert detect_format(path).name == other
            assert read(path, source="llm-judge").table.num_rows == 1
    (problem,) = problems_of(lambda: read(tmp_path, name))
    assert all(each in problem for each in FORMATS)


@pytest.mark.parametrize("row", SECTIONS, ids=lambda row: row.name)
def test_a_section(row: SectionRow, pilot: Pilot, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tuple(each for each in SECTIONS if each is not row)
    tables = publishing.tables_of(left)
    assets = (replace(each, tables=tables) if each.name == PAGE else each for each in table.ASSETS)
    monkeypatch.setattr(publishing, "SECTIONS", left)
    monkeypatch.setattr(table, "ASSETS", tuple(assets))
    page = _page(pilot.remake(PAGE))
    assert f'id="{row.name}"' not in page
    assert set(re.findall(r'href="#([\w-]+)"', page)) <= set(re.findall(r'id="([^"]+)"', page))


def _arguments(row: SectionRow) -> Iterable[str]:
    for make in (row.make, row.doubts, row.remarks):
        bound = make.keywords if isinstance(make, partial) else {}
        yield from set(signature(make).parameters) - set(bound) if make is not None else ()


@pytest.mark.parametrize("row", SECTIONS, ids=lambda row: row.name)
def test_a_section_asks_for_what_there_is(row: SectionRow) -> None:
    """A name that is no table and no field of a page would leave the section out unsaid."""
    tables = {each.name for each in table.ASSETS}
    known = {*tables, *(each.name for each in fields(Page)), *vars(Page)}
    assert [name for name in _arguments(row) if name not in known] == []


def _blocks(row: AssetRow) -> bool:
    return isinstance(row.checks, Mapping) and any(
        isinstance(description, Blocking) for description in row.checks.values()
    )


@pytest.mark.parametrize(
    "row",
    [row for row in table.ASSETS if row.name not in NEEDED and not _blocks(row)],
    ids=lambda row: row.name,
)
def test_an_asset(row: AssetRow, pilot: Pilot, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = {each.name for each in table.ASSETS if row.name in {*each.reads, *each.after}}
    monkeypatch.setattr(table, "ASSETS", tuple(each for each in table.ASSETS if each is not row))
    plan = load_plan(pilot.tournament.config_path, {})
    defs = build_definitions([plan], pilot.tournament.config_path.parents[1], {})
    keys = {key.path[-1] for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert row.name not in keys
    assert len(keys) > len(NEEDED)
    made = pilot.remake(*readers, until=None, without=row.name)
    assert row.name not in {name for name, _ in made.values}
