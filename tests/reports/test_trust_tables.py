from typing import Any

from tournament_assets.reports.trust_tables import (
    light_sentence,
    trust_matrix,
    trust_rows,
    trust_section,
)
from tournament_assets.storage.tables import make_table, rows_of
from tournament_assets.tournament.asset_rows import TrustRow
from tournament_assets.trust.measures import WORDS
from tournament_assets.trust.panel import Estimate, TrustLine, TrustState


def line(measure: str, state: TrustState, *numbers: Any, subject: str | None = None) -> TrustLine:
    value, low, high, threshold = numbers or (None, None, None, None)
    return TrustLine(measure, subject, Estimate(value, low, high, 12, "why"), threshold, state)


BIASED = line("position_bias", TrustState.RED, 0.7, 0.6, 0.8, 0.1)
LONG = line("length_effect", TrustState.NO_THRESHOLD, 31.6, 2.2, 61.0, None)
UNJUDGED = line("unjudged", TrustState.GREEN, 0.01, 0.0, 0.05, 0.02, subject="<b>ada</b>")
RETEST = line("test_retest", TrustState.NOT_MEASURED)
CYCLES = line("transitivity_within_prompts", TrustState.GREEN, 0.25, None, None, 0.01)


def shown(*lines: TrustLine) -> list[TrustRow]:
    rows = trust_rows(lines, dimension="factuality")
    # Through the table and back: what is shown is what is stored.
    return list(rows_of(TrustRow, make_table("trust_panel", rows)))


def test_every_light_is_a_word_beside_its_number_interval_and_threshold() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, RETEST, CYCLES), confidence=0.95)
    title, table = section.folds[0].tables[0]
    assert title == "factuality"
    assert [row[:5] for row in table.rows] == [
        ("position bias", "red", "70.0 % (60.0 to 80.0 %)", "12", "40.0 to 60.0 %"),
        ("length", "no threshold", "+32 Elo (+2 to +61)", "12", "–"),
        ("unjudged pairs: <b>ada</b>", "green", "1.0 % (0.0 to 5.0 %)", "12", "at most 2.0 %"),
        ("test–retest", "not measured", "–", "12", "–"),
        ("cycles within prompts", "green", "0.250", "12", "at least 0.010"),
    ]


def test_the_section_begins_with_what_is_red_and_says_what_to_do() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, RETEST), confidence=0.9)
    numbers, meaning = section.folds
    assert section.sentences == ("Not measured, so neither green nor red: test–retest.",)
    assert "1 of 2 lights on the judge are red (position bias)" in section.finding
    assert numbers.sentences[0] == (
        "On factuality, 1 of 2 lights are red: position bias. Measured, without a threshold in "
        "the config: length. Not measured: test–retest."
    )
    assert "at 90 %" in numbers.sentences[1]
    advice = dict(section.tables)["What to do about what is red"]
    assert advice.rows == (("position bias", WORDS["position_bias"].advice),)
    (_, meanings) = meaning.tables[0]
    assert ("length", WORDS["length_effect"].meaning) in meanings.rows


def test_without_a_red_light_there_is_nothing_to_do() -> None:
    section = trust_section(shown(UNJUDGED, CYCLES), confidence=0.95)
    assert section.finding == "none of 2 lights on the judge is red"
    assert [title for title, _ in section.tables] == ["The judge on each dimension"]


def test_the_matrix_has_a_line_a_measure_and_shows_the_worst_entrant() -> None:
    other = line("unjudged", TrustState.GREEN, 0.02, 0.0, 0.06, 0.03, subject="bob")
    table = trust_matrix(shown(BIASED, UNJUDGED, other, RETEST))
    assert table.headers == ("measure", "factuality", "expected")
    assert table.rows == (
        ("position bias", "red: 70.0 % (60.0 to 80.0 %)", "40.0 to 60.0 %"),
        ("unjudged pairs, worst entrant", "green: 2.0 % (0.0 to 6.0 %)", "at most 3.0 %"),
    )


def test_a_check_says_the_number_the_threshold_and_the_advice_only_where_it_is_red() -> None:
    assert light_sentence(BIASED) == (
        "position bias: 70.0 %, interval 60.0 % to 80.0 %; 40.0 to 60.0 % expected (why). "
        + WORDS["position_bias"].advice
    )
    assert light_sentence(CYCLES) == "cycles within prompts: 0.250; at least 0.010 expected (why)."
    assert light_sentence(RETEST) == "test–retest: not measured (why)."
