"""What is said of entrants: who, what is claimed, and the numbers it rests on."""

import re
from dataclasses import replace

import pytest

from tournament_assets.reports.claims import (
    STOPS_EARLY,
    Statements,
    against_ratings,
    answer_sentence,
    expected_share,
    open_pairs,
    pairs_sentence,
    verdict_sentence,
)
from tournament_assets.reports.figures.ladder import draw_ladder
from tournament_assets.reports.leaderboard import leaderboard_cells, leaderboard_latex
from tournament_assets.tournament.asset_rows import LeaderboardRow, WinRateRow

from .builders import leader_row, pair_row
from .checker import Facts, prove

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
    more_prompts=1400,
)
AC = pair_row(
    "ada", "cy", wins_a=6, wins_b=3, ties=1, claim="a_better", difference=(150.0, 90.0, 210.0)
)
BC = pair_row(
    "bob", "cy", wins_a=6, wins_b=3, ties=1, claim="a_better", difference=(140.0, 80.0, 200.0)
)
PAIRS = [AB, AC, BC]


def answer(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> str:
    """Return a proven answer."""
    said = answer_sentence(rows, pairs, dimension="factuality")
    prove(said, Facts(rows, pairs, "factuality"))
    return said


def verdict(rows: list[LeaderboardRow], pairs: list[WinRateRow]) -> str:
    """Return a proven verdict."""
    said = verdict_sentence(rows, pairs, dimension="factuality")
    prove(said, Facts(rows, pairs, "factuality"))
    return said


def test_what_is_undecided_has_its_expected_share_and_the_prompts_that_would_decide() -> None:
    said = answer(ROWS, PAIRS)
    assert re.findall(r"undecided between (\w+) and (\w+)", said) == [("ada", "bob")]
    assert re.findall(r"[\d,–]+ %", said) == ["51 %", "46–57 %"]
    assert re.findall(r"([\d,]+) more prompts", said) == ["1,400"]
    assert re.findall(r"both beat (\w+)", said) == ["cy"]


def test_whoever_is_better_than_everyone_is_best_with_the_share_against_the_next() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 1), above=["bob", "cy"]),
        leader_row("bob", 1440.0, rank=2, places=(2, 2), above=["cy"]),
        ROWS[2],
    ]
    pair = pair_row(
        "ada", "bob", wins_a=8, wins_b=2, claim="a_better", difference=(10.0, 2.0, 20.0)
    )
    said = answer(rows, [pair, AC, BC])
    assert re.findall(r"^(\w+) is best on factuality: it beats (\w+) and (\w+)", said) == [
        ("ada", "bob", "cy")
    ]
    assert "(80 % of 10 settled pairs against bob, the next)" in said


def test_equivalent_is_said_only_of_differences_within_the_margin() -> None:
    pair = pair_row(
        "ada", "bob", wins_a=50, wins_b=50, claim="equivalent", difference=(1.0, -9.0, 11.0)
    )
    rows = [
        leader_row("ada", 1401.0, places=(1, 2)),
        leader_row("bob", 1400.0, rank=2, places=(1, 2)),
    ]
    assert re.findall(r"(\w+) and (\w+) are equivalent", answer(rows, [pair])) == [("ada", "bob")]
    assert re.findall(r"equivalent to (\w+)", verdict(rows, [pair])) == ["bob"]
    assert not re.search("level|equal ", answer(rows, [pair]))


def test_the_verdict_has_the_gap_the_record_and_each_claim() -> None:
    said = verdict(ROWS, PAIRS)
    first = said.split(" against ")[0]
    assert re.findall(r"[\d.]+", first) == ["10", "52.7", "26", "20", "6", "4", "57", "113"]
    assert re.findall(r"It is better than ([\w ,]+) \(", said) == ["cy"]
    assert re.findall(r"Undecided: whether it is better than (\w+)\.", said) == ["bob"]
    assert "between it and bob" in said
    assert "90 % intervals" in verdict_sentence(ROWS, PAIRS, dimension="factuality", confidence=0.9)


def test_equal_ratings_share_the_first_rank() -> None:
    rows = [leader_row(name, 1400.0, places=(1, 2)) for name in ("ada", "bob")]
    pair = pair_row("ada", "bob", wins_a=2, wins_b=2, claim="undecided", difference=(0.0, -9, 9))
    said = verdict(rows, [pair])
    assert re.findall(r"(\w+) and (\w+) share the first rank", said) == [("ada", "bob")]
    assert "Elo point" not in said


def test_texts_that_are_the_same_and_no_judged_pair_make_nobody_first() -> None:
    rows = [leader_row(name, 1400.0, places=(1, 2)) for name in ("ada", "bob")]
    pair = pair_row("ada", "bob", same_text=4, unjudged=3, claim="undecided")
    for said in (answer(rows, [pair]), verdict(rows, [pair])):
        assert re.findall(r"nobody is first: no pair was judged; (\d+) pairs", said) == ["4"]
        assert "share the first rank" not in said
    below = leader_row("cy", 1300.0, rank=3, places=(3, 3))
    above = [leader_row(row.entrant_id, 1400.0, places=(1, 2), above=["cy"]) for row in rows]
    said = verdict([*above, below], [pair, AC, BC])
    assert re.findall(r"(\w+) and (\w+) are rated alike", said) == [("ada", "bob")]
    assert "share the first rank" not in said


def test_whoever_won_everything_is_first_by_no_number_of_points() -> None:
    rows = [
        leader_row("ada", None, places=(1, 1), above=["bob"], note=WON),
        leader_row("bob", 1420.0, rank=2, places=(2, 2)),
        leader_row("eve", None, rank=None, note=APART, n=0),
    ]
    pair = pair_row("ada", "bob", wins_a=4, claim="a_better", difference=(None, 5.0, None))
    said = verdict(rows, [pair])
    assert re.findall(r"(\w+) comes first and (\w+) next", said) == [("ada", "bob")]
    assert "Elo point" not in said
    assert f"ada has no rating: {WON}. eve has no rating: {APART}." in said
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
    said = answer(*circle())
    assert "nobody is first" in said
    assert re.findall(r"(\w+) beats (\w+)", said) == [("ada", "bob"), ("bob", "cy"), ("cy", "ada")]
    assert verdict(*circle()) == said
    assert re.findall(r"\d+", pairs_sentence(Statements.of(*circle(), dimension="factuality"))) == [
        *("3", "3"),
    ]


def test_whoever_may_be_first_beside_a_circle_need_not_be() -> None:
    rows, pairs = circle()
    rows.insert(0, leader_row("dee", 1390.0, places=(1, 4)))
    said = answer(rows, pairs)
    assert said == "On factuality it is undecided who is best."
    assert "Undecided: whether it is better than ada, bob and cy." in verdict(rows, pairs)


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
    found = Statements.of(rows, pairs, dimension="factuality")
    assert (found.best, found.outcome) == ((), ("undecided", ()))
    assert answer(rows, pairs) == "On factuality it is undecided who is best; ada beats bob."


def test_a_decision_for_the_lower_rated_is_marked_wherever_it_is_told() -> None:
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
    for said in (answer(rows, pairs), verdict(rows, pairs)):
        assert said.count("Decided against the ratings: ada over bob.") == 1


def test_where_judging_stopped_early_the_decisions_are_the_basis() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 1), above=["bob"]),
        leader_row("bob", 1400.0, rank=2, places=(2, 2)),
    ]
    stopped = [
        LeaderboardRow(**{name: getattr(row, name) for name in row.__slots__} | {"judge": judge})
        for row, judge in zip(rows, [f"judge; {STOPS_EARLY}"] * 2, strict=True)
    ]
    pair = pair_row("ada", "bob", wins_a=4, claim="a_better", difference=(50.0, None, None))
    assert "intervals" in verdict(rows, [pair])
    assert "decided while judging" in verdict(stopped, [pair])


def test_copies_are_not_compared_and_share_the_first_place() -> None:
    rows = [
        leader_row("ada", 1450.0, places=(1, 2), above=["cy"], same_answers_as=["bob"]),
        leader_row("bob", 1450.0, places=(1, 2), above=["cy"], same_answers_as=["ada"]),
        ROWS[2],
    ]
    same = pair_row("ada", "bob", same_text=9, claim="undecided", difference=(0.0, 0.0, 0.0))
    said = answer(rows, [same, AC, BC])
    assert re.findall(r"(\w+) and (\w+) are best on factuality: they beat (\w+)", said) == [
        ("ada", "bob", "cy")
    ]
    assert re.findall(r"(\w+) and (\w+) wrote the same", said) == [("ada", "bob")]
    said = verdict(rows, [same, AC, BC])
    assert "ada and bob come first and cy next, ada with a win share of " in said
    weighed = verdict(rows, [same, replace(AC, win_rate_a=0.123), BC])
    assert "with a weighed win share of 12.3 % (wins " in weighed
    assert "Undecided" not in said
    alone = verdict(
        [
            leader_row("ada", 1400.0, places=(1, 2), same_answers_as=["bob"]),
            leader_row("bob", 1400.0, places=(1, 2), same_answers_as=["ada"]),
        ],
        [same],
    )
    assert "nobody is first" in alone


def test_a_first_place_that_rests_on_few_prompts_names_them() -> None:
    def said(*prompts: str, at_least: int | None = None) -> str:
        first = leader_row(
            "ada",
            1450.0,
            places=(1, 2),
            above=["cy"],
            lead_rests_on=prompts,
            lead_rests_on_at_least=at_least,
        )
        return verdict([first, *ROWS[1:]], PAIRS)

    assert re.findall(r"p\d", said("p7", at_least=1)) == ["p7"]
    four = ("p1", "p2", "p3", "p4")
    assert "4 prompts: without p1, p2, p3, … ada" in said(*four, at_least=4)
    assert "no fewer are enough" in said(*four, at_least=4)
    assert "fewer than 3 are not enough" in said(*four, at_least=3)
    assert "fewer may be enough" in said(*four, at_least=1)
    assert re.findall(r"\bp\d", said()) == []


def test_without_a_judged_pair_it_points_to_the_audit() -> None:
    rows = [leader_row(name, None, rank=None, win_rate=None, n=0) for name in ("ada", "bob")]
    assert "audit" in verdict(rows, [])
    judged = [leader_row(name, None, rank=None, note=APART) for name in ("ada", "bob")]
    said = verdict(judged, [pair_row("ada", "bob", wins_a=1)])
    assert "no ranking is possible" in said
    assert f"ada and bob have no rating: {APART}." in said


def test_pairs_come_closest_first_with_their_record_seen_from_the_upper() -> None:
    turned = pair_row(
        "bob", "ada", wins_a=1, wins_b=6, claim="undecided", difference=(-10.0, -50.0, 30.0)
    )
    found = Statements.of(ROWS, [turned, AC, BC], dimension="factuality")
    (pair,) = open_pairs(found)
    assert (pair.upper, pair.lower, pair.claim) == ("ada", "bob", "undecided")
    assert (pair.record.wins, pair.record.losses) == (6, 1)
    assert pair.difference_with_interval == "+10.0 (-30 to 50)"


def test_rows_of_other_dimensions_are_ignored() -> None:
    elsewhere = pair_row("ada", "bob", wins_b=9, dimension="tone", claim="b_better")
    said = verdict_sentence(ROWS, [*PAIRS, elsewhere], dimension="factuality")
    assert said == verdict(ROWS, PAIRS)


@pytest.mark.parametrize(
    ("rows", "counts"), [(ROWS[:1], []), (ROWS[:2], ["1", "1"]), (ROWS, ["3", "2", "1"])]
)
def test_the_sentence_counts_claims(rows: list[LeaderboardRow], counts: list[str]) -> None:
    said = pairs_sentence(Statements.of(rows, PAIRS, dimension="factuality"))
    assert re.findall(r"\d+", said) == counts


def test_elo_points_are_an_expected_share() -> None:
    assert expected_share(0.0) == 0.5
    assert expected_share(400.0) == pytest.approx(10 / 11)
