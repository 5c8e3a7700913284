import re
from dataclasses import replace
from typing import Any

from tournament_assets.foundation.estimates import Estimate
from tournament_assets.reports.report_tables import HtmlText
from tournament_assets.reports.trust_tables import (
    amber_sentences,
    light_sentence,
    red_sentences,
    red_summary,
    trust_matrix,
    trust_section,
    trust_table,
)
from tournament_assets.storage.tables import make_table, rows_of
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.trust.lights import TrustState
from tournament_assets.trust.measures import ALL_DIMENSIONS, MEASURES, lights_of

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
FEW = line("flip_direction", TrustState.AMBER, 1.0, 0.45, 1.0, 0.4)
LONG = line("length_effect", TrustState.NO_THRESHOLD, 31.6, 2.2, 61.0, None)
UNJUDGED = line("unjudged", TrustState.GREEN, 0.01, 0.0, 0.05, 0.02, subject="<b>ada</b>")
SWAPPED = line("swap_consistency", TrustState.NOT_MEASURED)
CYCLES = line("transitivity_within_prompts", TrustState.GREEN, 0.25, None, None, 0.01)


def shown(*lines: MeasureRow) -> list[MeasureRow]:
    # Through the table and back: what is shown is what is stored.
    return list(rows_of(MeasureRow, make_table(MeasureRow, lines)))


def test_every_light_is_a_word_beside_its_number_interval_and_threshold() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, SWAPPED, CYCLES), confidence=0.95)
    assert section is not None
    title, table = section.folds[0].tables[0]
    assert title == "factuality"
    assert [row[:5] for row in table.rows] == [
        ("position bias", "red", "70.0 % (60.0 to 80.0 %)", "12", "40.0 to 60.0 %"),
        ("length", "no threshold", "+32 Elo (+2 to +61)", "12", "–"),
        (
            f"{TITLES['unjudged']}, worst entrant: <b>ada</b>",
            "green",
            "1.0 % (0.0 to 5.0 %)",
            "12",
            "at most 2.0 %",
        ),
        (TITLES["transitivity_within_prompts"], "green", "0.250", "12", "at least 0.010"),
    ]


def test_the_section_begins_with_what_is_red_and_says_what_to_do() -> None:
    section = trust_section(shown(BIASED, LONG, UNJUDGED, SWAPPED), confidence=0.9)
    assert section is not None
    numbers, meaning = section.folds
    assert [each.split(": ")[1] for each in section.sentences] == ["swap consistency."]
    assert "1 of 1" in section.finding
    assert "(position bias)" in section.finding
    assert "at 90 %" in numbers.sentences[0]
    _, (_, advice) = section.tables
    leans = "position bias: the judge prefers the first slot"
    assert advice.rows == ((leans, MEASURES["position_bias"].advice),)
    (_, meanings) = meaning.tables[0]
    assert ("length", MEASURES["length_effect"].meaning) in meanings.rows


def test_without_a_red_light_there_is_nothing_to_do() -> None:
    section = trust_section(shown(UNJUDGED, CYCLES), confidence=0.95)
    assert section is not None
    assert section.finding == "none of 1 light on the judge is red"
    assert len(section.tables) == 1
    unlit = trust_section(shown(SWAPPED), confidence=0.95)
    assert unlit is not None
    assert unlit.finding == "nothing could be measured"


def test_an_amber_light_says_in_words_that_it_cannot_tell_and_how_many_more_would() -> None:
    section = trust_section(shown(FEW, CYCLES), confidence=0.95)
    assert section is not None
    assert section.finding == "none of 2 lights on the judge is red; 1 amber: too few to tell"
    (told,) = amber_sentences(shown(FEW, CYCLES))
    assert told in section.sentences
    assert "1 of 2 lights amber, too few to tell: direction of flips (about 3 more flips)" in told
    said = light_sentence(FEW)
    assert said.startswith("direction of flips: amber, ")
    assert said.endswith("(why; too few to tell: about 3 more flips).")
    matrix = trust_matrix(shown(FEW))
    cell = matrix.rows[0][1]
    assert cell.startswith("amber: ")
    assert isinstance(cell, HtmlText)
    assert cell.light == "light fair"
    assert cell.small.startswith("amber")
    assert not red_sentences(shown(FEW))


def test_a_light_too_close_to_its_limit_names_no_number() -> None:
    close = line("swap_consistency", TrustState.AMBER, 0.8, 0.7, 0.9, 0.8)
    alone = line("swap_consistency", TrustState.AMBER, 0.8, None, None, 0.8)
    assert "a hundred times" in light_sentence(close)
    assert light_sentence(alone).endswith("(why; too few to tell).")


def test_entrants_unjudged_pairs_are_one_line_beside_the_tests_of_the_judge() -> None:
    missing = [
        line("unjudged", TrustState.RED, value, 0.0, 1.0, 0.02, subject=name)
        for name, value in (("ann", 0.05), ("bob", 0.25))
    ]
    rows = shown(BIASED, *missing, UNJUDGED)
    judge, unjudged = red_sentences(rows)
    assert "1 of 1 lights red" in judge
    assert unjudged == (
        "Missing on factuality: 5.0 % of ann's pairs and 25.0 % of bob's pairs (limit 2.0 %)."
    )
    summary = red_summary(rows)
    assert summary.startswith("1 of 1 lights on the judge are red (position bias); ")
    assert summary.endswith("; missing on factuality: 25.0 % of bob's pairs (limit 2.0 %)")
    assert len(red_sentences(shown(*missing))) == 1
    titles = [row[0] for row in trust_table(rows).rows]
    assert titles == ["position bias", f"{TITLES['unjudged']}, worst entrant: bob"]


def test_a_red_light_says_where_the_judge_leans() -> None:
    for value, leans in ((150.0, "rewards length"), (-150.0, "penalises length")):
        found = line("length_effect", TrustState.RED, value, value - 40, value + 40, 100)
        (said,) = red_sentences(shown(found))
        section = trust_section(shown(found), confidence=0.95)
        assert section is not None
        ((advised, advice),) = section.tables[1][1].rows
        for text in (said, advised, light_sentence(found)):
            assert leans in text
        other = "penalises" if value > 0 else "rewards"
        assert other not in " ".join((said, advised, advice, light_sentence(found)))


def test_flips_of_all_dimensions_are_one_light_of_the_count() -> None:
    few = [replace(FEW, dimension=name, n=7, low=0.6) for name in ("f", "g", "h")]
    rows = lights_of([make_table(MeasureRow, few)])
    assert red_summary(rows) == "1 of 1 lights on the judge are red (direction of flips)"
    (said,) = red_sentences(rows)
    assert f"on {ALL_DIMENSIONS}: 1 of 1 " in said
    assert "it prefers the first slot" in said
    section = trust_section(rows, confidence=0.95)
    assert section is not None
    (_, matrix), _ = section.tables
    assert matrix.headers == ("measure", "f", "g", "h", ALL_DIMENSIONS, "expected")
    states = [cell.partition(":")[0] for cell in matrix.rows[0][1:5]]
    assert states == [*["pooled"] * 3, "red"]


def test_the_matrix_has_a_line_a_measure_and_shows_the_worst_entrant() -> None:
    other = line("unjudged", TrustState.GREEN, 0.02, 0.0, 0.06, 0.03, subject="bob")
    table = trust_matrix(shown(BIASED, UNJUDGED, other, SWAPPED))
    assert table.headers == ("measure", "factuality", "expected")
    assert [row[0].split(",")[0] for row in table.rows] == [
        *(TITLES["position_bias"], TITLES["unjudged"]),
    ]
    assert [row[1:] for row in table.rows] == [
        ("red: 70.0 % (60.0 to 80.0 %)", "40.0 to 60.0 %"),
        ("green: 2.0 % (0.0 to 6.0 %)", "at most 3.0 %"),
    ]


def test_a_check_says_the_number_the_threshold_and_the_advice_only_where_it_is_red() -> None:
    biased, cycles, retest = map(light_sentence, (BIASED, CYCLES, SWAPPED))
    said, advice = biased.split(" (why). ")
    assert advice == f"The judge prefers the first slot. {MEASURES['position_bias'].advice}"
    assert re.findall(r"\d+\.\d+", said) == ["70.0", "60.0", "80.0", "40.0", "60.0"]
    assert re.findall(r"\d+\.\d+", cycles) == ["0.250", "0.010"]
    assert cycles.endswith(" (why).")
    assert retest == f"{TITLES['swap_consistency']}: not measured (why)."
