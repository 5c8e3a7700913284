import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import (
    FITTED,
    UNCONNECTED,
    UNSETTLED,
    SimplifiedNewton,
    are_strongly_connected,
    log_strengths,
)


def newton_at(wins: NDArray[np.float64]) -> SimplifiedNewton:
    return SimplifiedNewton.at(log_strengths(wins), wins)


def draw_table(n_entrants: int, *, seed: int, mean: float = 20.0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    strengths = generator.normal(size=n_entrants)
    shares = 1 / (1 + np.exp(strengths - strengths[:, None]))
    wins = generator.poisson(mean * shares).astype(np.float64) / 2 + 0.5
    np.fill_diagonal(wins, 0)
    return wins


@pytest.mark.parametrize("n_entrants", [2, 3, 9, 40])
def test_a_resample_ends_where_newton_ends(n_entrants: int) -> None:
    wins = draw_table(n_entrants, seed=0)
    newton = newton_at(wins)
    generator = np.random.default_rng(1)
    for _ in range(20):
        other = generator.poisson(wins * 4) / 4 + 0.25 * (wins > 0)
        (strengths,), outcomes = newton.fit(other[None])
        assert outcomes == [FITTED]
        np.testing.assert_allclose(strengths, log_strengths(other), rtol=0, atol=1e-11)
        assert strengths.mean() == pytest.approx(0, abs=1e-14)


@settings(deadline=None)
@given(arrays(np.float64, (4, 4), elements=st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0, 40.0])))
def test_any_table_is_fitted_or_said_not_to_be(wins: NDArray[np.float64]) -> None:
    np.fill_diagonal(wins, 0)
    newton = newton_at(draw_table(4, seed=2))
    (strengths,), (outcome,) = newton.fit(wins[None])
    assert (outcome == UNCONNECTED) == (not are_strongly_connected(wins[None])[0])
    if outcome == FITTED:
        np.testing.assert_allclose(strengths, log_strengths(wins), rtol=0, atol=1e-10)


def test_a_table_far_from_the_known_one_is_not_taken_for_fitted() -> None:
    even = np.full((3, 3), 10.0) * (1 - np.eye(3))
    ladder = np.array([[0, 1e6, 0], [1, 0, 1e6], [0, 1, 0]])
    assert newton_at(even).fit(ladder[None])[1] == [UNSETTLED]


def test_strengths_beyond_the_range_of_numbers_are_unsettled() -> None:
    even = np.full((3, 3), 1e-3) * (1 - np.eye(3))
    with np.errstate(all="ignore"):
        beyond = even * 1e9 + np.diag([1e9, 1e9], 1)
        assert newton_at(even).fit(beyond[None])[1] == [UNSETTLED]


def test_the_known_table_is_fitted_where_it_is() -> None:
    wins = draw_table(6, seed=3)
    newton = newton_at(wins)
    (strengths,), outcomes = newton.fit(wins[None])
    assert outcomes == [FITTED]
    np.testing.assert_allclose(strengths, newton.strengths, rtol=0, atol=1e-12)


def test_many_tables_at_once_are_fitted_to_the_bytes_of_each_alone() -> None:
    wins = draw_table(9, seed=0)
    newton = newton_at(wins)
    generator = np.random.default_rng(4)
    tables = np.array([generator.poisson(wins / scale) for scale in (1.0, 2.0, 40.0, 4.0)] * 5)
    strengths, outcomes = newton.fit(tables.astype(np.float64))
    assert {*outcomes.tolist()} >= {FITTED, UNCONNECTED}
    for table, row, outcome in zip(tables, strengths, outcomes, strict=True):
        alone, said = newton.fit(table[None].astype(np.float64))
        assert said == [outcome]
        assert alone.tobytes() == row.tobytes()
