from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.ratings.matches import PairCounts, pairwise_winrates
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import any_judgments, settled, tie, win


def test_both_orders_of_a_pair_share_a_row() -> None:
    judgments = [
        win("bob", "ada"),
        settled("bob", "ada", Outcome.B_WINS),
        win("ada", "bob"),
        tie("bob", "ada"),
        settled("ada", "bob", Outcome.INCONSISTENT),
        settled("bob", "ada", Outcome.UNJUDGED),
    ]
    (counts,) = pairwise_winrates(judgments)
    assert counts == PairCounts("ada", "bob", 2, 1, ties=1, inconsistent=1, same_text=0, unjudged=1)
    assert counts.judged == 5
    assert counts.win_rate_a == pytest.approx(3 / 5)


def test_a_pair_that_nobody_judged_has_no_rate() -> None:
    (counts,) = pairwise_winrates([settled("ada", "bob", Outcome.UNJUDGED)])
    assert counts.win_rate_a is None
    assert counts.unjudged == 1


def test_rows_are_sorted_by_names() -> None:
    judgments = [win("dee", "cyd"), win("bob", "ada"), win("ada", "cyd")]
    names = [(counts.entrant_a, counts.entrant_b) for counts in pairwise_winrates(judgments)]
    assert names == [("ada", "bob"), ("ada", "cyd"), ("cyd", "dee")]


def swap(judgment: Judgment) -> Judgment:
    swapped = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}
    outcome = swapped.get(judgment.outcome, judgment.outcome)
    return settled(judgment.entrant_b, judgment.entrant_a, outcome, judgment.prompt_id)


@pytest.mark.parametrize("change", [lambda rows: rows[::-1], lambda rows: list(map(swap, rows))])
@given(judgments=any_judgments())
def test_neither_order_nor_presentation_changes_the_counts(
    change: Callable[[list[Judgment]], list[Judgment]], judgments: list[Judgment]
) -> None:
    assert pairwise_winrates(change(judgments)) == pairwise_winrates(judgments)


@given(any_judgments(), st.sampled_from(["ada", "dee"]))
def test_every_judgment_is_counted_once(judgments: list[Judgment], entrant: str) -> None:
    rows = pairwise_winrates(judgments)
    assert sum(row.judged + row.same_text + row.unjudged for row in rows) == len(judgments)
    won = sum(row.wins_a for row in rows if row.entrant_a == entrant)
    won += sum(row.wins_b for row in rows if row.entrant_b == entrant)
    assert won == sum(judgment.winner == entrant for judgment in judgments)
