"""An arena's human battles beside the judge's, in one run of a small tournament."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from tests.projects import SmallProject, bank_rows, make_project, write_json_lines
from tournament_assets.definitions import load_project
from tournament_assets.extras.people.assets import ROWS, human_battles, people_checks
from tournament_assets.foundation.errors import InputError
from tournament_assets.graph.automation.jobs import build_stages
from tournament_assets.project.plan import load_plan
from tournament_assets.ratings.rating_methods import METHODS

NEW_ASSETS = {
    "human_battles",
}
# What people say of careful against sloppy, prompt by prompt: 7 wins, 4 losses, a tie.
VOTES = "ccscctscsccs"
WINNERS = {"c": "model_a", "s": "model_b", "t": "tie (bothbad)"}


def arena_rows() -> list[dict[str, Any]]:
    def human(a: str, b: str, winner: str, question_id: str | None = None) -> dict[str, Any]:
        row = {"model_a": a, "model_b": b, "winner": winner, "source": "human"}
        return row if question_id is None else {**row, "question_id": question_id}

    on_bank = [
        human("careful-7b", "sloppy", WINNERS[word], prompt["prompt_id"])
        for word, prompt in zip(VOTES, bank_rows(), strict=True)
    ]
    # The arena knows rival, whom careful beats three times of four.
    elsewhere = [
        human("rival", "careful-7b", "model_a" if number % 4 == 0 else "model_b")
        for number in range(12)
    ]
    rare = [human("rare", "rival", "tie")] * 3
    judged = [{**human("mixed", "rival", "tie"), "source": "llm-judge"}] * 2
    return [*on_bank, *elsewhere, *rare, *judged]


def make_arena_project(folder: Path, **changes: Any) -> SmallProject:
    project = make_project(folder, dimensions=("calibration",))
    add_arena(project, **changes)
    return project


def add_arena(project: SmallProject, **changes: Any) -> None:
    write_json_lines(project.folder / "arena.jsonl", arena_rows())
    human_battles = {
        "file": {"path": "arena.jsonl"},
        "min_battles": 5,
        "names": {"careful-7b": "careful"},
        **changes,
    }
    project.edit_config(human_battles=human_battles)


def rows_of(project: SmallProject, name: str) -> list[dict[str, Any]]:
    path = project.folder / "storage" / "small" / f"{name}.parquet"
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def ratings_of(project: SmallProject, basis: str) -> dict[str, dict[str, Any]]:
    rows = rows_of(project, "people_ratings/calibration/headline")
    return {
        row["entrant_id"]: row for row in rows if (row["method"], row["basis"]) == ("arena", basis)
    }


def lead(rows: dict[str, dict[str, Any]], first: str, second: str) -> float:
    return float(rows[first]["rating"] - rows[second]["rating"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    project = make_arena_project(tmp_path_factory.mktemp("arena") / "project", min_kappa=0.99)
    project.run("headline")
    return project


def test_human_battles_are_kept_under_the_entrants_names(finished: SmallProject) -> None:
    rows = rows_of(finished, "human_battles/headline")
    assert Counter(name for row in rows for name in (row["model_a"], row["model_b"])) == {
        "careful": 24,
        "sloppy": 12,
        "rival": 12,
    }
    assert {row["source"] for row in rows} == {"human"}


def test_who_has_too_few_battles_is_left_out_and_listed(finished: SmallProject) -> None:
    plan = load_plan(finished.config_path, {})
    metadata = human_battles(plan).metadata
    assert metadata["too_few_battles"] == {"rare": 3}
    assert list(metadata["left_out_by_reason"].values()) == [2]
    assert (metadata["battles"], metadata["entrants"], metadata["battles_left_out"]) == (24, 3, 5)
    assert "rare (3)" in str(metadata["what_it_means"])


def test_people_alone_rate_by_what_people_said(finished: SmallProject) -> None:
    human = ratings_of(finished, "human")
    # Bradley-Terry of a chain of pairs is exact: the odds of each pair, ties as halves.
    assert lead(human, "careful", "rival") == pytest.approx(400 * math.log10(3))
    assert lead(human, "careful", "sloppy") == pytest.approx(400 * math.log10(7.5 / 4.5))
    assert human["mixed"]["rating"] is None
    assert human["mixed"]["note"]
    assert {name: row["n"] for name, row in human.items()} == {
        "careful": 24,
        "sloppy": 12,
        "rival": 12,
        "mixed": 0,
    }


def test_the_judge_alone_rates_as_without_human_battles(finished: SmallProject) -> None:
    judge = ratings_of(finished, "judge")
    plain = {
        row["entrant_id"]: row
        for row in rows_of(finished, "ratings/calibration/headline")
        if row["method"] == "bradley_terry"
    }
    assert set(judge) == set(plain) == {"careful", "sloppy", "mixed"}
    for name in ("sloppy", "mixed"):
        assert lead(judge, "careful", name) == pytest.approx(lead(plain, "careful", name))


def test_both_place_an_entrant_inside_the_arena_with_its_own_interval(
    finished: SmallProject,
) -> None:
    both = ratings_of(finished, "both")
    assert set(both) == {"careful", "sloppy", "mixed", "rival"}
    # Nobody but careful met rival, so the judge's battles do not move these two apart.
    assert lead(both, "careful", "rival") == pytest.approx(400 * math.log10(3))
    mixed = both["mixed"]
    assert mixed["n"] == 24
    assert mixed["low"] < mixed["rating"] < mixed["high"]


def test_every_basis_is_on_the_scale_of_the_arena(finished: SmallProject) -> None:
    rows = [ratings_of(finished, basis) for basis in ("judge", "human", "both")]
    places = {each["careful"]["rating"] for each in rows}
    assert max(places) - min(places) < 1e-9
    assert not any("scale" in str(row["note"]) for each in rows for row in each.values())


def test_agreement_is_that_of_the_shared_comparisons_alone(finished: SmallProject) -> None:
    verdicts = rows_of(finished, "judge_verdicts/calibration/headline")
    human = {prompt["prompt_id"]: word for word, prompt in zip(VOTES, bank_rows(), strict=True)}
    judge_words = {"careful": "c", "sloppy": "s", None: "t"}
    shared = [
        (human[row["prompt_id"]], judge_words[row["winner"]])
        for row in verdicts
        if {row["entrant_a"], row["entrant_b"]} == {"careful", "sloppy"}
    ]
    assert len(shared) == 12
    observed = sum(first == second for first, second in shared) / 12
    first, second = (Counter(pair[side] for pair in shared) for side in (0, 1))
    by_chance = sum(first[word] * second[word] for word in "cst") / 144
    decisive = [pair for pair in shared if "t" not in pair]

    found = {
        row["measure"]: row for row in rows_of(finished, "people_measures/calibration/headline")
    }
    kappa, share = found["human_agreement"], found["human_agreement_share"]
    assert (kappa["n"], share["n"]) == (12, 12)
    assert 0 < share["value"] < 1
    assert share["value"] == pytest.approx(observed)
    assert kappa["value"] == pytest.approx((observed - by_chance) / (1 - by_chance))
    assert kappa["low"] < kappa["value"] < kappa["high"]
    assert (kappa["threshold"], kappa["state"]) == (0.99, "red")
    assert found["human_agreement_decisive_share"]["n"] == len(decisive)
    assert found["human_agreement_decisive_share"]["value"] == pytest.approx(
        sum(first == second for first, second in decisive) / len(decisive)
    )
    assert (found["only_judge"]["n"], found["only_people"]["n"]) == (24, 0)


def test_their_limit_adds_a_check_and_another_limit_makes_only_the_measures_out_of_date(
    tmp_path: Path,
) -> None:
    project = make_arena_project(tmp_path / "project")
    plans = []
    for limit in (None, 0.2, 0.4):
        add_arena(project, min_kappa=limit)
        plans.append(load_plan(project.config_path, {}))
    none, low, high = plans
    assert [*map(len, map(people_checks, (none, low, high)))] == [0, 1, 1]
    changed = {row.name for row in ROWS if row.settings and row.settings(low) != row.settings(high)}
    assert changed == {"people_measures"}


def test_a_file_that_is_not_there_is_told_before_anything_is_spent_with_all_other_problems(
    tmp_path: Path,
) -> None:
    project = make_arena_project(tmp_path / "project", file={"path": "lost.jsonl"})
    (project.folder / "bank.jsonl").unlink()
    with pytest.raises(InputError) as caught:
        project.run("headline")
    assert len(caught.value.problems) == 2
    assert "'lost.jsonl'" in str(caught.value)
    assert "bank.jsonl" in str(caught.value)
    assert not (project.folder / "ledger").exists()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"names": {"careful-8b": "careful"}}, "'careful-8b'"),
        ({"names": {"rival": "sloppy"}}, "'sloppy'"),
        ({"min_battles": 500, "names": {}}, "500"),
        ({"format": "alpaca-eval"}, "arena.jsonl"),
    ],
)
def test_a_file_that_does_not_go_with_the_config_is_refused(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    project = make_arena_project(tmp_path / "project", **changes)
    with pytest.raises(InputError, match=problem):
        project.run("headline")
    assert not (project.folder / "ledger").exists()


def test_without_human_battles_in_the_config_nothing_of_them_appears(tmp_path: Path) -> None:
    plain = make_project(tmp_path / "plain")
    graph = load_project(plain.folder, {}).resolve_asset_graph()
    names = {key.path[-1] for key in graph.get_all_asset_keys()}
    assert not names & NEW_ASSETS
    plan = load_plan(plain.config_path, {})
    assert not {name for stage in build_stages(plan) for name in stage.assets} & NEW_ASSETS


def test_with_human_battles_every_stage_and_job_has_them(tmp_path: Path) -> None:
    project = make_arena_project(tmp_path / "project")
    definitions = load_project(project.folder, {})
    dg.Definitions.validate_loadable(definitions)
    plan = load_plan(project.config_path, {})
    names = [name for stage in build_stages(plan) for name in stage.assets]
    assert set(names) >= NEW_ASSETS
    assert names.index("human_battles") < names.index("judge_replies")
    rejudge = definitions.resolve_job_def("small_rejudge").asset_layer.selected_asset_keys
    assert {key.path[-1] for key in rejudge} >= NEW_ASSETS - {"human_battles"}


def test_people_correct_the_judge_in_ratings_of_their_own(finished: SmallProject) -> None:
    rows = rows_of(finished, "people_ratings/calibration/headline")
    own = {name for name, each in METHODS.items() if each.asset == "people_ratings"}
    assert {row["method"] for row in rows} == own
    found = {
        (row["basis"], row["entrant_id"]): row
        for row in rows
        if row["method"] == "prediction_powered"
    }
    assert {basis for basis, _ in found} == {"people", "judge", "both"}
    by_people = found["people", "careful"]["rating"] - found["people", "sloppy"]["rating"]
    # 7 wins, 4 losses and a tie, of 12.
    assert by_people == pytest.approx(400 * math.log10(7.5 / 4.5), abs=1e-6)
    assert found["people", "careful"]["n"] == 12
    assert " 15" in found["people", "careful"]["note"]
    # Nobody labelled a pair of mixed.
    assert found["both", "mixed"]["rating"] is None
    assert found["judge", "mixed"]["rating"] is not None
