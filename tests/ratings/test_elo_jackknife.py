import numpy as np
import pytest

from benchmarks.elo_jackknife import MAX_GROUPS, jackknife_elo
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.errors import InputError

from .builders import ENTRANTS, elo_of_order, simulate_judgments, win, wins

STRENGTHS = [0.0, 0.3, 0.6, 1.0]


def jackknife_slowly(matches: Matches, *, k_factor: float, seed: int) -> np.ndarray:
    """Play 32 rotations of the shuffle and their reverses, skipping one prompt after the other."""
    matches = matches.decisive()
    order = np.random.default_rng(seed).permutation(matches.n_matches).tolist()
    n = len(order)
    rows = []
    for left_out in range(len(matches.prompts)):
        ratings = []
        for rotation in range(32):
            start = rotation * n // 32
            forwards = order[start:] + order[:start]
            for played in (forwards, forwards[::-1]):
                kept = [match for match in played if matches.prompt_index[match] != left_out]
                pairs = [(int(matches.first[m]), int(matches.second[m])) for m in kept]
                ratings.append(
                    elo_of_order(pairs, n_entrants=4, k_factor=k_factor, initial_rating=1400.0)
                )
        rows.append(np.mean(ratings, axis=0))
    return np.array(rows)


def test_every_prompt_is_left_out_of_the_same_orderings() -> None:
    judgments = simulate_judgments(STRENGTHS, n_prompts=9, seed=2)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    np.testing.assert_allclose(
        jackknife_elo(matches, k_factor=16, seed=5),
        jackknife_slowly(matches, k_factor=16, seed=5),
        rtol=1e-12,
    )


def test_many_prompts_are_left_out_in_groups() -> None:
    table = {("ada", "bob"): 300, ("bob", "ada"): 150}
    matches = code_judgments(wins(table), entrants=("ada", "bob"))
    ratings = jackknife_elo(matches, k_factor=4, seed=0)
    assert ratings.shape == (MAX_GROUPS, 2)
    np.testing.assert_allclose(ratings.sum(axis=1), 2800.0)
    # Without two or three of 450 battles hardly anything moves, and not always alike.
    assert 0 < np.ptp(ratings[:, 0]) < 20


def test_an_entrant_without_a_match_has_no_number() -> None:
    matches = code_judgments([win("ada", "bob"), win("bob", "ada", "p1")], entrants=ENTRANTS)
    ratings = jackknife_elo(matches, k_factor=16, seed=0)
    assert np.isnan(ratings[:, 2:]).all()
    assert np.isfinite(ratings[:, :2]).all()


def test_no_prompt_is_refused() -> None:
    with pytest.raises(InputError, match="prompts is 0"):
        jackknife_elo(code_judgments([], entrants=ENTRANTS), k_factor=16, seed=0)
