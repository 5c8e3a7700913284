import math

import numpy as np
import pytest
from hypothesis import given, settings

from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.errors import InputError
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
    assert refused.value.problems == (
        "entrant 'bob' is listed twice; expected every entrant once",
        "a judgment of prompt 'p3' names entrant 'eve'; expected one of 'ada', 'bob'",
        "a judgment of prompt 'p5' compares 'bob' with itself; expected two different entrants",
    )


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


@settings(deadline=None, max_examples=50)
@given(any_judgments())
def test_wins_are_outright_wins_and_half_the_ties(judgments: list[Judgment]) -> None:
    found = code_judgments(judgments, entrants=ENTRANTS)
    np.testing.assert_array_equal(found.wins, found.outright_wins + found.ties / 2)
    np.testing.assert_array_equal(found.ties, found.ties.T)
    np.testing.assert_array_equal(found.as_wins().outright_wins, found.wins)
    assert (found.as_wins().preference == 1).all()


@settings(deadline=None, max_examples=50)
@given(any_judgments())
def test_members_keep_what_they_did_to_one_another(judgments: list[Judgment]) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    members = np.array([True, False, True, True])
    inside = matches.among(members)
    assert (inside.entrants, inside.prompts) == (("ada", "cyd", "dee"), matches.prompts)
    np.testing.assert_array_equal(inside.wins, matches.wins[np.ix_(members, members)])


def test_a_preference_counts_as_that_share_of_a_win() -> None:
    ada, bob = fit_bradley_terry(shares(*[0.7] * 10))
    assert (ada.rating or 0) - (bob.rating or 0) == pytest.approx(400 * math.log10(7 / 3))
    won = shares(0.25, 0.5, 0.75).decisive()
    assert (won.first.tolist(), won.preference.tolist()) == ([1, 0], [0.75, 0.75])
    assert shares(0.25).as_wins().weight.tolist() == [0.25, 0.75]


def test_a_weight_of_three_is_three_matches() -> None:
    weighted = shares(1.0, 0.0, weight=[3.0, 1.0])
    np.testing.assert_array_equal(weighted.wins, shares(1.0, 1.0, 1.0, 0.0).wins)


def test_a_missing_preference_is_an_error_and_not_a_tie() -> None:
    with pytest.raises(InputError, match=r"match 1: the preference is missing \(nan\).*not a tie"):
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
    assert [problem.split(";")[0] for problem in raised.value.problems] == [
        "an entrant is listed twice",
        "match 2: first is 2",
        "match 1: prompt_index is 1",
        "match 0: both sides are entrant number 0",
        "match 2: the preference is missing (nan)",
        "match 1: the preference is -0.5",
        "match 1: the weight is 0.0",
        "match 2: the weight is inf",
    ]


def test_many_problems_of_one_kind_are_counted() -> None:
    with pytest.raises(InputError) as raised:
        shares(*[2.0] * 10)
    assert len(raised.value.problems) == 4
    assert raised.value.problems[-1] == "the same is wrong with 7 more matches"


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="expected one shape"):
        shares(1.0, 0.0, weight=[1.0])


def test_only_wins_losses_and_ties_are_hard() -> None:
    assert shares(0.0, 0.5, 1.0).is_hard
    soft = shares(1.0, 0.75)
    assert not soft.is_hard
    with pytest.raises(InputError, match=r"match 1: the preference is 0.75.*Davidson's model"):
        soft.require_hard("Davidson's model")
