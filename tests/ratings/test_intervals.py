import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.intervals import (
    BootstrapRatings,
    bootstrap_elo,
    draw_prompts,
    expanded_confidence,
    expanded_percentile_interval,
    percentile_interval,
    sampling_intervals,
    two_sided_quantile,
)
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Resampling

from .builders import ENTRANTS, elo_of_order, simulate_judgments, tie, win, wins

STRENGTHS = [0.0, 0.3, 0.6, 1.0]


def bootstrap_slowly(
    matches: Matches, *, k_factor: float, n_bootstraps: int, n_orderings: int
) -> np.ndarray:
    """Resample prompts one by one and average independent orderings, without any kernel."""
    matches = matches.decisive()
    generator = np.random.default_rng(99)
    pairs = list(zip(matches.first.tolist(), matches.second.tolist(), strict=True))
    of_prompt: list[list[tuple[int, int]]] = [[] for _ in matches.prompts]
    for pair, prompt in zip(pairs, matches.prompt_index, strict=True):
        of_prompt[prompt].append(pair)
    rows = []
    for _ in range(n_bootstraps):
        drawn = [generator.integers(len(of_prompt)) for _ in of_prompt]
        sample = [pair for prompt in drawn for pair in of_prompt[prompt]]
        ratings = [
            elo_of_order(
                [sample[index] for index in generator.permutation(len(sample))],
                n_entrants=len(matches.entrants),
                k_factor=k_factor,
                initial_rating=1400.0,
            )
            for _ in range(n_orderings)
        ]
        rows.append(np.mean(ratings, axis=0))
    return np.array(rows)


def test_intervals_agree_with_a_slow_bootstrap() -> None:
    judgments = simulate_judgments(STRENGTHS, n_prompts=20, seed=5)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    slow = bootstrap_slowly(matches, k_factor=16, n_bootstraps=300, n_orderings=60)
    fast = bootstrap_elo(matches, k_factor=16, resampling=Resampling(2000, 0)).ratings
    spread = slow.std(axis=0)
    assert np.all(np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 0.2 * spread)
    np.testing.assert_allclose(fast.std(axis=0), spread, rtol=0.15)
    quantiles = [0.1, 0.9]
    apart = np.abs(np.quantile(fast, quantiles, axis=0) - np.quantile(slow, quantiles, axis=0))
    assert np.all(apart < 0.4 * spread)


def test_a_resample_averages_to_what_the_permutations_average_to() -> None:
    matches = code_judgments(
        [win(*pair) for pair in [("ada", "bob")] * 30 + [("bob", "ada")] * 20],
        entrants=("ada", "bob"),
    )
    resamples = bootstrap_elo(matches, k_factor=16, resampling=Resampling(200, 0)).ratings
    orderings = compute_elo_permutation(matches, k_factor=16, n_permutations=4000, seed=0).ratings
    np.testing.assert_allclose(resamples.mean(axis=0), orderings.mean(axis=0), atol=1.0)


def test_three_rotations_and_their_reverses_are_all_six_orderings_of_three_matches() -> None:
    pairs = [("ada", "bob"), ("bob", "cyd"), ("ada", "cyd")]
    matches = code_judgments([win(*pair) for pair in pairs], entrants=ENTRANTS[:3])
    coded = list(zip(matches.first.tolist(), matches.second.tolist(), strict=True))
    expected = np.mean(
        [
            elo_of_order(order, n_entrants=3, k_factor=100.0, initial_rating=1400.0)
            for order in itertools.permutations(coded)
        ],
        axis=0,
    )
    resamples = bootstrap_elo(matches, k_factor=100, resampling=Resampling(5, 0), n_orderings=6)
    np.testing.assert_allclose(resamples.ratings, np.tile(expected, (5, 1)), rtol=1e-13)


def test_points_are_conserved_in_every_resample() -> None:
    matches = code_judgments(simulate_judgments(STRENGTHS, n_prompts=10, seed=2), entrants=ENTRANTS)
    ratings = bootstrap_elo(matches, k_factor=16, resampling=Resampling(50, 0)).ratings
    np.testing.assert_allclose(ratings.sum(axis=1), 4 * 1400.0, rtol=1e-12)


def test_the_same_seed_gives_the_same_resamples_and_another_seed_does_not() -> None:
    matches = code_judgments(simulate_judgments(STRENGTHS, n_prompts=10, seed=2), entrants=ENTRANTS)
    first, again, other = (
        bootstrap_elo(matches, k_factor=16, resampling=Resampling(20, seed)).ratings
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_tied_prompts_are_drawn_too() -> None:
    decisive = [win("ada", "bob", f"p{index}") for index in range(10)]
    tied = [tie("ada", "bob", f"q{index}") for index in range(10)]
    without, with_ties = (
        bootstrap_elo(
            code_judgments(judgments, entrants=("ada", "bob")),
            k_factor=16,
            resampling=Resampling(50, 0),
        )
        for judgments in (decisive, decisive + tied)
    )
    # Ten wins in any order are the same rating; with tied prompts the number of wins varies.
    assert np.ptp(without.ratings[:, 0]) == 0
    assert np.ptp(with_ties.ratings[:, 0]) > 10
    assert with_ties.n_prompts == 20


def test_pairs_of_one_prompt_are_drawn_together() -> None:
    # Ten wins and ten losses, each ten on one prompt: a resample holds whole tens.
    judgments = [win("ada", "bob", "p0")] * 10 + [win("bob", "ada", "p1")] * 10
    matches = code_judgments(judgments, entrants=("ada", "bob"))
    ratings = bootstrap_elo(matches, k_factor=1, resampling=Resampling(200, 0)).ratings[:, 0]
    near = np.round((ratings - 1400) / 9.5).astype(int)
    assert set(near.tolist()) == {-1, 0, 1}
    assert np.mean(near == 0) == pytest.approx(0.5, abs=0.12)


def test_an_entrant_without_a_match_has_no_interval() -> None:
    matches = code_judgments(wins({("ada", "bob"): 6, ("bob", "ada"): 4}), entrants=ENTRANTS)
    intervals = sampling_intervals(
        bootstrap_elo(matches, k_factor=16, resampling=Resampling(100, 0)), confidence=0.95
    )
    assert [interval.low is None for interval in intervals] == [False, False, True, True]
    assert [interval.high is None for interval in intervals] == [False, False, True, True]


def test_one_prompt_or_none_has_no_interval() -> None:
    for judgments in ([win("ada", "bob"), win("bob", "cyd")], []):
        matches = code_judgments(judgments, entrants=ENTRANTS)
        bootstrap = bootstrap_elo(matches, k_factor=16, resampling=Resampling(100, 0))
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


@pytest.mark.parametrize(("n_bootstraps", "n_orderings"), [(0, 32), (10, 3), (10, 0)])
def test_options_without_a_meaning_are_refused(n_bootstraps: int, n_orderings: int) -> None:
    matches = code_judgments([win("ada", "bob")], entrants=ENTRANTS)
    with pytest.raises(InputError, match="expected"):
        bootstrap_elo(
            matches, k_factor=16, resampling=Resampling(n_bootstraps, 0), n_orderings=n_orderings
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
    interval = expanded_percentile_interval(samples, confidence=0.95, n_units=20)
    assert np.isfinite(interval.low).tolist() == [False, False, True, False]
    assert np.isfinite(interval.high).tolist() == [False, False, True, False]


def test_published_intervals_are_expanded_and_have_no_bound_that_nothing_sets() -> None:
    ratings = np.column_stack(
        [np.arange(10_001.0), np.full(10_001, 1400.0), np.full(10_001, np.nan)]
    )
    found = sampling_intervals(
        BootstrapRatings(ENTRANTS[:3], ratings, n_prompts=50, n_degenerate=0),
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
