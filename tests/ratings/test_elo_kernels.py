import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.ratings.elo_kernels import pack, rate_exactly, rate_few

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
