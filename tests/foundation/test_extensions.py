"""The door by which other distributions add rows, without installing any."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import make_project
from tests.test_house import ROOT

EXAMPLE = ROOT / "tests" / "extension_example"
MEASURE = """
from tournament_assets.extension import Measure
ROWS = (Measure({name!r}, "title", "Meaning.", "Advice.", "share"),)
"""
LOADER = """
from typing import Literal
from tournament_assets.extension import EntrantSpec
from tournament_assets.tournament.entrant_settings import LoaderRow
class Taken(EntrantSpec):
    loader: Literal["recorded"]
ROWS = (LoaderRow(entrant=Taken, answer="acme.answers:answer"),)
"""
ASSET = """
from tournament_assets.extension import AssetRow, Made, MatchRow
def tea() -> Made[list[MatchRow]]:
    return 1 / 0
ROWS = (AssetRow(tea, stage="tea", job={job!r}, axes=("mode",)),)
"""
JOB = """
from tournament_assets.extension import JobRow
ROWS = (JobRow("ours", "our own"),)
"""
EXTENSIONS = "tournament_assets.foundation.extensions"
VERSIONS = """
import json, sys
from pathlib import Path
from tournament_assets.graph.recipe_book import made_with
from tournament_assets.graph.table import ASSETS, settings_versions
from tournament_assets.judging.costs.prices import newest_prices_hash
from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import plan_of
plan = plan_of(load_config(Path(sys.argv[1])), {})
print(json.dumps({**settings_versions(plan), "prices": newest_prices_hash()}))
"""


def install(folder: Path, distribution: str, version: str = "1.0", **modules: str) -> Path:
    """Put a distribution into a folder, as a wheel is unpacked; its package is its name."""
    package = distribution.replace("-", "_")
    about = folder / f"{package}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {distribution}\nVersion: {version}\n\nName: no\n")
    (about / "entry_points.txt").write_text(
        f"[console_scripts]\nother = other:main\n[tournament_assets.extensions]\n"
        f"{package}_rows = {package}\n\n[last]\na = b\n"
    )
    (folder / package).mkdir(exist_ok=True)
    for name, text in {"__init__": "", **modules}.items():
        (folder / package / f"{name}.py").write_text(text)
    return folder


def python(site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python where a folder holds installed distributions."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_measures_of_one_name_are_refused_with_both_distributions(tmp_path: Path) -> None:
    install(tmp_path, "acme", measures=MEASURE.format(name="charm"))
    loads = (
        "-c",
        "from tournament_assets.trust.measures import MEASURES; print('charm' in MEASURES)",
    )
    assert python(tmp_path, *loads).stdout == "True\n"
    install(tmp_path, "zoo", "2.1", measures=MEASURE.format(name="charm"))
    refused = python(tmp_path, *loads).stderr.splitlines()[-1]
    assert "'charm' is in the measures of acme 1.0 and of zoo 2.1" in refused
    assert python(tmp_path, *loads, TOURNAMENT_EXTENSIONS="none").stdout == "False\n"


@pytest.mark.parametrize(
    ("kind", "text", "reader", "problem"),
    [
        ("measures", "ROWS = None", "trust.measures", "ROWS is None; expected a tuple of rows"),
        ("measures", "ROWS = (3,)", "trust.measures", "3 is in the measures of acme 1.0; expected"),
        ("prices", "ROWS = ()", "judging.costs.prices", "ROWS is (); expected a dict of rows"),
        (
            "measures",
            MEASURE.format(name="position_bias"),
            "trust.measures",
            "'position_bias' is in the measures of tournament-assets and of acme 1.0",
        ),
        (
            "loaders",
            LOADER,
            "tournament.entrants",
            "'recorded' is in the loaders of tournament-assets and of acme 1.0",
        ),
        (
            "loaders",
            "from tournament_assets.extension import CompletedResponses",
            "project.plan",
            "name what functions use inside them, as extension.",
        ),
        ("assets", ASSET.format(job="pairs"), "graph.table", "give it a job of its own"),
        ("assets", ASSET.format(job="tea"), "graph.table", "add a row to jobs"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_with_its_distribution(
    tmp_path: Path, kind: str, text: str, reader: str, problem: str
) -> None:
    install(tmp_path, "acme", **{kind: text})
    reads = f"from tournament_assets.{reader} import *\nfrom {EXTENSIONS} import added_rows_by_name"
    reads = f"{reads}\nif {kind!r} == 'prices': added_rows_by_name('prices', {{}})"
    refused = python(tmp_path, "-c", reads).stderr.splitlines()[-1]
    for part in ("ExtensionError", "acme 1.0", "TOURNAMENT_EXTENSIONS=none", problem):
        assert part in refused


def test_an_error_in_an_extensions_function_says_where_it_was_raised(tmp_path: Path) -> None:
    install(tmp_path, "acme", assets=ASSET.format(job="ours"), jobs=JOB)
    calls = "from tournament_assets.graph.table import row_of; row_of('tea').call({}, {})"
    raised = python(tmp_path, "-c", calls).stderr.splitlines()
    assert raised[-2:] == [
        "ZeroDivisionError: division by zero",
        "in the extension acme 1.0, acme.assets:4",
    ]


def test_a_broken_extension_is_named_with_its_cause_and_stops_neither_help_nor_doctor(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    site = install(tmp_path / "site", "acme", commands="import no_such_module")
    install(site, "zoo", measures="ROWS = 1 / 0")
    tournament = "-m", "tournament_assets"
    config = "--config", str(project.config_path)
    refused = python(site, *tournament, "estimate", *config, "--mode", "pilot")
    assert refused.returncode == 2
    for part in ("acme 1.0", "acme_rows = acme", "no_such_module", "TOURNAMENT_EXTENSIONS=none"):
        assert part in " ".join(refused.stderr.split())
    listed = python(site, *tournament, "--help")
    assert listed.returncode == 0
    assert "estimate" in listed.stdout
    assert "no_such_module" in listed.stdout
    examined = python(site, *tournament, "doctor", *config, "--json")
    assert examined.returncode == 1
    findings = [row for row in json.loads(examined.stdout) if "extension" in str(row)]
    assert [row["subject"] for row in findings if row["health"] == "look"] == [
        "acme 1.0",
        "zoo 1.0",
    ]
    broken = [row for row in findings if row["health"] == "broken"]
    assert ["no_such_module" in broken[0]["said"], "ZeroDivision" in broken[1]["said"]] == [
        True
    ] * 2
    assert all("TOURNAMENT_EXTENSIONS=none" in row["advice"] for row in broken)
    without = python(
        site, *tournament, "estimate", *config, "--mode", "pilot", TOURNAMENT_EXTENSIONS="none"
    )
    assert without.returncode == 0
    misspelt = python(site, *tournament, "estimate", *config, TOURNAMENT_EXTENSIONS="no")
    assert "TOURNAMENT_EXTENSIONS is 'no'; expected none" in misspelt.stderr


def test_an_extensions_version_is_part_of_what_it_makes_alone(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    versions = []
    for number in ("1.0", "1.1"):
        site = tmp_path / number
        modules = (EXAMPLE / "tournament_example").glob("*.py")
        install(site, "tournament-example", number, **{p.stem: p.read_text() for p in modules})
        for choice in ("", "none"):
            done = python(
                site, "-c", VERSIONS, str(project.config_path), TOURNAMENT_EXTENSIONS=choice
            )
            assert done.returncode == 0, done.stderr
            versions.append(json.loads(done.stdout))
    with_it, without, newer, again = versions
    assert again == without
    makes = {"measures", "ratings", "report", "word_counts"}
    assert {name for name in newer if newer[name] != with_it[name]} == makes
    assert {name for name in with_it if with_it[name] != without.get(name)} == {*makes, "prices"}
