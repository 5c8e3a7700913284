import numpy as np
import pytest

from benchmarks.coverage import measure
from benchmarks.simulated_tournaments import (
    STRENGTHS,
    Design,
    by_battle,
    draw_tournament,
    expected_elo,
    limit_of_bradley_terry,
)
from tournament_assets.ratings.bradley_terry import fit_bradley_terry


@pytest.mark.parametrize("sigma", [0.0, 1.0, 2.0])
def test_large_tournaments_reach_the_limit_of_bradley_terry(sigma: float) -> None:
    design = Design(n_prompts=60_000, sigma=sigma)
    tournament = draw_tournament(design, np.random.default_rng(0))
    fits = fit_bradley_terry(tournament)
    ratings = np.array([fit.value for fit in fits], dtype=np.float64)
    np.testing.assert_allclose(ratings, limit_of_bradley_terry(design), atol=5)


def test_tournaments_are_drawn_as_designed() -> None:
    tournament = draw_tournament(Design(n_prompts=5000, sigma=0.0), np.random.default_rng(1))
    assert tournament.n_matches == 30_000
    assert (tournament.preference == 0.5).mean() == pytest.approx(0.25, abs=0.01)
    between = (tournament.first == 0) & (tournament.second == 3) & (tournament.preference != 0.5)
    chance = 1 / (1 + np.exp(STRENGTHS[3] - STRENGTHS[0]))
    assert tournament.preference[between].mean() == pytest.approx(chance, abs=0.03)


def test_prompts_shift_the_strengths_of_their_battles_together() -> None:
    tournament = draw_tournament(Design(n_prompts=4000, sigma=2.0), np.random.default_rng(1))
    outcomes = tournament.preference.reshape(4000, 6) - 0.5
    # Pairs (0, 1) and (0, 2) share an entrant and so its luck; (0, 1) and (2, 3) share none.
    assert np.corrcoef(outcomes[:, 0], outcomes[:, 1])[0, 1] > 0.1
    assert abs(np.corrcoef(outcomes[:, 0], outcomes[:, 5])[0, 1]) < 0.05


def test_every_battle_may_be_a_unit_of_its_own() -> None:
    tournament = draw_tournament(Design(n_prompts=30, sigma=1.0), np.random.default_rng(1))
    units = by_battle(tournament)
    assert (len(tournament.prompts), len(units.prompts)) == (30, 180)
    np.testing.assert_array_equal(units.prompt_index // 6, tournament.prompt_index)
    np.testing.assert_array_equal(units.wins, tournament.wins)


def test_expected_elo_is_in_the_order_of_the_strengths_and_conserves_points() -> None:
    expected = expected_elo(Design(n_prompts=40, sigma=0.0), n_tournaments=100, seed=0)
    assert expected.sum() == pytest.approx(4 * 1400)
    assert (np.diff(expected) > 20).all()


def test_the_same_options_measure_the_same_coverage_of_every_interval() -> None:
    once, again = (
        measure(Design(n_prompts=12, sigma=1.0), n_tournaments=4, n_bootstraps=39, seed=3)
        for _ in range(2)
    )
    assert once == again
    assert len(once) == 6
    by_order, _, by_prompt, expanded, *_ = once.values()
    assert by_order[0] < by_prompt[0] <= expanded[0] <= 1
    assert by_order[2] < by_prompt[2] <= expanded[2]
