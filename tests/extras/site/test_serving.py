"""The site as it is served: pages as of now, the state of a mode, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from starlette.testclient import TestClient

from tests.projects import FinishedPilot, SmallProject
from tournament_assets.extras.site.serving import site_app
from tournament_assets.storage.tables import decode_parquet
from tournament_assets.tournament.asset_rows import JudgeReplyRow

GRAPH = "http://127.0.0.1:3000/locations/tournament_assets"


@pytest.fixture
def project(finished_pilot: FinishedPilot, tmp_path: Path) -> SmallProject:
    return finished_pilot.copy(tmp_path / "project")


@pytest.fixture
def client(project: SmallProject) -> Iterator[TestClient]:
    environment = {**project.environment, "TOURNAMENT_PROJECT": str(project.folder)}
    with dg.DagsterInstance.from_config(environment["DAGSTER_HOME"]) as instance:
        yield TestClient(site_app(instance, environment, GRAPH))


def edit_rubric(project: SmallProject) -> None:
    rubric = project.folder / "rubrics" / "factuality.txt"
    version, _, rest = rubric.read_text().partition("\n")
    rubric.write_text(f"{version}9\n{rest}")


def test_an_edit_is_on_the_page_with_its_price_and_the_job_that_reruns_it(
    project: SmallProject, client: TestClient
) -> None:
    for page in ("/", "/small_pilot.html", "/latest/small_pilot/report.html"):
        assert ("Up to date" in client.get(page).text, GRAPH in client.get(page).text) == (1, 0)
    edit_rubric(project)
    stored = project.folder / "storage" / "small" / "judge_replies" / "factuality"
    replies = decode_parquet(JudgeReplyRow, (stored / "pilot.parquet").read_bytes())
    for page in ("/", "/small_pilot.html", "/latest/small_pilot/report.html"):
        text = client.get(page).text
        assert "rubrics factuality was v1" in text
        assert "judge_replies factuality|pilot" in text
        assert f"small_rerun (pilot) asks {len(replies)} requests again, $0.00" in text
        assert f'"{GRAPH}/jobs/small_rerun/playground/setup?' in text
        assert "dagster%2Fpartition" in text


def test_a_config_that_cannot_be_read_is_said_and_the_report_is_still_there(
    project: SmallProject, client: TestClient
) -> None:
    project.config_path.write_text("dimensions: [")
    assert "cannot be told" in client.get("/small_pilot.html").text
    project.config_path.unlink()
    response = client.get("/latest/small_pilot/report.html")
    assert response.status_code == 200
    assert "cannot be told" in response.text


def test_a_run_that_finished_since_is_served(project: SmallProject, client: TestClient) -> None:
    (first,) = (project.folder / "runs").iterdir()
    assert (
        client.get(f"/runs/{first.name}/report.html").content
        == (first / "report.html").read_bytes()
    )
    later = first.rename(first.with_name("pilot_later"))
    assert client.get(f"/runs/{first.name}/report.html").status_code == 404
    assert client.get(f"/runs/{later.name}/report.html").status_code == 200
    assert later.name in client.get("/").text


def test_no_other_file_is_served(project: SmallProject, client: TestClient) -> None:
    (run,) = (project.folder / "runs").iterdir()
    (project.folder / "runs" / "report.html").write_text("outside")
    for path in (
        f"/runs/{run.name}/manifest.json",
        f"/runs/{run.name}/../report.html",
        f"/runs/{run.name}/%2e%2e/report.html",
        f"/runs/{run.name}/..%2freport.html",
        "//etc/passwd",
        "/%2e%2e/configs/small.yaml",
        "/runs/",
    ):
        assert client.get(path).status_code == 404, path
    assert client.post("/").status_code == 405


def test_answers_are_private_and_as_of_now(client: TestClient) -> None:
    for path in ("/", "/nowhere"):
        headers = client.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_without_a_run_the_site_says_how_to_make_one(tmp_path: Path) -> None:
    app = site_app(None, {"TOURNAMENT_PROJECT": str(tmp_path)}, GRAPH)
    response = TestClient(app).get("/")
    assert response.status_code == 404
    assert "tournament run" in response.text
