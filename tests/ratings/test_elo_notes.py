from tournament_assets.ratings.elo_notes import (
    APART,
    DIVIDED,
    LOST_ALL,
    NO_MATCH,
    WON_ALL,
    elo_notes,
)
from tournament_assets.ratings.matches import code_decisive

from .builders import ENTRANTS, tie, wins

NAMES = (*ENTRANTS, "eve", "fay")


def notes_of(table: dict[tuple[str, str], int]) -> dict[str, str | None]:
    matches = code_decisive(wins(table), entrants=NAMES)
    return dict(zip(NAMES, elo_notes(matches), strict=True))


def test_ordinary_ratings_need_no_note() -> None:
    notes = notes_of({("ada", "bob"): 1, ("bob", "cyd"): 1, ("cyd", "ada"): 1})
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [None] * 3
    assert notes["dee"] == NO_MATCH


def test_winning_or_losing_everything_is_said() -> None:
    notes = notes_of({("ada", "bob"): 3, ("bob", "cyd"): 2})
    assert [notes[name] for name in ("ada", "bob", "cyd")] == [WON_ALL, None, LOST_ALL]


def test_a_small_group_apart_is_said() -> None:
    chain = {("ada", "bob"): 1, ("bob", "ada"): 1, ("bob", "cyd"): 1, ("cyd", "bob"): 1}
    notes = notes_of(chain | {("dee", "eve"): 9, ("eve", "dee"): 9})
    assert [notes[name] for name in NAMES] == [None, None, None, APART, APART, NO_MATCH]


def test_groups_of_one_size_are_compared_with_nobody() -> None:
    notes = notes_of({("ada", "bob"): 1, ("cyd", "dee"): 1})
    assert [notes[name] for name in NAMES] == [DIVIDED] * 4 + [NO_MATCH] * 2


def test_ties_connect_nobody() -> None:
    matches = code_decisive([tie("ada", "bob")], entrants=("ada", "bob"))
    assert elo_notes(matches) == (NO_MATCH, NO_MATCH)
    assert elo_notes(code_decisive([], entrants=())) == ()
