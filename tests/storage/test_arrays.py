import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.tables import decode_npz, encode_npz


def traces(*entrants: str, seed: int = 7) -> EloTraces:
    generator = np.random.default_rng(seed)
    return EloTraces(
        entrants=entrants,
        ratings=1400 + generator.normal(size=(3, len(entrants))),
        matches_per_entrant=np.arange(len(entrants), dtype=np.int64),
        k_factor=16.0,
        seed=seed,
        initial_rating=1400.0,
    )


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), max_size=5))
def test_traces_come_back_as_they_were_stored(entrants: list[str]) -> None:
    stored = traces(*entrants)
    read = decode_npz(encode_npz(stored))
    assert read.entrants == stored.entrants
    np.testing.assert_array_equal(read.ratings, stored.ratings)
    np.testing.assert_array_equal(read.matches_per_entrant, stored.matches_per_entrant)
    assert read.ratings.dtype == np.float64
    assert read.matches_per_entrant.dtype == np.int64
    assert (read.k_factor, read.seed, read.initial_rating) == (16.0, 7, 1400.0)
    assert read.n_matches == stored.n_matches


def test_equal_traces_give_equal_bytes() -> None:
    assert encode_npz(traces("ada", "bob")) == encode_npz(traces("ada", "bob"))
    assert encode_npz(traces("ada", "bob")) != encode_npz(traces("ada", "bob", seed=8))


def test_nothing_is_ever_unpickled() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, entrants=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        decode_npz(buffer.getvalue())
