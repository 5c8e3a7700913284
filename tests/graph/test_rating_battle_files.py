"""A run's battle file alone gives the run's ratings, to the bit."""

import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.projects import SmallProject, make_project
from tournament_assets.cli.battles import battles_group
from tournament_assets.graph.run_summaries import RunSummary


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallProject, RunSummary]:
    project = make_project(tmp_path_factory.mktemp("rated") / "project")
    return project, project.run(n_perms=7)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_ratings_of_a_run_come_back_from_its_battle_file(
    finished: tuple[SmallProject, RunSummary], kind: str
) -> None:
    project, summary = finished
    path = summary.directory / f"battles.{kind}"
    result = CliRunner().invoke(
        battles_group, ["rate", str(path), "--json"], catch_exceptions=False
    )
    rated = json.loads(result.stdout)["ratings"]
    assert [each["dimension"] for each in rated] == ["factuality", "calibration"]
    for each in rated:
        for name, table in (("elo", "elo_ratings"), ("bradley_terry", "bradley_terry_ratings")):
            assert each[name] == _stored(project, table, each["dimension"])


def _stored(project: SmallProject, table: str, dimension: str) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / table / dimension / "pilot.parquet"
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
