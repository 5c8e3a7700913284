"""Several judges through the graph."""

from collections import Counter
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.threaded_servers import LoopbackServer
from tests.projects import ENTRANTS, SmallProject, make_project
from tests.rows import stored_rows
from tournament_assets.foundation.errors import WorkError
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.verdicts import Judgment

DIMENSIONS = ("factuality",)


def stored(project: SmallProject, name: str) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / name / "factuality" / "pilot.parquet"
    return stored_rows(name, path)


def test_three_judges_judge_all_pairs_or_a_share_and_settle_them_together(tmp_path: Path) -> None:
    project = make_project(tmp_path, dimensions=DIMENSIONS)
    models = ["loopback-pilot", "loopback-headline", "loopback-third"]
    project.seat(*({"model": name, "share": 1.0 if name in models[:2] else 0.5} for name in models))
    for asset in ("jury", "measures", "ratings"):
        made = project.tables(asset)
    replies, verdicts = stored(project, "judge_replies"), stored(project, "judge_verdicts")
    asked = {name: [row for row in replies if row["judge_model"] == name] for name in models}
    assert len(asked[models[0]]) == len(asked[models[1]]) == 2 * len(verdicts)
    assert 0 < len(asked[models[2]]) < 2 * len(verdicts)
    # The second time nobody was asked again.
    assert made.metadata["judge_requests", ""]["requests_submitted_now"] == 0
    assert {row["settled_by"] for row in verdicts} == {", ".join(models)}
    jury = {(row["measure"], row["subject"], row["other"]): row for row in stored(project, "jury")}
    assert {key[1] for key in jury if key[0] == "weight"} == set(models)
    measured = {(row["measure"], row["other"]): row for row in stored(project, "measures")}
    found = [row for row in stored(project, "measures") if row["measure"] == "kappa"]
    assert {(row["subject"], row["other"]) for row in found} == {*combinations(models, 2)}
    assert measured["fleiss_kappa", None]["n"] > 0
    rated = {
        row["entrant_id"]: row["rating"]
        for row in stored(project, "ratings")
        if row["method"] == "bradley_terry"
    }
    settled = [
        Judgment(**{field.name: row[field.name] for field in fields(Judgment)}) for row in verdicts
    ]
    fitted = fit_bradley_terry(code_judgments(settled, entrants=[*ENTRANTS]))
    assert rated == pytest.approx({each.entrant: each.value for each in fitted})
    estimate = made.frame("judging_estimate")
    assert estimate["asked"].tolist() == models


TURNS = ("loopback-pilot", "loopback-hasty", "loopback-coarse")
IN_ROUNDS = {"adaptive": {"goal": "bank", "rounds": 2, "min_prompts": 2}}


@pytest.mark.parametrize("mode", [{}, pytest.param(IN_ROUNDS, id="in rounds")])
def test_in_turn_judges_cost_what_one_does_and_each_settles_its_own_pairs(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    project = make_project(tmp_path, dimensions=DIMENSIONS)
    project.seat(*({"model": name} for name in TURNS))
    project.merge_config(modes={"pilot": mode}, judging={"assignment": "in_turn"})
    estimate = project.tables("judging_estimate").frame("judging_estimate")
    made = project.tables("measures")
    replies, verdicts = stored(project, "judge_replies"), stored(project, "judge_verdicts")
    settled = {
        (row["prompt_id"], row["entrant_a"], row["entrant_b"]): row["settled_by"]
        for row in verdicts
    }
    assert {*settled.values()} == {*TURNS}
    assert len(replies) == 2 * len(verdicts) == 2 * len(settled) == int(estimate["to_ask"].sum())
    for reply in replies:
        pair = reply["prompt_id"], reply["entrant_a"], reply["entrant_b"]
        assert settled[pair] == reply["judge_model"]
    assert made.checks["judge_verdicts", "factuality"][0].passed
    counted = {
        row["subject"]: row["n"] for row in stored(project, "jury") if row["measure"] == "weight"
    }
    assert counted == Counter(row["judge_model"] for row in replies)
    measured = {row["measure"]: row for row in stored(project, "measures")}
    assert measured["swap_consistency"]["n"] == len(verdicts)
    assert measured["unjudged"]["value"] == 0
    assert not measured.keys() & {"kappa", "effective_votes"}
    # All together cost as many times as much, and pay again for none of these.
    project.merge_config(judging={"assignment": "all"})
    made = project.tables("measures")
    together = stored(project, "judge_replies")
    assert len(together) == len(TURNS) * len(replies)
    assert {row["reply"] for row in replies} <= {row["reply"] for row in together}
    (votes,) = (r for r in stored(project, "measures") if r["measure"] == "effective_votes")
    assert 1 <= votes["value"] <= 3


def test_a_mode_of_one_judge_beside_a_jury_is_judged_by_whatever_model_is_asked(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path, dimensions=DIMENSIONS)
    models = ["loopback-pilot", "loopback-headline"]
    project.seat(*({"model": name} for name in models))
    project.merge_config(modes={"pilot": {"judges": [models[0]]}, "headline": {"judges": models}})
    project.tables("ratings", judge_model="loopback-other")
    assert {row["settled_by"] for row in stored(project, "judge_verdicts")} == {"loopback-other"}
    assert stored(project, "jury") == []


def test_a_jury_goes_on_without_a_dead_member_and_the_next_run_completes_it(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", dimensions=DIMENSIONS)
    away = {"service": "openai_api", "model": "away", "base_url": "http://127.0.0.1:1/v1"}
    project.seat({"model": "loopback-pilot"}, away)
    with pytest.raises(WorkError, match=r"127\.0\.0\.1:1"):
        project.tables("judge_verdicts")
    project.tables("judge_verdicts", partial=True)
    asked = [(row["judge_model"], row["result_type"]) for row in stored(project, "judge_replies")]
    assert {*asked} == {("loopback-pilot", "succeeded"), ("away", "pending")}
    assert any(row["outcome"] != "unjudged" for row in stored(project, "judge_verdicts"))
    with LoopbackServer(tmp_path / "server") as server:
        project.seat({"model": "loopback-pilot"}, away | {"base_url": f"{server.url}/v1"})
        made = project.tables("judge_verdicts")
    assert made.metadata["judge_requests", ""]["requests_submitted_now"] == len(asked) / 2
    assert {row["result_type"] for row in stored(project, "judge_replies")} == {"succeeded"}
