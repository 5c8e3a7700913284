from dataclasses import replace

import pytest

from tournament_assets.reports.separation import unseparated_pairs, unseparated_sentence

from .builders import leader_row, pair_row

ROWS = [
    leader_row("ada", 1450.0, sampling=(1400.0, 1500.0), above=["cy"]),
    leader_row("bob", 1440.0, sampling=(1400.0, 1500.0)),
    leader_row("cy", 1380.0, sampling=(1300.0, 1400.0)),
    leader_row("idle", 1400.0, sampling=(None, None), matches=0),
]
RATES = [
    pair_row("ada", "bob", wins_a=3, wins_b=2, ties=1, inconsistent=4, unjudged=7),
    pair_row("bob", "cy", wins_a=5, wins_b=1),
]


def test_pairs_come_closest_first_with_their_record_seen_from_the_upper() -> None:
    pairs = unseparated_pairs(ROWS, RATES)
    assert [(pair.upper, pair.lower, pair.gap) for pair in pairs] == [
        ("ada", "bob", 10.0),
        ("bob", "cy", 60.0),
    ]
    first = pairs[0]
    record = first.record
    assert (record.wins, record.losses, record.ties + record.inconsistent, record.settled) == (
        3,
        2,
        5,
        10,
    )


def test_the_record_is_turned_where_the_table_names_the_lower_first() -> None:
    (first, *_) = unseparated_pairs(ROWS, [pair_row("bob", "ada", wins_a=1, wins_b=6)])
    assert (first.record.wins, first.record.losses) == (6, 1)


def test_one_side_shown_to_be_above_is_enough_to_separate() -> None:
    turned = [replace(row, shown_above=("ada",) if row.entrant_id == "bob" else ()) for row in ROWS]
    assert ("ada", "bob") not in {(p.upper, p.lower) for p in unseparated_pairs(turned, RATES)}


@pytest.mark.parametrize(
    ("unseparated", "rated", "words"),
    [
        (0, 1, "nothing to compare"),
        (0, 2, "The two entrants differ significantly."),
        (0, 4, "Every two entrants differ significantly, all 6 pairs."),
        (1, 4, "1 of 6 pairs of entrants has no significant difference."),
        (
            20,
            9,
            "20 of 36 pairs of entrants have no significant difference. The 12 closest are listed.",
        ),
    ],
)
def test_the_sentence_counts(unseparated: int, rated: int, words: str) -> None:
    assert words in unseparated_sentence(unseparated, rated)
