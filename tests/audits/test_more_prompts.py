import math

import numpy as np
import pytest
from scipy.special import ndtr

from benchmarks.more_prompts import try_often
from tournament_assets.audits import more_prompts
from tournament_assets.audits.more_prompts import MOST_PROMPTS, find_more_prompts
from tournament_assets.ratings.intervals import two_sided_quantile

KINDS = ("normal, 30 Elo", "normal, 60 Elo", "normal, 120 Elo", "20 Elo apart", "40 Elo apart")


def came_true(*, n: int, n_entrants: tuple[int, ...]) -> list[bool]:
    """Return of drawn tournaments for which prompts were named whether these did it."""
    trials = [
        trial
        for kind in KINDS
        for size in n_entrants
        for n_prompts in (30, 100)
        for trial in try_often(kind, size, n_prompts, n=n, n_bootstraps=199)
    ]
    return [trial.came_true for trial in trials if trial.came_true is not None]


def test_what_is_planned_with_four_in_five_comes_true_in_about_four_of_five() -> None:
    """`python -m benchmarks.more_prompts` draws more of them, up to 24 entrants."""
    outcomes = came_true(n=6, n_entrants=(2, 3, 5))
    assert len(outcomes) > 60
    assert 0.7 <= np.mean(outcomes) <= 0.9


@pytest.mark.e2e
@pytest.mark.timeout(1800)
def test_of_many_plans_75_to_85_in_a_hundred_come_true() -> None:
    outcomes = came_true(n=30, n_entrants=(2, 3, 4, 6, 10))
    assert len(outcomes) > 600
    assert 0.75 <= np.mean(outcomes) <= 0.85


def test_of_equals_hardly_any_number_is_named() -> None:
    named = [
        trial.more is not None
        for n_entrants in (4, 6, 10)
        for trial in try_often("equal", n_entrants, 100, n=15, n_bootstraps=199)
    ]
    assert np.mean(named) <= 0.25


@pytest.mark.parametrize(("lead", "n_prompts"), [(60.0, 50), (30.0, 200), (0.0, 100)])
def test_of_two_entrants_the_probability_is_that_of_the_formula(
    lead: float, n_prompts: int
) -> None:
    reach = 70.0
    pair = np.array([[0.0, reach], [reach, 0.0]])
    more = find_more_prompts(
        np.array([lead, 0.0]), pair, n_prompts=n_prompts, n_first=2, confidence=0.95
    )
    assert more is None or (more.leave, round(more.chance, 1)) == (1, 0.8)
    for extra in (MOST_PROMPTS, *([more.prompts] if more else ())):
        ladders = more_prompts._Ladders(np.array([lead, 0.0]), pair, n_prompts, 0.95)
        expected = chance_of_two(lead, reach, n_prompts, extra)
        assert ladders.chance(extra, 1) == pytest.approx(expected, abs=0.03)
        assert (more is None) <= (expected < 0.83)


def chance_of_two(lead: float, reach: float, n: int, more: int) -> float:
    """Average over the spreads, each by its likelihood, in which the lead is normal."""
    quantile = two_sided_quantile(0.95, degrees_of_freedom=n - 1)
    variance, part = (reach / quantile) ** 2, more / (n + more)
    bound = two_sided_quantile(0.95, degrees_of_freedom=n + more - 1) * math.sqrt(
        variance * (1 - part)
    )
    total = chance = 0.0
    for spread, prior in zip(more_prompts._SPREADS, more_prompts._PRIOR, strict=True):
        apart = 2 * spread**2
        weight = prior * math.exp(-(lead**2) / 2 / (variance + apart)) / math.sqrt(variance + apart)
        kept = apart / (apart + variance)
        mean = (1 - part) * lead + part * kept * lead
        error = math.sqrt(part**2 * kept * variance + part * (1 - part) * variance)
        total += weight
        chance += weight * (ndtr((mean - bound) / error) + ndtr((-bound - mean) / error))
    return chance / total


def test_where_two_are_alike_far_ahead_it_says_when_only_two_are_left() -> None:
    ratings = np.array([200.0, 200.0, 165.0, 160.0, 150.0])
    reach = np.where(np.eye(5, dtype=bool), 0.0, 45.0)
    more = find_more_prompts(ratings, reach, n_prompts=400, n_first=5, confidence=0.95)
    assert more is not None
    assert more.leave == 2
    assert find_more_prompts(ratings, reach, n_prompts=400, n_first=3, confidence=0.95) is None
