from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings import elo
from tournament_assets.ratings.elo import (
    ABOVE,
    APART,
    BELOW,
    DIVIDED,
    LOST_ALL,
    NO_MATCH,
    NOT_BOTH,
    SMALLER,
    WON_ALL,
    compute_elo_permutation,
    elo_standing,
    k_factor_sweep,
    summarise_elo,
)
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.verdicts import Judgment

from .builders import (
    ENTRANTS,
    any_judgments,
    code_columns,
    elo_of_order,
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


def test_few_updates_need_no_compiler_and_give_the_same_ratings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sweep() -> list[np.ndarray]:
        swept = k_factor_sweep(MATCHES, k_factors=(4.0, 32.0), n_permutations=20, seed=3)
        return [traces.ratings for traces in swept]

    with monkeypatch.context() as patch:
        patch.setattr(elo, "rate_exactly", None)
        few = sweep()
    monkeypatch.setattr(elo, "_FEW_UPDATES", 0)
    np.testing.assert_array_equal(few, sweep())


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


@given(any_judgments())
def test_points_are_conserved(judgments: list[Judgment]) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    traces = compute_elo_permutation(matches, k_factor=32, n_permutations=4, seed=0)
    np.testing.assert_allclose(traces.ratings.sum(axis=1), 4 * 1400.0, rtol=1e-9)


def test_every_k_of_a_sweep_equals_that_k_alone_bit_for_bit() -> None:
    k_factors = (1.0, 4.0, 8.0, 16.0, 32.0)
    sweep = k_factor_sweep(MATCHES, k_factors=k_factors, n_permutations=20, seed=3)
    for k_factor, traces in zip(k_factors, sweep, strict=True):
        alone = compute_elo_permutation(MATCHES, k_factor=k_factor, n_permutations=20, seed=3)
        assert traces.k_factor == k_factor
        np.testing.assert_array_equal(traces.ratings, alone.ratings)


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
        assert one.standard_error is not None
        moved = (one.value or 0.0) - (other.value or 0.0)
        assert moved != 0
        assert abs(moved) < 5 * one.standard_error


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
        assert result.value == pytest.approx(samples.mean())
        assert result.standard_error == pytest.approx(np.std(samples, ddof=1) / np.sqrt(101))
        assert (result.low, result.high) == (samples[5], samples[95])


def test_one_permutation_shows_no_spread() -> None:
    traces = compute_elo_permutation(MATCHES, k_factor=16, n_permutations=1, seed=0)
    for result in summarise_elo(traces, confidence=0.95):
        assert (result.standard_error, result.low, result.high) == (None, None, None)
        assert result.n > 0


def test_without_decisive_matches_everyone_stays_and_no_spread_is_claimed() -> None:
    matches = code_judgments([tie("ada", "bob")], entrants=("ada", "bob"))
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=3, seed=0)
    np.testing.assert_array_equal(traces.ratings, np.full((3, 2), 1400.0))
    assert traces.n_matches == 0
    for result in summarise_elo(traces, confidence=0.95):
        assert (result.value, result.n) == (1400.0, 0)
        assert (result.standard_error, result.low, result.high) == (None, None, None)


def test_an_entrant_without_a_match_is_marked_among_others_that_have_some() -> None:
    matches = code_judgments(wins({("ada", "bob"): 3, ("bob", "ada"): 1}), entrants=ENTRANTS)
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=10, seed=0)
    results = summarise_elo(traces, confidence=0.95)
    assert [result.n for result in results] == [4, 4, 0, 0]
    assert [result.standard_error is None for result in results] == [False, False, True, True]


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


NAMES = (*ENTRANTS, "eve", "fay")


def notes_of(table: dict[tuple[str, str], int]) -> dict[str, str | None]:
    matches = code_judgments(wins(table), entrants=NAMES)
    return dict(zip(NAMES, elo_standing(matches).notes, strict=True))


def test_ordinary_ratings_need_no_note() -> None:
    notes = notes_of({("ada", "bob"): 1, ("bob", "cyd"): 1, ("cyd", "ada"): 1})
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [None] * 3
    assert notes["dee"] == NO_MATCH


def test_winning_or_losing_everything_is_said() -> None:
    chain = {("ada", "bob"): 3, ("bob", "cyd"): 2}
    notes = notes_of(chain)
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [WON_ALL, NOT_BOTH, LOST_ALL]
    circle = {("dee", "bob"): 1, ("cyd", "dee"): 1}
    notes = notes_of(chain | circle)
    assert [notes[name] for name in ENTRANTS] == [WON_ALL, None, None, None]


def test_whoever_stands_above_or_below_the_rated_through_others_is_said() -> None:
    rated = {("ada", "bob"): 1, ("bob", "ada"): 1, ("ada", "cyd"): 2, ("cyd", "dee"): 1}
    notes = notes_of(rated | {("eve", "ada"): 1, ("fay", "eve"): 1})
    assert [notes[name] for name in NAMES] == [None, None, BELOW, LOST_ALL, ABOVE, WON_ALL]


def test_a_group_of_which_another_is_as_large_has_no_rating_and_says_why() -> None:
    mutual = {("ada", "bob"): 1, ("bob", "ada"): 1, ("cyd", "dee"): 1, ("dee", "cyd"): 1}
    notes = notes_of(mutual | {("ada", "eve"): 1, ("eve", "cyd"): 1})
    assert [notes[name] for name in NAMES] == [*[SMALLER] * 4, NOT_BOTH, NO_MATCH]


def test_places_follow_the_chains_of_wins() -> None:
    table = {("ada", "bob"): 3, ("bob", "cyd"): 2, ("dee", "cyd"): 1, ("eve", "fay"): 1}
    matches = code_judgments(wins(table), entrants=NAMES)
    standing = elo_standing(matches)
    assert standing.n_above.tolist() == [0, 1, 3, 0, 0, 1]
    assert standing.is_placed.tolist() == [True] * 4 + [False] * 2


def test_a_small_group_apart_is_said() -> None:
    chain = {("ada", "bob"): 1, ("bob", "ada"): 1, ("bob", "cyd"): 1, ("cyd", "bob"): 1}
    notes = notes_of(chain | {("dee", "eve"): 9, ("eve", "dee"): 9})
    assert [notes[name] for name in NAMES] == [None, None, None, APART, APART, NO_MATCH]


def test_groups_of_one_size_are_compared_with_nobody() -> None:
    notes = notes_of({("ada", "bob"): 1, ("cyd", "dee"): 1})
    assert [notes[name] for name in NAMES] == [DIVIDED] * 4 + [NO_MATCH] * 2


def test_ties_connect_nobody() -> None:
    matches = code_judgments([tie("ada", "bob")], entrants=("ada", "bob"))
    assert elo_standing(matches).notes == (NO_MATCH, NO_MATCH)
    assert elo_standing(code_judgments([], entrants=())).notes == ()


JUDGMENTS = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=12, seed=4)


def soft_battles(n: int = 60) -> Matches:
    generator = np.random.default_rng(2)
    first = generator.integers(4, size=n)
    second = (first + generator.integers(1, 4, size=n)) % 4
    return code_columns(
        [ENTRANTS[index] for index in first],
        [ENTRANTS[index] for index in second],
        ["p"] * n,
        (generator.integers(0, 5, size=n) / 4).tolist(),
        entrants=ENTRANTS,
    )


def rate_in_python(matches: Matches, *, seed: int) -> list[float]:
    battles = [
        (first, second, score)
        for first, second, score in zip(
            matches.first, matches.second, matches.preference, strict=True
        )
        if score != 0.5
    ]
    ratings = [1400.0] * 4
    for index in np.random.default_rng(seed).permutation(len(battles)):
        first, second, score = battles[index]
        expected = 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / 400))
        ratings[first] += 16 * (score - expected)
        ratings[second] -= 16 * (score - expected)
    return ratings


def test_shares_of_wins_agree_with_a_loop() -> None:
    matches = soft_battles()
    found = compute_elo_permutation(matches, k_factor=16, n_permutations=1, seed=3).ratings[0]
    np.testing.assert_allclose(found, rate_in_python(matches, seed=3), rtol=1e-9)


def test_a_share_next_to_a_win_is_next_to_elo_of_wins() -> None:
    wins = code_judgments(JUDGMENTS, entrants=ENTRANTS)
    # Nine times the last bit of 1: no win, for the code, and worth as much.
    nearly = np.where(wins.preference == 1.0, 1.0 - 1e-15, wins.preference)
    one, other = (
        k_factor_sweep(each, k_factors=[4.0, 16.0], n_permutations=5, seed=7)
        for each in (wins, replace(wins, preference=nearly))
    )
    for exact, near in zip(one, other, strict=True):
        np.testing.assert_allclose(near.ratings, exact.ratings, rtol=1e-9)
        np.testing.assert_array_equal(near.matches_per_entrant, exact.matches_per_entrant)


def test_a_share_moves_its_part_of_k() -> None:
    matches = code_columns(["ada"], ["bob"], ["p"], [0.75], entrants=("ada", "bob"))
    traces = compute_elo_permutation(matches, k_factor=16, n_permutations=1, seed=0)
    np.testing.assert_allclose(traces.ratings, [[1404.0, 1396.0]])


def test_shares_of_wins_conserve_points() -> None:
    traces = compute_elo_permutation(soft_battles(), k_factor=32, n_permutations=20, seed=0)
    np.testing.assert_allclose(traces.ratings.sum(axis=1), 4 * 1400.0)


def test_a_match_of_any_weight_is_played_once() -> None:
    weighted = replace(soft_battles(), weight=np.full(60, 3.0))
    one, other = (
        compute_elo_permutation(each, k_factor=16, n_permutations=2, seed=0).ratings
        for each in (soft_battles(), weighted)
    )
    np.testing.assert_array_equal(one, other)
