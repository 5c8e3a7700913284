"""A run computed again from its verdicts, and digits that are changed in its tables."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.extras.verify.mutations import NUMBERS, mutate
from tests.golden import cases
from tests.projects import SmallProject, make_project, recorded_responses, write_json_lines
from tournament_assets.cli import main
from tournament_assets.extras.verify.checksums import check_sums
from tournament_assets.extras.verify.numbers import UNKNOWN, agree
from tournament_assets.extras.verify.recomputation import Recomputed
from tournament_assets.extras.verify.settled import SettledPair, read_run
from tournament_assets.extras.verify.verification import Verification

TABLES = ("pairwise_winrates.csv", "elo_results.json", "elo_ratings.json")
LEFT = {
    "manifest.json",
    "elo_results.json",
    "report.html",
    "tables/leaderboard.tex",
    "tables/paper.tex",
}
"""Files of which not every number is computed."""
PAGES = ("report.html", "report.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = make_project(tmp_path_factory.mktemp("verified") / "project")
    project.run()
    return next(path.parent for path in project.folder.glob("runs/*/manifest.json"))


@pytest.fixture(scope="module")
def verification(folder: Path) -> Verification:
    return Verification(read_run(folder))


def test_a_run_is_what_its_verdicts_give(folder: Path, verification: Verification) -> None:
    checked = [verification.check(name) for name in verification.files]
    assert [each.wrong for each in checked if each.wrong] == []
    n = {each.file: (each.n, each.n_left) for each in checked}
    # More left would mean that a column or a sentence got words under which nobody looks for it.
    left = {file: n_left for file, (_, n_left) in n.items() if n_left}
    assert left.keys() == LEFT, left
    assert (n["report.html"][0] > 700, left["report.html"] < 125, n["report.md"]) == (
        True,
        True,
        (19, 0),
    ), n
    done = CliRunner().invoke(main, ["verify", str(folder)])
    assert (done.exit_code, "0 changed" in done.output) == (0, True), done.output
    told = f"{n['report.html'][0]:,} recomputed, 0 wrong; not recomputed: {left['report.html']}"
    assert f"report.html: {told}\n" in done.output


def test_a_run_of_many_judges_samples_or_entrants_without_a_rating_is_what_its_verdicts_give(
    tmp_path: Path,
) -> None:
    def is_whole(made: SmallProject) -> bool:
        (run,) = (path.parent for path in made.folder.glob("runs/*/manifest.json"))
        own = Verification(read_run(run))
        checked = [own.check(name) for name in own.files]
        assert [each.wrong for each in checked if each.wrong] == []
        return own.run.stops_early

    cases.jury_samples(tmp_path / "jury")
    assert not is_whole(SmallProject(tmp_path / "jury"))
    cases.jury_adaptive_samples(tmp_path / "adaptive")
    assert is_whole(SmallProject(tmp_path / "adaptive"))
    silent = make_project(tmp_path / "silent")
    answers = [{**row, "response": ""} for row in recorded_responses("sloppy")]
    write_json_lines(silent.folder / "responses_sloppy.jsonl", answers)
    summary = silent.run("headline")
    assert ",lost every match" in (summary.directory / "tables/leaderboard.csv").read_text()
    assert not is_whole(silent)
    gap = make_project(tmp_path / "gap")
    write_json_lines(gap.folder / "responses_sloppy.jsonl", recorded_responses("sloppy")[1:])
    manifest = gap.run("headline").directory / "manifest.json"
    assert not is_whole(gap)
    # Which dimension planned the unanswered prompt is not in the verdicts, but on the page.
    written = json.loads(manifest.read_text())
    written["prompts_planned"]["calibration"] -= 1
    manifest.write_text(json.dumps(written))
    assert Verification(read_run(manifest.parent)).check("report.html").wrong


def test_a_changed_digit_anywhere_is_noticed(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "run"))
    noticed = [*mutate(copy, 60, kinds=NUMBERS)]
    assert [name for name, told, computed in noticed if not told and not computed] == []
    # Of 1,000 changes 91 % are noticed without the checksums.
    assert sum(computed for *_, computed in noticed) > 45


def test_every_number_of_the_tables_of_ratings_is_computed(
    folder: Path, verification: Verification
) -> None:
    about = (
        "All entrants",
        "Rating (dot)",
        "Ratings",
        "Win grid",
        "Ladder in numbers",
        "Undecided",
    )
    for name in PAGES:
        places = [
            place
            for place, found, expected in verification.files[name](folder / name)
            if expected is UNKNOWN and re.search(r"\d", str(found)) and place.startswith(about)
        ]
        assert places == []


def test_a_changed_digit_in_a_cell_of_a_page_is_not_what_was_computed(
    folder: Path, verification: Verification
) -> None:
    for name in PAGES:
        for place, found, expected in verification.files[name](folder / name):
            if expected is UNKNOWN or not isinstance(found, str):
                continue
            for at in (each.start() for each in re.finditer(r"\d", found)):
                digit = "1" if found[at] != "1" else "2"
                changed = found[:at] + digit + found[at + 1 :]
                assert not agree(changed, expected), (name, place, found, changed)


def test_files_that_are_gone_or_new_are_named(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "run"))
    (copy / "report.md").rename(copy / "other.md")
    assert [each.file for each in check_sums(copy).wrong] == ["other.md", "report.md"]
    done = CliRunner().invoke(main, ["verify", str(copy)])
    assert (done.exit_code, "report.md: SHA-256: no such file" in done.output) == (1, True)


def test_a_changed_leading_digit_is_found(
    folder: Path, verification: Verification, tmp_path: Path
) -> None:
    draw = random.Random(0)
    for name in TABLES:
        text = (folder / name).read_text(encoding="utf-8")
        # Leading digits of values; the rest of a number may be below the margin.
        places = [each.start(1) for each in re.finditer(r'(?:": |,)-?(\d)[\d.]*(?=[,\n])', text)]
        for place in draw.sample(places, min(20, len(places))):
            digit = "1" if text[place] != "1" else "2"
            changed = tmp_path / Path(name).name
            changed.write_text(text[:place] + digit + text[place + 1 :], encoding="utf-8")
            assert verification.check(name, changed).wrong, (name, text[place - 30 : place + 9])


def test_other_prompts_than_those_that_a_lead_rests_on_are_found(
    folder: Path, verification: Verification, tmp_path: Path
) -> None:
    table = pq.read_table(folder / "leaderboard.parquet")
    rows, changed = table.to_pylist(), tmp_path / "leaderboard.parquet"
    for prompts in (rows[0]["lead_rests_on"][1:], [*rows[0]["lead_rests_on"], "curated-0"]):
        others = [{**rows[0], "lead_rests_on": prompts}, *rows[1:]]
        pq.write_table(pa.Table.from_pylist(others, schema=table.schema), changed)
        wrong, *_ = verification.check("leaderboard.parquet", changed).wrong
        assert wrong.place.endswith(", lead_rests_on")


def test_a_row_that_is_gone_is_found(
    folder: Path, verification: Verification, tmp_path: Path
) -> None:
    for name in ("tables/leaderboard.csv", "pairwise_winrates.csv"):
        lines = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        shorter = tmp_path / Path(name).name
        shorter.write_text("".join(lines[:-1]), encoding="utf-8")
        wrong, *_ = verification.check(name, shorter).wrong
        assert wrong.place == "number of rows"


def test_a_win_share_counts_every_sample_by_its_weight() -> None:
    settings: dict[str, Any] = {"n_bootstraps": 2, "bootstrap_seed": 0, "confidence": 0.95}
    pairs = [
        SettledPair("p", 1, "recall", "ada", "bob", "a_wins", 1.0, 5.0),
        SettledPair("p", 2, "recall", "ada", "bob", "b_wins", 0.0, 5.0),
        SettledPair("q", 1, "recall", "ada", "bob", "a_wins", 1.0, 1.0),
    ]
    own = Recomputed(pairs, entrants=("ada", "bob"), within=20.0, initial=1400.0, **settings)
    assert own.win_shares == {"ada": 6 / 11, "bob": 5 / 11}


def test_a_verdict_file_that_is_cut_off_is_bad_input(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "run"
    shutil.copytree(folder, broken)
    path = next((broken / "verdicts").iterdir())
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    done = CliRunner().invoke(main, ["verify", str(broken)])
    assert done.exit_code == 2
    assert str(broken) in done.output


def test_a_folder_that_is_no_run_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["verify", str(tmp_path)])
    assert done.exit_code == 2
