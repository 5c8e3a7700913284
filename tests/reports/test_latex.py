import csv
import io
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from tournament_assets.reports.leaderboard import (
    leaderboard_column_latex,
    leaderboard_csv,
    leaderboard_latex,
)
from tournament_assets.tournament.asset_rows import LeaderboardRow

from .builders import leader_row

SIGNS = r"a&b%c$d#e_f{g}h~i^j\k"
LEADERS = {
    "factuality": [
        leader_row("ada", 1450.0, sampling=(1420.0, 1480.0), group="a"),
        leader_row(SIGNS, 1400.0, sampling=(None, None), rank=2),
        leader_row("idle", 1400.0, sampling=(None, None), rank=3, matches=0),
    ],
    "calibration": [leader_row("ada", 1410.0, sampling=(1400.0, None), dimension="calibration")],
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


def test_every_line_has_as_many_cells_as_the_table_has_columns() -> None:
    for text, n_columns in (
        (leaderboard_latex(LEADERS), 9),
        (leaderboard_column_latex(LEADERS), 5),
    ):
        lines = _lines(text)
        columns = re.sub(
            r"\[[^]]*\]|@?\{[^}]*\}", "", lines[0].removeprefix(r"\begin{tabular}{")[:-1]
        )
        cells = [line for line in lines if line.endswith(r"\\") and "multicolumn" not in line]
        assert len(columns) == n_columns
        assert len(cells) == 5
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in cells} == {n_columns}


def test_what_is_no_number_stands_in_braces_for_siunitx() -> None:
    lines = _lines(leaderboard_latex(LEADERS))
    assert "& 1450.0 & 0.8 &" in next(line for line in lines if "ada" in line)
    assert "idle & {\N{EN DASH}} & {\N{EN DASH}} &" in next(
        line for line in lines if "idle" in line
    )


def test_a_long_name_may_be_divided_and_a_short_one_is_not() -> None:
    long = [leader_row("security_plus_robustness", 1400.0, sampling=(1350.0, 1450.0))]
    assert "security\\_\\allowbreak{}plus" in leaderboard_column_latex({"factuality": long})
    short = [leader_row("full_poe", 1400.0, sampling=(1350.0, 1450.0))]
    assert "full\\_poe &" in leaderboard_column_latex({"factuality": short})


LONG = {
    dimension: [
        leader_row(name, 1579.1, sampling=(1508.0, 1647.0), order=(1561.0, 1596.0), group="a b")
        for name in ("security_plus_robustness", "full_poe")
    ]
    for dimension in ("factuality", "clinical_utility")
}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="TeX is not installed")
@pytest.mark.parametrize(
    ("columns", "size"), [("twocolumn", "small"), ("onecolumn", "footnotesize")]
)
@pytest.mark.parametrize("leaders", [LEADERS, LONG])
def test_both_tables_are_set_by_latex_and_fit(
    tmp_path: Path, columns: str, size: str, leaders: dict[str, list[LeaderboardRow]]
) -> None:
    page = "".join(
        (
            f"\\documentclass[{columns}]{{article}}\\usepackage{{booktabs,siunitx}}",
            "\\begin{document}",
            f"\\begin{{table*}}\\{size} {leaderboard_latex(leaders)}\\end{{table*}}",
            f"\\begin{{table}}\\{size} {leaderboard_column_latex(leaders)}\\end{{table}}",
            "\\end{document}",
        )
    )
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_the_spreadsheet_has_every_column_and_empty_cells_for_what_is_absent() -> None:
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(LEADERS).decode())))
    assert [row["entrant_id"] for row in rows][:2] == ["ada", SIGNS]
    assert rows[0]["mean"] == "1450.0"
    assert rows[1]["sampling_low"] == ""
    assert set(rows[0]) == {field.name for field in fields(LeaderboardRow)}


def test_signs_that_latex_does_not_take_literally_are_escaped() -> None:
    text = leaderboard_latex(LEADERS).replace(r"\allowbreak{}", "")
    assert r"a\&b\%c\$d\#e\_f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k" in text


def test_a_line_break_in_a_name_does_not_end_the_line() -> None:
    rows = [leader_row("a\n\nb%\\input{x}", 1400.0, sampling=(None, None))]
    text = leaderboard_latex({"factuality": rows})
    assert r"a b\%\textbackslash{}input\{x\}" in text


def test_what_is_absent_is_no_number() -> None:
    (idle,) = (line for line in leaderboard_latex(LEADERS).splitlines() if "idle" in line)
    assert "1400" not in idle
    assert "unbounded" in leaderboard_latex(LEADERS)
    assert "from 1400" in leaderboard_latex(LEADERS)
