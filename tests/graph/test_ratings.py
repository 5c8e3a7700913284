"""Ratings by every method, through the graph."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.projects import (
    ENTRANTS,
    SmallProject,
    bank_rows,
    leaderboard_of,
    make_project,
    write_json_lines,
)
from tournament_assets.graph.plain_runs import PlainRun
from tournament_assets.ratings.covariates import fit_controlled
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    DAVIDSON,
    EFFECT,
    ELO,
    GAP,
    METHODS,
    SANDWICH,
    STYLE,
    WIN_SHARE,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import trace_elo
from tournament_assets.ratings.style_control import count_style, style_differences
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.verdicts import Judgment, Outcome

N_ORDERINGS = 400
QUALITIES = [
    *[(0, 1, 0)] * 11,
    *[(1, 0, 0)],
    *[(1, 0, 1)] * 5,
    *[(1, 1, 0)] * 9,
    *[(2, 1, 0)] * 4,
]
"""How many words of the accepted answer each entrant finds, by prompt.

Leaving ties out, `careful` does better against `mixed` than `sloppy` does, and Elo puts it first;
with ties as half wins it is the other way round.
"""
MORE = (
    "Someone wrote it down at noon.",
    "Nobody else was there that day.",
    "Every door stayed shut until five.",
)
DIMENSIONS = ("factuality", "calibration")


def long_bank() -> list[dict[str, Any]]:
    gold = [row for row in bank_rows() if "gold_answer" in row]
    return [
        {**gold[number % len(gold)], "prompt_id": f"recall-{number}"}
        for number in range(len(QUALITIES))
    ]


def styled_responses(entrant: str) -> list[dict[str, Any]]:
    """Answer briefly or not, with bold words or not, and never with a list or a heading."""
    generator = np.random.default_rng([5, ENTRANTS.index(entrant)])
    rows = []
    for prompt, quality in zip(long_bank(), QUALITIES, strict=True):
        colour, thing = prompt["gold_answer"].split()
        found = ("zebra horse", f"{colour} horse", f"{colour} {thing}")[
            quality[ENTRANTS.index(entrant)]
        ]
        marked = f"**{found}**" if generator.random() < 0.5 else found
        more = " ".join(MORE[: int(generator.integers(4))])
        rows.append(
            {"prompt_id": prompt["prompt_id"], "response": f"This is a {marked}. {more}".strip()}
        )
    return rows


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[SmallProject, PlainRun]:
    project = make_project(tmp_path_factory.mktemp("compared") / "project")
    write_json_lines(project.folder / "bank.jsonl", long_bank())
    project.draw(recall=len(QUALITIES))
    for entrant in ENTRANTS:
        write_json_lines(project.folder / f"responses_{entrant}.jsonl", styled_responses(entrant))
    return project, project.tables(n_perms=N_ORDERINGS)


def stored(project: SmallProject, table: str, partition: str) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / table / partition / "pilot.parquet"
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def preferences_of(project: SmallProject, dimension: str) -> Matches:
    judgments = [
        Judgment(
            row["prompt_id"], dimension, row["entrant_a"], row["entrant_b"], Outcome(row["outcome"])
        )
        for row in stored(project, "judge_verdicts", dimension)
    ]
    return code_judgments(judgments, entrants=ENTRANTS)


def by_method(project: SmallProject, dimension: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (row["method"], row["entrant_id"]): row for row in stored(project, "ratings", dimension)
    }


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_method_rates_the_run_as_it_rates_the_pairs_alone(
    finished: tuple[SmallProject, PlainRun], dimension: str
) -> None:
    project, _ = finished
    matches = preferences_of(project, dimension)
    settings = RatingSettings(n_permutations=N_ORDERINGS)
    methods = (BRADLEY_TERRY, SANDWICH, ELO, DAVIDSON, WIN_SHARE, GAP)
    expected = rating_rows(
        Evidence(
            matches=matches,
            settings=settings,
            traces=trace_elo(matches, settings),
            tells_apart=True,
        ),
        methods,
        dimension=dimension,
    )
    rows = by_method(project, dimension)
    assert {method for method, _ in rows} == {
        name for name, each in METHODS.items() if each.asset == "ratings"
    }
    for row in expected:
        found = rows[row.method, row.entrant_id]
        for name in ("rating", "standard_error", "rank", "rank_best", "n"):
            assert found[name] == pytest.approx(getattr(row, name))
        assert found["shown_above"] == [*row.shown_above]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_bradley_terry_alone_orders_separates_and_claims(
    finished: tuple[SmallProject, PlainRun], dimension: str
) -> None:
    project, made = finished
    directory = Path(made.metadata["run_artifacts", ""]["directory"])
    board = [row for row in leaderboard_of(directory) if row["dimension"] == dimension]
    rows = by_method(project, dimension)
    places = ("rank", "rating", "low", "high", "rank_best", "rank_worst", "shown_above", "group")
    for row in board:
        expected = rows[BRADLEY_TERRY, row["entrant_id"]]
        assert [row[name] for name in places] == [expected[name] for name in places]
    in_order = [row["entrant_id"] for row in board]
    assert in_order == sorted(in_order, key=lambda name: -rows[BRADLEY_TERRY, name]["rating"])
    elo = [row for row in stored(project, "elo_ratings", dimension) if row["is_primary"]]
    # Elo, which leaves ties out, has another order on factuality.
    assert (in_order == [row["entrant_id"] for row in elo]) == (dimension == "calibration")
    above = {(row["entrant_id"], each) for row in board for each in row["shown_above"]}
    for row in stored(project, "win_rates", dimension):
        pair = row["entrant_a"], row["entrant_b"]
        assert (row["claim"] == "a_better") == (pair in above)
        assert (row["claim"] == "b_better") == (pair[::-1] in above)
        ratings = [rows[BRADLEY_TERRY, name]["rating"] for name in pair]
        assert row["difference"] == pytest.approx(ratings[0] - ratings[1])
    report = json.loads((directory / "elo_ratings.json").read_text())
    report = report if dimension == DIMENSIONS[0] else report["other_dimensions"][dimension]
    assert [(entry["model"], entry["rating"]) for entry in report["ratings"]] == [
        (row["entrant_id"], row["rating"]) for row in board
    ]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_elo_side_by_side_is_the_elo_by_permutation(
    finished: tuple[SmallProject, PlainRun], dimension: str
) -> None:
    project, _ = finished
    rows = by_method(project, dimension)
    for row in stored(project, "elo_ratings", dimension):
        if row["is_primary"]:
            assert rows[ELO, row["entrant_id"]]["rating"] == pytest.approx(row["mean"], rel=1e-9)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_report_shows_every_disagreement_and_the_tie_parameter(
    finished: tuple[SmallProject, PlainRun], dimension: str
) -> None:
    project, made = finished
    text = (Path(made.metadata["run_artifacts", ""]["directory"]) / "report.html").read_text()
    section = text.split('id="models"')[1].split("</details>")[0]
    (own,) = re.findall(rf"<p>({dimension}: .*?)</p>", section)
    own = html.unescape(own)
    table = section.split(f"<caption>Models side by side, {dimension}<")[1].split("</table>")[0]
    metadata = made.metadata["ratings", dimension]
    # Only with ties as half wins is sloppy ahead of careful.
    is_disputed = dimension == "factuality"
    assert ("careful above sloppy" in own) == ("sloppy above careful" in own) == is_disputed
    for line in metadata["disagreements"].splitlines():
        assert line.removeprefix("- ") in own
    parameter = fit_davidson(preferences_of(project, dimension)).tie_parameter
    assert parameter is not None
    assert metadata["davidson_tie_parameter"] == pytest.approx(parameter)
    assert f" {parameter:.3f}" in own
    assert table.count('scope="row"') == len(ENTRANTS)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_ratings_at_equal_style_are_those_of_the_features_that_can_be_controlled(
    finished: tuple[SmallProject, PlainRun], dimension: str
) -> None:
    project, made = finished
    preferences = preferences_of(project, dimension)
    texts = {
        (entrant, row["prompt_id"]): row["response"]
        for entrant in ENTRANTS
        for row in stored(project, "entrant_responses", entrant)
    }
    sides = [
        [
            count_style(texts[preferences.entrants[entrant], preferences.prompts[prompt]])
            for entrant, prompt in zip(side, preferences.prompt_index, strict=True)
        ]
        for side in (preferences.first, preferences.second)
    ]
    names = ("words", "bold_spans")
    expected = fit_controlled(
        preferences,
        style_differences(*sides, names=names),
        names=names,
        confidence=0.95,
    )
    rows = by_method(project, dimension)
    for rating in expected.ratings:
        row = rows[STYLE, rating.entrant]
        assert points_of(row) == pytest.approx([rating.value, rating.low, rating.high])
    for effect in expected.effects:
        row = rows[EFFECT, effect.name]
        assert points_of(row) == pytest.approx([effect.value, effect.low, effect.high])
        assert f"is {100 * effect.scale:.0f} %" in row["note"]
    for name in ("list_items", "headings"):
        assert rows[EFFECT, name]["rating"] is None
        assert "never differs" in rows[EFFECT, name]["note"]
    assert "headings" in made.metadata["ratings", dimension]["ratings_at_equal_style"]


def points_of(row: dict[str, Any]) -> list[float | None]:
    return [row["rating"], row["low"], row["high"]]
