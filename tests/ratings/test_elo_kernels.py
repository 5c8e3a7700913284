import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.ratings import elo_kernels
from tournament_assets.ratings.elo_kernels import (
    Orderings,
    pack,
    rate_exactly,
    rate_rotations,
)

from .builders import elo_of_order

pairs_of_five = st.lists(
    st.permutations(range(5)).map(lambda order: (order[0], order[1])), max_size=150
)


def packed(pairs: list[tuple[int, int]]) -> np.ndarray:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pack(columns[:, 0], columns[:, 1])


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
def test_an_update_of_a_rotation_is_the_textbooks_across_any_gap(first: tuple[int, int]) -> None:
    # The first match opens a gap of K, 1,021 doublings at most, and the second is fought across it.
    for k_factor in np.geomspace(1e-6, 123_000.0, 400).tolist():
        expected = np.mean(
            [
                elo_of_order(order, n_entrants=2, k_factor=k_factor, initial_rating=0.0)
                for order in ([first, (0, 1)], [(0, 1), first])
            ],
            axis=0,
        )
        ratings = rate_rotations(packed([first, (0, 1)]), k_factor, 1, 2, 0.0)
        np.testing.assert_allclose(ratings, expected, rtol=0, atol=1e-13 * k_factor)


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


def fill(items: np.ndarray, *, seed: int, counts: list[int]) -> np.ndarray:
    drawn = Orderings(items, seed=seed)
    parts = []
    for count in counts:
        rows = np.full((count, items.size), -1)
        drawn.fill(rows)
        parts.append(rows)
    return np.concatenate(parts)


@given(
    st.integers(0, 70),
    st.integers(0, 2**32),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_they_are_those_of_numpy_however_many_are_drawn_at_once(
    n_items: int, seed: int, counts: list[int]
) -> None:
    items = np.random.default_rng(1).integers(1000, size=n_items)
    generator = np.random.default_rng(seed)
    rows = fill(items, seed=seed, counts=counts)
    assert rows.shape == (sum(counts), n_items)
    for row in rows:
        np.testing.assert_array_equal(row, items[generator.permutation(n_items)])


# Where a power of two begins, and where the most random words are rejected.
@pytest.mark.parametrize("n_items", [255, 256, 257, 258, 22_300, 60_900])
def test_long_ones_are_those_of_numpy_too(n_items: int) -> None:
    generator = np.random.default_rng(3)
    for row in fill(np.arange(n_items), seed=3, counts=[2, 3]):
        np.testing.assert_array_equal(row, generator.permutation(n_items))


def test_too_few_random_words_are_supplemented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_kernels, "_WORDS_PER_SWAP", 0.1)
    generator = np.random.default_rng(3)
    for row in fill(np.arange(500), seed=3, counts=[2, 3]):
        np.testing.assert_array_equal(row, generator.permutation(500))


def test_another_shuffle_in_numpy_is_noticed_and_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_kernels, "_shuffles_as_numpy", lambda: False)
    generator = np.random.default_rng(8)
    for row in fill(np.arange(20), seed=8, counts=[3, 1]):
        np.testing.assert_array_equal(row, generator.permutation(20))


def test_the_kernel_agrees_with_the_numpy_that_is_installed() -> None:
    # Otherwise all of the above compares numpy with itself.
    assert elo_kernels._shuffles_as_numpy()
