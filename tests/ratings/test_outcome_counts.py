import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_cells
from tournament_assets.ratings.outcome_bootstrap import OutcomeCounts, code_names, count_outcomes
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, any_judgments

PREFERENCES = {
    Outcome.A_WINS: 1.0,
    Outcome.B_WINS: 0.0,
    Outcome.TIE: 0.5,
    Outcome.SAME_TEXT: 0.5,
    Outcome.INCONSISTENT: 0.5,
}


def count_judgments(judgments: list[Judgment]) -> OutcomeCounts:
    kept = [judgment for judgment in judgments if judgment.outcome in PREFERENCES]
    return count_outcomes(
        np.array([ENTRANTS.index(each.entrant_a) for each in kept], dtype=np.int64),
        np.array([ENTRANTS.index(each.entrant_b) for each in kept], dtype=np.int64),
        np.array([PREFERENCES[each.outcome] for each in kept]),
        entrants=ENTRANTS,
    )


@given(any_judgments())
def test_counts_and_cells_are_the_same_wins(judgments: list[Judgment]) -> None:
    counts, cells = count_judgments(judgments), code_cells(judgments, entrants=ENTRANTS)
    np.testing.assert_array_equal(counts.wins, cells.wins)
    np.testing.assert_array_equal(counts.tied, counts.tied.T)
    assert counts.n_battles == cells.wins.sum()
    assert fit_bradley_terry(counts) == fit_bradley_terry(cells)


def test_wins_and_ties_stay_apart() -> None:
    counts = count_outcomes(
        np.array([0, 0, 1, 1]),
        np.array([1, 1, 0, 0]),
        np.array([1.0, 0.5, 0.5, 1.0]),
        entrants=("ada", "bob"),
    )
    assert counts.won.tolist() == [[0, 1], [1, 0]]
    assert counts.tied.tolist() == [[0, 2], [2, 0]]
    assert counts.n_battles == 4


@given(st.lists(st.lists(st.sampled_from(["b", "", "é", "aa", "B"]), max_size=9), max_size=3))
def test_codes_lead_back_to_sorted_names(columns: list[list[str]]) -> None:
    names, coded = code_names(*columns)
    assert list(names) == sorted({name for column in columns for name in column})
    for column, codes in zip(columns, coded, strict=True):
        assert [names[code] for code in codes] == column


def test_a_missing_name_is_no_name() -> None:
    with pytest.raises(InputError, match="a name is None; expected text"):
        code_names(["ada", None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("first", "second", "preference", "said"),
    [
        ([0], [2], [1.0], "second is 2 in battle 0; expected an index below 2"),
        ([-1, -1], [1, 1], [1.0, 1.0], "first is -1 in battle 0 and as wrong in 1 more"),
        ([1], [1], [1.0], "expected another entrant than the first"),
        ([0, 0], [1, 1], [1.0, float("nan")], "preference is nan in battle 1; expected 1"),
        ([0], [1], [0.7], r"preference is 0\.7"),
        ([0], [1], [1.0, 0.0], "expected one shape"),
    ],
)
def test_columns_that_are_no_battles_are_refused(
    first: list[int], second: list[int], preference: list[float], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        count_outcomes(
            np.array(first), np.array(second), np.array(preference), entrants=("ada", "bob")
        )
