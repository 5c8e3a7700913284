import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.ratings.elo import compute_elo_permutation, k_factor_sweep, summarise_elo
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment

from .builders import (
    ENTRANTS,
    any_judgments,
    elo_of_order,
    outright,
    simulate_judgments,
    tie,
    win,
    wins,
)

MATCHES = code_judgments(
    simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=30, seed=1), entrants=ENTRANTS
)


def test_first_win_between_equals_moves_half_of_k() -> None:
    matches = code_judgments([win("ada", "bob")], entrants=("ada", "bob"))
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=1, seed=0)
    np.testing.assert_array_equal(traces.ratings, [[1408.0, 1392.0]])


@settings(deadline=None)
@given(any_judgments(), st.sampled_from([0.5, 16.0, 400.0]), st.integers(0, 99))
def test_ratings_equal_textbook_elo_bit_for_bit(
    judgments: list[Judgment], k_factor: float, seed: int
) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    traces = compute_elo_permutation(
        matches, k_factor=k_factor, n_permutations=3, seed=seed, initial_rating=1500.0
    )
    generator = np.random.default_rng(seed)
    won = matches.decisive()
    pairs = list(zip(won.first.tolist(), won.second.tolist(), strict=True))
    for row in traces.ratings:
        order = generator.permutation(len(pairs))
        expected = elo_of_order(
            [pairs[index] for index in order],
            n_entrants=4,
            k_factor=k_factor,
            initial_rating=1500.0,
        )
        assert row.tolist() == expected


@settings(deadline=None)
@given(any_judgments())
def test_points_are_conserved(judgments: list[Judgment]) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    traces = compute_elo_permutation(matches, k_factor=32, n_permutations=4, seed=0)
    np.testing.assert_allclose(traces.ratings.sum(axis=1), 4 * 1400.0, rtol=1e-12)


def test_every_k_of_a_sweep_equals_that_k_alone_bit_for_bit() -> None:
    k_factors = (1.0, 4.0, 8.0, 16.0, 32.0)
    sweep = k_factor_sweep(MATCHES, k_factors=k_factors, n_permutations=20, seed=3)
    for k_factor, traces in zip(k_factors, sweep, strict=True):
        alone = compute_elo_permutation(MATCHES, k_factor=k_factor, n_permutations=20, seed=3)
        assert traces.k_factor == k_factor
        np.testing.assert_array_equal(traces.ratings, alone.ratings)


@settings(deadline=None)
@given(
    any_judgments(),
    st.lists(st.sampled_from([0.5, 8.0, 16.0, 32.0]), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_the_fast_sweep_rates_the_same_orderings_up_to_rounding(
    judgments: list[Judgment], k_factors: list[float], n_permutations: int
) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    exact, fast = (
        k_factor_sweep(
            matches, k_factors=k_factors, n_permutations=n_permutations, seed=5, exact=is_exact
        )
        for is_exact in (True, False)
    )
    for one, other in zip(exact, fast, strict=True):
        assert one.k_factor == other.k_factor
        assert one.ratings.shape == other.ratings.shape
        np.testing.assert_allclose(other.ratings, one.ratings, rtol=0, atol=1.4e-12)


def test_the_fast_sweep_stays_close_over_a_long_tournament() -> None:
    generator = np.random.default_rng(0)
    winners = generator.integers(20, size=5000)
    losers = (winners + generator.integers(1, 20, size=5000)) % 20
    names = tuple(f"e{index}" for index in range(20))
    matches = outright(winners, losers, np.zeros(5000, int), entrants=names, prompts=("p",))
    exact, fast = (
        k_factor_sweep(matches, k_factors=[4.0, 32.0], n_permutations=17, seed=0, exact=is_exact)
        for is_exact in (True, False)
    )
    for one, other in zip(exact, fast, strict=True):
        np.testing.assert_allclose(other.ratings, one.ratings, rtol=0, atol=1.4e-12)
        np.testing.assert_allclose(other.ratings.sum(axis=1), 20 * 1400.0, rtol=1e-13)


def test_the_fast_sweep_survives_gaps_that_no_power_of_two_can_hold() -> None:
    # A K-factor this large opens gaps of half a million points, which are 1,660 doublings.
    matches = code_judgments(
        wins({("ada", "bob"): 2, ("bob", "ada"): 2, ("ada", "cyd"): 1}), entrants=ENTRANTS
    )
    exact, fast = (
        k_factor_sweep(matches, k_factors=[500_000.0], n_permutations=16, seed=0, exact=is_exact)
        for is_exact in (True, False)
    )
    np.testing.assert_allclose(fast[0].ratings, exact[0].ratings, rtol=0, atol=1e-9)


def test_more_permutations_begin_with_the_same_ones() -> None:
    few = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=5, seed=7)
    many = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=9, seed=7)
    np.testing.assert_array_equal(many.ratings[:5], few.ratings)


def test_another_seed_gives_other_orderings() -> None:
    first = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=5, seed=0)
    second = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=5, seed=1)
    assert not np.array_equal(first.ratings, second.ratings)


def test_the_order_of_the_judgments_moves_the_mean_by_order_noise_only() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=30, seed=1)
    backwards = code_judgments(judgments[::-1], entrants=ENTRANTS)
    for one, other in zip(
        summarise_elo(
            compute_elo_permutation(MATCHES, k_factor=16, n_permutations=400, seed=0),
            confidence=0.95,
        ),
        summarise_elo(
            compute_elo_permutation(backwards, k_factor=16, n_permutations=400, seed=0),
            confidence=0.95,
        ),
        strict=True,
    ):
        assert one.sem is not None
        assert one.mean != other.mean
        assert abs(one.mean - other.mean) < 5 * one.sem


def test_seven_wins_in_ten_settle_near_147_points_apart() -> None:
    matches = code_judgments(
        wins({("ada", "bob"): 700, ("bob", "ada"): 300}), entrants=("ada", "bob")
    )
    traces = compute_elo_permutation(matches, k_factor=8, n_permutations=200, seed=0)
    ada, bob = traces.ratings.mean(axis=0)
    assert ada - bob == pytest.approx(147, abs=6)


def test_summary_matches_numpy() -> None:
    traces = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=101, seed=0)
    for column, result in enumerate(summarise_elo(traces, confidence=0.9)):
        samples = np.sort(traces.ratings[:, column])
        assert result.entrant == ENTRANTS[column]
        assert result.mean == pytest.approx(samples.mean())
        assert result.sem == pytest.approx(np.std(samples, ddof=1) / np.sqrt(101))
        assert (result.order_low, result.order_high) == (samples[5], samples[95])


def test_one_permutation_shows_no_spread() -> None:
    traces = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=1, seed=0)
    for result in summarise_elo(traces, confidence=0.95):
        assert (result.sem, result.order_low, result.order_high) == (None, None, None)
        assert result.n_matches > 0


def test_without_decisive_matches_everyone_stays_and_no_spread_is_claimed() -> None:
    matches = code_judgments([tie("ada", "bob")], entrants=("ada", "bob"))
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=3, seed=0)
    np.testing.assert_array_equal(traces.ratings, np.full((3, 2), 1400.0))
    assert traces.n_matches == 0
    for result in summarise_elo(traces, confidence=0.95):
        assert (result.mean, result.n_matches) == (1400.0, 0)
        assert (result.sem, result.order_low, result.order_high) == (None, None, None)


def test_an_entrant_without_a_match_is_marked_among_others_that_have_some() -> None:
    matches = code_judgments(wins({("ada", "bob"): 3, ("bob", "ada"): 1}), entrants=ENTRANTS)
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=10, seed=0)
    results = summarise_elo(traces, confidence=0.95)
    assert [result.n_matches for result in results] == [4, 4, 0, 0]
    assert [result.sem is None for result in results] == [False, False, True, True]


@pytest.mark.parametrize(
    ("k_factors", "n_permutations", "said"),
    [
        ([16.0], 0, "n_permutations is 0"),
        ([16.0, 0.0], 1, "k_factor is 0.0"),
        ([float("nan")], 1, "k_factor is nan"),
        ([], 1, "k_factors is empty"),
    ],
)
def test_options_without_a_meaning_are_refused(
    k_factors: list[float], n_permutations: int, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        k_factor_sweep(MATCHES, k_factors=k_factors, n_permutations=n_permutations, seed=0)


def test_a_confidence_of_one_is_refused() -> None:
    traces = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=2, seed=0)
    with pytest.raises(InputError, match=r"confidence is 1\.0"):
        summarise_elo(traces, confidence=1.0)
