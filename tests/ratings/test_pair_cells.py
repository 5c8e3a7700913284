import numpy as np
import pytest
from hypothesis import given

from tournament_assets.ratings.matches import code_cells
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, any_judgments, settled, tie, win


def test_a_tie_is_half_a_win_for_each() -> None:
    cells = code_cells([win("bob", "ada"), tie("ada", "bob", "p1")], entrants=("ada", "bob"))
    np.testing.assert_array_equal(cells.wins, [[0.0, 0.5], [1.5, 0.0]])


def test_inconsistent_pairs_count_as_ties_only_on_request() -> None:
    judgments = [settled("ada", "bob", Outcome.INCONSISTENT)]
    counted = code_cells(judgments, entrants=("ada", "bob"))
    dropped = code_cells(judgments, entrants=("ada", "bob"), count_inconsistent=False)
    np.testing.assert_array_equal(counted.wins, [[0.0, 0.5], [0.5, 0.0]])
    np.testing.assert_array_equal(dropped.wins, np.zeros((2, 2)))
    assert dropped.prompts == ("p0",)


def test_unjudged_pairs_leave_no_trace() -> None:
    cells = code_cells([settled("ada", "bob", Outcome.UNJUDGED)], entrants=("ada", "bob"))
    assert cells.prompts == ()
    assert cells.wins.sum() == 0


def test_a_prompt_drawn_twice_counts_twice() -> None:
    cells = code_cells([win("ada", "bob", "p0"), tie("ada", "bob", "p1")], entrants=("ada", "bob"))
    np.testing.assert_array_equal(cells.resampled_wins(np.array([2, 0])), [[0, 2], [0, 0]])
    np.testing.assert_array_equal(cells.resampled_wins(np.array([0, 2])), [[0, 1], [1, 0]])


@given(any_judgments())
def test_cells_do_not_depend_on_the_order_of_the_judgments(judgments: list[Judgment]) -> None:
    forwards = code_cells(judgments, entrants=ENTRANTS)
    backwards = code_cells(judgments[::-1], entrants=ENTRANTS)
    np.testing.assert_array_equal(forwards.weights, backwards.weights)
    np.testing.assert_array_equal(forwards.wins, backwards.wins)


@given(any_judgments())
def test_every_judged_pair_is_one_win_in_all(judgments: list[Judgment]) -> None:
    judged = sum(judgment.outcome is not Outcome.UNJUDGED for judgment in judgments)
    assert code_cells(judgments, entrants=ENTRANTS).wins.sum() == judged


def test_an_unknown_entrant_is_refused() -> None:
    with pytest.raises(InputError, match="names entrant 'bob'"):
        code_cells([win("ada", "bob")], entrants=("ada",))
