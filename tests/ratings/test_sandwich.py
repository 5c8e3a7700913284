import math

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ELO_PER_NAT,
    ResampledWins,
    find_standing,
    rate_resamples,
)
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.sandwich import sandwich_bradley_terry

from .builders import (
    ENTRANTS,
    battles_apart,
    code_columns,
    simulate_judgments,
    tie,
    win,
    wins,
)

PAIR = ("ada", "bob")


def errors_of(preferences: Matches) -> np.ndarray:
    fit = sandwich_bradley_terry(preferences, confidence=0.95)
    return np.array([each.standard_error for each in fit.ratings], dtype=np.float64)


def sandwich_slowly(preferences: Matches, strengths: np.ndarray) -> np.ndarray:
    """Sum whole prompts' scores one by one, and invert with the textbook's formula."""
    n = len(preferences.entrants)
    information, scores = np.zeros((n, n)), np.zeros((len(preferences.prompts), n))
    for a, b, prompt, preference, weight in zip(
        preferences.first,
        preferences.second,
        preferences.prompt_index,
        preferences.preference,
        preferences.weight,
        strict=True,
    ):
        lead = np.zeros(n)
        lead[a], lead[b] = 1, -1
        expected = 1 / (1 + math.exp(strengths[b] - strengths[a]))
        information += weight * expected * (1 - expected) * np.outer(lead, lead)
        scores[prompt] += weight * (preference - expected) * lead
    bread = np.linalg.pinv(information)
    judged = (scores != 0).any(axis=1).sum()
    covariance: np.ndarray = bread @ (scores.T @ scores) @ bread * judged / (judged - 1)
    return covariance


def complete_tournament(generator: np.random.Generator) -> Matches:
    """Everyone meets everyone on every prompt, with wins, losses, ties, and luck by the prompt."""
    n_entrants = int(generator.integers(4, 41))
    n_prompts = int(generator.integers(2, 25))
    strengths = generator.normal(0, generator.choice([0.0, 0.5, 1.5]), (n_entrants,))
    luck = strengths + generator.normal(0, 0.7, (n_prompts, n_entrants))
    one, other = np.triu_indices(n_entrants, 1)
    chance = 1 / (1 + np.exp(luck[:, other] - luck[:, one]))
    won = (generator.random(chance.shape) < chance).astype(float)
    preference = np.where(generator.random(chance.shape) < generator.choice([0, 0.4]), 0.5, won)
    return Matches(
        entrants=tuple(f"e{index}" for index in range(n_entrants)),
        prompts=tuple(f"p{index}" for index in range(n_prompts)),
        first=np.tile(one, n_prompts),
        second=np.tile(other, n_prompts),
        prompt_index=np.repeat(np.arange(n_prompts), one.size),
        preference=preference.ravel(),
        weight=np.ones(preference.size),
    )


def clustered_errors(preferences: Matches) -> tuple[np.ndarray, np.ndarray]:
    """Return a logistic regression's robust errors per prompt and per battle, in long floats.

    The first entrant is the reference level that such a regression leaves out. The equations are
    solved by elimination, which needs no notion of a small eigenvalue.
    """
    n, n_prompts = len(preferences.entrants), len(preferences.prompts)
    outcomes = preferences.preference.reshape(n_prompts, -1)
    pairs = np.arange(outcomes.shape[1])
    design = np.zeros((pairs.size, n), dtype=np.longdouble)
    design[pairs, preferences.first[pairs]], design[pairs, preferences.second[pairs]] = 1, -1
    design = design[:, 1:]
    beta = np.zeros(n - 1, dtype=np.longdouble)
    for _ in range(12):
        chance = 1 / (1 + np.exp(-(design @ beta)))
        information = (design.T * (n_prompts * chance * (1 - chance))) @ design
        step = solve(information, design.T @ (outcomes - chance).sum(axis=0)[:, None])[:, 0]
        beta = beta + step
    assert np.abs(step).max() < 1e-9
    left = outcomes - chance
    by_prompt = left @ design
    # Each rating is a contrast with the mean of all, the reference level's 0 among them.
    contrast = np.vstack([np.zeros(n - 1), np.eye(n - 1)]) - np.longdouble(1) / n
    moved = solve(information, contrast.T)

    def errors(meat: np.ndarray, n_units: int) -> np.ndarray:
        variance = (moved * (meat @ moved)).sum(axis=0) * n_units / (n_units - 1)
        return np.asarray(np.sqrt(variance) * ELO_PER_NAT, dtype=np.float64)

    by_battle = (design.T * (left**2).sum(axis=0)) @ design
    return errors(by_prompt.T @ by_prompt, n_prompts), errors(by_battle, left.size)


def solve(table: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve equations with a positive definite table by Gaussian elimination."""
    rows = np.hstack([table, right])
    for index in range(len(table)):
        rows[index] /= rows[index, index]
        others = np.arange(len(table)) != index
        rows[others] -= rows[others, index, None] * rows[index]
    return rows[:, len(table) :]


def is_connected(preferences: Matches) -> bool:
    return bool(find_standing(preferences.wins).rated.all())


def test_errors_of_complete_tournaments_are_those_of_a_logistic_regression() -> None:
    generator = np.random.default_rng(11)
    tournaments = (complete_tournament(generator) for _ in range(210))
    n_compared = 0
    for preferences in filter(is_connected, tournaments):
        per_prompt, per_battle = clustered_errors(preferences)
        np.testing.assert_allclose(errors_of(preferences), per_prompt, rtol=1e-6)
        np.testing.assert_allclose(errors_of(battles_apart(preferences)), per_battle, rtol=1e-6)
        n_compared += 1
    assert n_compared > 180


def test_two_entrants_have_the_error_of_a_log_odds() -> None:
    # 30 wins in 40: the log odds' variance is 1 / (40 * 0.75 * 0.25), and each of two centred
    # ratings has half the gap.
    preferences = code_judgments(wins({PAIR: 30, PAIR[::-1]: 10}), entrants=PAIR)
    expected = ELO_PER_NAT / 2 * math.sqrt(1 / (40 * 0.75 * 0.25) * 40 / 39)
    fit = sandwich_bradley_terry(preferences, confidence=0.95)
    ada, bob = fit.ratings
    assert ada.standard_error == pytest.approx(expected)
    assert bob.standard_error == pytest.approx(expected)
    assert ada.value == pytest.approx(1400 + 200 * math.log10(3))
    # Student's t with 39 degrees of freedom.
    assert (ada.high or 0) - (ada.value or 0) == pytest.approx(2.0227 * expected, rel=1e-4)
    assert fit.covariance[0, 1] == pytest.approx(-(expected**2))


def test_prompts_are_summed_before_they_are_squared() -> None:
    preferences = code_judgments(
        [
            *simulate_judgments([0.0, 0.4, 0.8, 1.2], n_prompts=15, seed=1),
            # Prompts of one battle take another path through the code.
            *[win("ada", "dee", f"q{index}") for index in range(3)],
            *[win("ada", "bob", "s0"), win("dee", "bob", "s0")],
            *[win("dee", "cyd", f"r{index}") for index in range(4)],
        ],
        entrants=ENTRANTS,
    )
    fit = sandwich_bradley_terry(preferences, confidence=0.95)
    ratings = np.array([each.value for each in fit.ratings], dtype=np.float64)
    slow = sandwich_slowly(preferences, (ratings - 1400) / ELO_PER_NAT) * ELO_PER_NAT**2
    np.testing.assert_allclose(fit.covariance, slow, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(fit.covariance.sum(axis=1), 0, atol=1e-8)
    assert fit.n_prompts == 23


def test_many_prompts_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    preferences = code_judgments(
        simulate_judgments([0.0, 0.4, 0.8, 1.2], n_prompts=15, seed=1), entrants=ENTRANTS
    )
    whole = errors_of(preferences)
    monkeypatch.setattr("tournament_assets.ratings.sandwich.CELLS_AT_ONCE", 8)
    np.testing.assert_allclose(errors_of(preferences), whole)


def test_judging_every_pair_twice_narrows_only_the_error_per_battle() -> None:
    judgments = simulate_judgments([0.0, 0.4, 0.8, 1.2], n_prompts=20, seed=1)
    once, twice = (code_judgments(rows, entrants=ENTRANTS) for rows in (judgments, judgments * 2))
    np.testing.assert_allclose(errors_of(twice), errors_of(once))
    narrowed = errors_of(battles_apart(twice)) / errors_of(battles_apart(once))
    np.testing.assert_allclose(narrowed, math.sqrt(1 / 2), rtol=0.01)


def test_independent_battles_have_the_same_error_either_way_and_by_bootstrap() -> None:
    generator = np.random.default_rng(0)
    n = 3000
    first = generator.integers(4, size=n)
    second = (first + generator.integers(1, 4, size=n)) % 4
    chance = 1 / (1 + np.exp(0.3 * (second - first)))
    preferences = code_columns(
        [ENTRANTS[index] for index in first],
        [ENTRANTS[index] for index in second],
        [str(index) for index in range(n)],
        (generator.random(n) < chance).astype(float),
        entrants=ENTRANTS,
    )
    per_battle = errors_of(battles_apart(preferences))
    np.testing.assert_allclose(errors_of(preferences), per_battle)
    resampled = rate_resamples(ResampledWins.of(preferences, Resampling(4000, 0))).ratings
    np.testing.assert_allclose(resampled.std(axis=0, ddof=1), per_battle, rtol=0.03)


def test_shared_prompts_have_the_error_of_a_bootstrap_of_prompts() -> None:
    preferences = code_judgments(
        simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=200, seed=4), entrants=ENTRANTS
    )
    resampled = rate_resamples(ResampledWins.of(preferences, Resampling(3000, 0))).ratings
    np.testing.assert_allclose(resampled.std(axis=0, ddof=1), errors_of(preferences), rtol=0.05)


def test_only_ties_show_no_spread_and_that_is_said() -> None:
    ties = [tie(*PAIR, f"p{index}") for index in range(5)]
    fit = sandwich_bradley_terry(code_judgments(ties, entrants=PAIR), confidence=0.95)
    for each in fit.ratings:
        assert each.value == pytest.approx(1400)
        assert (each.standard_error, each.low, each.high) == (None, None, None)
        assert "between prompts (5 judged)" in str(each.note)
    assert np.isnan(fit.covariance).all()


def test_one_prompt_has_no_error_although_its_battles_have() -> None:
    judgments = [win(*PAIR), win(*PAIR), win(*PAIR[::-1])]
    preferences = code_judgments(judgments, entrants=PAIR)
    assert np.isfinite(errors_of(battles_apart(preferences))).all()
    assert np.isnan(errors_of(preferences)).all()


def test_unrated_entrants_keep_their_note() -> None:
    table = {PAIR: 3, PAIR[::-1]: 2, ("cyd", "bob"): 1}
    fit = sandwich_bradley_terry(code_judgments(wins(table), entrants=ENTRANTS), confidence=0.95)
    assert [each.standard_error is None for each in fit.ratings] == [False, False, True, True]
    assert "upper bound" in str(fit.ratings[2].note)
    assert fit.n_prompts == 5
    with pytest.raises(InputError, match="confidence is 95"):
        sandwich_bradley_terry(code_judgments(wins(table), entrants=ENTRANTS), confidence=95)
