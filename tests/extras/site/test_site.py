"""Static pages over all runs."""

import html
import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.reports.builders import leader_row
from tests.test_python_api import test_what_is_not_used_is_not_imported as check_imports
from tournament_assets.cli import main
from tournament_assets.extras.site.site import MOST_RUNS, read_runs, site_pages, write_site
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Rating
from tournament_assets.reports.csv_tables import write_csv_table
from tournament_assets.reports.sections import Doubt
from tournament_assets.tournament.asset_rows import LeaderboardRow

EVIL = "<script>alert(1)</script>"


def write_run(
    runs: Path,
    day: int,
    *,
    ada: float = 1450.0,
    mode: str = "pilot",
    rubric: str = "r1",
    loser: str = EVIL,
    question: str = "",
) -> Path:
    folder = runs / f"{mode}_202611{day:02}T060000Z"
    folder.mkdir(parents=True)
    manifest = {
        "tournament": "vision",
        "config": "configs/vision.yaml",
        "mode": mode,
        "judge": "loopback",
        "judge_model": "lexical",
        "entrants": ["ada", loser],
        "selected_prompts": 50,
        "finished_at": f"2026-11-{day:02}T06:00:00+00:00",
        "trust": {"facts": {"length_effect": "red"}, "all dimensions": {"flip_direction": "amber"}},
        "inputs": {
            "selected_prompts": "p",
            "rubrics": {"facts": {"hash": rubric}},
            "entrants": {"ada": {"hash": f"a{day}"}},
        },
    }
    rows = [
        leader_row("ada", ada, interval=(ada - 30, None), dimension="facts", group="a"),
        leader_row(loser, 1400.0, interval=(1380, 1420), dimension="facts", rank=2, group="a"),
        leader_row("idle", None, dimension="facts", rank=3, n=0, note="no match"),
    ]
    (folder / "leaderboard.csv").write_bytes(write_csv_table(LeaderboardRow, rows))
    for name in ("report.html", "report_battles_facts.html", "report.md"):
        (folder / name).write_text(f"{name} of day {day}")
    doubt = Doubt(f"a stand-in judged {EVIL}", "It is a stand-in.", is_red=True, section="method")
    screen = {"title": f"vision, {mode}", "question": question, "doubts": [asdict(doubt)]}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "first_screen": screen}))
    return folder


def test_the_site_warns_as_the_report_does_and_asks_its_question(tmp_path: Path) -> None:
    folder = write_run(tmp_path, 1, question="Who sees more?")
    for page in site_pages(read_runs(tmp_path)[0]).values():
        warned = page.index("Do not rely on this")
        assert page.index("vision, pilot</") < page.index("Who sees more?") < warned
        assert f'href="runs/{folder.name}/report.html#method"' in page
        assert warned < page.index("<table")
        assert "from 1420" in page


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write_run(folder, 1, ada=1410.0)
    write_run(folder, 2, ada=1430.0, rubric="r2")
    write_run(folder, 3)
    write_run(folder, 2, mode="headline")
    return folder


def test_the_site_has_an_index_a_page_a_mode_and_every_report(runs: Path, tmp_path: Path) -> None:
    found, problems = read_runs(runs)
    assert problems == []
    assert found[0].folder.name == "pilot_20261103T060000Z"
    out = tmp_path / "public" / "site"
    names = {path.relative_to(out).as_posix() for path in write_site(found, out)}
    assert {"index.html", "vision_pilot.html", "vision_headline.html"} <= names
    assert len(names) == 3 + (4 + 2) * 2
    for page in out.glob("*.html"):
        for link in re.findall(r'href="([^"]+)"', page.read_text()):
            assert (out / link.partition("#")[0]).is_file()
    latest = out / "latest" / "vision_pilot" / "report_battles_facts.html"
    assert latest.read_text().endswith("day 3")
    copied = out / "runs" / "pilot_20261103T060000Z" / "report_battles_facts.html"
    assert copied.read_text().endswith("day 3")


def test_the_picture_holds_every_rating_with_its_interval(runs: Path) -> None:
    page = site_pages(read_runs(runs)[0])["vision_pilot.html"]
    titles = re.findall(r"<title>([^<]+)</title></circle>", page)
    assert titles[:3] == [
        "ada, 2026-11-01: 1410 (from 1380)",
        "ada, 2026-11-02: 1430 (from 1400)",
        "ada, 2026-11-03: 1450 (from 1420)",
    ]
    assert not any("idle" in title for title in titles)
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', page)]
    assert heights[0] > heights[1] > heights[2]
    assert heights[1] - heights[2] == pytest.approx(heights[0] - heights[1], abs=0.2)
    assert "3 of 3 runs" in page


def test_whom_decisions_put_first_is_not_said_to_be_rated_highest(runs: Path) -> None:
    *_, run = read_runs(runs)[0]

    def pages(*ranks: int) -> tuple[str, str]:
        rows = zip(("ada", "bob"), (1390.0, 1410.0), ranks, strict=True)
        standings = tuple(Rating(value, entrant=name, rank=rank) for name, value, rank in rows)
        made = site_pages([replace(run, standings=dict.fromkeys(run.standings, standings))])
        return made["index.html"], made[run.page]

    index, page = pages(1, 2)
    assert "bob has the highest rating of the latest run, 1410" in page
    assert 'data-label="first">ada<' in index
    # In a circle of decisions nobody has the first rank.
    assert 'data-label="first">nobody<' in pages(2, 2)[0]


def test_a_run_says_which_of_its_inputs_are_not_those_of_the_run_before(runs: Path) -> None:
    page = site_pages(read_runs(runs)[0])["vision_pilot.html"]
    changes = re.findall(r'data-label="inputs that changed">([^<]*)<', page)
    assert changes == ["rubrics, entrants", "rubrics, entrants", "first run"]
    facts = re.findall(r'data-label="facts">([^<]*)<', page)
    assert [html.unescape(each) for each in facts] == [
        "50 prompts, 2 entrants, 1 amber light on the judge: too few to tell, "
        f"a stand-in judged {EVIL}"
    ] * 3


def test_the_pages_run_no_script_and_escape_what_others_wrote(runs: Path) -> None:
    pages = site_pages(read_runs(runs)[0])
    for page in pages.values():
        assert "<script" not in page
        assert re.findall(r"script-src ([^;\"]+)", html.unescape(page)) == ["'none'"]
        assert " style=" not in page
    assert "&lt;script&gt;" in pages["vision_pilot.html"]
    assert "&lt;script&gt;" in pages["index.html"]


def test_the_same_runs_give_the_same_bytes_and_an_old_site_is_replaced(
    runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "site"
    first = {path: path.read_bytes() for path in write_site(read_runs(runs)[0], out)}
    assert {path: path.read_bytes() for path in write_site(read_runs(runs)[0], out)} == first
    (runs / "headline_20261102T060000Z" / "manifest.json").unlink()
    write_site(read_runs(runs)[0], out)
    assert not (out / "vision_headline.html").exists()
    assert not list(tmp_path.glob(".site*"))


def test_a_folder_of_somebody_else_is_never_replaced(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "home"
    out.mkdir()
    (out / "index.html").write_text("my page")
    with pytest.raises(InputError, match=re.escape(str(out))):
        write_site(read_runs(runs)[0], out)
    assert (out / "index.html").read_text() == "my page"


def test_what_is_no_run_is_named_and_left_out(runs: Path) -> None:
    broken = runs / "pilot_20261109T060000Z"
    write_run(runs, 9)
    (broken / "leaderboard.csv").unlink()
    escaping = write_run(runs, 8)
    text = (escaping / "manifest.json").read_text()
    (escaping / "manifest.json").write_text(text.replace('"vision"', '"../vision"'))
    found, problems = read_runs(runs)
    assert len(found) == 4
    assert [escaping.name in problems[0], broken.name in problems[1]] == [True, True]


def test_a_long_history_shows_the_newest_runs_and_lists_all(tmp_path: Path) -> None:
    for day in range(1, 29):
        write_run(tmp_path, day)
    page = site_pages(read_runs(tmp_path)[0])["vision_pilot.html"]
    assert page.count("<circle") == 2 * MOST_RUNS
    assert page.count('data-label="facts"') == 28


def test_the_command_says_where_the_site_is(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "site"
    result = CliRunner().invoke(main, ["site", "--runs", str(runs), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "4 runs" in result.output
    assert str(out / "index.html") in result.output
    nothing = CliRunner().invoke(main, ["site", "--runs", str(tmp_path / "none")])
    assert nothing.exit_code == 2


def test_the_command_needs_neither_the_graph_nor_its_libraries() -> None:
    check_imports(
        "from tournament_assets import cli; cli.main.get_command(None, 'site')",
        ("dagster", "torch", "matplotlib", "anthropic"),
    )
