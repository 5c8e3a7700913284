import csv
import io
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from tournament_assets.audits.first_place import FirstPlaceSupport
from tournament_assets.foundation.formatting import ABSENT
from tournament_assets.ratings.rating_methods import WIN_SHARE
from tournament_assets.reports.csv_tables import write_csv_table
from tournament_assets.reports.leaderboard import (
    build_leaderboard,
    leaderboard_latex,
    leaderboard_sections,
)
from tournament_assets.reports.report_tables import Document
from tournament_assets.reports.terminal import print_document
from tournament_assets.storage.tables import make_table
from tournament_assets.tournament.asset_rows import LeaderboardRow, RatingRow, WinRateRow

from .builders import (
    LOOPBACK,
    elo_table,
    leader_row,
    pair_row,
    rating_row,
    ratings_table,
)

MEANS = {"ada": 1380.0, "bob": 1450.0, "cy": 1370.0}


def _build(**tables: object) -> list[LeaderboardRow]:
    given = {
        "elo_ratings": elo_table(MEANS),
        "ratings": ratings_table(MEANS),
        "win_rates": make_table(WinRateRow, [pair_row("ada", "bob", wins_a=1, wins_b=3)]),
        "judge_model": "judge-1",
    } | tables
    return build_leaderboard(**given, judge_label=LOOPBACK)  # type: ignore[arg-type]


def _printed(rows: list[LeaderboardRow], *, width: int) -> str:
    out = io.StringIO()
    sections = leaderboard_sections(rows, confidence=0.95, equivalent_within=20.0)
    print_document(Document("", sections), Console(file=out, width=width))
    return out.getvalue()


def test_rows_come_best_first_and_from_the_primary_k_factor_only() -> None:
    rows = _build()
    assert [(row.rank, row.entrant_id, row.rating, row.elo) for row in rows] == [
        (1, "bob", 1450.0, 1450.0),
        (2, "ada", 1380.0, 1380.0),
        (3, "cy", 1370.0, 1370.0),
    ]


def test_rows_fit_the_table_and_name_the_judge() -> None:
    frame = make_table(LeaderboardRow, _build())
    assert set(frame["judge"]) == {LOOPBACK}
    assert set(frame["judge_model"]) == {"judge-1"}


def test_where_nothing_was_judged_no_model_is_named() -> None:
    rows = _build(judge_model="")
    assert {row.judge_model for row in rows} == {None}
    assert f"model: {ABSENT}" in _printed(rows, width=100)


def test_the_win_rate_is_the_win_share_of_the_ratings_whatever_the_pairs_weigh() -> None:
    shares = {"ada": 0.4371, "bob": 0.625, "cy": 0.5}
    rows = [rating_row(name, WIN_SHARE, share, 1) for name, share in shares.items()]
    ratings = pd.concat([ratings_table(MEANS), make_table(RatingRow, rows)])
    pairs = [
        pair_row("ada", "bob", wins_a=2, wins_b=4, ties=1, inconsistent=1, unjudged=5),
        pair_row("ada", "cy", wins_a=4, wins_b=4),
    ]
    found = _build(ratings=ratings, win_rates=make_table(WinRateRow, pairs))
    assert {row.entrant_id: row.win_rate for row in found} == shares
    assert {row.entrant_id: row.n for row in found} == {"ada": 16, "bob": 8, "cy": 8}


def test_an_entrant_without_a_judged_pair_has_no_win_rate() -> None:
    pairs = [pair_row("ada", "bob", wins_a=1), pair_row("ada", "cy", unjudged=3)]
    rates = {
        row.entrant_id: row.win_rate for row in _build(win_rates=make_table(WinRateRow, pairs))
    }
    assert rates["cy"] is None


def test_tables_of_two_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="expected one"):
        _build(elo_ratings=elo_table(MEANS, dimension="calibration"))


def test_the_last_section_names_the_judge_and_what_the_intervals_cover() -> None:
    rows = [leader_row("ada", 1450.0, interval=(1440.0, 1460.0))]
    notes = leaderboard_sections(rows, confidence=0.95, equivalent_within=20.0)[-1].sentences
    assert f"judge: {LOOPBACK}" in notes[0]
    assert "prompts resampled" in notes[1]
    assert max(map(len, notes)) <= 100


def test_every_dimension_is_printed_as_a_table_of_its_own() -> None:
    rows = [
        leader_row("ada", 1450.0, interval=(1440.0, 1460.0), dimension=dimension)
        for dimension in ("factuality", "calibration")
    ]
    lines = _printed(rows, width=100).splitlines()
    titles = [line.strip() for line in lines if line.strip() in ("factuality", "calibration")]
    assert titles == ["factuality", "calibration"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_printed_row_stays_on_one_line(width: int) -> None:
    row = leader_row(
        "olmo2_poe_hydra",
        1450.0,
        interval=(1440.0, 1460.0),
        elo=1449.4,
        elo_sem=0.75,
        places=(1, 2),
        group="a",
    )
    lines = _printed([row], width=width).splitlines()
    (line,) = [line for line in lines if line.lstrip().startswith("1 ")]
    assert re.split(r"\s{2,}", line.strip()) == [
        "1",
        "olmo2_poe_hydra",
        "1450",
        "1440\N{EN DASH}1460",
        "1\N{EN DASH}2 a",
        "50.0 %",
        "100",
    ]
    assert any(line.endswith(": olmo2_poe_hydra 1449.4 ± 0.8.") for line in lines)


def test_without_a_rating_no_number_is_printed() -> None:
    row = leader_row("ada", None, n=0, note="no match")
    text = _printed([row], width=100)
    assert "not rated" in text
    assert "1400" not in text


def test_importing_the_reports_loads_no_matplotlib() -> None:
    code = (
        "import sys; import tournament_assets.reports.run.page; "
        "import tournament_assets.reports.figures.figures;"
        "print(sorted({'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_ranks_are_those_of_the_ratings_and_copies_name_one_another() -> None:
    means = {"ada": 1450.04, "bob": 1450.01, "cy": 1380.0, "dee": 1379.0}
    ranks = {"ada": 1, "bob": 1, "cy": 3, "dee": 3}
    ratings = ratings_table(means)
    ratings["rank"] = ratings["entrant_id"].map(ranks)
    rows = _build(
        elo_ratings=elo_table(means, k_factors=(16.0,)),
        ratings=ratings,
        win_rates=make_table(
            WinRateRow,
            [
                pair_row("ada", "bob", wins_a=3, wins_b=3),
                pair_row("cy", "dee", same_text=7),
                pair_row("ada", "cy", wins_a=4, ties=1, inconsistent=1, same_text=2, unjudged=1),
            ],
        ),
        support=FirstPlaceSupport(("p1",), 1),
    )
    assert [(row.rank, row.entrant_id) for row in rows] == [
        (1, "ada"),
        (1, "bob"),
        (3, "cy"),
        (3, "dee"),
    ]
    ada, _, cy, dee = rows
    assert (cy.same_answers_as, dee.same_answers_as) == (("dee",), ("cy",))
    assert (ada.lead_rests_on, cy.lead_rests_on) == (("p1",), ())
    assert (ada.lead_rests_on_at_least, cy.lead_rests_on_at_least) == (1, None)


SIGNS = "a&b_c"
LEADERS = {
    "factuality": [
        leader_row("ada", 1450.0, interval=(1420.0, 1480.0), group="a"),
        leader_row(SIGNS, 1400.0, rank=2),
        leader_row("idle", None, rank=3, n=0, note="no match"),
    ],
    "calibration": [leader_row("ada", 1410.0, interval=(1400.0, None), dimension="calibration")],
}


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("%")]


def test_the_table_has_booktabs_rules_and_one_between_dimensions() -> None:
    lines = _lines(leaderboard_latex(LEADERS))
    assert lines[0].startswith(r"\begin{tabular}{")
    assert lines[1] == r"\toprule"
    assert [index for index, line in enumerate(lines) if line == r"\midrule"] == [3, 8]
    assert r"{l}{factuality} \\" in lines[4]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert "hline" not in "".join(lines)


def test_what_is_no_number_stands_in_braces_for_siunitx() -> None:
    lines = _lines(leaderboard_latex(LEADERS))
    assert "& 1450 &" in next(line for line in lines if "ada" in line)
    assert re.search(r"idle & \{[^}]+\} &", next(line for line in lines if "idle" in line))


def test_a_long_name_may_be_divided_and_a_short_one_is_not() -> None:
    long = [leader_row("security_plus_robustness", 1400.0, interval=(1350.0, 1450.0))]
    assert "security\\_\\allowbreak{}plus" in leaderboard_latex({"factuality": long})
    short = [leader_row("full_poe", 1400.0, interval=(1350.0, 1450.0))]
    assert "full\\_poe &" in leaderboard_latex({"factuality": short})


LONG = {
    dimension: [
        leader_row(name, 1579.1, interval=(1508.0, 1647.0), group="a b")
        for name in ("security_plus_robustness", "full_poe")
    ]
    for dimension in ("factuality", "clinical_utility")
}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
@pytest.mark.parametrize(
    ("columns", "size"), [("twocolumn", "small"), ("onecolumn", "footnotesize")]
)
@pytest.mark.parametrize("leaders", [LEADERS, LONG])
def test_the_table_is_set_by_latex_and_fits(
    tmp_path: Path, columns: str, size: str, leaders: dict[str, list[LeaderboardRow]]
) -> None:
    page = "".join(
        (
            f"\\documentclass[{columns}]{{article}}\\usepackage{{booktabs,siunitx}}",
            "\\begin{document}",
            f"\\begin{{table*}}\\{size} {leaderboard_latex(leaders)}\\end{{table*}}",
            "\\end{document}",
        )
    )
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_the_spreadsheet_has_every_column_and_empty_cells_for_what_is_absent() -> None:
    rows = list(
        csv.DictReader(io.StringIO(write_csv_table(LeaderboardRow, LEADERS["factuality"]).decode()))
    )
    assert [row["entrant_id"] for row in rows][:2] == ["ada", SIGNS]
    assert rows[0]["rating"] == "1450.0"
    assert rows[1]["low"] == ""
    assert set(rows[0]) == {field.name for field in fields(LeaderboardRow)}


def test_what_is_absent_is_no_number() -> None:
    (idle,) = (line for line in leaderboard_latex(LEADERS).splitlines() if "idle" in line)
    assert "1400" not in idle
    assert "unbounded" in leaderboard_latex(LEADERS)
    assert "from 1400" in leaderboard_latex(LEADERS)
