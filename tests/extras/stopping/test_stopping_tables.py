import math

from tests.reports.builders import leader_row
from tournament_assets.extras.stopping.decisions import DecisionRow
from tournament_assets.extras.stopping.mode_keys import AdaptiveConfig, AdaptiveKeys
from tournament_assets.extras.stopping.stopping_tables import stopping_section

STOPPING = AdaptiveKeys(adaptive=AdaptiveConfig(goal="bank"))
WEAK = "weak $x$"
LADDER = {"factuality": [leader_row("strong", 1450.0, above=[WEAK]), leader_row(WEAK, 1350.0)]}


def row(number: int, *, decided: bool, goal: str = "bank") -> DecisionRow:
    return DecisionRow(
        dimension="factuality",
        entrant_a="strong",
        entrant_b=WEAK,
        goal=goal,
        round=number,
        prompts=100,
        looked_at=20 * number,
        counted=20 * number,
        pending=0,
        share=0.8,
        capital=math.inf if decided else 3.0,
        threshold=40.0,
        evidence=10.0 if decided else 0.3,
        decided_at=35 if decided else None,
        side="strong" if decided else None,
        tail=("p1", "p2") if decided else (),
        weight=5.0,
        not_needed=58 if decided else 0,
        free=0,
        undecided=0,
        pairs=100,
        presentations=200,
        presentations_not_needed=116 if decided else 0,
        presentations_undecided=0,
        path=(0.1, 0.3, 10.0) if decided else (),
    )


def test_the_section_names_the_question_and_counts_what_was_saved() -> None:
    rows = [row(1, decided=False), row(2, decided=True)]
    section = stopping_section(rows, LADDER, mode_config=STOPPING, prices={"factuality": 4.2})
    assert section is not None
    assert "every prompt of this bank" in section.sentences[0]
    assert "1 of 1" in section.sentences[2]
    # 58 of 100 prompts at the price of the 42 that were judged.
    assert "116 of 200" in section.sentences[2]
    assert "$5.80" in section.sentences[2]
    ((_, table),) = section.tables
    assert table.rows[0][:6] == (
        *(f"strong : {WEAK}", "strong", "35 prompts"),
        *("40 of 100", "2", "58"),
    )
    assert table.rows[0][-1] == "certain"


def test_the_other_question_has_other_words_and_equal_rows_equal_pictures() -> None:
    rows = [row(2, decided=True, goal="population")]
    sections = [stopping_section(rows, LADDER, mode_config=STOPPING, prices={}) for _ in range(2)]
    assert sections[0] is not None
    assert "prompts such as these" in sections[0].sentences[0]
    assert sections[0] == sections[1]
    assert sections[0].pictures[0].drawing.startswith("<svg ")


def test_a_decision_for_the_lower_rated_says_so_beside_it() -> None:
    higher = {"factuality": [leader_row("strong", 1350.0, above=[WEAK]), leader_row(WEAK, 1450.0)]}
    ahead = []
    for ladder in (LADDER, higher):
        section = stopping_section([row(2, decided=True)], ladder, mode_config=STOPPING, prices={})
        assert section is not None
        ahead.append(section.tables[0][1].rows[0][1])
    assert ahead == ["strong", "strong, against the ratings"]
