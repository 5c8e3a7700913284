import json

import pytest

from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.errors import InputError

SETTINGS = RatingSettings(
    arena="demo/pilot",
    entrants=("bob", "ada"),
    dimensions=("factuality",),
    initial_rating=1500.0,
    k_factor=32.0,
    k_sweep=(1.0, 32.0),
    n_permutations=7,
    shuffle_seed=1,
    n_bootstraps=9,
    bootstrap_seed=2,
    confidence=0.9,
)


def test_settings_come_back_from_json_and_unknown_keys_are_passed_over() -> None:
    values = json.loads(json.dumps(SETTINGS.to_dict()))
    assert RatingSettings.from_dict({**values, "of_next_year": True}) == SETTINGS
    assert RatingSettings.from_dict({}) == RatingSettings()


def test_whole_numbers_of_points_are_read_as_points() -> None:
    settings = RatingSettings.from_dict({"k_factor": 16, "k_sweep": [1, 2]})
    assert settings == RatingSettings(k_factor=16.0, k_sweep=(1.0, 2.0))
    assert type(settings.k_factor) is float


def test_everything_that_is_wrong_is_named() -> None:
    wrong = {
        "arena": 1,
        "entrants": ["ada", "ada"],
        "dimensions": "factuality",
        "initial_rating": float("nan"),
        "k_factor": 0,
        "k_sweep": [-1],
        "n_permutations": 0,
        "shuffle_seed": -1,
        "n_bootstraps": 1.5,
        "bootstrap_seed": True,
        "confidence": 1,
    }
    with pytest.raises(InputError) as caught:
        RatingSettings.from_dict(wrong)
    named = [problem.split(" ")[3] for problem in caught.value.problems]
    assert sorted(named) == sorted(wrong)
