"""Labels pairs as raters do: the real command, real pages, and a server that is killed between."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.pages import (
    SCREENSHOTS,
    USES_CHROMIUM,
    complaints_of,
    find_violations,
    open_page,
)
from tests.browser.servers import free_port
from tests.projects import ENTRANTS, SmallProject, bank_rows, make_project, write_json_lines
from tournament_assets.cli import main
from tournament_assets.extras.people.label_records import Label, LabelRecords

EVIL = '</script><script>window.hacked = 1</script><img src=x onerror="window.hacked = 1"><!--'
START_SECONDS = 200
NAMES = ("careful", "sloppy", "mixed", "verdict", "winner", "loopback", "entrant")
"""What a rater must not be told: entrants' names, and words of verdicts."""
KEPT = """async () => {
  const shelves = await Promise.all((await caches.keys()).map((name) => caches.open(name)));
  const answers = await Promise.all(shelves.map(async (shelf) =>
    Promise.all((await shelf.keys()).map(async (key) => (await shelf.match(key)).text()))));
  return answers.flat();
}"""
REGISTERED = "async () => (await navigator.serviceWorker.getRegistrations()).length"
QUESTION = "Which response is better on factuality?"

pytestmark = USES_CHROMIUM


@dataclass
class LabelServer:
    """The command `tournament label` on a small project, which can be killed and started again."""

    project: SmallProject
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.project.folder / "label.log"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.project.environment}

    def arguments(self, *options: str) -> list[str]:
        scope = ["--config", str(self.project.config_path), "--mode", "headline"]
        return ["label", *scope, "--dimension", "factuality", "--no-browser", *options]

    def start(self) -> None:
        script = "from tournament_assets.cli import main; main()"
        arguments = self.arguments("--sample", "20", "--port", str(self.port))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", script, *arguments],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Tests that a shell runs in the background ignore interrupts, and so would this.
                preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
            )
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url, timeout=5):  # noqa: S310
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"no answer from {self.url}:\n{self.log.read_text()[-3000:]}")

    def stop(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=60)

    def labels(self) -> list[Label]:
        url = f"sqlite:///{self.project.folder}/ledger/ledger.sqlite"
        with closing(LabelRecords(url)) as ledger:
            return list(ledger.labels("small", "headline", "factuality"))

    def n_labels(self, rater: str) -> int:
        return sum(label.rater == rater for label in self.labels())


def make_server(folder: Path) -> LabelServer:
    """Make a project whose responses hold no entrant's name, and markup instead."""
    project = make_project(folder)
    for place, entrant in enumerate(ENTRANTS):
        rows = [
            {
                "prompt_id": prompt["prompt_id"],
                "response": f"Answer number {10 * number + place}.\n\n{EVIL if place else ''}",
            }
            for number, prompt in enumerate(bank_rows())
        ]
        write_json_lines(folder / f"responses_{entrant}.jsonl", rows)
    return LabelServer(project)


@contextmanager
def started(folder: Path) -> Iterator[LabelServer]:
    made = make_server(folder)
    made.start()
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelServer]:
    with started(tmp_path_factory.mktemp("label") / "project") as made:
        yield made


@dataclass
class Watched:
    """A rater's page, and all that it was sent."""

    page: Page
    traffic: list[str]


@contextmanager
def opened(
    browser: Browser, address: str, **options: Any
) -> Iterator[tuple[Page, BrowserContext, Watched]]:
    """Open a page in a browser of its own; what its console says fails, lost connections aside."""
    page = open_page(browser, viewport={"width": 1280, "height": 800}, **options)
    complaints, watched = complaints_of(page), Watched(page, [])
    page.on("request", lambda request: watched.traffic.append(f"{request.url} {request.post_data}"))
    page.on("response", lambda answer: watched.traffic.append(f"{answer.headers} {_text(answer)}"))
    page.goto(address)
    yield page, page.context, watched
    assert [each.evaluate("window.hacked") for each in page.context.pages] == [None]
    page.context.close()
    assert complaints == []


def _text(answer: Any) -> str:
    try:
        return str(answer.text())
    except Exception:  # noqa: BLE001  # a redirect has no body, and a closed page none any more
        return ""


@contextmanager
def labelling(
    browser: Browser, server: LabelServer, rater: str, **options: Any
) -> Iterator[tuple[Page, BrowserContext, Watched]]:
    with opened(browser, f"{server.url}/?rater={rater}", **options) as (page, context, watched):
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        yield page, context, watched


def place(page: Page) -> str:
    return page.locator("#progress").inner_text().split(" · ")[0]


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_raters_on_two_pages_part_the_work_and_see_no_names(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        started(tmp_path / "project") as server,
        labelling(browser, server, "ana") as (ana, _, of_ana),
        labelling(browser, server, "ben") as (ben, _, of_ben),
    ):
        for said in "abt":
            for page in (ana, ben):
                expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
                page.keyboard.press(said)
        expect(ana.get_by_text("all votes saved")).to_be_visible()
        expect(ben.get_by_text("all votes saved")).to_be_visible()
        assert (server.n_labels("ana"), server.n_labels("ben")) == (3, 3)
        # Told of one another, they share every fifth pair and no other one.
        for page in (ana, ben):
            while page.get_by_role("heading", name="Thank you").is_hidden():
                page.get_by_role("button", name="Equally good").click()
        for page in (ana, ben):
            expect(page.get_by_text("all votes saved")).to_be_visible()
        raters: dict[str, set[str]] = {}
        for label in server.labels():
            raters.setdefault(label.pair.pair_id, set()).add(label.rater)
        shared = {label.pair.pair_id for label in server.labels() if label.pair.shared}
        assert len(raters) == 20
        assert len(shared) == 4
        assert all(raters[pair_id] == {"ana", "ben"} for pair_id in shared)
        twice = {pair_id for pair_id, names in raters.items() if len(names) == 2}
        assert len(twice - shared) <= 8  # before the first page had heard of the second rater
        sent = "".join([*of_ana.traffic, *of_ben.traffic])
        assert sent.count("Answer number") >= 80
        sent += ana.content() + ben.content()
        assert [word for word in NAMES if word in sent.lower()] == []


def test_nothing_is_lost_when_the_server_is_killed_between_two_votes(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        started(tmp_path / "project") as server,
        labelling(browser, server, "cat") as (page, context, _),
    ):
        page.keyboard.press("a")
        expect(page.get_by_text("all votes saved")).to_be_visible()
        server.stop(signal.SIGKILL)
        for key in "bt ":
            page.keyboard.press(key)
        page.keyboard.press("u")
        expect(page.get_by_text("no connection: 4 votes wait here")).to_be_visible()
        assert place(page) == "4 of 20"
        assert server.n_labels("cat") == 1
        server.start()
        expect(page.get_by_text("all votes saved")).to_be_visible()
        assert server.n_labels("cat") == 3
        # The next kill hits a page that is closed with votes that were never sent.
        server.stop(signal.SIGKILL)
        page.keyboard.press("b")
        expect(page.get_by_text("no connection: 1 vote waits here")).to_be_visible()
        page.close(run_before_unload=False)
        server.start()
        page = context.new_page()
        page.goto(f"{server.url}/?rater=cat")
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        expect(page.get_by_text("all votes saved")).to_be_visible()
        assert place(page) == "5 of 20"
        wait_until(lambda: server.n_labels("cat") == 4)
        server.stop(signal.SIGINT)
        assert re.search(r"cat: 4\b", server.log.read_text())
        assert server.process is not None
        assert server.process.returncode == 0


def test_a_reload_while_the_server_is_away_goes_on_where_the_rater_was(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        started(tmp_path / "project") as server,
        labelling(browser, server, "hal") as (page, _, watched),
    ):
        page.on("dialog", lambda dialog: dialog.accept())
        wait_until(lambda: page.evaluate("navigator.serviceWorker.controller !== null"))
        for key in "ab":
            page.keyboard.press(key)
        expect(page.get_by_text("all votes saved")).to_be_visible()
        server.stop(signal.SIGKILL)
        page.keyboard.press("t")
        expect(page.get_by_text("no connection: 1 vote waits here")).to_be_visible()
        read = page.locator("#prompt").inner_text()
        for _ in range(2):
            page.reload()
            expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
            assert place(page) == "4 of 20"
            assert page.locator("#prompt").inner_text() == read
        page.keyboard.press("a")
        expect(page.get_by_text("no connection: 2 votes wait here")).to_be_visible()
        assert server.n_labels("hal") == 2
        kept = page.evaluate(KEPT)
        assert len(kept) == 2  # the page, and the rater's pairs
        sent = "".join([*kept, *watched.traffic]).lower()
        assert sent.count("answer number") >= 40
        assert [word for word in NAMES if word in sent] == []
        server.start()
        expect(page.get_by_text("all votes saved")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        assert place(page) == "5 of 20"
        assert server.n_labels("hal") == 4


def test_what_a_browser_keeps_gives_way_to_another_server_at_the_address(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        started(tmp_path / "project") as server,
        labelling(browser, server, "ida") as (page, _, _),
    ):
        wait_until(lambda: page.evaluate("navigator.serviceWorker.controller !== null"))
        server.stop(signal.SIGKILL)
        with other_server(server.port):
            page.goto(server.url)
            expect(page.get_by_text("quite another page")).to_be_visible()
            wait_until(lambda: page.evaluate(KEPT) == [])
            wait_until(lambda: page.evaluate(REGISTERED) == 0)


@contextmanager
def other_server(port: int) -> Iterator[None]:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title><p>quite another page")

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Other) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield
        serving.shutdown()
        thread.join()


def test_a_vote_that_was_long_on_its_way_does_not_count_over_a_later_one(
    browser: Browser, server: LabelServer
) -> None:
    with opened(browser, server.url) as (page, _, _):
        page.get_by_label("Your name").fill("Dr. Slow")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        held: list[Route] = []
        page.route("**/votes", lambda route: held.append(route) if not held else route.continue_())
        for key, said in (("a", "A is better"), ("u", ""), (" ", "both bad")):
            page.keyboard.press(key)
            if said:
                expect(page.get_by_text(f"last vote: {said}")).to_be_visible()
        page.wait_for_timeout(700)  # that long it is on its way at least
        while not held:
            page.wait_for_timeout(50)
        held[0].continue_()
        expect(page.get_by_text("all votes saved")).to_be_visible()
    assert [each.vote for each in server.labels() if each.rater == "Dr. Slow"] == ["both_bad"]


def test_a_rater_needs_no_mouse(browser: Browser, server: LabelServer) -> None:
    with opened(browser, server.url) as (page, _, _):
        expect(page.get_by_label("Your name")).to_be_visible()
        for _ in range(9):
            if page.evaluate("document.activeElement.id") == "name":
                break
            page.keyboard.press("Tab")
        page.keyboard.type("Dr. Dan")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        first = page.locator("#prompt").inner_text()
        page.keyboard.press("r")
        dialog = page.get_by_role("dialog", name="How to judge")
        expect(dialog.get_by_text("Prefer the better response.")).to_be_visible()
        page.keyboard.press("a")  # says nothing while the rubric is read
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        page.keyboard.press("a")
        expect(page.get_by_text("last vote: A is better")).to_be_visible()
        # A vote's time is known but for how long it was on its way: let it arrive first.
        expect(page.get_by_text("all votes saved")).to_be_visible()
        page.keyboard.press("u")
        expect(page.locator("#prompt")).to_have_text(first)
        page.keyboard.press(" ")
        expect(page.get_by_text("last vote: both bad")).to_be_visible()
        # Every button is reached, shows where it is, and does what it says.
        names = []
        for _ in range(5):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.innerText").split("\n")[0])
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert [name.rsplit(" ", 1)[0] for name in names] == [
            *("A is better", "Equally good", "Both bad", "B is better", "Undo")
        ]
        page.keyboard.press("Shift+Tab")
        page.keyboard.press(" ")  # presses the button, and is no key of its own
        expect(page.get_by_text("last vote: B is better")).to_be_visible()
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        expect(page.get_by_text("all votes saved")).to_be_visible()
        assert [label.vote for label in server.labels() if label.rater == "Dr. Dan"].count(
            "both_bad"
        ) == 1
        page.get_by_role("button", name="How to judge").click()
        page.get_by_label("Vote with single keys").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        expect(page.get_by_text("last vote: B is better")).to_be_visible()


def test_a_sides_s_key_is_for_what_stands_there(browser: Browser, server: LabelServer) -> None:
    with labelling(browser, server, "eve") as (page, _, _):
        chosen = []
        for key, side in (("a", "a"), ("b", "b"), ("a", "a"), ("b", "b")):
            chosen.append(page.locator(f"#response-{side}").inner_text())
            page.keyboard.press(key)
        expect(page.get_by_text("all votes saved")).to_be_visible()
        prompts = [row["prompt_id"] for row in bank_rows()]
        winners = {
            (prompts.index(label.pair.prompt_id), getattr(label.pair, f"entrant_{label.vote}"))
            for label in server.labels()
            if label.rater == "eve"
        }
        numbers = [int(text.split(".")[0].rsplit(" ", 1)[1]) for text in chosen]
        assert winners == {(number // 10, ENTRANTS[number % 10]) for number in numbers}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_screen_readers_and_narrow_windows_find_all_they_need(
    browser: Browser, server: LabelServer, scheme: Any, width: int
) -> None:
    rater = f"fay{scheme}{width}"
    with labelling(browser, server, rater, color_scheme=scheme) as (page, _, _):
        page.set_viewport_size({"width": width, "height": 780})
        page.keyboard.press("a")
        expect(page.get_by_text("all votes saved")).to_be_visible()
        for _ in range(3):
            assert find_violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if not page.get_by_role("dialog").is_visible():
                page.keyboard.press("r")
        page.keyboard.press("Escape")
        for button in page.locator("#votes > button").all():
            box = button.bounding_box()
            assert box is not None
            assert box["height"] >= 44
            expect(button).to_be_in_viewport(ratio=1)
        page.screenshot(path=SCREENSHOTS / f"label_{scheme}_{width}.png")


def test_a_file_that_was_sent_needs_no_server_and_its_votes_come_back_once(
    browser: Browser, server: LabelServer, tmp_path: Path
) -> None:
    sent = tmp_path / "label.html"
    written = CliRunner().invoke(main, server.arguments("--rater", "gus", "--out", str(sent)))
    assert re.search(r"\d+ .*\bgus\b", written.output)
    address = sent.as_uri()
    with opened(browser, address, offline=True, accept_downloads=True) as (page, _, watched):
        expect(page.get_by_role("heading", name=QUESTION)).to_be_focused()
        for key in "abt":
            page.keyboard.press(key)
        page.reload()
        assert page.locator("#progress").inner_text().startswith("4 of")
        page.keyboard.press("u")
        page.keyboard.press("b")
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save votes").click()
        saved = tmp_path / "votes.json"
        waiting.value.save_as(saved)
        assert all(
            each.startswith(("file:", "blob:")) for each in watched.traffic if each[0] in "hfb"
        )
    assert len(json.loads(saved.read_text())["votes"]) == 5
    command = ["label", "import", "--config", str(server.project.config_path), str(saved)]
    said = [CliRunner().invoke(main, command).output for _ in range(2)]
    counts = [re.findall(r"(\d+) votes of gus, (\d+)", each) for each in said]
    assert counts == [[("5", "5")], [("5", "0")]]
    assert server.n_labels("gus") == 3
