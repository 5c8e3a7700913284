import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.ratings import elo_kernels
from tournament_assets.ratings.elo_kernels import Orderings, pack, rate_exactly, rate_few

from .builders import elo_of_order

pairs_of_five = st.lists(
    st.permutations(range(5)).map(lambda order: (order[0], order[1])), max_size=150
)


def packed(pairs: list[tuple[int, int]]) -> np.ndarray:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return pack(columns[:, 0], columns[:, 1], np.zeros(len(pairs), dtype=np.int64))


WON = np.ones(1)


@given(pairs_of_five, st.integers(1, 3))
def test_exact_lanes_are_the_textbook_bit_for_bit(
    pairs: list[tuple[int, int]], n_lanes: int
) -> None:
    generator = np.random.default_rng(0)
    orderings = [[pairs[i] for i in generator.permutation(len(pairs))] for _ in range(n_lanes)]
    rows = np.stack([packed(ordering) for ordering in orderings])
    ratings = rate_exactly(rows, WON, np.array([16.0, 3.0]), 5, 1200.0, 10.0)
    few = rate_few(rows, WON, np.array([16.0, 3.0]), 5, 1200.0, 10.0)
    np.testing.assert_array_equal(few, ratings)
    for index, k_factor in enumerate((16.0, 3.0)):
        for lane, ordering in enumerate(orderings):
            expected = elo_of_order(
                ordering, n_entrants=5, k_factor=k_factor, initial_rating=1200.0
            )
            assert ratings[index, lane].tolist() == expected


def test_few_lanes_bear_a_gap_beyond_all_powers() -> None:
    rows, k_factors = packed([(0, 1), (1, 0)])[None], np.array([1e6])
    few = rate_few(rows, WON, k_factors, 2, 1400.0, 10.0)
    np.testing.assert_array_equal(few, rate_exactly(rows, WON, k_factors, 2, 1400.0, 10.0))


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
