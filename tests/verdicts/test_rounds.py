from tests.tournament.test_config import load
from tournament_assets.verdicts.rounds import (
    follow_rounds,
    goal_of_rounds,
    outcome_of,
    rounds_config,
)


def test_a_mode_that_says_nothing_of_rounds_asks_about_everything_at_once() -> None:
    for mode in load().modes.values():
        assert rounds_config(mode) is None
        assert goal_of_rounds(mode) is None
        assert follow_rounds(mode) is None
    assert outcome_of(None) is None
