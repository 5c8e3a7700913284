"""The package with one more extra, which is nothing but a folder, and with one more of each row."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pytest
import yaml

from tests.extras.copies import copy_of_package, copy_of_project, run_script
from tests.projects import make_project
from tests.test_house import ROOT

LOADERS = """
from typing import Literal

from tournament_assets.tournament.entrant_settings import LoaderRow, WrittenEntrant
from tournament_assets.tournament.places import Location


class ShellEntrant(WrittenEntrant):
    \"\"\"A program of this machine that reads a prompt and writes its response.

    Attributes:
        program: What runs the script.
        script: The file that it runs.
    \"\"\"

    loader: Literal["shell"]
    program: str
    script: Location


ROWS = (LoaderRow(entrant=ShellEntrant, answer="tournament_assets.extras.shell.answering:answer"),)
"""
ANSWERING = """
import subprocess

from tournament_assets.project.project_files import entrant_fingerprint, places_of
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.prompts import GeneratedResponse


def answer(entrant, wanted):
    project = wanted.plan.project
    identity, (script,) = entrant_fingerprint(entrant, project), places_of(entrant, project)
    prompts = {each.fingerprint: each for each in wanted.prompts}
    with wanted.resources.ledger.open() as ledger:
        known = ledger.responses(identity, prompts, cuts_thoughts=False)
        for key in prompts.keys() - known.keys():
            asked = prompts[key]
            done = subprocess.run(
                [entrant.program, script], input=asked.text, capture_output=True, text=True
            )
            response = GeneratedResponse(asked.prompt_id, done.stdout, "stop")
            ledger.keep_responses(identity, [(key, response)])
        kept = ledger.responses(identity, prompts, cuts_thoughts=False)
    return CompletedResponses([*kept.values()], len(prompts) - len(known), "by a program")
"""
SCRIPT = """
import sys
from pathlib import Path
import tournament_assets as ta
from tournament_assets.cli.configuration import render_page

folder = Path(sys.argv[1])
small = ta.load(folder / "configs" / "small.yaml", environment={})
for text in ("upper", "upper", "lower"):
    (folder / "say.py").write_text(f"import sys; print(sys.stdin.read().{text}(), end='')")
    made = small.tables("pilot", until="report")
    told = made.metadata["entrant_responses", "shouter"]
    said = made.frame("entrant_responses", "shouter")["response"]
    markdown = made.frame("report").set_index("format")["content"]["markdown"]
    print(told["entrant_hash"], told["generated_now"], said[0], "shouter" in markdown, sep="|")
print("| **`script`** |" in render_page())
print(small.estimate("headline").requests)
(folder / "say.py").unlink()
try:
    small.run("pilot", record=False)
except ta.InputError as error:
    print(*error.problems)
"""


def test_a_loader_of_an_extra_plays(tmp_path: Path) -> None:
    copy = copy_of_package(tmp_path)
    extra = copy / "extras" / "shell"
    extra.mkdir()
    for name, text in (("__init__", ""), ("loaders", LOADERS), ("answering", ANSWERING)):
        (extra / f"{name}.py").write_text(text)
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    config = yaml.safe_load(project.config_path.read_text())
    shell = {"loader": "shell", "program": sys.executable, "script": {"path": "say.py"}}
    entrants = [*config["entrants"][:2], {"entrant_id": "shouter", **shell}]
    project.edit_config(entrants=entrants)
    lines = run_script(SCRIPT, copy, project).splitlines()
    first, again, edited = (line.split("|") for line in lines[:3])
    assert first[1:3] == ["6", first[2].upper()]
    assert again == [first[0], "0", *first[2:]]
    assert edited[0] != first[0]
    assert edited[1:3] == ["6", first[2].lower()]
    assert {first[3], edited[3]} == {"True"}
    documented, to_ask, refused = lines[3:]
    assert documented == "True"
    assert int(to_ask) > 0
    assert "shouter's script" in refused


COMMANDS = """
import click

say = click.Command("say", callback=lambda: click.echo("said"))
place = "extras.speech.commands:say"
ROWS = {
    "battles say": (place, "Say it of battles."),
    "voice say": (place, "Say it of the voice."),
    "say": (place, "Say it."),
    "say twice": (place, "Say it again."),
}
"""
SPEAKING = """
from click.testing import CliRunner
from tournament_assets.cli import main

for words in ("--help", "battles --help", "voice --help", "voice say", "battles say", "say"):
    done = CliRunner().invoke(main, words.split())
    print(done.exit_code, " ".join(done.output.split()))
"""


def test_an_extra_adds_commands_to_groups_of_others_and_to_one_that_nobody_has(
    tmp_path: Path,
) -> None:
    copy = copy_of_package(tmp_path)
    extra = copy / "extras" / "speech"
    extra.mkdir()
    (extra / "__init__.py").touch()
    (extra / "commands.py").write_text(COMMANDS)
    listed, battles, voice, *said, refused = run_script(
        SPEAKING, copy, make_project(tmp_path / "project")
    ).splitlines()
    assert listed.endswith(" voice")
    assert " rate " in battles
    assert " say Say it of battles." in battles
    assert " say Say it of the voice." in voice
    assert said == ["0 said", "0 said"]
    assert refused.startswith("2 ")
    assert "'say twice'" in refused


ADDITIONS = Path(__file__).with_name("additions.txt")
BESIDE_THE_PACKAGE = ("tests/", "rubrics/", "configs/", "docs/")


class Insertion(NamedTuple):
    """A text before the line of a file that begins so, or at its end."""

    file: str
    line: str | None
    text: str

    def make(self, project: Path) -> None:
        is_beside = self.file.startswith(BESIDE_THE_PACKAGE)
        path = project / ("" if is_beside else "tournament_assets") / self.file
        path.parent.mkdir(exist_ok=True)
        before, line, after = path.read_text() if path.exists() else "", "", ""
        if self.line:
            before, line, after = before.partition(f"\n{self.line}")
            assert line, f"{self.file}: no line begins with {self.line!r}"
        path.write_text(f"{before}\n{self.text}{line[1:]}{after}")


def additions() -> Mapping[str, Sequence[Insertion]]:
    """Return what is inserted to add one of a kind, by the kind."""
    changes = {}
    for change in ADDITIONS.read_text().split("\n=== ")[1:]:
        kind, *cells = re.split(r"\n--- (\S+)(?: before (.+))?(?=\n|$)", change)
        parts = zip(cells[::3], cells[1::3], cells[2::3], strict=True)
        changes[kind] = [Insertion(file, line, f"{text[1:]}\n") for file, line, text in parts]
    return changes


def contributors_table() -> Mapping[str, str]:
    """Return where CONTRIBUTING says that something of a kind is added, by the kind."""
    _, _, table = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("| to add | touch |\n|---|---|\n")
    )
    return dict(re.findall(r"^\| (.+?) \| (.+) \|$", table.partition("\n\n")[0], re.MULTILINE))


def test_contributors_are_told_of_every_place_that_a_change_needs() -> None:
    places = contributors_table()
    assert [*additions()] == [*places]
    for kind, insertions in additions().items():
        for path in (PurePosixPath(insertion.file) for insertion in insertions):
            names = {f"`{path}`", *(f"`{folder}/`" for folder in path.parents)}
            assert any(name in places[kind] for name in names), (kind, path)


SHOWN = """
import sys
from pathlib import Path
import tournament_assets as ta
from tournament_assets.battles.registry import read_battles
from tournament_assets.cli import main

folder = Path(sys.argv[1])
config = folder / "configs" / "small.yaml"
made = ta.load(config, environment={}).tables("pilot", until="report")
page = made.frame("report").set_index("format")["content"]["html"]
(folder / "battles.csv").write_text("above,below\\nada,bob\\n")
print(
    *made.frame("added_asset")["entrant_id"],
    *made.frame("win_rates", "factuality")["added"].unique(),
    "added_method" in {*made.frame("ratings", "factuality")["method"]},
    read_battles(folder / "battles.csv").format,
)
words = "Added counts a tie", "pairs read", 'id="added"', 'id="added-by-extra"', "an added service"
print(*(word for word in words if word not in page))
main(["added", "--config", str(config)])
"""
OLD_TESTS = (
    "cli/test_configuration.py extras/banks extras/test_added.py extras/test_whole.py golden "
    "graph/test_rows_removed.py graph/test_table.py judging/faults/test_fault_table.py "
    "loopback/faults providers ratings reports responses storage test_definitions.py test_house.py "
    "tournament trust verdicts/test_judge_services.py"
)


@pytest.mark.e2e
@pytest.mark.timeout(1200)
def test_one_more_of_everything_shows_and_leaves_old_tests_green(tmp_path: Path) -> None:
    copy = copy_of_project(tmp_path)
    for kind in contributors_table():
        for insertion in additions()[kind]:
            insertion.make(copy)
    project = make_project(tmp_path / "project", dimensions=("factuality",))
    project.seat({"service": "added", "model": "added-1"})
    entrants = yaml.safe_load(project.config_path.read_text())["entrants"][:2]
    project.edit_config(entrants=[*entrants, {"entrant_id": "echo", "loader": "echo"}])
    shown = run_script(SHOWN, copy / "tournament_assets", project).splitlines()
    assert shown == ["careful sloppy echo nothing True added", "", "small"]
    for command in (
        ["tests.golden.test_defaults"],
        ["pytest", "-q", "-n2", "-mnot e2e", *(f"tests/{name}" for name in OLD_TESTS.split())],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=copy,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr
