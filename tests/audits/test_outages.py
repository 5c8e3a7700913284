from dataclasses import replace

import pytest

from tests.reports.builders import audit_row
from tournament_assets.audits.missingness import (
    check_missingness,
    copy_sentences,
    find_outages,
)
from tournament_assets.tournament.asset_rows import CoverageRow


def sentences(rows: list[CoverageRow]) -> list[str]:
    found = find_outages(rows, max_unjudged_rate=0.02, max_missing_spread=0.02)
    return [outage.sentence for outage in found]


def whole(dimension: str = "factuality", pairs: int = 100) -> list[CoverageRow]:
    return [audit_row(name, dimension=dimension, pairs=pairs) for name in ("ada", "bob", "cyd")]


def dead_for_bob(dimension: str = "factuality") -> list[CoverageRow]:
    return [
        audit_row("ada", dimension=dimension, pairs_judged=50, replies_refused=100),
        audit_row("bob", dimension=dimension, pairs_judged=0, replies_refused=200),
        audit_row("cyd", dimension=dimension, pairs_judged=50, replies_refused=100),
    ]


def test_where_nothing_is_missing_nothing_is_said() -> None:
    assert sentences(whole() + whole("calibration")) == []
    assert check_missingness(whole(), max_spread=0.02).passed


def test_a_dead_dimension_is_said_with_its_numbers_and_the_other_is_not() -> None:
    dead = [
        audit_row(
            name,
            dimension="calibration",
            pairs_judged=0,
            replies_unreadable=150,
            replies_pending=50,
            infra_remaining=150,
        )
        for name in ("ada", "bob", "cyd")
    ]
    assert sentences(whole() + dead) == [
        "Judge outage on calibration: 150 of 150 pairs (100.0 %) have no two readable replies "
        "(replies: 225 unreadable, 75 pending, 225 of them failures of infrastructure); "
        "the ratings on calibration rest on the other 0."
    ]
    assert check_missingness(whole() + dead, max_spread=0.02).passed


def test_a_judge_that_is_dead_for_one_entrant_is_an_outage_and_uneven() -> None:
    outages = find_outages(
        whole("calibration") + dead_for_bob(), max_unjudged_rate=0.02, max_missing_spread=0.02
    )
    assert [(each.kind, each.dimension, each.entrants) for each in outages] == [
        ("judge", "factuality", ()),
        ("verdicts", "factuality", ("bob",)),
    ]
    assert "bob 100 of 100 (100.0 %), ada 50 of 100 (50.0 %)" in outages[1].sentence


def test_unevenness_is_said_even_where_the_dimension_as_a_whole_is_within_bounds() -> None:
    rows = [
        audit_row(name, pairs=1000, pairs_judged=judged)
        for name, judged in (("ada", 970), ("bob", 985), ("cyd", 985))
    ]
    outages = find_outages(rows, max_unjudged_rate=0.05, max_missing_spread=0.01)
    assert [(each.kind, each.entrants) for each in outages] == [("verdicts", ("ada",))]


def test_answers_count_once_whatever_the_number_of_dimensions() -> None:
    rows = [
        replace(row, empty_responses=30 if row.entrant_id == "cyd" else 0)
        for row in whole() + whole("calibration")
    ]
    (outage,) = find_outages(rows, max_unjudged_rate=0.02, max_missing_spread=0.02)
    assert (outage.kind, outage.dimension, outage.entrants) == ("answers", None, ("cyd",))
    assert "cyd 30 of 50 (60.0 %), ada 0 of 50 (0.0 %)" in outage.sentence


def test_pairs_that_nobody_was_asked_about_are_no_failure_of_the_judge() -> None:
    rows = [
        audit_row(name, pairs_unanswered=60, pairs_judged=40, responses=responses)
        for name, responses in (("ada", 50), ("bob", 20), ("cyd", 50))
    ]
    outages = find_outages(rows, max_unjudged_rate=0.02, max_missing_spread=0.02)
    assert [(each.kind, each.entrants) for each in outages] == [("answers", ("bob",))]


def test_pairs_that_nobody_was_asked_about_do_not_dilute_what_is_missing() -> None:
    rows = [
        audit_row(name, pairs=1000, pairs_unanswered=900, pairs_judged=judged)
        for name, judged in (("ada", 80), ("bob", 90), ("cyd", 90))
    ]
    check = check_missingness(rows, max_spread=0.02)
    assert not check.passed
    assert check.largest_spread == pytest.approx(0.1)


def test_a_dimension_without_any_pair_to_ask_about_says_why() -> None:
    unanswered = [audit_row(n, pairs_unanswered=100, pairs_judged=0) for n in ("ada", "bob")]
    assert sentences(unanswered)[0].startswith("Nothing was judged on factuality: no prompt was")
    empty = [audit_row(name, pairs=0) for name in ("ada", "bob")]
    assert sentences(empty) == ["Nothing was judged on factuality: there was no pair to judge."]


def test_the_check_names_everything_that_is_uneven_and_the_bound() -> None:
    check = check_missingness(dead_for_bob(), max_spread=0.02)
    assert not check.passed
    assert check.largest_spread == 0.5
    assert check.sentence.startswith("unevenly missing, pairs without two readable replies on fac")
    assert check.sentence.endswith("at most 2.0 % is even, and so is what chance explains")


def test_copies_in_several_dimensions_are_one_warning() -> None:
    def copied(dimension: str, same_text: int) -> list[CoverageRow]:
        return [
            audit_row(name, dimension=dimension, pairs_same_text=same_text, pairs_judged=30)
            for name in ("ada", "bob")
        ]

    assert copy_sentences(whole()) == []
    (one,) = copy_sentences(whole() + copied("calibration", 70))
    assert one.startswith(
        "On calibration, 70 of 100 pairs (70.0 %) have the same text on both sides;"
    )
    assert "asked about the other 30. The ratings rest" in one
    (both,) = copy_sentences(copied("factuality", 70) + copied("calibration", 70))
    assert "on both sides, on calibration 70 of 100 (70.0 %); the judge" in both
    assert "asked about the other 60 in all." in both
