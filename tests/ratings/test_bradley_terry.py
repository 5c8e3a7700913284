import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    are_strongly_connected,
    find_standing,
    fit_bradley_terry,
    log_strengths,
    rate_resamples,
)
from tournament_assets.ratings.intervals import sampling_intervals
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.verdicts import Judgment

from .builders import ENTRANTS, PUBLISHED_STRENGTHS, PUBLISHED_WINS, simulate_judgments, tie, wins


def cells_of(table: dict[tuple[str, str], int], entrants: tuple[str, ...] = ENTRANTS) -> Matches:
    return code_judgments(wins(table), entrants=entrants)


def fit_slowly(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Zermelo's iteration, one division per entrant and round."""
    n = len(table)
    strengths = np.ones(n)
    for _ in range(20_000):
        for i in range(n):
            shares = [
                (table[i, j] + table[j, i]) / (strengths[i] + strengths[j])
                for j in range(n)
                if j != i
            ]
            strengths[i] = table[i].sum() / sum(shares)
        before, strengths = strengths, strengths / np.exp(np.log(strengths).mean())
        # The iteration closes in slowly: what is left is a thousand times its last step.
        if np.allclose(before, strengths, rtol=1e-13, atol=0):
            break
    return np.log(strengths)


def test_the_example_of_wikipedia() -> None:
    cells = cells_of(PUBLISHED_WINS)
    assert cells.wins.sum() == 22
    np.testing.assert_allclose(np.exp(log_strengths(cells.wins)), PUBLISHED_STRENGTHS, atol=5e-4)
    ratings = [result.value or math.nan for result in fit_bradley_terry(cells)]
    assert np.mean(ratings) == pytest.approx(1400)
    assert ratings[3] - ratings[0] == pytest.approx(400 * math.log10(2.270 / 0.640), abs=0.5)


def test_a_star_has_the_closed_form() -> None:
    cells = cells_of(
        {
            ("ada", "bob"): 7,
            ("bob", "ada"): 3,
            ("ada", "cyd"): 1,
            ("cyd", "ada"): 4,
            ("ada", "dee"): 999,
            ("dee", "ada"): 1,
        }
    )
    ada, bob, cyd, dee = (result.value or math.nan for result in fit_bradley_terry(cells))
    assert ada - bob == pytest.approx(400 * math.log10(7 / 3))
    assert ada - cyd == pytest.approx(400 * math.log10(1 / 4))
    assert ada - dee == pytest.approx(400 * math.log10(999))


@given(arrays(np.float64, (4, 4), elements=st.integers(0, 8).map(lambda halves: halves / 2)))
def test_newton_agrees_with_zermelo(table: NDArray[np.float64]) -> None:
    # A circle of wins connects everyone.
    table = table + np.roll(np.eye(4), 1, axis=1)
    np.fill_diagonal(table, 0)
    np.testing.assert_allclose(log_strengths(table), fit_slowly(table), atol=1e-8)


def test_tables_fitted_together_agree_with_tables_fitted_alone() -> None:
    generator = np.random.default_rng(0)
    tables = generator.integers(1, 9, size=(5, 4, 4)) * (1 - np.eye(4))
    alone = np.stack([log_strengths(table) for table in tables])
    np.testing.assert_allclose(log_strengths(tables), alone, atol=1e-9)


def test_an_uneven_ladder_is_still_rated() -> None:
    table = np.zeros((6, 6))
    for index in range(5):
        table[index, index + 1], table[index + 1, index] = 100_000, 1
    np.testing.assert_allclose(np.diff(log_strengths(table)), -math.log(100_000), rtol=1e-9)


def test_a_lopsided_table_gives_everyone_the_wins_they_had() -> None:
    # Whole Newton steps overshoot here until no step can be computed.
    table = np.array(
        [
            [0, 524, 4, 0, 3159],
            [0, 0, 2229, 0, 0],
            [0, 0, 0, 4, 3],
            [16, 0, 673, 0, 1],
            [11, 228, 0, 0, 0],
        ],
        dtype=float,
    )
    strengths = np.exp(log_strengths(table))
    shares = strengths[:, None] / (strengths[:, None] + strengths)
    expected_wins = ((table + table.T) * shares).sum(axis=1)
    np.testing.assert_allclose(expected_wins, table.sum(axis=1), rtol=1e-8)


def test_only_ties_rate_everyone_alike() -> None:
    cells = code_judgments(
        [tie("ada", "bob"), tie("bob", "cyd"), tie("cyd", "dee")], entrants=ENTRANTS
    )
    for result in fit_bradley_terry(cells, initial_rating=1000.0):
        assert result.value == pytest.approx(1000.0)


def test_ratings_do_not_depend_on_the_order_of_the_judgments() -> None:
    judgments = simulate_judgments([0.0, 0.5, 1.0, 1.5], n_prompts=10, seed=0)
    forwards = fit_bradley_terry(code_judgments(judgments, entrants=ENTRANTS))
    backwards = fit_bradley_terry(code_judgments(judgments[::-1], entrants=ENTRANTS))
    assert forwards == backwards


def test_winning_or_losing_every_match_gives_a_reason_and_no_number() -> None:
    cells = cells_of({("ada", "bob"): 3, ("bob", "cyd"): 2, ("cyd", "bob"): 1, ("cyd", "dee"): 1})
    ada, bob, cyd, dee = fit_bradley_terry(cells)
    assert (ada.value, bob.note, dee.value) == (None, None, None)
    assert ada.note == "won every match: no upper bound"
    assert dee.note == "lost every match: no lower bound"
    assert (bob.value or 0) - (cyd.value or 0) == pytest.approx(400 * math.log10(2))
    assert (bob.value or 0) + (cyd.value or 0) == pytest.approx(2800)


def test_two_separate_groups_are_not_compared() -> None:
    cells = cells_of({("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "dee"): 2, ("dee", "cyd"): 1})
    for result in fit_bradley_terry(cells):
        assert result.value is None
        assert "largest group" in str(result.note)


def test_entrants_apart_from_the_rated_group_get_a_reason() -> None:
    entrants = (*ENTRANTS, "eve", "fay", "gus", "hal")
    circle = {("ada", "bob"): 1, ("bob", "cyd"): 1, ("cyd", "ada"): 1}
    others = {
        ("dee", "eve"): 1,
        ("eve", "dee"): 1,
        ("dee", "ada"): 1,
        ("fay", "gus"): 1,
        ("gus", "fay"): 1,
    }
    notes = {
        each.entrant: each.note for each in fit_bradley_terry(cells_of(circle | others, entrants))
    }
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [None] * 3
    assert notes["dee"] == notes["eve"]
    assert "never lost" in str(notes["dee"])
    assert "connect" in str(notes["fay"])
    assert "judged" in str(notes["hal"])


def test_nobody_judged_gives_no_number() -> None:
    results = fit_bradley_terry(code_judgments([], entrants=ENTRANTS))
    assert [(each.value, each.note) for each in results] == [(None, "no judged match")] * 4
    bootstrap = rate_resamples(
        ResampledWins.of(code_judgments([], entrants=ENTRANTS), Resampling(10, 0))
    )
    for interval in sampling_intervals(bootstrap, confidence=0.95):
        assert (interval.low, interval.high) == (None, None)


def bootstrap_slowly(judgments: list[Judgment], *, n_bootstraps: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(99)
    prompts = sorted({judgment.prompt_id for judgment in judgments})
    rows = []
    for _ in range(n_bootstraps):
        sample = [
            judgment
            for drawn in generator.integers(len(prompts), size=len(prompts))
            for judgment in judgments
            if judgment.prompt_id == prompts[drawn]
        ]
        table = code_judgments(sample, entrants=ENTRANTS).wins
        rows.append(1400 + 400 / math.log(10) * log_strengths(table))
    return np.array(rows)


def test_intervals_agree_with_a_slow_bootstrap() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=25, seed=4)
    slow = bootstrap_slowly(judgments, n_bootstraps=400)
    fast = rate_resamples(
        ResampledWins.of(code_judgments(judgments, entrants=ENTRANTS), Resampling(2000, 0))
    )
    assert np.isfinite(fast.ratings).all()
    np.testing.assert_allclose(fast.ratings.std(axis=0), slow.std(axis=0), rtol=0.15)
    apart = np.abs(fast.ratings.mean(axis=0) - slow.mean(axis=0))
    assert np.all(apart < 0.2 * slow.std(axis=0))


def test_repeating_every_pair_of_a_prompt_makes_no_interval_narrower() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=25, seed=4)
    once, fourfold = (
        rate_resamples(ResampledWins.of(code_judgments(rows, entrants=ENTRANTS), Resampling(50, 0)))
        for rows in (judgments, judgments * 4)
    )
    np.testing.assert_allclose(once.ratings, fourfold.ratings, atol=1e-8)


def test_a_side_that_resamples_leave_open_has_no_bound() -> None:
    # Nine wins in ten: (9/10)^10 = 35 % of the resamples hold no loss.
    cells = cells_of({("ada", "bob"): 9, ("bob", "ada"): 1}, ("ada", "bob"))
    bootstrap = rate_resamples(ResampledWins.of(cells, Resampling(2000, 0)))
    assert np.isinf(bootstrap.ratings).any(axis=1).mean() == pytest.approx(0.9**10, abs=0.04)
    ada, bob = sampling_intervals(bootstrap, confidence=0.95)
    assert ada.high is None
    assert bob.low is None
    assert ada.low is not None
    assert bob.high is not None
    assert ada.low + bob.high == pytest.approx(2800)


def test_few_open_resamples_are_counted_and_leave_the_bounds() -> None:
    cells = cells_of({("ada", "bob"): 25, ("bob", "ada"): 5}, ("ada", "bob"))
    bootstrap = rate_resamples(ResampledWins.of(cells, Resampling(2000, 0)))
    assert 0 < np.isinf(bootstrap.ratings).any(axis=1).sum() < 50
    for interval in sampling_intervals(bootstrap, confidence=0.95):
        assert interval.low is not None
        assert interval.high is not None


def test_a_group_left_by_a_resample_keeps_its_place() -> None:
    # dee's one win over the others is often missed; they are then rated around their own mean.
    cells = cells_of(
        {
            ("ada", "bob"): 30,
            ("bob", "ada"): 30,
            ("bob", "cyd"): 30,
            ("cyd", "bob"): 30,
            ("cyd", "dee"): 20,
            ("dee", "cyd"): 1,
        }
    )
    point = np.array([result.value or math.nan for result in fit_bradley_terry(cells)])
    bootstrap = rate_resamples(ResampledWins.of(cells, Resampling(300, 0)))
    missed = np.isneginf(bootstrap.ratings[:, 3])
    assert missed.sum() == (~np.isfinite(bootstrap.ratings)).any(axis=1).sum() > 0
    means = bootstrap.ratings[missed][:, :3].mean(axis=1)
    np.testing.assert_allclose(means, point[:3].mean())


def test_unrated_entrants_have_no_interval() -> None:
    cells = cells_of({("ada", "bob"): 9, ("bob", "ada"): 8, ("cyd", "bob"): 2})
    bootstrap = rate_resamples(ResampledWins.of(cells, Resampling(200, 0)))
    ada, _, cyd, dee = sampling_intervals(bootstrap, confidence=0.9)
    assert ada.low is not None
    assert (cyd.low, cyd.high) == (dee.low, dee.high) == (None, None)


def test_the_same_seed_gives_the_same_resamples_and_another_seed_does_not() -> None:
    cells = code_judgments(
        simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=15, seed=4), entrants=ENTRANTS
    )
    assert are_strongly_connected(cells.wins[None]).all()
    first, again, other = (
        rate_resamples(ResampledWins.of(cells, Resampling(20, seed))).ratings for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(InputError, match="n_bootstraps is 0"):
        rate_resamples(ResampledWins.of(code_judgments([], entrants=ENTRANTS), Resampling(0, 0)))


def table(n_entrants: int, *beats: tuple[int, int]) -> NDArray[np.float64]:
    wins = np.zeros((n_entrants, n_entrants))
    for winner, loser in beats:
        wins[winner, loser] += 1
    return wins


def chains_slowly(wins: NDArray[np.float64]) -> list[set[int]]:
    chains = []
    for start in range(len(wins)):
        reached, waiting = {start}, [start]
        while waiting:
            found = set(np.flatnonzero(wins[waiting.pop()]).tolist()) - reached
            reached |= found
            waiting.extend(found)
        chains.append(reached)
    return chains


tables = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float64, (3, n, n), elements=st.sampled_from([0.0, 0.0, 0.0, 0.5, 2.0]))
)


@given(tables)
def test_connection_agrees_with_walking_the_graph(many: NDArray[np.float64]) -> None:
    everyone = set(range(many.shape[1]))
    expected = [all(chain == everyone for chain in chains_slowly(wins)) for wins in many]
    assert are_strongly_connected(many).tolist() == expected


@given(tables)
def test_the_rated_can_all_reach_each_other_and_nobody_else(many: NDArray[np.float64]) -> None:
    for won in many:
        standing, chains = find_standing(won), chains_slowly(won)
        rated = np.flatnonzero(standing.rated).tolist()
        for member in rated:
            both_ways = {other for other in chains[member] if member in chains[other]}
            assert both_ways == set(rated)
        assert not (standing.rated & (standing.unbounded_above | standing.unbounded_below)).any()
        assert not (standing.unbounded_above & standing.unbounded_below).any()


@pytest.mark.parametrize("length", [2, 3, 7])
def test_a_circle_of_wins_connects_everyone(length: int) -> None:
    circle = [(index, (index + 1) % length) for index in range(length)]
    assert find_standing(table(length, *circle)).rated.all()
    assert are_strongly_connected(table(length, *circle)[None]).all()
    assert not are_strongly_connected(table(length, *circle[:-1])[None]).any()


def test_entrants_above_and_below_the_rated_group_are_told_apart() -> None:
    # 3 beat 4, who beat the group {0, 1, 2}; 0 beat 5; 6 played nobody.
    wins = table(7, (0, 1), (1, 2), (2, 0), (3, 4), (4, 1), (0, 5))
    standing = find_standing(wins)
    assert np.flatnonzero(standing.rated).tolist() == [0, 1, 2]
    assert np.flatnonzero(standing.unbounded_above).tolist() == [3, 4]
    assert np.flatnonzero(standing.unbounded_below).tolist() == [5]


def test_two_groups_of_one_size_leave_nobody_rated() -> None:
    standing = find_standing(table(4, (0, 1), (1, 0), (2, 3), (3, 2)))
    assert not standing.rated.any()


def test_a_ladder_bounds_only_its_ends() -> None:
    standing = find_standing(table(3, (0, 1), (1, 2)))
    assert not standing.rated.any()
    assert standing.unbounded_above.tolist() == [True, False, False]
    assert standing.unbounded_below.tolist() == [False, False, True]
