"""The documentation: pages that come from the code are current, and every link leads somewhere."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from tournament_assets.cli import main as tournament

ROOT = Path(__file__).parents[2]
_RENDER = """
import json, runpy
pages = runpy.run_path("scripts/reference_docs.py")["PAGES"]
print(json.dumps({name: render() for name, render in pages.items()}))
"""

with_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="mkdocs is not installed; `make test` installs it"
)


def test_the_pages_of_commands_and_tables_are_what_the_code_says() -> None:
    # In a process of its own: a command keeps the help option of whoever asked it first.
    written = subprocess.run([sys.executable, "-c", _RENDER], cwd=ROOT, capture_output=True)
    pages = json.loads(written.stdout)
    assert sorted(pages) == ["commands.md", "tables.md"]
    for name, page in pages.items():
        assert (ROOT / "docs" / name).read_text() == page, "run: scripts/reference_docs.py"


def test_every_page_says_how_it_is_made_and_knows_every_command_and_table() -> None:
    commands = (ROOT / "docs" / "commands.md").read_text()
    tables = (ROOT / "docs" / "tables.md").read_text()
    for command in ("run", "site", "battles import", "ledger"):
        assert f"## tournament {command}\n" in commands
    for table in ("judge_replies", "leaderboard", "elo_traces"):
        assert f"## {table}\n" in tables
    assert "| `response_tokens` |" in tables
    assert "| `ratings` |" in tables
    assert "| `price_list` | – | – | observed, not stored |" in tables


def build(project: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(out)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@with_mkdocs
def test_the_site_is_built_and_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
    done = build(ROOT, tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "concepts.html").is_file()
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in ROOT.iterdir():
        if path.name in ("docs", "scripts"):
            shutil.copytree(path, copy / path.name)
        else:
            (copy / path.name).symlink_to(path)
    page = copy / "docs" / "concepts.md"
    text = page.read_text()
    for wrong in ("[x](nowhere.md)", "[x](report.md#nowhere)", "[x](../configs/nowhere.yaml)"):
        page.write_text(f"{text}\n{wrong}\n")
        failed = build(copy, tmp_path / "broken")
        assert failed.returncode == 1, wrong
        assert "nowhere" in failed.stdout + failed.stderr


def test_the_example_is_small_whole_and_of_no_particular_machine() -> None:
    example = ROOT / "docs" / "example"
    files = [path for path in example.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_500_000
    for page in example.glob("*.html"):
        for link in re.findall(r'href="([^"]+)"', page.read_text()):
            file, _, anchor = link.partition("#")
            assert (example / file).is_file()
            assert not anchor or f'id="{anchor}"' in (example / file).read_text()
    for path in files:
        assert not re.search(r"/(?:home|tmp|root|work|Users)/", path.read_text()), path


_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_PLACEHOLDERS = str.maketrans("", "", "[]()|")


def _fenced(text: str) -> list[str]:
    """The commands that a page shows in blocks, one a line."""
    blocks = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    shown = [body for language, body in blocks if language in ("", "console", "sh", "bash")]
    lines = "".join(shown).replace("\\\n", " ").splitlines()
    return [line.strip().removeprefix("$ ") for line in lines]


def _printed_commands(program: str) -> list[tuple[str, str, bool]]:
    """Page, command, and whether it stands in a block rather than in a sentence."""
    found = []
    for page in _PAGES:
        text = page.read_text()
        fenced = [(line, True) for line in _fenced(text)]
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        inline = [
            (" ".join(code.split()), False)
            for paragraph in re.split(r"\n\s*\n|\n(?=[|*-] |\d+\. )", re.sub(r"``.*?``", "", prose))
            for code in re.findall(r"`([^`]+)`", paragraph)
        ]
        for command, is_block in (*fenced, *inline):
            bare = re.sub(r"^(?:[A-Z_]+=\S* )*", "", command)
            is_prose = re.search(r"[a-z][.:,;] \w", bare) is not None  # between two backticks
            if bare.startswith(f"{program} ") and not is_prose:
                found.append((page.name, bare, is_block))
    return found


def _problems(command: str, *, is_block: bool) -> list[str]:
    """What the real command line says against a command: unknown commands, options and values."""
    words = shlex.split(re.split(r" (?:[#|>&]|>>|&&) ", command)[0])[1:]
    here: click.Command = tournament
    context = click.Context(here, info_name="tournament")
    while isinstance(here, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0).translate(_PLACEHOLDERS)
        if name in ("…", ""):
            return []
        inner = here.get_command(context, name)
        if inner is None:
            return [f"no command {name!r}"]
        here, context = inner, click.Context(inner, info_name=name, parent=context)
    known = {flag for each in here.params for flag in (*each.opts, *each.secondary_opts)}
    asked = {word.translate(_PLACEHOLDERS).split("=")[0] for word in words if "--" in word[:2]}
    wrong = [f"no option {flag!r}" for flag in sorted(asked - known - {"--help", "--version"})]
    if is_block and not wrong:
        try:
            here.make_parser(context).parse_args([word for word in words if word != "…"])
        except click.UsageError as error:
            wrong.append(error.format_message())
    return wrong


def test_every_printed_command_has_the_options_that_the_program_has() -> None:
    printed = _printed_commands("tournament")
    assert len(printed) > 40
    wrong = {
        f"{page}: {command}": found
        for page, command, is_block in printed
        if (found := _problems(command, is_block=is_block))
    }
    assert not wrong


def test_every_printed_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    printed = [command.split()[1:] for _, command, _ in _printed_commands("make")]
    assert printed
    named = {word for words in printed for word in words if re.fullmatch(r"[a-z-]+", word)}
    assert named <= targets


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("tournament fly", "no command 'fly'"),
        ("tournament run --config x --moed pilot", "no option '--moed'"),
        ("tournament run --config", "requires an argument"),
    ],
)
def test_a_command_that_is_none_is_found(command: str, problem: str) -> None:
    assert problem in " ".join(_problems(command, is_block=True))
