import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.ratings.elo_kernels import (
    LANES,
    pack,
    rate_exactly,
    rate_fast,
    rate_rotations,
)

from .builders import elo_of_order

pairs_of_five = st.lists(
    st.permutations(range(5)).map(lambda order: (order[0], order[1])), max_size=150
)


def packed(pairs: list[tuple[int, int]]) -> np.ndarray:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pack(columns[:, 0], columns[:, 1])


@settings(deadline=None)
@given(pairs_of_five, st.integers(1, 3))
def test_exact_lanes_are_the_textbook_bit_for_bit(
    pairs: list[tuple[int, int]], n_lanes: int
) -> None:
    generator = np.random.default_rng(0)
    orderings = [[pairs[i] for i in generator.permutation(len(pairs))] for _ in range(n_lanes)]
    rows = np.stack([packed(ordering) for ordering in orderings])
    ratings = rate_exactly(rows, np.array([16.0, 3.0]), 5, 1200.0, 10.0)
    for index, k_factor in enumerate((16.0, 3.0)):
        for lane, ordering in enumerate(orderings):
            expected = elo_of_order(
                ordering, n_entrants=5, k_factor=k_factor, initial_rating=1200.0
            )
            assert ratings[index, lane].tolist() == expected


@pytest.mark.parametrize("first", [(0, 1), (1, 0)])
def test_a_fast_update_is_the_textbooks_across_any_gap(first: tuple[int, int]) -> None:
    # The first match opens a gap of K, and the second one is fought across it.
    k_factors = np.geomspace(1e-6, 40_000.0, 400)
    orderings = np.tile(packed([first, (0, 1)]), (LANES, 1))
    ratings = rate_fast(orderings, k_factors, 2, 0.0)
    for k_factor, found in zip(k_factors.tolist(), ratings, strict=True):
        expected = elo_of_order(
            [first, (0, 1)], n_entrants=2, k_factor=k_factor, initial_rating=0.0
        )
        np.testing.assert_allclose(found, [expected] * LANES, rtol=0, atol=1e-15 * k_factor)


@settings(deadline=None)
@given(pairs_of_five, st.integers(1, 20))
def test_rotations_are_averaged_with_their_reverses(
    pairs: list[tuple[int, int]], n_rotations: int
) -> None:
    starts = [rotation * len(pairs) // n_rotations for rotation in range(n_rotations)]
    rotated = [pairs[start:] + pairs[:start] for start in starts]
    expected = np.mean(
        [
            elo_of_order(order, n_entrants=5, k_factor=24.0, initial_rating=1000.0)
            for order in rotated + [order[::-1] for order in rotated]
        ],
        axis=0,
    )
    ratings = rate_rotations(packed(pairs), 24.0, n_rotations, 5, 1000.0)
    np.testing.assert_allclose(ratings, expected, rtol=1e-13)
