"""The documentation: its site is whole, and every link and printed command leads somewhere."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pages import USES_CHROMIUM, complaints_of, find_violations, open_page
from tournament_assets.cli import main as tournament

ROOT = Path(__file__).parents[2]
with_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="mkdocs is not installed; `make test` installs it"
)


def in_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Mark one test as one that needs a browser."""
    for mark in USES_CHROMIUM:
        test = mark(test)
    return test


def build(project: Path, out: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(out)]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "site"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@with_mkdocs
def test_the_site_has_every_command_key_and_table_and_the_example(site: Path) -> None:
    for page, ids in {
        "commands": ("tournament-run", "tournament-battles-import", "tournament-ledger"),
        "configuration": ("judgingconfig", "reportconfig"),
        "tables": ("judge_replies", "leaderboard", "elo_traces"),
        "concepts": (),
    }.items():
        written = (site / f"{page}.html").read_text()
        assert [each for each in ids if f'id="{each}"' not in written] == []
    assert "<code>response_tokens</code>" in (site / "tables.html").read_text()
    assert (site / "example" / "index.html").is_file()
    assert (site / "404.html").is_file()


@pytest.fixture
def phone(browser: Browser, site: Path) -> Iterator[Page]:
    """Open the site's longest page from disk, as wide as a phone, dark, and without a network."""
    viewport: Any = {"width": 390, "height": 844}
    page = open_page(browser, viewport=viewport, color_scheme="dark", offline=True)
    complaints = complaints_of(page)
    page.goto((site / "configuration.html").as_uri())
    yield page
    page.context.close()
    assert complaints == []


@with_mkdocs
@in_chromium
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_on_any_page_of_the_site(
    browser: Browser, site: Path, width: int, scheme: Any
) -> None:
    viewport: Any = {"width": width, "height": 844}
    page = open_page(browser, viewport=viewport, color_scheme=scheme, offline=True)
    for written in sorted({*site.glob("*.html")} - {site / "404.html"}):  # styled by servers alone
        page.goto(written.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, written.name
        page.evaluate("document.querySelectorAll('details').forEach((menu) => menu.open = true)")
        assert find_violations(page) == [], written.name
    page.goto(f"{(site / 'index.html').as_uri()}?q=ledger")
    expect(page.locator("#hits article").first).to_be_visible()
    assert find_violations(page) == []
    page.context.close()


@with_mkdocs
@in_chromium
def test_on_a_phone_the_pages_and_sections_fold_at_the_top(phone: Page) -> None:
    bottoms = []
    for name in ("All pages", "On this page"):
        menu = phone.locator("summary", has_text=name)
        box = menu.bounding_box()
        assert box is not None
        bottoms.append(box["y"] + box["height"])
        menu.click()
        expect(phone.get_by_role("navigation").get_by_role("link").last).to_be_visible()
        menu.click()
    assert bottoms[-1] < 200
    phone.locator("summary", has_text="All pages").click()
    phone.get_by_role("link", name="Glossary").click()
    expect(phone.get_by_role("heading", level=1)).to_have_text("Glossary")


@with_mkdocs
@in_chromium
def test_search_finds_sections_from_disk_and_shows_texts_as_text(phone: Page) -> None:
    search, results = phone.get_by_label("Search", exact=True), phone.locator("#hits article")
    search.fill("kept <b>")
    expect(phone.locator("#hits h2")).to_contain_text("No section")
    expect(phone.locator("#hits b")).to_have_count(0)
    search.fill("--config judge's")
    expect(results.first.locator("mark").first).to_have_text(re.compile("--config|judge's"))
    search.fill("LEDGER recov")
    expect(results.first).to_contain_text("ledger: recovery")
    expect(results.first.locator("mark").first).to_have_text("ledger")
    search.press("Enter")
    expect(results.first.get_by_role("link")).to_be_focused()
    phone.keyboard.press("Enter")
    expect(phone.locator(":target")).to_contain_text("ledger: recovery")


@with_mkdocs
@in_chromium
def test_bold_is_bold_and_dark_is_dark(phone: Page) -> None:
    weights = "names => names.map((name) => Number(getComputedStyle(name).fontWeight))"
    keys = phone.locator("td strong code").evaluate_all(weights)
    assert len(keys) > 5
    assert min(keys) >= 600
    expect(phone.locator("body")).to_have_css("background-color", "rgb(14, 19, 23)")
    phone.emulate_media(color_scheme="light")
    expect(phone.locator("body")).to_have_css("background-color", "rgb(245, 247, 249)")


@with_mkdocs
def test_a_link_that_leads_nowhere_fails(tmp_path: Path) -> None:
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
