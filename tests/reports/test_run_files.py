import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.reports.run import run_files
from tournament_assets.tournament.entrant_settings import IDENTIFIER_PATTERN

from .builders import elo_table


@pytest.mark.parametrize(
    "sign", ["=HYPERLINK(0)", "+1", "-1", "@a", "\ta", "\ra", " =a", "\ufeffa"]
)
def test_no_name_in_the_csv_can_be_taken_for_a_formula(sign: str) -> None:
    """`pairwise_winrates.csv` holds names and counts only, and names are refused by this."""
    assert re.search(IDENTIFIER_PATTERN, "a=1") is None
    assert re.search(IDENTIFIER_PATTERN, sign) is None


def test_orderings_of_whoever_has_no_rating_are_missing_in_the_arrays() -> None:
    traces = EloTraces(("ada", "bob"), np.full((3, 2), 1400.0), np.array([4, 4]), 16.0, 0, 1400.0)
    table = elo_table({"ada": 1450.0, "bob": 1350.0})
    table.loc[table["entrant_id"] == "ada", "mean"] = np.nan
    tables: Any = SimpleNamespace(elo_traces={"tone": traces}, elo_ratings={"tone": table})
    with np.load(io.BytesIO(run_files._elo_per_perm(tables))) as arrays:
        assert np.isnan(arrays["tone__data"][:, 0]).all()
        assert (arrays["tone__data"][:, 1] == 1400.0).all()
