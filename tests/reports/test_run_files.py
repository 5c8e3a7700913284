import re

import pytest

from tournament_assets.tournament.entrant_spec import IDENTIFIER_PATTERN


@pytest.mark.parametrize(
    "sign", ["=HYPERLINK(0)", "+1", "-1", "@a", "\ta", "\ra", " =a", "\ufeffa"]
)
def test_no_name_in_the_csv_can_be_taken_for_a_formula(sign: str) -> None:
    """`pairwise_winrates.csv` holds names and counts only, and names are refused by this."""
    assert re.search(IDENTIFIER_PATTERN, "a=1") is None
    assert re.search(IDENTIFIER_PATTERN, sign) is None
