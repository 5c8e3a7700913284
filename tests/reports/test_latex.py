import re

from tournament_assets.reports.leaderboard import leaderboard_latex

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
    assert [index for index, line in enumerate(lines) if line == r"\midrule"] == [3, 7]
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert "hline" not in "".join(lines)


def test_every_line_has_as_many_cells_as_the_table_has_columns() -> None:
    lines = _lines(leaderboard_latex(LEADERS))
    columns = len(lines[0].removeprefix(r"\begin{tabular}{").removesuffix("}"))
    cells = [line for line in lines if line.endswith(r"\\")]
    assert len(cells) == 5
    assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in cells} == {columns}


def test_signs_that_latex_does_not_take_literally_are_escaped() -> None:
    text = leaderboard_latex(LEADERS)
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
