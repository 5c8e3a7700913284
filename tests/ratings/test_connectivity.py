import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tournament_assets.ratings.bradley_terry import are_strongly_connected, find_standing


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


@settings(deadline=None)
@given(tables)
def test_connection_agrees_with_walking_the_graph(many: NDArray[np.float64]) -> None:
    everyone = set(range(many.shape[1]))
    expected = [all(chain == everyone for chain in chains_slowly(wins)) for wins in many]
    assert are_strongly_connected(many).tolist() == expected


@given(tables)
def test_the_rated_can_all_reach_each_other_and_nobody_else(many: NDArray[np.float64]) -> None:
    for wins in many:
        standing, chains = find_standing(wins), chains_slowly(wins)
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
