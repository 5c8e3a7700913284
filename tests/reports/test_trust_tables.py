import re
from typing import Any

from tournament_assets.reports.trust_tables import (
    light_sentence,
    trust_matrix,
    trust_section,
)
from tournament_assets.storage.tables import make_table, rows_of
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.estimates import Estimate
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import MEASURES

TITLES = {name: each.title for name, each in MEASURES.items()}


def line(measure: str, state: TrustState, *numbers: Any, subject: str | None = None) -> MeasureRow:
    value, low, high, threshold = numbers or (None, None, None, None)
    return MeasureRow.of(
        Estimate(value, low, high, 12, "why"),
        dimension="factuality",
        measure=measure,
        subject=subject,
        unit=MEASURES[measure].unit,
        threshold=threshold,
        state=state.value,
    )


BIASED = line("position_bias", TrustState.RED, 0.7, 0.6, 0.8, 0.1)
LONG = line("length_effect", TrustState.NO_THRESHOLD, 31.6, 2.2, 61.0, None)
UNJUDGED = line("unjudged", TrustState.GREEN, 0.01, 0.0, 0.05, 0.02, subject="<b>ada</b>")
RETEST = line("test_retest", TrustState.NOT_MEASURED)
CYCLES = line("transitivity_within_prompts", TrustState.GREEN, 0.25, None, None, 0.01)


def shown(*lines: MeasureRow) -> list[MeasureRow]:
    # Through the table and back: what is shown is what is stored.
    return list(rows_of(MeasureRow, make_table(MeasureRow, lines)))


def test_every_light_is_a_word_beside_its_number_interval_and_threshold() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, RETEST, CYCLES), confidence=0.95)
    assert section is not None
    title, table = section.folds[0].tables[0]
    assert title == "factuality"
    assert [row[:5] for row in table.rows] == [
        ("position bias", "red", "70.0 % (60.0 to 80.0 %)", "12", "40.0 to 60.0 %"),
        ("length", "no threshold", "+32 Elo (+2 to +61)", "12", "–"),
        (
            f"{TITLES['unjudged']}: <b>ada</b>",
            "green",
            "1.0 % (0.0 to 5.0 %)",
            "12",
            "at most 2.0 %",
        ),
        ("test–retest", "not measured", "–", "12", "–"),
        (TITLES["transitivity_within_prompts"], "green", "0.250", "12", "at least 0.010"),
    ]


def test_the_section_begins_with_what_is_red_and_says_what_to_do() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, RETEST), confidence=0.9)
    assert section is not None
    numbers, meaning = section.folds
    assert [each.split(": ")[1] for each in section.sentences] == ["test–retest."]
    assert "1 of 2" in section.finding
    assert "(position bias)" in section.finding
    red, without, unmeasured = numbers.sentences[0].split(". ")
    assert "1 of 2" in red
    said = [each.split(": ")[1] for each in (red, without, unmeasured)]
    assert said == ["position bias", "length", "test–retest."]
    assert "at 90 %" in numbers.sentences[1]
    _, (_, advice) = section.tables
    assert advice.rows == (("position bias", MEASURES["position_bias"].advice),)
    (_, meanings) = meaning.tables[0]
    assert ("length", MEASURES["length_effect"].meaning) in meanings.rows


def test_without_a_red_light_there_is_nothing_to_do() -> None:
    section = trust_section(shown(UNJUDGED, CYCLES), confidence=0.95)
    assert section is not None
    assert section.finding.startswith("none of 2")
    assert len(section.tables) == 1


def test_the_matrix_has_a_line_a_measure_and_shows_the_worst_entrant() -> None:
    other = line("unjudged", TrustState.GREEN, 0.02, 0.0, 0.06, 0.03, subject="bob")
    table = trust_matrix(shown(BIASED, UNJUDGED, other, RETEST))
    assert table.headers == ("measure", "factuality", "expected")
    assert [row[0].split(",")[0] for row in table.rows] == [
        *(TITLES["position_bias"], TITLES["unjudged"]),
    ]
    assert [row[1:] for row in table.rows] == [
        ("red: 70.0 % (60.0 to 80.0 %)", "40.0 to 60.0 %"),
        ("green: 2.0 % (0.0 to 6.0 %)", "at most 3.0 %"),
    ]


def test_a_check_says_the_number_the_threshold_and_the_advice_only_where_it_is_red() -> None:
    biased, cycles, retest = map(light_sentence, (BIASED, CYCLES, RETEST))
    said, advice = biased.split(" (why). ")
    assert advice == MEASURES["position_bias"].advice
    assert re.findall(r"\d+\.\d+", said) == ["70.0", "60.0", "80.0", "40.0", "60.0"]
    assert re.findall(r"\d+\.\d+", cycles) == ["0.250", "0.010"]
    assert cycles.endswith(" (why).")
    assert retest == f"{TITLES['test_retest']}: not measured (why)."
