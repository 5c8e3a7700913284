from statistics import NormalDist

import pytest

from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.tournament.errors import InputError


@pytest.mark.parametrize(
    ("degrees_of_freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042), (120, 1.980)],
)
def test_the_printed_table_is_met(degrees_of_freedom: int, expected: float) -> None:
    found = two_sided_quantile(0.95, degrees_of_freedom=degrees_of_freedom)
    assert found == pytest.approx(expected, abs=5e-4)


def test_one_more_of_a_thousand_degrees_of_freedom_hardly_counts() -> None:
    exact = two_sided_quantile(0.99, degrees_of_freedom=1000)
    expanded = two_sided_quantile(0.99, degrees_of_freedom=1001)
    assert exact - expanded == pytest.approx(4.9e-6, rel=0.02)


def test_many_units_are_normal() -> None:
    found = two_sided_quantile(0.9, degrees_of_freedom=10**9)
    assert found == pytest.approx(NormalDist().inv_cdf(0.95), abs=1e-8)


def test_no_degree_of_freedom_is_refused() -> None:
    with pytest.raises(InputError, match="degrees_of_freedom is 0"):
        two_sided_quantile(0.95, degrees_of_freedom=0)
