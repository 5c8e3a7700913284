import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tournament_assets.reports.rating_method_tables import (
    ONE_METHOD,
    beside,
    comparison_notes,
    disagreement_sentences,
    side_by_side_cells,
)
from tournament_assets.reports.report_tables import ReportTable, select_columns
from tournament_assets.storage.tables import make_table, rows_of
from tournament_assets.tournament.asset_rows import RatingRow

from .builders import page_of, rating_row, ratings_table, render_html

METHODS = {"elo": "Elo", "bradley_terry": "Bradley-Terry", "davidson": "Davidson"}
TITLES = tuple(METHODS.values())
AGREED = {"ada": 1450.0, "bob": 1400.0, "cy": 1350.0}


def rated(means: Mapping[str, float]) -> list[RatingRow]:
    return list(rows_of(RatingRow, ratings_table(means)))


def turned(above: Mapping[str, str], names: Sequence[str] = ("ada", "bob")) -> list[RatingRow]:
    """Build rows of two entrants; `above` says whom a method puts above the other, if anybody."""
    rows = [rating_row("ties", "ties", 1.0, None)]
    for method in (*METHODS, "sandwich"):
        first = above.get(method)
        for name in names:
            below = [other for other in names if other != name and first == name]
            rating = 1400.2 if first == name else 1400.0
            rows.append(rating_row(name, method, rating, 1, shown_above=below))
    return rows


def sides(text: str) -> list[tuple[str, ...]]:
    """Return which two models, or which one, put whom above whom."""
    return re.findall(r"(?:([\w-]+) and )?([\w-]+) puts? (\S+) above (\w+)", text)


def test_the_table_has_a_row_an_entrant_with_rating_and_rank_by_each_model() -> None:
    cells = side_by_side_cells(
        [
            rating_row("ada", "elo", 1421.4, 1),
            rating_row("bob", "elo", None, None, note="no match"),
            # Decisions put ada first while judging; ranks are of the ratings, as the sentences are.
            rating_row("ada", "bradley_terry", 1430.0, 1),
            rating_row("bob", "bradley_terry", 1500.0, 2),
            replace(rating_row("ada", "sandwich", 1430.0, 2), low=1400.0, high=1460.0),
            rating_row("bob", "sandwich", 1500.0, 1),
            rating_row("ada", "davidson", 1432.0, 1),
            rating_row("bob", "davidson", None, None),
        ],
        ["bob", "ada"],
    )
    assert cells.headers[1:4] == ("Elo", "Bradley-Terry", "Davidson")
    dash = "\N{EN DASH}"
    assert cells.rows == (
        ("bob", dash, "1500 (1)", dash, dash),
        ("ada", "1421 (1)", "1430 (2)", "1432 (1)", f"1400{dash}1460"),
    )


def test_a_table_of_ratings_has_a_line_a_rating_and_other_ratings_of_its_entrant_beside_it() -> (
    None
):
    ada = replace(rating_row("ada", "davidson", 1430.4, 1), low=1400.0, high=1460.0)
    bob = replace(rating_row("bob", "davidson", 1390.0, 2), low=1350.0)
    cy = rating_row("cy", "davidson", None, None, note="no match")
    other = {"bob": rating_row("bob", "elo", 1500.0, 1)}
    table = ReportTable.of(
        [ada, bob, cy],
        {
            **ONE_METHOD,
            **select_columns(RatingRow, "rating_and_interval"),
            "elo": beside(other, "rating"),
        },
        n_labels=2,
    )
    dash = "\N{EN DASH}"
    assert table.headers == (*ONE_METHOD, "rating (interval)", "elo")
    assert table.rows == (
        ("1", "ada", "1430", f"1400{dash}1460", dash, f"1430 (1400{dash}1460)", dash),
        ("2", "bob", "1390", "from 1350", dash, "1390 (from 1350)", "1500"),
        (dash, "cy", dash, dash, "no match", "not rated", dash),
    )
    alone = rating_row("dan", "davidson", 1400.0, 1)
    assert alone.rating_and_interval == "1400 (no interval)"


def test_models_that_agree_disagree_on_no_pair() -> None:
    assert disagreement_sentences(rated(AGREED)) == []


def test_a_disagreement_names_the_models_on_either_side_and_in_between() -> None:
    rows = turned({"elo": "ada", "bradley_terry": "bob"})
    (sentence,) = disagreement_sentences(rows) or []
    assert sides(sentence) == [("", "Elo", "ada", "bob"), ("", "Bradley-Terry", "bob", "ada")]
    assert re.findall(r"(\w+) rates them alike", sentence) == ["Davidson"]
    rows = turned({"bradley_terry": "bob", "davidson": "bob", "elo": "ada"})
    (sentence,) = disagreement_sentences(rows) or []
    assert sides(sentence) == [
        ("", "Elo", "ada", "bob"),
        ("Bradley-Terry", "Davidson", "bob", "ada"),
    ]
    (sentence,) = disagreement_sentences(turned({"davidson": "bob", "bradley_terry": "ada"})) or []
    assert sentence.endswith("order noise.")


def test_models_that_rate_nobody_in_common_do_not_agree() -> None:
    rows = [
        replace(row, rating=None, rank=None) if row.method != "elo" else row
        for row in rated(AGREED)
    ]
    assert disagreement_sentences(rows) is None


def test_what_is_absent_is_explained_once_for_the_models_that_lack_it() -> None:
    reason = "won every match: no upper bound"
    rows = [
        replace(row, rating=None, rank=None, note=reason)
        if row.entrant_id == "ada" and row.method != "elo"
        else row
        for row in rated(AGREED)
    ]
    first, second = comparison_notes(rows)
    assert re.findall("|".join(TITLES), first) == [*TITLES][1:]
    assert first.endswith(f" ada: {reason}.")
    assert "1.000" in second
    noted = [
        replace(row, note="flat") if row.method == "sandwich" else row for row in rated(AGREED)
    ]
    first, _ = comparison_notes(noted)
    assert re.findall("|".join(TITLES), first) == ["Bradley-Terry"]
    assert re.findall("ada|bob|cy|flat", first) == ["ada", "bob", "cy", "flat"]


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (None, "not known"),
        (math.inf, "no upper bound"),
        (0.0, r"0\.000: .* 0 %"),
        (1.0, r"1\.000: .* 33 %"),
    ],
)
def test_the_tie_parameter_is_said_in_words(parameter: float | None, words: str) -> None:
    rows = [
        replace(row, rating=parameter) if row.method == "ties" else row for row in rated(AGREED)
    ]
    assert re.search(words, comparison_notes(rows)[-1])


def test_the_report_shows_the_table_and_every_sentence() -> None:
    rows = turned({"elo": "ada", "bradley_terry": "bob"})
    (sentence,) = disagreement_sentences(rows) or []
    given = page_of(
        {"factuality": {"ada": 1450.0, "bob": 1350.0}},
        tables={"ratings": {"factuality": make_table(RatingRow, rows)}},
    )
    page = render_html(given).split("<h3>Models side by side</h3>")[1].split("<h3>")[0]
    assert sentence in page
    assert (page.count(">1400 (1)</td>"), page.count(">1400 (2)</td>")) == (4, 2)
    assert "33 % of" in page
    alone = [row for row in rows if row.method in ("bradley_terry", "ties")]
    given = page_of(
        {"factuality": {"ada": 1450.0, "bob": 1350.0}},
        tables={"ratings": {"factuality": make_table(RatingRow, alone)}},
    )
    assert "nothing to compare</span>" in render_html(given)


def test_names_of_entrants_are_escaped_in_sentences() -> None:
    evil = "<s>|x"
    rows = turned({"elo": evil, "davidson": "bob"}, (evil, "bob"))
    given = page_of(
        {"factuality": {evil: 1450.0, "bob": 1350.0}},
        tables={"ratings": {"factuality": make_table(RatingRow, rows)}},
    )
    assert "<s>" not in render_html(given)
    assert ("", "Elo", "&lt;s&gt;|x", "bob") in sides(render_html(given))
