"""What is known and stated of entrants: who, what is claimed, and the numbers it rests on."""

from dataclasses import replace
from typing import Any

import pytest

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.claims import Statements, against_ratings, open_pairs
from tournament_assets.reports.figures.ladder import draw_ladder
from tournament_assets.reports.leaderboard import leaderboard_cells, leaderboard_latex
from tournament_assets.reports.statements import (
    Better,
    Careful,
    Equivalent,
    Fragile,
    Missing,
    Statement,
    Undecided,
    answer,
    claim_counts,
    verdict,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

from .builders import leader_row, pair_row

WON = "won every match: no upper bound"
LOST = "lost every match: no lower bound"
APART = "no chain of matches connects it"

ROWS = [
    leader_row("ada", 1450.0, rank=1, places=(1, 2), above=["cy"]),
    leader_row("bob", 1440.0, rank=2, places=(1, 2), above=["cy"]),
    leader_row("cy", 1300.0, rank=3, places=(3, 3)),
]
AB = pair_row(
    *("ada", "bob"),
    wins_a=26,
    wins_b=20,
    ties=6,
    inconsistent=4,
    same_text=57,
    unjudged=2,
    claim="undecided",
    difference=(10.0, -30.0, 50.0),
)
AC = pair_row(
    "ada", "cy", wins_a=6, wins_b=3, ties=1, claim="a_better", difference=(150.0, 90.0, 210.0)
)
BC = pair_row(
    "bob", "cy", wins_a=6, wins_b=3, ties=1, claim="a_better", difference=(140.0, 80.0, 200.0)
)
PAIRS = [AB, AC, BC]


def board(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> Statements:
    """Return all that is known."""
    return Statements.of(rows, pairs, dimension="factuality")


def short(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> tuple[Statement, ...]:
    """Return the answer."""
    return answer(board(rows, pairs), equivalent_within=20.0)


def full(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> tuple[Statement, ...]:
    """Return the verdict."""
    return verdict(board(rows, pairs), equivalent_within=20.0)


def stated(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> tuple[Statement, ...]:
    """Return the answer, and what the first place rests on."""
    return full(rows, pairs)


def only(form: type[Any], statements: tuple[Statement, ...], **fields: object) -> Any:
    """Return the one statement of a form that has some fields."""
    (statement,) = (
        statement
        for statement in statements
        if isinstance(statement, form)
        and all(getattr(statement, name) == value for name, value in fields.items())
    )
    return statement


def test_what_is_undecided_has_its_difference() -> None:
    statements = stated(ROWS, PAIRS)
    top = only(Undecided, statements)
    assert (top.names, top.is_everybody) == (("ada", "bob"), False)
    assert top.pair.difference.value == 10.0
    assert (top.beaten, top.also) == (("cy",), ())
    assert (top.pair.record.wins, top.pair.record.losses, top.pair.record.settled) == (26, 20, 113)


def test_whoever_is_better_than_everyone_is_best_and_its_prompts_are_told() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 1), above=["bob", "cy"], lead_rests_on=["p7", "p9"]),
        leader_row("bob", 1440.0, rank=2, places=(2, 2), above=["cy"]),
        ROWS[2],
    ]
    pair = pair_row(
        "ada", "bob", wins_a=8, wins_b=2, claim="a_better", difference=(10.0, 2.0, 20.0)
    )
    statements = stated(rows, [pair, AC, BC])
    best = only(Better, statements)
    assert (best.names, best.beaten, best.pair.lower) == (("ada",), ("bob", "cy"), "bob")
    assert only(Fragile, statements).prompts == ("p7", "p9")
    assert board(rows, [pair, AC, BC]).best_rests_on == ("p7", "p9")


def test_a_first_place_that_is_not_established_rests_on_nothing() -> None:
    rows = [replace(ROWS[0], lead_rests_on=("p7",), lead_rests_on_at_least=1), *ROWS[1:]]
    assert not any(isinstance(each, Fragile) for each in full(rows, PAIRS))
    assert board(rows, PAIRS).best_rests_on == ()


def test_equivalent_is_stated_with_the_margin_of_all_that_may_be_first() -> None:
    pair = pair_row(
        "ada", "bob", wins_a=50, wins_b=50, claim="equivalent", difference=(1.0, -9.0, 11.0)
    )
    rows = [
        leader_row("ada", 1401.0, places=(1, 2)),
        leader_row("bob", 1400.0, rank=2, places=(1, 2)),
    ]
    statements = stated(rows, [pair])
    level = only(Equivalent, statements)
    assert (level.names, level.margin) == (("ada", "bob"), 20.0)


def test_where_all_settled_pairs_are_of_one_text_nobody_is_first() -> None:
    rows = [leader_row(name, 1400.0, places=(1, 2)) for name in ("ada", "bob")]
    same = pair_row("ada", "bob", same_text=4, unjudged=3, claim="undecided")
    assert {x.n_pairs for x in stated(rows, [same]) if isinstance(x, Missing)} == {4}


def test_whoever_won_everything_is_first_by_no_number_of_points() -> None:
    rows = [
        leader_row("ada", None, places=(1, 1), above=["bob"], note=WON),
        leader_row("bob", 1420.0, rank=2, places=(2, 2)),
        leader_row("eve", None, rank=None, note=APART, n=0),
    ]
    pair = pair_row("ada", "bob", wins_a=4, claim="a_better", difference=(None, 5.0, None))
    statements = full(rows, [pair])
    assert only(Better, statements).pair.difference.value is None
    assert only(Missing, statements, note=WON).names == ("ada",)
    assert only(Missing, statements, note=APART).names == ("eve",)
    cells = {row[1]: row for row in leaderboard_cells(rows).rows}
    assert cells["ada"][:4] == ("1", "ada", "not rated", "–")
    assert cells["eve"][0] == "–"
    drawn = {text.get_text() for text in draw_ladder(rows, "factuality").axes[0].texts}
    assert {WON.split(":")[0], APART} <= drawn
    assert "1400" not in leaderboard_latex({"factuality": rows})


def circle() -> tuple[list[LeaderboardRow], list[WinRateRow]]:
    """Return three entrants whose decisions go in a circle."""
    rows = [
        leader_row(name, 1400.0, rank=2, places=(2, 2), above=[below])
        for name, below in (("ada", "bob"), ("bob", "cy"), ("cy", "ada"))
    ]
    pairs = [
        pair_row("ada", "bob", wins_a=3, claim="a_better", difference=(0.0, None, None)),
        pair_row("bob", "cy", wins_a=3, claim="a_better", difference=(0.0, None, None)),
        pair_row("ada", "cy", wins_b=3, claim="b_better", difference=(0.0, None, None)),
    ]
    return rows, pairs


def test_nobody_in_a_circle_is_first() -> None:
    steps = (("ada", "bob"), ("bob", "cy"), ("cy", "ada"))
    nobody = Careful(dimension="factuality", why="circle", pairs=steps)
    assert short(*circle()) == full(*circle()) == (nobody,)
    assert claim_counts(board(*circle())) == {"better": 3}


def test_whoever_may_be_first_beside_a_circle_need_not_be() -> None:
    rows, pairs = circle()
    rows.insert(0, leader_row("dee", 1390.0, places=(1, 4)))
    statements = stated(rows, pairs)
    top = only(Undecided, statements)
    assert (top.names, top.beaten, top.also) == ((), (), ())


def test_whom_a_beaten_one_beats_is_not_beaten_by_the_first() -> None:
    rows = [
        leader_row("ada", 1450.0, rank=1, places=(1, 2), above=["bob"]),
        leader_row("bob", 1400.0, rank=2, places=(2, 2), above=["cy"]),
        leader_row("cy", 1350.0, rank=3, places=(2, 3)),
    ]
    pairs = [
        pair_row("ada", "bob", wins_a=9, claim="a_better", difference=(50.0, 1.0, 90.0)),
        pair_row(
            "ada", "cy", wins_a=5, wins_b=4, claim="undecided", difference=(99.0, -1.0, 190.0)
        ),
        pair_row("bob", "cy", wins_a=9, claim="a_better", difference=(50.0, 1.0, 90.0)),
    ]
    known = board(rows, pairs)
    assert (known.best, known.top) == ((), ())
    top = only(Undecided, short(rows, pairs))
    assert (top.first, top.also) == ("ada", ("bob",))


def test_a_decision_for_the_lower_rated_is_stated_beside_every_claim() -> None:
    rows = [
        leader_row("ada", 1390.0, places=(1, 1), above=["bob", "cy"]),
        leader_row("bob", 1410.0, rank=2, places=(2, 3)),
        leader_row("cy", 1380.0, rank=3, places=(2, 3)),
    ]
    pairs = [
        pair_row("ada", "bob", wins_a=4, claim="a_better", difference=(-20.0, None, None)),
        pair_row("ada", "cy", wins_a=4, claim="a_better", difference=(10.0, None, None)),
        pair_row("bob", "cy", wins_a=4, claim="undecided", difference=(30.0, None, None)),
    ]
    assert against_ratings(rows) == [("ada", "bob")]
    for statements in (short(rows, pairs), full(rows, pairs)):
        assert only(Careful, statements).pairs == (("ada", "bob"),)


def test_where_judging_stopped_early_a_difference_has_no_interval() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 1), above=["bob"]),
        leader_row("bob", 1400.0, rank=2, places=(2, 2)),
    ]
    stopped = [replace(row, stops="all") for row in rows]
    pair = pair_row("ada", "bob", wins_a=4, claim="a_better", difference=(50.0, None, None))
    pair_of_two = board(stopped, [pair]).pairs["ada", "bob"]
    assert pair_of_two.difference_with_interval == "+50.0"


def test_copies_are_not_compared_and_share_the_first_place() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 2), above=["cy"], same_answers_as=["bob"]),
        leader_row("bob", 1450.0, places=(1, 2), above=["cy"], same_answers_as=["ada"]),
        ROWS[2],
    ]
    same = pair_row("ada", "bob", same_text=9, claim="undecided", difference=(0.0, 0.0, 0.0))
    assert only(Careful, full(rows, [same, AC, BC])).names == ("ada", "bob")
    best = only(Better, short(rows, [same, AC, BC]))
    assert (best.names, best.beaten) == (("ada", "bob"), ("cy",))
    alone = [replace(row, shown_above=()) for row in rows[:2]]
    assert only(Missing, short(alone, [same])).what == "difference"


def test_without_a_judged_pair_nothing_is_stated_but_that() -> None:
    rows = [leader_row(name, None, rank=None, win_rate=None, n=0) for name in ("ada", "bob")]
    assert full(rows, []) == (Missing(dimension="factuality", what="pair"),)
    judged = [leader_row(name, None, rank=None, note=APART) for name in ("ada", "bob")]
    assert full(judged, [pair_row("ada", "bob", wins_a=1)]) == (
        Missing(dimension="factuality", what="rank"),
        Missing(dimension="factuality", what="rating", names=("ada", "bob"), note=APART),
    )


def test_pairs_come_closest_first_with_their_record_seen_from_the_upper() -> None:
    turned = pair_row(
        "bob", "ada", wins_a=1, wins_b=6, claim="undecided", difference=(-10.0, -50.0, 30.0)
    )
    (pair,) = open_pairs(board(ROWS, [turned, AC, BC]))
    assert (pair.upper, pair.lower, pair.claim) == ("ada", "bob", "undecided")
    assert (pair.record.wins, pair.record.losses) == (6, 1)
    assert pair.difference_with_interval == "+10.0 (-30 to 50)"


def test_rows_of_other_dimensions_are_ignored() -> None:
    elsewhere = pair_row("ada", "bob", wins_b=9, dimension="tone", claim="b_better")
    assert stated(ROWS, [*PAIRS, elsewhere]) == stated(ROWS, PAIRS)


@pytest.mark.parametrize(
    ("rows", "counts"),
    [(ROWS[:1], {}), (ROWS[:2], {"undecided": 1}), (ROWS, {"better": 2, "undecided": 1})],
)
def test_claims_are_counted(rows: list[LeaderboardRow], counts: dict[str, int]) -> None:
    assert claim_counts(board(rows, PAIRS)) == counts


def test_elo_points_are_an_expected_share() -> None:
    pair = replace(board(ROWS, [AB]).pairs["ada", "bob"], difference=Estimate(0.0, -400.0, 400.0))
    share = pair.expected
    assert (share.value, share.low, share.high) == pytest.approx((0.5, 1 / 11, 10 / 11))
