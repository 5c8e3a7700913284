import pytest

from .paid_projects import PaidProject, paid_project

JOB = "small_test_judge"


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> PaidProject:
    with paid_project(tmp_path_factory.mktemp("tested")) as paid:
        paid.configure_judge(retest_pairs=5, control_pairs=2)
        paid.run_recorded()
        before = paid.project.stored_files()
        assert paid.events(JOB).success
        after = paid.project.stored_files()
        changed = {name for name, content in after.items() if before.get(name) != content}
        tables = {"judge_controls", "judge_retest", "judge_agreement"}
        assert {name.split("/")[1] for name in changed} == tables
        return paid


def test_controls_of_every_kind_are_judged(tested: PaidProject) -> None:
    rows = tested.rows("judge_controls")
    kinds = [row["kind"] for row in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "identical": 2,
        "corrupted": 2,
        "injection": 2,
    }
    assert all(row["outcome"] != "unjudged" for row in rows)


def test_a_judge_that_compares_words_ties_copies_and_repeats_itself(tested: PaidProject) -> None:
    identical = [row for row in tested.rows("judge_controls") if row["kind"] == "identical"]
    assert all(row["expected"] == "tie" for row in identical)
    retest = tested.rows("judge_retest")
    assert len(retest) == 5
    assert all(row["first_outcome"] == row["second_outcome"] for row in retest)


def test_what_is_asked_to_test_the_judge_is_never_rated(tested: PaidProject) -> None:
    names = {
        row[name] for row in tested.rows("judge_verdicts") for name in ("entrant_a", "entrant_b")
    }
    assert names == {"careful", "sloppy", "mixed"}
    with tested.ledger() as ledger:
        assert ledger.open_scopes("small") == {}
