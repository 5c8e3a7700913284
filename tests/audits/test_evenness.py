from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest

from tournament_assets.audits.missingness import (
    CHANCE,
    MissingCount,
    measure_evenness,
    tail_probability,
)
from tournament_assets.tournament.errors import InputError


def of_pairs(missing_pairs: list[tuple[str, str]], *, prompts: int, entrants: str) -> list[float]:
    """Measure tournaments in which everybody meets everybody on every prompt."""
    planned = prompts * (len(entrants) - 1)
    found = measure_evenness(
        [
            MissingCount(name, sum(name in pair for pair in missing_pairs), planned)
            for name in entrants
        ],
        entrants_per_unit=2,
        max_spread=0.02,
    )
    return [found.spread, found.p_value, found.is_even]


@pytest.mark.parametrize("total", [1, 7, 12])
def test_the_tail_is_the_share_of_all_draws_that_reach_it(total: int) -> None:
    for marked in range(total + 1):
        for drawn in range(total + 1):
            draws = [
                sum(unit < marked for unit in draw) for draw in combinations(range(total), drawn)
            ]
            for count in range(-1, total + 2):
                exact = Fraction(sum(held >= count for held in draws), comb(total, drawn))
                found = tail_probability(count, total=total, marked=marked, drawn=drawn)
                assert found == pytest.approx(float(exact), abs=1e-12)


def test_more_than_there_is_cannot_be_marked_or_drawn() -> None:
    with pytest.raises(InputError, match="5 marked and 1 drawn of 4"):
        tail_probability(1, total=4, marked=5, drawn=1)


def test_one_missing_of_858_is_even() -> None:
    _, _, is_even = of_pairs([("a", "b")], prompts=143, entrants="abcd")
    assert is_even


def test_one_missing_pair_of_a_tiny_tournament_may_be_chance_however_large_its_share() -> None:
    spread, p_value, is_even = of_pairs([("a", "b")], prompts=4, entrants="abc")
    assert spread == 1 / 8
    assert p_value == 1
    assert is_even


@pytest.mark.parametrize("prompts", [4, 50, 143])
def test_a_judge_that_is_dead_for_one_entrant_is_uneven(prompts: int) -> None:
    dead = [("a", other) for other in "bc" for _ in range(prompts)]
    spread, p_value, is_even = of_pairs(dead, prompts=prompts, entrants="abc")
    assert spread == 1 / 2
    # Of all ways to lose 2/3 of the pairs one takes all of a's; seen from both sides, for three.
    assert p_value == pytest.approx(6 / comb(3 * prompts, prompts))
    assert not is_even


def test_an_entrant_that_alone_is_spared_is_uneven_too() -> None:
    spared = [("b", "c")] * 40
    _, _, is_even = of_pairs(spared, prompts=40, entrants="abc")
    assert not is_even


def test_a_judge_that_is_dead_for_everybody_is_even() -> None:
    everything = [pair for pair in combinations("abc", 2) for _ in range(20)]
    assert of_pairs(everything, prompts=20, entrants="abc") == [0, 1, True]


def test_a_spread_within_bounds_is_even_even_where_chance_does_not_explain_it() -> None:
    counts = [MissingCount("a", 190, 10_000), *(MissingCount(n, 0, 10_000) for n in "bc")]
    found = measure_evenness(counts, entrants_per_unit=1, max_spread=0.02)
    assert found.p_value < 1e-6
    assert found.is_even
    assert not measure_evenness(counts, entrants_per_unit=1, max_spread=0.01).is_even


def test_without_anything_planned_nothing_is_uneven() -> None:
    counts = [MissingCount("a", 0, 0), MissingCount("b", 0, 0)]
    assert measure_evenness(counts, entrants_per_unit=2, max_spread=0).is_even
    assert measure_evenness([], entrants_per_unit=2, max_spread=0).is_even


def test_pairs_lost_at_random_are_called_uneven_at_most_as_often_as_promised() -> None:
    generator = np.random.default_rng(5)
    pairs = [pair for pair in combinations("abcd", 2) for _ in range(30)]
    false_alarms = 0
    for _ in range(400):
        lost = generator.choice(len(pairs), size=25, replace=False)
        _, _, is_even = of_pairs([pairs[i] for i in lost], prompts=30, entrants="abcd")
        false_alarms += not is_even
    # Three standard errors above the promise.
    assert false_alarms / 400 <= CHANCE + 3 * (CHANCE * (1 - CHANCE) / 400) ** 0.5
    assert false_alarms > 0


def test_the_worst_comes_first_and_equals_by_name() -> None:
    counts = [MissingCount("b", 1, 10), MissingCount("a", 1, 10), MissingCount("c", 9, 10)]
    found = measure_evenness(counts, entrants_per_unit=1, max_spread=0.02)
    assert [each.entrant_id for each in found.counts] == ["c", "a", "b"]
