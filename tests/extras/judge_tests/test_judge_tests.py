"""The tests of the judge, and the lights that they switch on in the trust panel."""

from pathlib import Path
from typing import Any

import pytest

from tests.graph.paid_projects import PaidProject, paid_project
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.graph.assets.trust import check_light
from tournament_assets.trust.measures import MEASURES

JOB = "small_test_judge"
TABLES = ("judge_controls", "judge_repeats", "judge_agreement")
CHECKS = {
    "min_retest_agreement": 0.1,
    "min_identical_ties": 0.2,
    "min_transitivity_p": 0.01,
    "max_length_effect": 10_000,
}


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> PaidProject:
    with paid_project(tmp_path_factory.mktemp("tested")) as paid:
        paid.project.merge_config(judging={"tests": {"anchor_pairs": 5, "control_pairs": 2}})
        paid.tables("judge_verdicts")
        before = paid.project.stored_files()
        for name in TABLES:
            paid.tables(name)
        after = paid.project.stored_files()
        changed = {name for name, content in after.items() if before.get(name) != content}
        assert {name.split("/")[1] for name in changed} == {*TABLES}
        return paid


def panel_of(paid: PaidProject) -> dict[tuple[str, str | None], dict[str, Any]]:
    return {(row["measure"], row["subject"]): row for row in paid.rows("measures")}


def test_controls_of_every_kind_are_judged(tested: PaidProject) -> None:
    rows = tested.rows("judge_controls")
    kinds = [row["reason"] for row in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "identical": 2,
        "corrupted": 2,
        "injection": 2,
    }
    assert all(row["outcome"] != "unjudged" for row in rows)


def test_a_judge_that_compares_words_ties_copies_and_repeats_itself(tested: PaidProject) -> None:
    identical = [row for row in tested.rows("judge_controls") if row["reason"] == "identical"]
    assert all(row["expected"] == "tie" for row in identical)
    repeats = tested.rows("judge_repeats")
    assert len(repeats) == 3  # a quarter of the pairs
    assert all(row["expected"] == row["outcome"] for row in repeats)


def test_what_is_asked_to_test_the_judge_is_never_rated(tested: PaidProject) -> None:
    names = {
        row[name] for row in tested.rows("judge_verdicts") for name in ("entrant_a", "entrant_b")
    }
    assert names == {"careful", "sloppy", "mixed"}
    with tested.ledger() as ledger:
        assert ledger.open_scopes("small") == {}


def test_the_job_makes_what_a_run_in_python_makes(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        paid.project.merge_config(judging={"tests": {"anchor_pairs": 5, "control_pairs": 2}})
        paid.tables("judge_verdicts")
        assert paid.events(JOB).success
        by_job, asked = paid.project.stored_files(), paid.n_asked
        for name in TABLES:
            assert paid.rows(name) or name == "judge_agreement"
            paid.tables(name)
        assert paid.project.stored_files() == by_job
        assert paid.n_asked == asked


def test_lights_come_on_once_the_judge_is_tested_and_go_out_with_the_rubric(
    tmp_path: Path,
) -> None:
    with paid_project(tmp_path) as paid:
        paid.project.merge_config(judging={"tests": {"anchor_pairs": 5, "control_pairs": 2}})
        paid.project.edit_config(checks=CHECKS)
        untested = paid.tables("measures").warnings
        before = panel_of(paid)
        assert before["test_retest", None]["state"] == "not measured"
        assert JOB in before["test_retest", None]["remedy"]
        assert any("test_retest" in each and "not measured" in each for each in untested)
        assert before["unjudged", "careful"]["state"] == "green"

        paid.tables("judge_controls")
        paid.tables("judge_repeats")
        made = paid.tables("measures").checks["measures", "factuality"]
        checks = {each.name: each for each in made}
        after = panel_of(paid)
        assert set(checks) == {
            "position_bias",
            "flip_direction",
            "swap_consistency",
            "test_retest",
            "length_effect",
            "longer_wins",
            "marked_responses",
            "identical_controls",
            "transitivity_within_prompts",
            "transitivity_of_majorities",
            "unjudged",
        }
        for measure in ("test_retest", "identical_controls"):
            assert after[measure, None]["state"] == "green"
            assert after[measure, None]["value"] == 1.0
            assert checks[measure].passed
        assert after["test_retest", None]["n"] == 3
        assert after["corrupted_controls", None]["state"] == "no threshold"
        assert after["judge_agreement", None]["state"] == "not measured"

        rubric = paid.project.folder / "rubrics" / "factuality.txt"
        rubric.write_text(rubric.read_text() + "\nAnd be strict.\n")
        paid.tables("measures")
        outdated = panel_of(paid)
        for measure in ("test_retest", "identical_controls"):
            assert outdated[measure, None]["state"] == "not measured"
            assert JOB in outdated[measure, None]["remedy"]


def test_the_check_of_an_amber_light_passes_and_says_that_it_cannot_tell() -> None:
    for values, state in (
        ((0.9, 0.6, 1.0), "amber (too few to tell)"),
        ((0.9, 0.85, 1.0), "green"),
        ((0.5, 0.4, 0.6), "red"),
    ):
        row = MEASURES["test_retest"].light(Estimate(*values, 9, "why"), 0.8, dimension="facts")
        check = check_light("test_retest", [row], where="facts, pilot")
        assert check.passed is (state != "red")
        assert check.metadata["light"] == state
        assert ("amber" in check.description) is ("about 45 more pairs" in check.description)
        assert ("amber" in check.description) is state.startswith("amber")


@pytest.mark.parametrize(
    ("remedy", "passes"), [(None, True), ("the job of the judge's tests does it", False)]
)
def test_a_check_of_what_was_not_measured_goes_by_its_remedy_and_no_word_of_its_note(
    remedy: str | None, passes: bool
) -> None:
    estimate = Estimate(note="nobody flipped; 3 more were a tie in one order", remedy=remedy)
    row = MEASURES["test_retest"].light(estimate, 0.8, dimension="facts")
    check = check_light("test_retest", [row], where="facts, pilot")
    assert check.passed is passes
    assert "nobody flipped; 3 more were a tie in one order" in check.description
    assert (remedy or "") in check.description
    red = MEASURES["test_retest"].light(Estimate(0.1, 0.0, 0.2, 9, "why"), 0.8, dimension="facts")
    assert check_light("test_retest", [row, red], where="facts").metadata["only_red"] is passes


def test_the_judges_of_two_modes_are_compared_on_what_both_were_shown(tmp_path: Path) -> None:
    with paid_project(tmp_path) as paid:
        paid.tables("judge_verdicts")
        paid.tables("judge_verdicts", mode="headline")
        paid.tables("judge_agreement")
        rows = {row["measure"]: row for row in paid.rows("judge_agreement")}
        share, kappa = rows["agreement"], rows["kappa"]
        assert (share["subject"], share["other"]) == ("claude-pilot", "claude-headline")
        assert share["stratum"] == "headline"
        # One judge under two names: it says the same of the four prompts of the pilot, but where
        # its verdict flips with the order a vote of one is that of the other half of the time.
        flips = sum(row["outcome"] == "inconsistent" for row in paid.rows("judge_verdicts"))
        assert flips == 1
        assert (share["n"], share["value"]) == (12, pytest.approx((12 - flips / 2) / 12))
        paid.tables("measures")
        line = panel_of(paid)["judge_agreement", "claude-headline"]
        assert (line["value"], line["n"]) == (kappa["value"], 12)
