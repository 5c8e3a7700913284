import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import Matches, code_judgments, pairwise_winrates
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, any_judgments, code_columns, settled, tie, win

PAIR = ("ada", "bob")


def shares(*preference: float, weight: list[float] | None = None) -> Matches:
    n = len(preference)
    return code_columns(
        ["ada"] * n,
        ["bob"] * n,
        [f"p{index}" for index in range(n)],
        preference,
        entrants=PAIR,
        weight=weight,
    )


def test_every_judged_pair_is_a_match_and_a_tie_is_half_a_win() -> None:
    judgments = [settled("ada", "bob", outcome) for outcome in Outcome]
    found = dict(zip([*map(str, Outcome)], judgments, strict=True))
    del found[str(Outcome.UNJUDGED)]
    matches = code_judgments(judgments, entrants=ENTRANTS)
    assert dict(zip(found, matches.preference.tolist(), strict=True)) == {
        str(Outcome.A_WINS): 1.0,
        str(Outcome.B_WINS): 0.0,
        str(Outcome.TIE): 0.5,
        str(Outcome.SAME_TEXT): 0.5,
        str(Outcome.INCONSISTENT): 0.5,
    }


def test_winner_and_loser_are_told_apart_whoever_was_shown_first() -> None:
    judgments = [settled("ada", "bob", Outcome.B_WINS), settled("cyd", "ada", Outcome.A_WINS)]
    won = code_judgments(judgments, entrants=ENTRANTS).decisive()
    assert won.first.tolist() == [1, 2]
    assert won.second.tolist() == [0, 0]


def test_matches_keep_the_order_of_the_judgments() -> None:
    judgments = [win("dee", "ada", "p2"), win("ada", "bob", "p1"), win("cyd", "bob", "p2")]
    matches = code_judgments(judgments, entrants=ENTRANTS)
    assert matches.decisive().first.tolist() == [3, 0, 2]
    assert [matches.prompts[index] for index in matches.prompt_index] == ["p2", "p1", "p2"]


def test_a_prompt_where_all_was_tied_is_part_of_the_sample() -> None:
    judgments = [win("ada", "bob", "p2"), tie("ada", "bob", "p1")]
    assert code_judgments(judgments, entrants=ENTRANTS).decisive().prompts == ("p1", "p2")


def test_a_prompt_without_any_judged_pair_is_not_part_of_the_sample() -> None:
    judgments = [win("ada", "bob", "p2"), settled("ada", "bob", Outcome.UNJUDGED, "p1")]
    assert code_judgments(judgments, entrants=ENTRANTS).prompts == ("p2",)


@pytest.mark.parametrize("judgments", [[], [tie("ada", "bob")]])
def test_nothing_decisive_gives_empty_arrays(judgments: list[Judgment]) -> None:
    won = code_judgments(judgments, entrants=ENTRANTS).decisive()
    assert won.n_matches == 0
    assert won.matches_per_entrant.tolist() == [0, 0, 0, 0]
    assert won.first.dtype == won.second.dtype == np.int64
    assert not won.wins.any()


def test_all_problems_of_the_judgments_are_reported_at_once() -> None:
    judgments = [win("ada", "eve", "p3"), win("ada", "eve", "p4"), tie("bob", "bob", "p5")]
    with pytest.raises(InputError) as refused:
        code_judgments(judgments, entrants=("ada", "bob", "bob"))
    assert [re.findall(r"'(\w+)'", each) for each in refused.value.problems] == [
        ["bob"],
        ["p3", "eve", "ada", "bob"],
        ["p5", "bob"],
    ]


@given(any_judgments())
def test_the_decisive_ones_name_the_winners(judgments: list[Judgment]) -> None:
    won = code_judgments(judgments, entrants=ENTRANTS).decisive()
    decided = [each for each in judgments if each.winner is not None]
    assert [ENTRANTS[index] for index in won.first] == [each.winner for each in decided]
    assert [{ENTRANTS[a], ENTRANTS[b]} for a, b in zip(won.first, won.second, strict=True)] == [
        {each.entrant_a, each.entrant_b} for each in decided
    ]
    assert won.matches_per_entrant.sum() == 2 * won.n_matches
    assert won.decisive() is won


@given(any_judgments())
def test_wins_do_not_depend_on_the_order_of_the_judgments(judgments: list[Judgment]) -> None:
    forwards = code_judgments(judgments, entrants=ENTRANTS)
    backwards = code_judgments(judgments[::-1], entrants=ENTRANTS)
    np.testing.assert_array_equal(forwards.wins, backwards.wins)
    judged = sum(judgment.outcome is not Outcome.UNJUDGED for judgment in judgments)
    assert forwards.wins.sum() == judged


@given(any_judgments())
def test_wins_are_outright_wins_and_half_the_ties(judgments: list[Judgment]) -> None:
    found = code_judgments(judgments, entrants=ENTRANTS)
    np.testing.assert_array_equal(found.wins, found.outright_wins + found.ties / 2)
    np.testing.assert_array_equal(found.ties, found.ties.T)
    np.testing.assert_array_equal(found.as_wins().outright_wins, found.wins)
    assert (found.as_wins().preference == 1).all()


@given(any_judgments())
def test_members_keep_what_they_did_to_one_another(judgments: list[Judgment]) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    members = np.array([True, False, True, True])
    inside = matches.among(members)
    assert (inside.entrants, inside.prompts) == (("ada", "cyd", "dee"), matches.prompts)
    np.testing.assert_array_equal(inside.wins, matches.wins[np.ix_(members, members)])


def test_a_preference_counts_as_that_share_of_a_win() -> None:
    ada, bob = fit_bradley_terry(shares(*[0.7] * 10))
    assert (ada.value or 0) - (bob.value or 0) == pytest.approx(400 * math.log10(7 / 3))
    won = shares(0.25, 0.5, 0.75).decisive()
    assert (won.first.tolist(), won.preference.tolist()) == ([1, 0], [0.75, 0.75])
    assert shares(0.25).as_wins().weight.tolist() == [0.25, 0.75]


def test_a_weight_of_three_is_three_matches() -> None:
    weighted = shares(1.0, 0.0, weight=[3.0, 1.0])
    np.testing.assert_array_equal(weighted.wins, shares(1.0, 1.0, 1.0, 0.0).wins)


def test_a_missing_preference_is_an_error_and_not_a_tie() -> None:
    with pytest.raises(InputError, match=r"1: .*\(nan\).* tie"):
        shares(1.0, math.nan, 0.0)


def test_every_problem_of_the_columns_is_reported_at_once() -> None:
    with pytest.raises(InputError) as raised:
        Matches(
            entrants=("ada", "ada"),
            prompts=("p0",),
            first=np.array([0, 1, 2]),
            second=np.array([0, 0, 1]),
            prompt_index=np.array([0, 1, 0]),
            preference=np.array([1.0, -0.5, math.nan]),
            weight=np.array([1.0, 0.0, math.inf]),
        )
    facts = "twice|first|prompt_index|sides|preference|weight|nan|inf|-?[0-9.]+"
    found = [" ".join(re.findall(facts, each.split(";")[0])) for each in raised.value.problems]
    assert found == [
        "twice",
        "2 first 2",
        "1 prompt_index 1",
        "0 sides 0",
        "2 preference nan",
        "1 preference -0.5",
        "1 weight 0.0",
        "2 weight inf",
    ]


def test_many_problems_of_one_kind_are_counted() -> None:
    with pytest.raises(InputError) as raised:
        shares(*[2.0] * 10)
    assert len(raised.value.problems) == 4
    assert "7 more" in raised.value.problems[-1]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="one shape"):
        shares(1.0, 0.0, weight=[1.0])


def test_only_wins_losses_and_ties_are_hard() -> None:
    assert shares(0.0, 0.5, 1.0).is_hard
    soft = shares(1.0, 0.75)
    assert not soft.is_hard
    with pytest.raises(InputError, match=r"match 1: .*0\.75.*Davidson"):
        soft.require_hard("Davidson's model")


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
    found = (counts.wins_a, counts.wins_b, counts.ties, counts.inconsistent, counts.unjudged)
    assert (counts.entrant_a, counts.entrant_b, found) == ("ada", "bob", (2, 1, 1, 1, 1))
    assert (counts.judged, counts.same_text, counts.win_rate_a) == (5, 0, 3 / 5)


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
