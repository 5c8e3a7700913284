import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tournament_assets.reports.figures.ladder import draw_ladder
from tournament_assets.reports.leaderboard import (
    leaderboard_cells,
    leaderboard_latex,
    leaderboard_sections,
)
from tournament_assets.reports.report_tables import table_markdown
from tournament_assets.reports.separation import (
    answer_sentence,
    separation,
    unseparated_pairs,
    unseparated_sentence,
    verdict_sentence,
)
from tournament_assets.tournament.asset_rows import EloRow

from .builders import leader_row, pair_row

WON = "won every decisive match: no upper bound"
LOST = "lost every decisive match: no lower bound"
APART = "no chain of decisive matches connects it"


def leads(sentence: str) -> list[tuple[str, str]]:
    """Return over whom a verdict says that the lead is significant, or is not."""
    return re.findall(r"lead over ([\w ,]+?) is (not significant|significant)", sentence)


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
    assert "no lead" in sentence
    assert leads(sentence) == [("bob", "not significant")]


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
    assert leads(sentence) == [("cy", "not significant"), ("bob", "significant")]
    assert re.findall(r"(\w+) bound for (\w+)", sentence) == [("upper", "cy")]


def test_a_leader_without_lower_bound_is_named() -> None:
    rows = [
        leader_row("ada", 1480.0, sampling=(None, 1510.0)),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert leads(sentence) == [("bob", "not significant")]
    assert re.findall(r"(\w+) bound for (\w+)", sentence) == [("lower", "ada")]


def test_equal_means_are_shared_not_led() -> None:
    rows = [
        leader_row("ada", 1400.0, sampling=(1370.0, 1430.0)),
        leader_row("bob", 1400.0, sampling=(1370.0, 1430.0)),
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert separation(rows).lead == 0.0
    assert leads(sentence) == [("bob", "not significant")]
    assert "Elo points" not in sentence


def test_without_a_decisive_match_it_says_what_to_do() -> None:
    rows = [
        leader_row(name, 1400.0, sampling=(None, None), matches=0, win_rate=win_rate)
        for name, win_rate in (("ada", 0.5), ("bob", 0.5), ("unjudged", None))
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert separation(rows).leader is None
    assert "rubric" in sentence
    assert "ada" not in sentence


def test_without_a_judged_pair_it_points_to_the_audit() -> None:
    rows = [
        leader_row(name, 1400.0, sampling=(None, None), matches=0, win_rate=None)
        for name in ("ada", "bob")
    ]
    sentence = verdict_sentence(rows, dimension="factuality")
    assert "audit" in sentence
    assert "rubric" not in sentence


def test_an_entrant_without_a_match_neither_leads_nor_trails() -> None:
    rows = [
        leader_row("idle", 1400.0, sampling=(None, None), matches=0),
        leader_row("ada", 1400.0, sampling=(1390.0, 1410.0), above=["bob"]),
        leader_row("bob", 1360.0, sampling=(1350.0, 1370.0)),
    ]
    found = separation(rows)
    assert (found.leader, found.separated, found.unrated) == ("ada", ("bob",), ("idle",))
    sentence = verdict_sentence(rows, dimension="factuality")
    assert re.findall(r"Not rated: (\w+)", sentence) == ["idle"]


def unrated(entrant_id: str, *, rank: int | None, note: str, above: tuple[str, ...] = ()) -> EloRow:
    row = leader_row(entrant_id, 0.0, sampling=(None, None), above=above)
    return replace(row, mean=None, sem=None, order_low=None, order_high=None, rank=rank, note=note)


def test_a_leader_that_won_everything_leads_by_no_number_of_points() -> None:
    rows = [
        unrated("ada", rank=1, note=WON, above=("bob",)),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("eve", rank=None, note=APART),
    ]
    found = separation(rows)
    assert (found.leader, found.lead, found.separated) == ("ada", None, ("bob",))
    sentence = verdict_sentence(rows, dimension="tone")
    assert leads(sentence) == [("bob", "significant")]
    assert "Elo points" not in sentence
    assert f" ada ({WON}); eve ({APART})." in sentence
    assert unseparated_pairs(rows, []) == []
    (pair,) = unseparated_pairs([replace(rows[0], shown_above=()), *rows[1:]], [])
    assert (pair.upper, pair.lower, pair.gap) == ("ada", "bob", None)


def test_tables_and_pictures_show_no_number_where_there_is_none() -> None:
    rows = [
        unrated("ada", rank=1, note=WON),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("eve", rank=None, note=APART),
    ]
    cells = {row[1]: row for row in leaderboard_cells(rows).rows}
    assert cells["ada"][:5] == ("1", "ada", "not rated", "–", "–")
    assert cells["eve"][0] == "–"
    drawn = {text.get_text() for text in draw_ladder(rows, "tone").axes[0].texts}
    assert {WON.split(":")[0], "not comparable"} <= drawn
    assert "not rated" not in leaderboard_latex({"tone": rows})


def test_where_elo_rates_nobody_the_order_and_the_shares_come_first() -> None:
    met = pair_row("ada", "cyd", dimension="tone", wins_a=5, ties=1, same_text=4)
    ada = unrated("ada", rank=1, note=WON, above=("cyd",))
    bob = unrated("bob", rank=1, note=WON, above=("cyd",))
    cyd = unrated("cyd", rank=3, note=LOST)
    rows = [
        replace(ada, bradley_terry=1450.4, same_answers_as=("bob",)),
        replace(bob, same_answers_as=("ada",)),
        cyd,
    ]
    sentence = verdict_sentence(rows, [met], dimension="tone")
    first, against = sentence.split(" against ")
    assert re.findall("ada|bob|cyd", first) == ["ada", "bob"]
    assert re.findall(r"[\d.]+", first) == ["75.0", "5", "0", "1", "4", "10"]
    assert leads(against) == [("cyd", "significant")]
    assert sentence.endswith(f" bob ({WON}); cyd ({LOST}).")
    assert "bound for" not in sentence
    text = _markdown(rows)
    assert "not rated" not in text
    assert "sampling interval |" not in text
    assert "| 1 | ada | – | 100 / 200 | 50.0 % | 1450 |" in text
    assert "Bradley-Terry" in text
    rated = _markdown([*rows[:2], leader_row("cyd", 1380.0, sampling=(None, None))])
    assert "| 1 | ada | not rated |" in rated
    assert "Bradley-Terry" not in rated


def _markdown(rows: Sequence[EloRow]) -> str:
    sections = leaderboard_sections(rows, confidence=0.95)
    tables = [table_markdown(table) for each in sections for _, table in each.tables]
    return "\n".join([*tables, *(line for each in sections for line in each.sentences)])


def test_the_gap_is_a_win_share_with_its_counts_beside_the_points() -> None:
    met = pair_row("ada", "bob", wins_a=26, ties=6, inconsistent=4, same_text=57, unjudged=2)
    rows = [
        leader_row("ada", 1480.0, sampling=(1450.0, 1510.0), above=["bob"]),
        leader_row("bob", 1380.0, sampling=(1350.0, 1410.0)),
    ]
    elsewhere = replace(met, dimension="tone", wins_a=0)
    sentence = verdict_sentence(rows, [met, elsewhere], dimension="factuality")
    numbers = re.findall(r"[\d.]+", sentence.split(" against ")[0])
    assert numbers == ["100", "64.0", "26", "0", "6", "4", "57", "93"]


def test_entrants_that_wrote_the_same_answers_are_not_ranked_against_one_another() -> None:
    rows = [
        leader_row("ada", 1450.2, sampling=(1420.0, 1480.0), above=["cy"], same_answers_as=["bob"]),
        leader_row("bob", 1450.1, sampling=(1420.0, 1480.0), above=["cy"], same_answers_as=["ada"]),
        leader_row("cy", 1300.0, sampling=(1270.0, 1330.0)),
    ]
    found = separation(rows)
    assert (found.runner_up, found.same_answers, found.not_separated) == ("cy", ("bob",), ())
    sentence = verdict_sentence(rows, dimension="factuality")
    assert re.findall(r"(\w+) and (\w+) wrote", sentence) == [("ada", "bob")]
    assert re.findall(r"(\d+) Elo points above (\w+)", sentence) == [("150", "cy")]
    alone = verdict_sentence(rows[:2], dimension="factuality")
    assert re.findall(r"(\w+) and (\w+) wrote", alone) == [("ada", "bob")]
    assert leads(alone) == []
    level = [replace(row, mean=1400.0, n_entrant_matches=0) for row in rows[:2]]
    assert verdict_sentence(level, dimension="factuality") == alone


def test_a_lead_that_rests_on_one_prompt_names_the_prompt() -> None:
    def said(*prompts: str) -> str:
        rows = [
            leader_row("ada", 1405.0, sampling=(1380.0, 1430.0), lead_rests_on=prompts),
            leader_row("bob", 1395.0, sampling=(1370.0, 1420.0)),
        ]
        return verdict_sentence(rows, dimension="factuality")

    assert re.findall(r"p\d", said("p7")) == ["p7"]
    assert "4 prompts (p1, p2, p3, …)" in said("p1", "p2", "p3", "p4")
    assert re.findall(r"p\d", said()) == []


def test_whoever_lost_everything_has_a_reason_beside_the_verdict() -> None:
    rows = [
        leader_row("ada", 1450, sampling=(1420, 1480), above=("cyd",)),
        leader_row("bob", 1420, rank=2, sampling=(1400, 1440)),
        unrated("cyd", rank=3, note=LOST),
    ]
    sentence = verdict_sentence(rows, dimension="tone")
    assert f" cyd ({LOST})." in sentence
    assert "upper bound" not in sentence


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
    said = answer_sentence(copies, pairs, dimension="factuality")
    assert re.findall(r"\d+ %", said) == ["65 %", "35 %"]
    assert re.findall(r"(\w+) and (\w+) wrote", said) == [("ada", "bob")]
    assert re.findall(r"all but (\w+)", said) == ["bob"]
    level = answer_sentence(
        [replace(row, shown_above=()) for row in rows], pairs, dimension="factuality"
    )
    assert re.findall("ada|bob|cy", level) == ["ada", "bob", "cy", "ada"]
    assert re.findall(r"\d+ %", level) == []


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
    ("unseparated", "rated", "counts"),
    [
        (0, 1, []),
        (0, 2, []),
        (0, 4, ["6"]),
        (1, 4, ["1", "6"]),
        (20, 9, ["20", "36", "12"]),
    ],
)
def test_the_sentence_counts(unseparated: int, rated: int, counts: list[str]) -> None:
    said = unseparated_sentence(unseparated, rated)
    assert re.findall(r"\d+", said) == counts
    assert ("significant" in said) == (rated > 1)
    assert ("differ significantly" in said) == (rated > 1 and not unseparated)
