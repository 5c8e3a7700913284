"""Several judges, and pairs that are shown once, through the graph."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.projects import ENTRANTS, SmallProject, make_project
from tests.rows import table_rows
from tournament_assets.storage.tables import decode_parquet

DIMENSIONS = ("factuality",)


def configure(project: SmallProject, **changes: Any) -> None:
    config = yaml.safe_load(project.config_path.read_text())
    project.edit_config(judge={**config["judge"], **changes})


def stored(project: SmallProject, name: str) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / name / "factuality" / "pilot.parquet"
    return table_rows(name, decode_parquet(name, path.read_bytes()))


def report_of(project: SmallProject) -> str:
    (page,) = (project.folder / "runs").glob("*/report.md")
    return page.read_text()


@pytest.mark.slow
def test_a_pair_that_is_shown_once_is_asked_once_and_rated_without_the_slot(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path, dimensions=DIMENSIONS)
    configure(project, presentations="one")
    summary = project.run()
    replies, verdicts = stored(project, "judge_replies"), stored(project, "judge_verdicts")
    assert len(replies) == len(verdicts)
    assert summary.requests_submitted <= len(verdicts)
    assert {row["presentation"] for row in replies} == {"ab", "ba"}
    assert all("not_shown" in (row["verdict_ab"], row["verdict_ba"]) for row in verdicts)
    jury = {(row["measure"], row["subject"]): row for row in stored(project, "jury")}
    assert ("slot_odds", "loopback-pilot") in jury
    rated = {row["entrant_id"]: row["rating"] for row in stored(project, "bradley_terry_ratings")}
    assert rated == {name: jury["rating", name]["value"] for name in ENTRANTS}
    text = report_of(project)
    assert "## The judges" in text
    assert "Every pair was shown once" in text


@pytest.mark.slow
def test_three_judges_judge_all_pairs_or_a_share_and_settle_them_together(tmp_path: Path) -> None:
    project = make_project(tmp_path, dimensions=DIMENSIONS)
    models = ["loopback-pilot", "loopback-headline", "loopback-third"]
    panel: list[dict[str, Any]] = [{"model": name} for name in models]
    panel[2] = {**panel[2], "share": 0.5}
    configure(project, panel=panel)
    summary = project.run()
    replies, verdicts = stored(project, "judge_replies"), stored(project, "judge_verdicts")
    asked = {name: [row for row in replies if row["judge_model"] == name] for name in models}
    assert len(asked[models[0]]) == len(asked[models[1]]) == 2 * len(verdicts)
    assert 0 < len(asked[models[2]]) < 2 * len(verdicts)
    assert summary.requests_submitted > 0
    assert {row["judge_model"] for row in verdicts} == {", ".join(models)}
    jury = {(row["measure"], row["subject"], row["other"]): row for row in stored(project, "jury")}
    assert {key[1] for key in jury if key[0] == "weight"} == set(models)
    assert sum(key[0] == "kappa" for key in jury) == 3
    assert jury["fleiss_kappa", None, None]["n"] > 0
    rated = {row["entrant_id"]: row["rating"] for row in stored(project, "bradley_terry_ratings")}
    assert rated == {name: jury["rating", name, None]["value"] for name in ENTRANTS}
    estimate = table_rows(
        "judging_estimate",
        decode_parquet(
            "judging_estimate",
            (project.folder / "storage/small/judging_estimate/pilot.parquet").read_bytes(),
        ),
    )
    assert [row["judge_model"] for row in estimate] == models
    text = report_of(project)
    assert "Agreement among judges is not agreement with people" in text
    again = project.run()
    assert again.requests_submitted == 0
