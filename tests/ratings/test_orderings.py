import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.ratings import elo_kernels as orderings
from tournament_assets.ratings.elo_kernels import Orderings


def fill(items: np.ndarray, *, seed: int, counts: list[int]) -> np.ndarray:
    drawn = Orderings(items, seed=seed)
    parts = []
    for count in counts:
        rows = np.full((count, items.size), -1)
        drawn.fill(rows)
        parts.append(rows)
    return np.concatenate(parts)


@settings(deadline=None)
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
    monkeypatch.setattr(orderings, "_WORDS_PER_SWAP", 0.1)
    generator = np.random.default_rng(3)
    for row in fill(np.arange(500), seed=3, counts=[2, 3]):
        np.testing.assert_array_equal(row, generator.permutation(500))


def test_another_shuffle_in_numpy_is_noticed_and_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderings, "_shuffles_as_numpy", lambda: False)
    generator = np.random.default_rng(8)
    for row in fill(np.arange(20), seed=8, counts=[3, 1]):
        np.testing.assert_array_equal(row, generator.permutation(20))


def test_the_kernel_agrees_with_the_numpy_that_is_installed() -> None:
    # Otherwise all of the above compares numpy with itself.
    assert orderings._shuffles_as_numpy()
