"""The package with one more extra, which is nothing but a folder."""

import sys
from pathlib import Path

import yaml

from tests.extras.copies import copy_of_package, run_script
from tests.projects import make_project

LOADERS = """
from typing import ClassVar, Literal

from tournament_assets.tournament.entrant_settings import WrittenEntrant
from tournament_assets.tournament.places import Location


class ShellEntrant(WrittenEntrant):
    \"\"\"A program of this machine that reads a prompt and writes its response.

    Attributes:
        program: What runs the script.
        script: The file that it runs.
    \"\"\"

    answered_by: ClassVar[str] = "tournament_assets.extras.shell.answering:answer"

    loader: Literal["shell"]
    program: str
    script: Location


ROWS = (ShellEntrant,)
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
        known = ledger.responses(identity, prompts)
        for key in prompts.keys() - known.keys():
            asked = prompts[key]
            done = subprocess.run(
                [entrant.program, script], input=asked.text, capture_output=True, text=True
            )
            response = GeneratedResponse(asked.prompt_id, done.stdout, "stop")
            ledger.keep_responses(identity, [(key, response)])
        kept = ledger.responses(identity, prompts)
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
