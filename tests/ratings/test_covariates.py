import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError, RatingError
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.covariates import ControlledFit, fit_controlled
from tournament_assets.ratings.matches import Matches

from .builders import ENTRANTS, code_columns

STRENGTHS = np.array([0.0, 0.2, 0.4, 0.9])
EFFECT = 0.7


def battles(n: int = 3000, *, seed: int = 0, effect: float = EFFECT) -> tuple[Matches, np.ndarray]:
    """Draw battles in which `dee` is best and `ada`, the worst, writes the longest."""
    generator = np.random.default_rng(seed)
    first = generator.integers(4, size=n)
    second = (first + generator.integers(1, 4, size=n)) % 4
    length = np.array([1.0, 0.3, 0.0, -0.8])
    x = length[first] - length[second] + generator.normal(size=n)
    odds = STRENGTHS[first] - STRENGTHS[second] + effect * x
    preference = (generator.random(n) < 1 / (1 + np.exp(-odds))).astype(float)
    coded = code_columns(
        [ENTRANTS[index] for index in first],
        [ENTRANTS[index] for index in second],
        [f"p{index % 500}" for index in range(n)],
        preference.tolist(),
        entrants=ENTRANTS,
    )
    return coded, x[:, None]


def fit(
    preferences: Matches, x: np.ndarray, *, names: tuple[str, ...] = ("length",)
) -> ControlledFit:
    return fit_controlled(preferences, x, names=names, confidence=0.95)


def ratings_of(found: ControlledFit) -> np.ndarray:
    return np.array([each.value for each in found.ratings], dtype=np.float64)


def test_the_effect_and_the_strengths_behind_it_are_found() -> None:
    preferences, x = battles()
    found = fit(preferences, x)
    (length,) = found.effects
    assert length.low is not None
    assert length.high is not None
    truth = EFFECT * length.scale * ELO_PER_NAT
    assert length.low < truth < length.high
    expected = 1400 + ELO_PER_NAT * (STRENGTHS - STRENGTHS.mean())
    np.testing.assert_allclose(ratings_of(found), expected, atol=25)
    # Without control the longest writer, who is worst, is not last.
    raw = [each.value or 0.0 for each in fit_bradley_terry(preferences)]
    assert int(np.argmin(raw)) != 0
    assert int(np.argmin(ratings_of(found))) == 0


def test_the_gradient_vanishes_at_the_maximum() -> None:
    preferences, x = battles(500)
    found = fit(preferences, x)
    strengths = (ratings_of(found) - 1400) / ELO_PER_NAT
    (length,) = found.effects
    effect = (length.value or 0.0) / ELO_PER_NAT
    scaled = x[:, 0] / length.scale
    odds = strengths[preferences.first] - strengths[preferences.second] + effect * scaled
    left = preferences.preference - 1 / (1 + np.exp(-odds))
    assert left @ scaled == pytest.approx(0, abs=1e-6)
    for entrant in range(4):
        pull = left[preferences.first == entrant].sum() - left[preferences.second == entrant].sum()
        assert pull == pytest.approx(0, abs=1e-6)


def test_exchanging_the_sides_changes_nothing() -> None:
    preferences, x = battles(400)
    swapped = replace(
        preferences,
        first=preferences.second,
        second=preferences.first,
        preference=1 - preferences.preference,
    )
    one, other = fit(preferences, x), fit(swapped, -x)
    np.testing.assert_allclose(ratings_of(other), ratings_of(one), atol=1e-6)
    assert other.effects[0].value == pytest.approx(one.effects[0].value, abs=1e-6)
    assert other.effects[0].standard_error == pytest.approx(one.effects[0].standard_error)


def test_the_unit_of_a_covariate_does_not_matter() -> None:
    preferences, x = battles(400)
    one, other = fit(preferences, x), fit(preferences, 1000 * x)
    np.testing.assert_allclose(ratings_of(other), ratings_of(one), atol=1e-6)
    assert other.effects[0].scale == pytest.approx(1000 * one.effects[0].scale)


def test_errors_have_the_size_of_the_spread_over_repetitions() -> None:
    found = [fit(*battles(500, seed=seed)) for seed in range(100)]
    effects = np.array([each.effects[0].value for each in found])
    errors = np.array([each.effects[0].standard_error for each in found], dtype=np.float64)
    assert errors.mean() == pytest.approx(effects.std(ddof=1), rel=0.2)
    ratings = np.array([ratings_of(each) for each in found])
    rating_errors = np.array(
        [[each.standard_error for each in one.ratings] for one in found], dtype=np.float64
    )
    np.testing.assert_allclose(rating_errors.mean(axis=0), ratings.std(axis=0, ddof=1), rtol=0.25)


def test_covariates_that_nothing_can_be_learned_from_are_refused_together() -> None:
    preferences, x = battles(400)
    own_length = np.array([5.0, 3.0, 2.0, 1.0])
    settled = own_length[preferences.first] - own_length[preferences.second]
    columns = np.column_stack([x[:, 0], settled, np.zeros(400)])
    with pytest.raises(InputError) as raised:
        fit(preferences, columns, names=("length", "size", "bold"))
    found = [re.findall(r"'(\w+)'.*?(settled|differs)", each) for each in raised.value.problems]
    assert found == [[("size", "settled")], [("bold", "differs")]]
    twice = np.column_stack([x[:, 0], 2 * x[:, 0] + settled])
    with pytest.raises(InputError, match=r"\['length', 'longer'\]"):
        fit(preferences, twice, names=("length", "longer"))


def test_a_covariate_that_tells_every_winner_is_refused() -> None:
    pairs = list(itertools.permutations(range(4), 2)) * 3
    x = np.random.default_rng(0).normal(size=(len(pairs), 1))
    preferences = code_columns(
        [ENTRANTS[a] for a, _ in pairs],
        [ENTRANTS[b] for _, b in pairs],
        [str(index) for index in range(len(pairs))],
        (x[:, 0] > 0).astype(float).tolist(),
        entrants=ENTRANTS,
    )
    with pytest.raises(RatingError, match="covariate alone"):
        fit(preferences, x)


def test_a_climb_that_rounding_stops_is_no_maximum() -> None:
    # At equal length bob won, and with the shorter response it was even: however much better bob
    # is said to be, a longer response can be said to be worth as much more.
    coded = code_columns(
        ["bob"] * 4, ["ada"] * 4, ["p", "q", "r", "s"], [1, 1, 0, 0.5], entrants=ENTRANTS[:2]
    )
    lead = np.array([[0.0], [-2.0], [-2.0], [-2.0]])
    with pytest.raises(RatingError, match="without end"):
        fit(coded, lead)


def test_a_climb_that_leaves_nothing_to_solve_is_no_maximum() -> None:
    coded = code_columns(
        ["bob", "ada", "bob", "bob"],
        ["ada", "bob", "ada", "ada"],
        ["p", "q", "r", "s"],
        [1, 0.5, 1, 1],
        entrants=ENTRANTS[:2],
    )
    leads = np.array([[-1.0, 2.0], [2.0, 2.0], [1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(RatingError, match="without end"):
        fit(coded, leads, names=("length", "marks"))


def test_missing_covariates_are_refused() -> None:
    preferences, x = battles(50)
    x[3] = math.nan
    with pytest.raises(InputError, match=r"'length'.*battle 3"):
        fit(preferences, x)
    with pytest.raises(InputError, match="expected \\(50, 2\\)"):
        fit(preferences, x, names=("length", "bold"))


def test_unrated_entrants_keep_their_note_and_nobody_rated_has_no_effect() -> None:
    preferences, x = battles(300)
    found = fit(replace(preferences, entrants=(*ENTRANTS, "eve")), x)
    assert "judged" in str(found.ratings[4].note)
    np.testing.assert_allclose(ratings_of(found)[:4], ratings_of(fit(preferences, x)))
    lone = code_columns(["ada"], ["bob"], ["p"], [1.0], entrants=ENTRANTS)
    nobody = fit(lone, np.array([[0.3]]))
    assert nobody.effects == ()
    assert {each.value for each in nobody.ratings} == {None}
