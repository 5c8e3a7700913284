import math

import numpy as np
import pytest

from tournament_assets.ratings.rating_tables import (
    anchor_samples,
    anchor_shift,
    elo_from_strength,
    expected_share,
)
from tournament_assets.tournament.errors import InputError

NAMES = ("ada", "bob", "cyd")


def test_the_named_model_gets_the_named_rating() -> None:
    ratings = [1380.0, 1420.0, None]
    shift = anchor_shift(NAMES, ratings, model="bob", rating=1114.0)
    assert [rating + shift for rating in ratings if rating is not None] == [1074.0, 1114.0]


def test_an_unknown_model_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(
        InputError, match="the anchor is 'zoe'; expected one of 'ada', 'bob', 'cyd'"
    ):
        anchor_shift(NAMES, [1.0, 2.0, 3.0], model="zoe", rating=1000.0)


def test_a_model_without_a_rating_and_a_rating_without_a_value_are_refused_together() -> None:
    with pytest.raises(InputError) as raised:
        anchor_shift(NAMES, [1.0, 2.0, None], model="cyd", rating=math.nan)
    assert len(raised.value.problems) == 2


def test_ten_to_one_is_400_points() -> None:
    assert elo_from_strength(math.log(10)) == pytest.approx(400)
    assert expected_share(400) == pytest.approx(10 / 11)
    assert expected_share(0) == 0.5


def test_an_anchored_resample_has_the_anchor_in_place_and_keeps_differences() -> None:
    samples = np.array([[1390.0, 1410.0], [1380.0, np.inf], [np.nan, 1400.0]])
    moved = anchor_samples(samples, column=0, rating=1000.0)
    np.testing.assert_array_equal(moved[:2], [[1000.0, 1020.0], [1000.0, np.inf]])
    assert np.isnan(moved[2]).all()
    with pytest.raises(InputError, match="the anchor is column 2"):
        anchor_samples(samples, column=2, rating=1000.0)
