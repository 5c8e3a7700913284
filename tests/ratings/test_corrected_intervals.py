import math

import numpy as np
import pytest

from tournament_assets.ratings.intervals import (
    BootstrapRatings,
    bca_interval,
    expanded_confidence,
    expanded_percentile_interval,
    percentile_interval,
    sampling_intervals,
)
from tournament_assets.tournament.errors import InputError

from .builders import ENTRANTS

# Twenty-six children's scores in a test of spatial sense: Efron and Tibshirani, An Introduction
# to the Bootstrap (1993), table 14.1, measurement A.
SPATIAL = np.array(
    [
        [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6],
        [0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41],
    ],
    dtype=np.float64,
).ravel()


def test_the_books_example_of_bca() -> None:
    # The book gives 171.5 for the variance and (115.8, 259.6) for its 90 % interval by BCa, where
    # plain percentiles give (100.8, 233.9), all from 2,000 resamples, which leaves noise of some 3.
    drawn = np.random.default_rng(0).integers(26, size=(40_000, 26))
    samples = SPATIAL[drawn].var(axis=1)[:, None]
    estimate = np.array([SPATIAL.var()])
    assert estimate[0] == pytest.approx(171.5, abs=0.05)
    left_out = np.array([np.delete(SPATIAL, index).var() for index in range(26)])
    interval = bca_interval(
        samples, estimate=estimate, influence=-left_out[:, None], confidence=0.9
    )
    assert interval.low[0] == pytest.approx(115.8, abs=4)
    assert interval.high[0] == pytest.approx(259.6, abs=4)
    plain = percentile_interval(samples, confidence=0.9)
    assert plain.low[0] == pytest.approx(100.8, abs=4)
    assert plain.high[0] == pytest.approx(233.9, abs=4)


def test_without_bias_and_skewness_bca_is_the_percentile_interval() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(-500.0, 501.0))[:, None]
    influence = np.array([[-1.0], [0.0], [1.0]])
    interval = bca_interval(samples, estimate=np.zeros(1), influence=influence, confidence=0.9)
    plain = percentile_interval(samples, confidence=0.9)
    assert (interval.low[0], interval.high[0]) == (plain.low[0], plain.high[0])


def test_bca_follows_the_bias() -> None:
    # The estimate stands at 69.1 % of the samples, half a standard deviation above the median,
    # so both ends move up by a whole one: to the normal's shares at -0.96 and at 2.96.
    samples = np.arange(1001.0)[:, None]
    interval = bca_interval(
        samples, estimate=np.array([691.5]), influence=np.array([[-1.0], [1.0]]), confidence=0.95
    )
    assert interval.low[0] == pytest.approx(168, abs=2)
    assert interval.high[0] == pytest.approx(999, abs=1)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_bca_leans_where_influence_is_skewed(sign: float) -> None:
    samples = np.arange(-500.0, 501.0)[:, None]
    influence = sign * np.array([[-1.0]] * 30 + [[30.0]])
    interval = bca_interval(samples, estimate=np.zeros(1), influence=influence, confidence=0.9)
    assert sign * (interval.low[0] + interval.high[0]) > 10


def test_bca_has_open_ends_where_it_has_no_meaning() -> None:
    samples = np.tile(np.arange(1000.0)[:, None], (1, 5))
    samples[:600, 1] = np.nan
    samples[-100:, 4] = np.inf
    influence = np.tile(np.array([[-1.0], [0.0], [1.0]]), (1, 5))
    influence[0, 2] = np.nan
    estimate = np.array([500.0, 500.0, 500.0, np.nan, 500.0])
    interval = bca_interval(samples, estimate=estimate, influence=influence, confidence=0.95)
    assert np.isfinite(interval.low).tolist() == [True, False, False, False, True]
    assert np.isfinite(interval.high).tolist() == [True, False, False, False, False]
    assert interval.high[4] == math.inf


def test_an_estimate_below_every_sample_still_gives_an_interval() -> None:
    samples = np.arange(1000.0)[:, None]
    interval = bca_interval(
        samples, estimate=np.array([-5.0]), influence=np.array([[-1.0], [1.0]]), confidence=0.95
    )
    assert interval.low[0] == 0.0
    assert interval.high[0] < 10.0


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="expected one column per entrant in each"):
        bca_interval(
            np.zeros((10, 2)), estimate=np.zeros(2), influence=np.zeros((3, 1)), confidence=0.95
        )


def test_the_interval_grows_as_students_t_does() -> None:
    # At 50 prompts t is 2.0096, and sqrt(50 / 49) makes it 2.0300 standard deviations.
    assert expanded_confidence(0.95, n_units=50) == pytest.approx(0.95764, abs=5e-5)
    assert expanded_confidence(0.95, n_units=143) == pytest.approx(0.95268, abs=5e-5)
    assert expanded_confidence(0.95, n_units=10**6) == pytest.approx(0.95, abs=1e-5)
    samples = np.arange(10_001.0)[:, None]
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=50)
    assert (interval.low[0], interval.high[0]) == (211.0, 9789.0)


def test_samples_without_spread_measure_no_error() -> None:
    samples = np.column_stack(
        [np.full(50, 1400.0), 1400 + 1e-12 * np.arange(50), np.arange(50.0), np.full(50, np.inf)]
    )
    expanded = expanded_percentile_interval(samples, confidence=0.95, n_units=20)
    bca = bca_interval(
        samples,
        estimate=np.array([1400.0, 1400.0, 25.0, np.nan]),
        influence=np.tile([[-1.0], [1.0]], (1, 4)),
        confidence=0.95,
    )
    for interval in (expanded, bca):
        assert np.isfinite(interval.low).tolist() == [False, False, True, False]
        assert np.isfinite(interval.high).tolist() == [False, False, True, False]


def test_published_intervals_are_expanded_and_have_no_bound_that_nothing_sets() -> None:
    ratings = np.column_stack(
        [np.arange(10_001.0), np.full(10_001, 1400.0), np.full(10_001, np.nan)]
    )
    found = sampling_intervals(
        BootstrapRatings(ENTRANTS[:3], ratings, n_prompts=50, n_degenerate=0, seed=0),
        confidence=0.95,
    )
    assert [(each.entrant, each.low, each.high) for each in found] == [
        ("ada", 211.0, 9789.0),
        ("bob", None, None),
        ("cyd", None, None),
    ]


def test_one_prompt_has_no_interval() -> None:
    samples = np.arange(100.0)[:, None]
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=1)
    assert (interval.low[0], interval.high[0]) == (-math.inf, math.inf)
    with pytest.raises(InputError, match="at least two prompts"):
        expanded_confidence(0.95, n_units=1)
