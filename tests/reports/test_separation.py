from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tournament_assets.reports.figures.ladder import draw_ladder
from tournament_assets.reports.leaderboard import (
    leaderboard_cells,
    leaderboard_latex,
    leaderboard_sections,
)
from tournament_assets.reports.report_tables import table_markdown
from tournament_assets.reports.separation import (
    PairRecord,
    answer_sentence,
    separation,
    unseparated_pairs,
    unseparated_sentence,
    verdict_sentence,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow

from .builders import leader_row, pair_row


def test_a_leader_separated_from_everyone_leads() -> None:
    rows = [
        leader_row("ada", 1480.0, sampling=(1450.0, 1510.0), above=["bob", "cy"]),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0)),
        leader_row("cy", 1340.0, sampling=(1310.0, 1370.0)),
    ]
    assert verdict_sentence(rows, dimension="factuality") == (
        "On factuality, ada leads: its mean is 100 Elo points above bob, and its lead over "
        "bob and cy is significant (95 % intervals of the difference, prompts resampled)."
    )


def test_who_is_not_separated_is_named_first() -> None:
    rows = [
        leader_row("ada", 1412.0, sampling=(1380.0, 1440.0), above=["cy"]),
        leader_row("bob", 1400.0, sampling=(1370.0, 1430.0)),
        leader_row("cy", 1340.0, sampling=(1310.0, 1370.0)),
    ]
    assert verdict_sentence(rows, dimension="factuality", confidence=0.9) == (
        "On factuality, ada has the highest mean, 12 Elo points above bob, but its lead over bob "
        "is not significant (90 % intervals of the difference, prompts resampled). Its lead over "
        "cy is significant. Judging more prompts would narrow the intervals."
    )


def test_nobody_leads_who_is_separated_from_nobody() -> None:
    rows = [
        leader_row("ada", 1412.0, sampling=(1380.0, 1440.0)),
        leader_row("bob", 1400.0, sampling=(1370.0, 1430.0)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert sentence.startswith("On factuality, no lead is significant: ada has the highest mean,")
    assert "its lead over bob is not significant" in sentence


def test_overlapping_intervals_do_not_keep_a_difference_from_being_shown() -> None:
    rows = [
        leader_row("ada", 1440.0, sampling=(1400.0, 1480.0), above=["bob"]),
        leader_row("bob", 1380.0, sampling=(1340.0, 1420.0)),
    ]
    assert separation(rows).separated == ("bob",)


def test_an_interval_without_upper_bound_is_named() -> None:
    rows = [
        leader_row("ada", 1480.0, sampling=(1450.0, 1510.0), above=["bob"]),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0)),
        leader_row("cy", 1300.0, sampling=(None, None)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "its lead over cy is not significant (" in sentence
    assert "The judgments set no upper bound for cy." in sentence
    assert "Its lead over bob is significant." in sentence


def test_a_leader_without_lower_bound_is_named() -> None:
    rows = [
        leader_row("ada", 1480.0, sampling=(None, 1510.0)),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "no lead is significant" in sentence
    assert "The judgments set no lower bound for ada." in sentence


def test_equal_means_are_shared_not_led() -> None:
    rows = [
        leader_row("ada", 1400.0, sampling=(1370.0, 1430.0)),
        leader_row("bob", 1400.0, sampling=(1370.0, 1430.0)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "ada has the highest mean, which bob shares, but" in sentence


def test_without_a_decisive_match_it_says_what_to_do() -> None:
    rows = [
        leader_row(name, 1400.0, sampling=(None, None), matches=0, win_rate=win_rate)
        for name, win_rate in (("ada", 0.5), ("bob", 0.5), ("unjudged", None))
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert sentence.startswith("On factuality, no ranking is possible: no match is decisive")
    assert "Judge more prompts" in sentence
    assert "ada" not in sentence


def test_without_a_judged_pair_it_points_to_the_audit() -> None:
    rows = [
        leader_row(name, 1400.0, sampling=(None, None), matches=0, win_rate=None)
        for name in ("ada", "bob")
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "no pair has been judged" in sentence
    assert "audit" in sentence


def test_an_entrant_without_a_match_neither_leads_nor_trails() -> None:
    rows = [
        leader_row("idle", 1400.0, sampling=(None, None), matches=0),
        leader_row("ada", 1400.0, sampling=(1390.0, 1410.0), above=["bob"]),
        leader_row("bob", 1360.0, sampling=(1350.0, 1370.0)),
    ]
    found = separation(rows)
    assert (found.leader, found.separated, found.unrated) == ("ada", ("bob",), ("idle",))
    sentence = verdict_sentence(rows, dimension="factuality")
    assert sentence.endswith("Not rated: idle has no decisive match.")


def unrated(
    entrant_id: str, *, rank: int | None, note: str, above: tuple[str, ...] = ()
) -> LeaderboardRow:
    row = leader_row(entrant_id, 0.0, sampling=(None, None), above=above)
    return replace(row, mean=None, sem=None, order_low=None, order_high=None, rank=rank, note=note)


def test_a_leader_that_won_everything_leads_by_no_number_of_points() -> None:
    rows = [
        unrated("ada", rank=1, note="won every decisive match: no upper bound", above=("bob",)),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("eve", rank=None, note="no chain of decisive matches connects it"),
    ]
    found = separation(rows)
    assert (found.leader, found.lead, found.separated) == ("ada", None, ("bob",))
    sentence = verdict_sentence(rows, dimension="tone")
    assert sentence.startswith("On tone, ada comes first, and its lead over bob is significant (")
    assert (
        "Not rated: ada (won every decisive match: no upper bound); "
        "eve (no chain of decisive matches connects it)."
    ) in sentence
    assert unseparated_pairs(rows, []) == []
    (pair,) = unseparated_pairs([replace(rows[0], shown_above=()), *rows[1:]], [])
    assert (pair.upper, pair.lower, pair.gap) == ("ada", "bob", None)


def test_tables_and_pictures_show_no_number_where_there_is_none() -> None:
    rows = [
        unrated("ada", rank=1, note="won every decisive match: no upper bound"),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("eve", rank=None, note="no chain of decisive matches connects it"),
    ]
    cells = {row[1]: row for row in leaderboard_cells(rows).rows}
    assert cells["ada"][:5] == ("1", "ada", "not rated", "–", "–")
    assert cells["eve"][0] == "–"
    drawn = {text.get_text() for text in draw_ladder(rows, "tone").axes[0].texts}
    assert {"won every decisive match", "not comparable"} <= drawn
    assert "not rated" not in leaderboard_latex({"tone": rows})


def test_where_elo_rates_nobody_the_order_and_the_shares_come_first() -> None:
    record = PairRecord(wins=5, losses=0, ties=1, inconsistent=0, same_text=4, unjudged=0)
    won = "won every decisive match: no upper bound"
    counts: dict[str, Any] = {
        f"leader_{name}": getattr(record, name) for name in PairRecord.__slots__
    }
    ada = unrated("ada", rank=1, note=won, above=("cyd",))
    bob = unrated("bob", rank=1, note=won, above=("cyd",))
    cyd = unrated("cyd", rank=3, note="lost every decisive match: no lower bound")
    rows = [
        replace(ada, bradley_terry=1450.4, same_answers_as=("bob",)),
        replace(bob, same_answers_as=("ada",)),
        replace(cyd, **counts),
    ]
    sentence = verdict_sentence(rows, dimension="tone")
    assert sentence.startswith(
        "On tone, ada and bob come first, with a win share of 75.0 % (wins 5, loses 0, ties 1, "
        "same text 4 of 10) against cyd, and their lead over cyd is significant ("
    )
    assert sentence.endswith(
        "Elo rates no entrant here, because the decisive matches give an order and no distances: "
        f"ada and bob ({won}); cyd (lost every decisive match: no lower bound)."
    )
    assert "bound for" not in sentence
    text = _markdown(rows)
    assert "not rated" not in text
    assert "sampling interval |" not in text
    assert "| 1 | ada | – | 100 / 200 | 50.0 % | 1450 |" in text
    assert "Bradley-Terry, in Elo points: pairs without a winner count half" in text
    rated = _markdown([*rows[:2], leader_row("cyd", 1380.0, sampling=(None, None))])
    assert "| 1 | ada | not rated |" in rated
    assert "Bradley-Terry" not in rated


def _markdown(rows: Sequence[LeaderboardRow]) -> str:
    sections = leaderboard_sections(rows, confidence=0.95)
    tables = [table_markdown(table) for each in sections for _, table in each.tables]
    return "\n".join([*tables, *(line for each in sections for line in each.sentences)])


def test_the_gap_is_a_win_share_with_its_counts_beside_the_points() -> None:
    record = PairRecord(wins=26, losses=0, ties=6, inconsistent=4, same_text=57, unjudged=2)
    rows = [
        leader_row("ada", 1480.0, sampling=(1450.0, 1510.0), above=["bob"]),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0), record=record),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert (
        "its mean is 100 Elo points above bob, with a win share of 64.0 % (wins 26, loses 0, "
        "ties 6, inconsistent 4, same text 57 of 93) against bob"
    ) in sentence


def test_entrants_that_wrote_the_same_answers_are_not_ranked_against_one_another() -> None:
    rows = [
        leader_row("ada", 1450.2, sampling=(1420.0, 1480.0), above=["cy"], same_answers_as=["bob"]),
        leader_row("bob", 1450.1, sampling=(1420.0, 1480.0), above=["cy"], same_answers_as=["ada"]),
        leader_row("cy", 1300.0, sampling=(1270.0, 1330.0)),
    ]
    found = separation(rows)
    assert (found.runner_up, found.same_answers, found.not_separated) == ("cy", ("bob",), ())
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "ada and bob wrote the same answers, so no prompt can tell them apart." in sentence
    assert "above bob" not in sentence
    assert "ada and bob lead: their mean is 150 Elo points above cy" in sentence
    alone = verdict_sentence(rows[:2], dimension="factuality")
    assert alone == (
        "On factuality, no entrant can lead. ada and bob wrote the same answers, so no prompt can "
        "tell them apart."
    )
    level = [replace(row, mean=1400.0, n_entrant_matches=0) for row in rows[:2]]
    assert verdict_sentence(level, dimension="factuality") == alone


def test_a_lead_that_rests_on_one_prompt_names_the_prompt() -> None:
    def said(*prompts: str) -> str:
        rows = [
            leader_row("ada", 1405.0, sampling=(1380.0, 1430.0), lead_rests_on=prompts),
            leader_row("bob", 1395.0, sampling=(1370.0, 1420.0)),
        ]
        return verdict_sentence(rows, dimension="factuality")

    assert "The lead over bob rests on one prompt: p7." in said("p7")
    assert "Without any one of 4 prompts (p1, p2, p3, …) it would not be ahead of bob." in said(
        "p1", "p2", "p3", "p4"
    )
    assert "prompt:" not in said()


def test_whoever_lost_everything_has_a_reason_beside_the_verdict() -> None:
    rows = [
        leader_row("ada", 1450, sampling=(1420, 1480), above=("cyd",)),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("cyd", rank=3, note="lost every decisive match: no lower bound"),
    ]
    sentence = verdict_sentence(rows, dimension="tone")
    assert "Not rated: cyd (lost every decisive match: no lower bound)." in sentence
    assert "no upper bound" not in sentence


def test_the_answer_names_who_is_level_and_whom_they_beat() -> None:
    rows = [
        leader_row("ada", 1450.0, sampling=(1430.0, 1470.0), above=["cy"]),
        leader_row("bob", 1445.0, sampling=(1425.0, 1465.0), rank=2, above=["cy"]),
        leader_row("cy", 1300.0, sampling=(1280.0, 1320.0), rank=3),
    ]
    pairs = [
        pair_row("ada", "bob", wins_a=5, wins_b=5),
        pair_row("ada", "cy", wins_a=6, wins_b=3, ties=1),
        pair_row("bob", "cy", wins_a=6, wins_b=3, inconsistent=1),
    ]
    assert answer_sentence(rows, pairs, dimension="factuality") == (
        "ada and bob are level on factuality; both beat cy, 65 % to 35 %."
    )
    alone = [replace(rows[0], shown_above=("bob", "cy")), *rows[1:]]
    assert answer_sentence(alone, pairs, dimension="factuality") == (
        "ada beats bob and cy on factuality, 50.0 % to 50.0 % against bob, the next."
    )
    copies = [replace(rows[0], same_answers_as=("bob",)), replace(rows[1], mean=None), rows[2]]
    assert answer_sentence(copies, pairs, dimension="factuality") == (
        "ada and bob are level on factuality; both beat cy, 65 % to 35 %. ada and bob wrote "
        "the same answers. Elo rates all but bob."
    )
    level = [replace(row, shown_above=()) for row in rows]
    assert answer_sentence(level, pairs, dimension="factuality") == (
        "ada, bob and cy are level on factuality; ada is rated highest."
    )


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
