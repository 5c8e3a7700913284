from tournament_assets.ratings.elo import (
    ABOVE,
    APART,
    BELOW,
    DIVIDED,
    LOST_ALL,
    NO_MATCH,
    NOT_BOTH,
    SMALLER,
    WON_ALL,
    elo_standing,
)
from tournament_assets.ratings.matches import code_judgments

from .builders import ENTRANTS, tie, wins

NAMES = (*ENTRANTS, "eve", "fay")


def notes_of(table: dict[tuple[str, str], int]) -> dict[str, str | None]:
    matches = code_judgments(wins(table), entrants=NAMES)
    return dict(zip(NAMES, elo_standing(matches).notes, strict=True))


def test_ordinary_ratings_need_no_note() -> None:
    notes = notes_of({("ada", "bob"): 1, ("bob", "cyd"): 1, ("cyd", "ada"): 1})
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [None] * 3
    assert notes["dee"] == NO_MATCH


def test_winning_or_losing_everything_is_said() -> None:
    chain = {("ada", "bob"): 3, ("bob", "cyd"): 2}
    notes = notes_of(chain)
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [WON_ALL, NOT_BOTH, LOST_ALL]
    circle = {("dee", "bob"): 1, ("cyd", "dee"): 1}
    notes = notes_of(chain | circle)
    assert [notes[name] for name in ENTRANTS] == [WON_ALL, None, None, None]


def test_whoever_stands_above_or_below_the_rated_through_others_is_said() -> None:
    rated = {("ada", "bob"): 1, ("bob", "ada"): 1, ("ada", "cyd"): 2, ("cyd", "dee"): 1}
    notes = notes_of(rated | {("eve", "ada"): 1, ("fay", "eve"): 1})
    assert [notes[name] for name in NAMES] == [None, None, BELOW, LOST_ALL, ABOVE, WON_ALL]


def test_a_group_of_which_another_is_as_large_has_no_rating_and_says_why() -> None:
    mutual = {("ada", "bob"): 1, ("bob", "ada"): 1, ("cyd", "dee"): 1, ("dee", "cyd"): 1}
    notes = notes_of(mutual | {("ada", "eve"): 1, ("eve", "cyd"): 1})
    assert [notes[name] for name in NAMES] == [*[SMALLER] * 4, NOT_BOTH, NO_MATCH]


def test_places_follow_the_chains_of_wins() -> None:
    table = {("ada", "bob"): 3, ("bob", "cyd"): 2, ("dee", "cyd"): 1, ("eve", "fay"): 1}
    matches = code_judgments(wins(table), entrants=NAMES)
    standing = elo_standing(matches)
    assert standing.n_above.tolist() == [0, 1, 3, 0, 0, 1]
    assert standing.is_placed.tolist() == [True] * 4 + [False] * 2


def test_a_small_group_apart_is_said() -> None:
    chain = {("ada", "bob"): 1, ("bob", "ada"): 1, ("bob", "cyd"): 1, ("cyd", "bob"): 1}
    notes = notes_of(chain | {("dee", "eve"): 9, ("eve", "dee"): 9})
    assert [notes[name] for name in NAMES] == [None, None, None, APART, APART, NO_MATCH]


def test_groups_of_one_size_are_compared_with_nobody() -> None:
    notes = notes_of({("ada", "bob"): 1, ("cyd", "dee"): 1})
    assert [notes[name] for name in NAMES] == [DIVIDED] * 4 + [NO_MATCH] * 2


def test_ties_connect_nobody() -> None:
    matches = code_judgments([tie("ada", "bob")], entrants=("ada", "bob"))
    assert elo_standing(matches).notes == (NO_MATCH, NO_MATCH)
    assert elo_standing(code_judgments([], entrants=())).notes == ()
