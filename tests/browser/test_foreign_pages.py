"""A page of another site, open in the same browser, tries to use the pages of `tournament ui`."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.pages import USES_CHROMIUM, open_page, running_browser
from tests.browser.servers import served
from tests.projects import make_project

FOREIGN = "foreign.example"
PARTITION = '{key: "dagster/partition", value: "pilot"}'
ALLOWED = '{key: "tournament/unbudgeted", value: "yes"}'
ATTEMPTS = """
async ([address, query]) => {
  const there = `${address}/graphql`, inAddress = `${there}?query=${encodeURIComponent(query)}`;
  const body = JSON.stringify({query}), json = {'Content-Type': 'application/json'};
  const done = promise => promise.then(answer => answer.type, () => 'refused');
  const image = new Promise(end => {
    const shown = new Image();
    shown.onload = shown.onerror = () => end('asked');
    shown.src = inAddress;
  });
  const form = (method, enctype, name, value, action) => new Promise(end => {
    const frame = document.createElement('iframe');
    frame.name = `frame${document.forms.length}`;
    document.body.appendChild(frame);
    const sent = document.body.appendChild(document.createElement('form'));
    Object.assign(sent, {method, enctype, action, target: frame.name});
    Object.assign(sent.appendChild(document.createElement('input')), {name, value});
    frame.onload = () => end('asked');
    sent.submit();
  });
  const socket = new Promise(end => {
    const opened = new WebSocket(there.replace('http', 'ws'), 'graphql-ws');
    opened.onopen = () => opened.send(
      JSON.stringify({type: 'start', id: '1', payload: {query}}));
    opened.onmessage = () => end('answered');
    opened.onerror = () => end('refused');
  });
  const text = {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}, body};
  return {
    image: await image,
    get: await done(fetch(inAddress, {mode: 'no-cors'})),
    text: await done(fetch(inAddress, text)),
    textBody: await done(fetch(there, text)),
    json: await done(fetch(there, {method: 'POST', headers: json, body})),
    beacon: navigator.sendBeacon(inAddress, body),
    formGet: await form('GET', 'text/plain', 'query', query, there),
    formPost: await form('POST', 'text/plain', 'query', query, inAddress),
    formFields: await form(
      'POST', 'application/x-www-form-urlencoded', 'query', query, inAddress),
    socket: await socket,
  };
}
"""
FRAMED = """
address => new Promise(end => {
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.onload = () => end(null);
  frame.src = address;
})
"""

pytestmark = USES_CHROMIUM


@dataclass(frozen=True)
class Served:
    """The pages of a tournament.

    Attributes:
        address: Where they are.
        mutation: What a page of theirs sends to launch a run.
    """

    address: str
    mutation: str

    def ask(self, query: str, **headers: str) -> Any:
        """Ask as a program on this machine does; return the answer."""
        request = urllib.request.Request(  # noqa: S310  # our own loopback server
            f"{self.address}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json", **headers},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def count_runs(self) -> int:
        query = "{ runsOrError { ... on Runs { results { runId } } } }"
        return len(self.ask(query)["runsOrError"]["results"])


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("ui")
    project = make_project(folder / "project")
    variables = dict(project.environment)
    with served(project.folder, folder / "log", **variables) as address:
        asked = Served(address, "")
        job = "{ repositoriesOrError { ... on RepositoryConnection { nodes { jobs { name } } } } }"
        (nodes,) = asked.ask(job)["repositoriesOrError"]["nodes"]
        name = next(each["name"] for each in nodes["jobs"] if each["name"].endswith("_run"))
        place = 'repositoryName: "__repository__", repositoryLocationName: "tournament_assets"'
        params = (
            f'selector: {{{place}, jobName: "{name}"}}, '
            f"executionMetadata: {{tags: [{PARTITION}, {ALLOWED}]}}"
        )
        answer = f"launchRun(executionParams: {{{params}}}) {{ __typename }}"
        yield Served(address, f"mutation {{ {answer} }}")


class _Blank(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><body>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def foreign_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Blank) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser(f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1") as launched:
        yield launched


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = open_page(browser)
    yield opened
    opened.context.close()


# Another site, another name of this machine, and another port of the same name.
@pytest.mark.parametrize("host", [FOREIGN, "localhost", "127.0.0.1"])
def test_a_page_of_another_origin_starts_nothing_and_reads_nothing(
    ui: Served, page: Page, foreign_port: int, host: str
) -> None:
    before = ui.count_runs()
    page.goto(f"http://{host}:{foreign_port}/")
    assert page.title() == "foreign"
    results = page.evaluate(ATTEMPTS, [ui.address, ui.mutation])
    assert ui.count_runs() == before
    assert (results["socket"], results["json"]) == ("refused", "refused")
    page.evaluate(FRAMED, ui.address)
    assert not any(frame.url.startswith(ui.address) for frame in page.frames)


def test_a_name_that_leads_here_opens_no_page(ui: Served, page: Page) -> None:
    before = ui.count_runs()
    answer = page.goto(f"http://{FOREIGN}:{urlsplit(ui.address).port}/")
    assert answer is not None
    assert answer.status == 403
    page.evaluate(ATTEMPTS, [f"http://{FOREIGN}:{urlsplit(ui.address).port}", ui.mutation])
    assert ui.count_runs() == before


def test_a_link_of_another_page_opens_the_pages_which_launch_runs_themselves(
    ui: Served, page: Page, foreign_port: int
) -> None:
    before = ui.count_runs()
    page.goto(f"http://{FOREIGN}:{foreign_port}/")
    page.evaluate(
        "address => { document.body.innerHTML = `<a href=${address}>there</a>` }",
        f"{ui.address}/runs",
    )
    page.get_by_text("there").click()
    page.wait_for_url(f"{ui.address}/runs**")
    page.get_by_role("link", name="Runs").first.wait_for()
    results = page.evaluate(ATTEMPTS, [ui.address, ui.mutation])
    assert (results["json"], results["socket"]) == ("basic", "answered")
    assert ui.count_runs() == before + 1  # by JSON alone


@pytest.mark.parametrize(
    ("method", "kind", "headers"),
    [
        ("GET", "", {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}),
        ("GET", "", {}),
        ("POST", "text/plain", {}),
        ("POST", "application/json", {"Host": "evil.example"}),
        ("POST", "application/json", {"Origin": "http://evil.example"}),
    ],
)
def test_a_request_as_a_foreign_page_sends_it_launches_no_run(
    ui: Served, method: str, kind: str, headers: dict[str, str]
) -> None:
    before = ui.count_runs()
    is_json = kind == "application/json"
    request = urllib.request.Request(  # noqa: S310  # our own loopback server
        f"{ui.address}/graphql" + ("" if is_json else f"?query={quote(ui.mutation)}"),
        json.dumps({"query": ui.mutation}).encode() if method == "POST" else None,
        {**({"Content-Type": kind} if kind else {}), **headers},
        method=method,
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=120)  # noqa: S310
    assert refused.value.code in (403, 415)
    assert ui.count_runs() == before
