import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.special import stdtrit

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    rate_resamples,
)
from tournament_assets.ratings.intervals import (
    BootstrapRatings,
    draw_prompts,
    expanded_confidence,
    expanded_percentile_interval,
    percentile_interval,
    sampling_intervals,
    student_quantile,
    two_sided_quantile,
)
from tournament_assets.ratings.matches import code_judgments

from .builders import ENTRANTS, tie, win, wins


def test_tied_prompts_are_drawn_too() -> None:
    decisive = wins({("ada", "bob"): 10, ("bob", "ada"): 10})
    tied = [tie("ada", "bob", f"q{index}") for index in range(60)]
    without, with_ties = (
        rate_resamples(
            ResampledWins.of(code_judgments(judgments, entrants=ENTRANTS[:2]), Resampling(400, 0))
        )
        for judgments in (decisive, decisive + tied)
    )
    # Of 80 prompts a quarter decides: shares of a win spread half as far.
    assert with_ties.n_prompts == 80
    ratio = with_ties.ratings[:, 0].std() / without.ratings[:, 0].std()
    assert ratio == pytest.approx(1 / 4, rel=0.15)


def test_pairs_of_one_prompt_are_drawn_together() -> None:
    # Ten wins and ten losses, each ten on one prompt, and a tie: a resample holds whole tens.
    judgments = [win("ada", "bob", "p0")] * 10 + [win("bob", "ada", "p1")] * 10
    judgments += [tie("ada", "bob", "p2")] * 10
    matches = code_judgments(judgments, entrants=ENTRANTS[:2])
    ratings = rate_resamples(ResampledWins.of(matches, Resampling(500, 0))).ratings[:, 0]
    shares = 1 / (1 + 10 ** (-2 * (ratings - 1400) / 400))
    sixths = shares[np.isfinite(ratings)] * 6
    np.testing.assert_allclose(sixths, np.round(sixths), atol=1e-6)
    assert set(np.round(sixths).astype(int).tolist()) == {1, 2, 3, 4, 5}


def test_an_entrant_without_a_match_has_no_interval() -> None:
    matches = code_judgments(wins({("ada", "bob"): 6, ("bob", "ada"): 4}), entrants=ENTRANTS)
    intervals = sampling_intervals(
        rate_resamples(ResampledWins.of(matches, Resampling(100, 0))), confidence=0.95
    )
    assert [interval.low is None for interval in intervals] == [False, False, True, True]
    assert [interval.high is None for interval in intervals] == [False, False, True, True]


def test_one_prompt_or_none_has_no_interval() -> None:
    for judgments in ([win("ada", "bob"), win("bob", "cyd")], []):
        matches = code_judgments(judgments, entrants=ENTRANTS)
        bootstrap = rate_resamples(ResampledWins.of(matches, Resampling(100, 0)))
        for interval in sampling_intervals(bootstrap, confidence=0.95):
            assert (interval.low, interval.high) == (None, None)


def test_percentiles_are_samples_chosen_outwards() -> None:
    samples = np.random.default_rng(0).permutation(np.arange(101.0))[:, None]
    interval = percentile_interval(samples, confidence=0.9)
    assert (interval.low[0], interval.high[0]) == (5.0, 95.0)
    wider = percentile_interval(samples, confidence=0.901)
    assert (wider.low[0], wider.high[0]) == (4.0, 96.0)


def test_a_bound_is_lost_when_too_many_samples_have_none() -> None:
    samples = np.arange(101.0)[:, None].repeat(4, axis=1)
    samples[-5:, 0] = np.inf
    samples[-6:, 1] = np.inf
    samples[:6, 2] = -np.inf
    samples[:6, 3] = np.nan
    interval = percentile_interval(samples, confidence=0.9)
    assert interval.high.tolist() == [95.0, np.inf, 95.0, np.inf]
    assert interval.low.tolist() == [5.0, 5.0, -np.inf, -np.inf]


def test_as_many_prompts_are_drawn_as_there_are() -> None:
    generator = np.random.default_rng(0)
    assert draw_prompts(generator, n_prompts=7).sum() == 7
    assert draw_prompts(generator, n_prompts=0).size == 0


def test_no_resample_is_refused() -> None:
    matches = code_judgments([win("ada", "bob")], entrants=ENTRANTS)
    with pytest.raises(InputError, match="n_bootstraps is 0"):
        rate_resamples(ResampledWins.of(matches, Resampling(0, 0)))


def test_the_interval_grows_as_students_t_does() -> None:
    # At 50 prompts t is 2.0096, and sqrt(50 / 49) makes it 2.0300 standard deviations.
    assert expanded_confidence(0.95, n_units=50) == pytest.approx(0.95764, abs=5e-5)
    assert expanded_confidence(0.95, n_units=143) == pytest.approx(0.95268, abs=5e-5)
    assert expanded_confidence(0.95, n_units=10**6) == pytest.approx(0.95, abs=1e-5)
    samples = np.arange(10_001.0)[:, None]
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=50)
    assert (interval.low[0], interval.high[0]) == (211.0, 9789.0)


def test_samples_without_spread_measure_no_error() -> None:
    # 1e-12: a few times the last bit of 1400.
    samples = np.column_stack(
        [np.full(50, 1400.0), 1400 + 1e-12 * np.arange(50), np.arange(50.0), np.full(50, np.inf)]
    )
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=20)
    assert np.isfinite(interval.low).tolist() == [False, False, True, False]
    assert np.isfinite(interval.high).tolist() == [False, False, True, False]


def test_published_intervals_are_expanded_and_have_no_bound_that_nothing_sets() -> None:
    ratings = np.column_stack(
        [np.arange(10_001.0), np.full(10_001, 1400.0), np.full(10_001, np.nan)]
    )
    found = sampling_intervals(
        BootstrapRatings(ENTRANTS[:3], ratings, n_prompts=50),
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
    with pytest.raises(InputError, match="n_units is 1"):
        expanded_confidence(0.95, n_units=1)


@pytest.mark.parametrize(
    ("degrees_of_freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_the_printed_table_is_met(degrees_of_freedom: int, expected: float) -> None:
    found = two_sided_quantile(0.95, degrees_of_freedom=degrees_of_freedom)
    assert found == pytest.approx(expected, abs=5e-4)


def test_one_more_of_a_thousand_degrees_of_freedom_hardly_counts() -> None:
    exact = two_sided_quantile(0.99, degrees_of_freedom=1000)
    expanded = two_sided_quantile(0.99, degrees_of_freedom=1001)
    assert exact - expanded == pytest.approx(4.9e-6, rel=0.02)


def test_many_units_are_normal() -> None:
    found = two_sided_quantile(0.9, degrees_of_freedom=10**9)
    assert found == pytest.approx(NormalDist().inv_cdf(0.95), abs=1e-8)


def test_no_degree_of_freedom_is_refused() -> None:
    with pytest.raises(InputError, match="freedom is 0"):
        two_sided_quantile(0.95, degrees_of_freedom=0)


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 5, 142, 1_999, 2_001, 1_048_575])
@pytest.mark.parametrize("tail", [0.49, 0.3, 0.05, 0.025, 0.005, 1e-4, 1e-7, 1e-9])
def test_quantiles_are_those_of_scipy(tail: float, degrees_of_freedom: int) -> None:
    expected = -stdtrit(degrees_of_freedom, tail)
    assert student_quantile(tail, degrees_of_freedom) == pytest.approx(expected, rel=1e-9)


def test_a_tail_of_nothing_has_a_quantile() -> None:
    assert 20.0 < student_quantile(0.0, 200) < student_quantile(0.0, 20)
