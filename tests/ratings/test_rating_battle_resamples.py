import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from benchmarks.rating_battle_resamples import (
    BattleResamples,
    bootstrap_battles,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    log_strengths,
    rate_resamples,
)
from tournament_assets.ratings.matches import Matches, code_judgments

from .builders import ENTRANTS, tie, win


def counts_of(won: NDArray[np.int64], tied: NDArray[np.int64]) -> Matches:
    first, second = (np.repeat(side.ravel(), won.ravel()) for side in np.indices(won.shape))
    upper = np.triu(tied)
    even, other = (np.repeat(side.ravel(), upper.ravel()) for side in np.indices(tied.shape))
    n = first.size + even.size
    return Matches(
        entrants=tuple(f"e{index}" for index in range(len(won))),
        prompts=("p",),
        first=np.concatenate([first, even]),
        second=np.concatenate([second, other]),
        prompt_index=np.zeros(n, dtype=np.int64),
        preference=np.repeat([1.0, 0.5], [first.size, even.size]),
        weight=np.ones(n),
    )


tables = st.integers(1, 4).flatmap(
    lambda n: arrays(np.int64, (2, n, n), elements=st.sampled_from([0, 0, 1, 2, 7, 60]))
)


@given(tables)
def test_as_many_battles_are_drawn_as_there_were_and_only_such_as_there_were(
    both: NDArray[np.int64],
) -> None:
    won, tied = both
    np.fill_diagonal(won, 0)
    tied = np.triu(tied, 1) + np.triu(tied, 1).T
    counts = counts_of(won, tied)
    resamples = BattleResamples(counts, seed=0)
    for _ in range(5):
        wins = resamples.draw()
        assert wins.sum() == counts.n_matches
        assert not wins[counts.wins == 0].any()
        np.testing.assert_array_equal(wins * 2, np.round(wins * 2))


# Nine battles are drawn one by one; of the others most come from the Poisson tables.
@pytest.mark.parametrize("scale", [1, 40, 3000])
def test_the_cells_are_multinomial(scale: int) -> None:
    won = np.array([[0, 4, 1], [2, 0, 0], [0, 1, 0]]) * scale
    tied = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]) * scale
    counts = counts_of(won, tied)
    n_draws = 20_000
    resamples = BattleResamples(counts, seed=1)
    drawn = np.array([resamples.draw_cells() for _ in range(n_draws)])
    sizes = np.array([4, 1, 2, 1, 1]) * scale
    n_battles = counts.n_matches
    shares = sizes / n_battles
    assert (drawn.sum(axis=1) == n_battles).all()
    covariance = n_battles * (np.diag(shares) - np.outer(shares, shares))
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        (drawn.mean(axis=0) - sizes) / spread, 0, atol=5 / math.sqrt(n_draws)
    )
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(spread, spread),
        covariance / np.outer(spread, spread),
        atol=0.05,
    )


def test_one_cell_has_the_binomial_distribution() -> None:
    counts = counts_of(np.array([[0, 30], [10, 0]]), np.zeros((2, 2), dtype=np.int64))
    resamples = BattleResamples(counts, seed=2)
    n_draws = 40_000
    seen = np.bincount([resamples.draw_cells()[1] for _ in range(n_draws)], minlength=41)
    expected = np.array([math.comb(40, k) * 0.25**k * 0.75 ** (40 - k) for k in range(41)])
    tolerance = 5 * np.sqrt(expected / n_draws) + 2 / n_draws
    assert (np.abs(seen / n_draws - expected) < tolerance).all()


def test_every_row_is_the_fit_of_its_resample() -> None:
    generator = np.random.default_rng(5)
    won = generator.integers(1, 12, size=(6, 6)) * (1 - np.eye(6, dtype=np.int64))
    counts = counts_of(won, np.zeros_like(won))
    bootstrap = bootstrap_battles(counts, n_bootstraps=20, seed=9)
    resamples = BattleResamples(counts, seed=9)
    for row in bootstrap.ratings:
        expected = 1400 + log_strengths(resamples.draw()) * 400 / math.log(10)
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-8)
    assert bootstrap.n_prompts == counts.n_matches


def test_battles_on_prompts_of_their_own_spread_as_their_prompts_do() -> None:
    judgments = [win("ada", "bob")] * 40 + [win("bob", "ada")] * 20 + [tie("ada", "bob")] * 30
    judgments = [
        type(each)(f"p{index}", each.dimension, each.entrant_a, each.entrant_b, each.outcome)
        for index, each in enumerate(judgments)
    ]
    by_prompt = rate_resamples(
        ResampledWins.of(code_judgments(judgments, entrants=ENTRANTS[:2]), Resampling(4000, 0))
    ).ratings[:, 0]
    by_battle = bootstrap_battles(
        counts_of(np.array([[0, 40], [20, 0]]), np.array([[0, 30], [30, 0]])),
        n_bootstraps=4000,
        seed=0,
    ).ratings[:, 0]
    assert by_battle.std() == pytest.approx(by_prompt.std(), rel=0.06)
    assert by_battle.mean() == pytest.approx(by_prompt.mean(), abs=0.1 * by_prompt.std())


def test_resamples_without_a_loss_are_counted_and_unbounded() -> None:
    counts = counts_of(np.array([[0, 9], [1, 0]]), np.zeros((2, 2), dtype=np.int64))
    bootstrap = bootstrap_battles(counts, n_bootstraps=2000, seed=0)
    assert np.isinf(bootstrap.ratings).any(axis=1).mean() == pytest.approx(0.9**10, abs=0.04)


def test_the_same_seed_gives_the_same_bytes() -> None:
    counts = counts_of(np.array([[0, 90], [60, 0]]), np.array([[0, 20], [20, 0]]))
    first, again, other = (
        bootstrap_battles(counts, n_bootstraps=30, seed=seed).ratings for seed in (0, 0, 1)
    )
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


def test_no_battles_rate_nobody() -> None:
    nothing = counts_of(np.zeros((3, 3), dtype=np.int64), np.zeros((3, 3), dtype=np.int64))
    assert np.isnan(bootstrap_battles(nothing, n_bootstraps=3, seed=0).ratings).all()
    with pytest.raises(InputError, match="n_bootstraps is 0"):
        bootstrap_battles(nothing, n_bootstraps=0, seed=0)
