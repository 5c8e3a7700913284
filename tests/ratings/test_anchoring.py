import math

import pytest

from tournament_assets.ratings.rating_tables import anchor_shift
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
