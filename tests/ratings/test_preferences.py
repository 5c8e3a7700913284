import math

import numpy as np
import pytest
from hypothesis import given, settings

from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import (
    Preferences,
    code_cells,
    code_columns,
    code_preferences,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, any_judgments, settled, tie, win

PAIR = ("ada", "bob")


def battles(*preference: float, weight: list[float] | None = None) -> Preferences:
    n = len(preference)
    return code_columns(
        ["ada"] * n,
        ["bob"] * n,
        [f"p{index}" for index in range(n)],
        preference,
        entrants=PAIR,
        weight=weight,
    )


@settings(deadline=None, max_examples=50)
@given(any_judgments())
def test_judgments_give_the_cells_that_bradley_terry_counts(judgments: list[Judgment]) -> None:
    expected = code_cells(judgments, entrants=ENTRANTS)
    cells = code_preferences(judgments, entrants=ENTRANTS).cells()
    assert cells.prompts == expected.prompts
    np.testing.assert_array_equal(cells.wins, expected.wins)
    counts = np.arange(len(cells.prompts))
    np.testing.assert_array_equal(cells.resampled_wins(counts), expected.resampled_wins(counts))


@settings(deadline=None, max_examples=50)
@given(any_judgments())
def test_wins_are_outright_wins_and_half_the_ties(judgments: list[Judgment]) -> None:
    found = code_preferences(judgments, entrants=ENTRANTS)
    np.testing.assert_array_equal(found.wins, found.outright_wins + found.ties / 2)
    np.testing.assert_array_equal(found.ties, found.ties.T)


def test_inconsistent_pairs_are_ties_or_left_out() -> None:
    judgments = [win(*PAIR), settled(*PAIR, Outcome.INCONSISTENT), settled(*PAIR, Outcome.UNJUDGED)]
    assert code_preferences(judgments, entrants=PAIR).preference.tolist() == [1.0, 0.5]
    without = code_preferences(judgments, entrants=PAIR, count_inconsistent=False)
    assert without.preference.tolist() == [1.0]


def test_a_preference_counts_as_that_share_of_a_win() -> None:
    ada, bob = fit_bradley_terry(battles(*[0.7] * 10).cells())
    assert (ada.rating or 0) - (bob.rating or 0) == pytest.approx(400 * math.log10(7 / 3))


def test_a_weight_of_three_is_three_battles() -> None:
    weighted = battles(1.0, 0.0, weight=[3.0, 1.0])
    np.testing.assert_array_equal(weighted.wins, battles(1.0, 1.0, 1.0, 0.0).wins)


def test_a_missing_preference_is_an_error_and_not_a_tie() -> None:
    with pytest.raises(InputError, match=r"battle 1: the preference is missing \(nan\).*not a tie"):
        battles(1.0, math.nan, 0.0)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(InputError) as raised:
        Preferences(
            entrants=PAIR,
            prompts=("p0",),
            first=np.array([0, 1, 2]),
            second=np.array([0, 0, 1]),
            prompt_index=np.array([0, 1, 0]),
            preference=np.array([1.0, -0.5, math.nan]),
            weight=np.array([1.0, 0.0, math.inf]),
        )
    assert [problem.split(";")[0] for problem in raised.value.problems] == [
        "battle 2: first is 2",
        "battle 1: prompt_index is 1",
        "battle 0: both sides are entrant number 0",
        "battle 2: the preference is missing (nan)",
        "battle 1: the preference is -0.5",
        "battle 1: the weight is 0.0",
        "battle 2: the weight is inf",
    ]


def test_many_problems_of_one_kind_are_counted() -> None:
    with pytest.raises(InputError) as raised:
        battles(*[2.0] * 10)
    assert len(raised.value.problems) == 4
    assert raised.value.problems[-1] == "the same is wrong with 7 more battles"


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="expected one shape"):
        battles(1.0, 0.0, weight=[1.0])


def test_names_are_checked() -> None:
    with pytest.raises(InputError, match="a battle names entrant 'zoe'; expected one of 'ada'"):
        code_columns(["ada"], ["zoe"], ["p"], [1.0], entrants=PAIR)
    with pytest.raises(InputError, match="an entrant is listed twice"):
        code_columns(["ada"], ["bob"], ["p"], [1.0], entrants=("ada", "bob", "ada"))


def test_only_wins_losses_and_ties_are_hard() -> None:
    assert battles(0.0, 0.5, 1.0).is_hard
    soft = battles(1.0, 0.75)
    assert not soft.is_hard
    with pytest.raises(InputError, match=r"battle 1: the preference is 0.75.*Davidson's model"):
        soft.require_hard("Davidson's model")


def test_no_battles_are_no_wins() -> None:
    empty = code_preferences([], entrants=ENTRANTS)
    assert empty.n_battles == 0
    assert not empty.wins.any()
    assert empty.cells().prompts == ()
    assert code_preferences([tie(*PAIR)], entrants=PAIR).ties.tolist() == [[0, 1], [1, 0]]
