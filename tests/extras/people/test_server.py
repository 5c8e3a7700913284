"""Drawing pairs for people to label, dealing them out, and the page on which they are labelled."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.extras.people.builders import SCOPE, desk, pairs, row, shown_pairs
from tests.loopback.threaded_servers import ThreadedServer
from tournament_assets.extras.people.label_records import LabelRecords
from tournament_assets.extras.people.labelling.sampling import draw_label_sample
from tournament_assets.extras.people.labelling.server import (
    create_label_app,
    rater_key,
    serve_labelling,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.storage.tables import pair_key

ENTRANTS = ("ada", "bob", "cy")


TOKEN = "a token of sixteen"
DESK = desk()


@pytest.fixture
def client(ledger: LabelRecords) -> Iterator[httpx2.Client]:
    app = create_label_app(DESK, ledger=ledger)
    with ThreadedServer(app) as server, httpx2.Client(base_url=server.url, timeout=60) as made:
        yield made


def body(*rows: Any, rater: str = "ana", **changed: Any) -> dict[str, Any]:
    """What the page of a rater sends, whose key is made from the name."""
    sent = {"sample": DESK.sample.sample_id, "rater": rater, "key": key(rater), "votes": list(rows)}
    return {**sent, **changed}


def key(rater: str) -> str:
    return fingerprint_text(rater)[:32]


def test_a_vote_is_in_the_ledger_when_it_is_answered(
    client: httpx2.Client, ledger: LabelRecords
) -> None:
    work = client.get("/work", params={"rater": "ana", "key": key("ana")}).json()
    assert work["order"] == sorted(shown_pairs(DESK))
    state = client.post("/votes", json=body(row(DESK, 0))).json()
    assert [(each.rater, each.vote) for each in ledger.labels(*SCOPE.values())] == [("ana", "a")]
    first = shown_pairs(DESK)[0]
    assert state["order"] == [each for each in work["order"] if each != first]
    assert client.post("/votes", json=body(row(DESK, 0))).json()["order"] == state["order"]
    assert len(list(ledger.iterate_votes(DESK.sample.sample_id))) == 1
    # Somebody who joins is dealt a part of what is left.
    last = work["order"][-1]
    vote = {**row(DESK, 0, id="b" * 32), "pair": last, "first": work["pairs"][last]["first"]}
    ben = client.post("/votes", json=body(vote, rater="ben")).json()["order"]
    ana = client.post("/votes", json=body()).json()["order"]
    assert first not in ben + ana
    assert set(ana) | set(ben) | {last} == set(state["order"])
    assert set(ana) & set(ben) == {*shown_pairs(DESK, shared=True)} - {first, last}


def test_nothing_that_is_sent_names_an_entrant(client: httpx2.Client) -> None:
    page = client.get("/")
    work = client.get("/work", params={"rater": "ana", "key": key("ana")}).json()
    for pair in work["pairs"].values():
        del pair["A"], pair["B"]  # what an entrant wrote of itself
    votes = client.post("/votes", json=body(row(DESK, 0)))
    worker = client.get("/worker.js")
    assert worker.headers["content-type"].startswith("text/javascript")
    shown = (page.text, json.dumps(work), votes.text, str(page.headers), str(votes.headers))
    for text in (*shown, worker.text):
        assert not any(f"{sign}{name}{sign}" in text for name in ENTRANTS for sign in ('"', " "))
        # Whoever guesses prompt and entrants of a pair can compute its id, and not its name here.
        assert not any(pair.pair_id in text for pair in DESK.sample.pairs)
    policy = "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src"
    assert policy in page.text
    assert "; connect-src 'self'; worker-src 'self'\"" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"json": body(sample="another")}, 409),
        ({"json": body({"id": 1})}, 400),
        ({"json": body(rater="\0")}, 400),
        ({"json": []}, 400),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"content": b"[" * 90_000, "headers": {"content-type": "application/json"}}, 400),
        ({"content": json.dumps(body()), "headers": {"content-type": "text/plain"}}, 415),
        ({"content": b" " * 300_000, "headers": {"content-type": "application/json"}}, 413),
    ],
)
def test_what_no_page_sends_is_refused(
    client: httpx2.Client, ledger: LabelRecords, sent: dict[str, Any], status: int
) -> None:
    answer = client.post("/votes", **sent)
    assert answer.status_code == status
    assert answer.json()["problems"]
    assert list(ledger.iterate_votes(DESK.sample.sample_id)) == []


def test_another_site_s_page_can_neither_read_nor_vote(client: httpx2.Client) -> None:
    for host in ("evil.example", "evil.example:80", "10.0.0.7"):
        assert client.get("/work?rater=a", headers={"host": host}).status_code == 403
        assert client.post("/votes", json=body(), headers={"host": host}).status_code == 403
        assert client.get("/", headers={"host": host}).status_code == 403
    work = {"rater": "ana", "key": key("ana")}
    assert client.get("/work", params=work).status_code == 200
    for header in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert client.get("/work", params=work, headers=header).status_code == 403
        assert client.post("/votes", json=body(row(DESK, 0)), headers=header).status_code == 403
    for path in ("/ledger.sqlite", "/../ledger.sqlite", "/votes"):
        assert client.get(path).status_code in (404, 405)


def test_with_a_token_nobody_without_it_sees_anything(ledger: LabelRecords) -> None:
    app = create_label_app(DESK, ledger=ledger, token=TOKEN)
    with ThreadedServer(app) as server, httpx2.Client(base_url=server.url, timeout=60) as client:
        for path in ("/", "/work?rater=ana", "/worker.js", "/?token=another"):
            assert client.get(path).status_code == 403
        assert client.post("/votes", json=body()).status_code == 403
        shown = client.get("/", params={"token": TOKEN, "rater": "ana"})
        assert shown.status_code == 303
        assert TOKEN.replace(" ", "+") not in shown.headers["location"]
        assert "rater=ana" in shown.headers["location"]
        cookie = shown.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        # The machine's name is another one there, which only the token makes up for.
        named = {"host": "ward-7.clinic"}
        assert client.get("/work", params={"rater": "ana"}, headers=named).status_code == 200


def test_a_port_that_is_taken_is_said(ledger: LabelRecords) -> None:
    app = create_label_app(DESK, ledger=ledger)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="--port"):
            serve_labelling(app, host="127.0.0.1", port=port, on_ready=lambda _: None)


def test_raters_vote_side_by_side_and_nothing_is_lost(
    client: httpx2.Client, ledger: LabelRecords
) -> None:
    def label(rater: str) -> None:
        for place in range(20):
            sent = row(DESK, place, id=f"{rater.encode().hex()}{place:026x}")
            assert client.post("/votes", json=body(sent, rater=rater)).status_code == 200

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(label, ["ana", "ben", "cat", "dan"]))
    assert len(list(ledger.labels(*SCOPE.values()))) == 80


@pytest.mark.parametrize("spelled", ["Ann\u00e9", "ann\u00e9", "ANNE\u0301"])
def test_a_name_is_its_rater_s_alone_however_it_is_spelled(
    ledger: LabelRecords, spelled: str
) -> None:
    app = create_label_app(DESK, ledger=ledger, raters=["Zo\u00eb"])
    with ThreadedServer(app) as server, httpx2.Client(base_url=server.url, timeout=60) as client:
        for place in range(300):  # reading enrols nobody
            assert client.get("/work", params={"rater": f"r{place}"}).status_code == 200
        joined = body(row(DESK, 0), rater="Ann\u00e9")
        assert client.post("/votes", json=joined).status_code == 200
        for rater in (spelled, "ZOE\u0308"):
            taken = {"rater": rater, "key": key("another")}
            assert client.get("/work", params=taken).status_code == 403
            undo = body(row(DESK, 0, "undo", id="e" * 32), **taken)
            assert client.post("/votes", json=undo).status_code == 403
        again = body(row(DESK, 1), rater=spelled, key=key("Ann\u00e9"))
        assert client.post("/votes", json=again).status_code == 200
        own = {"rater": spelled, "key": rater_key(DESK, "Ann\u00e9")}
        assert len(client.get("/work", params=own).json()["done"]) == 2
    assert [each.rater for each in ledger.labels(*SCOPE.values())] == ["Ann\u00e9"] * 2


def test_a_position_on_the_page_says_nothing_of_the_stratum_that_a_pair_was_drawn_from() -> None:
    strata = {pair_key(pair): f"stratum {number % 2}" for number, pair in enumerate(pairs())}
    sample = draw_label_sample(pairs(), **SCOPE, size=30, strata=strata)
    of_pair = {pair.pair_id: pair.stratum for pair in sample.pairs}
    assert set(of_pair.values()) == {"stratum 0", "stratum 1"}
    orders = set[tuple[str, ...]]()
    for salt in ("one", "two", "three"):
        salted = replace(desk(30), sample=sample, salt=salt)
        shown = {salted.shown_id(name): stratum for name, stratum in of_pair.items()}
        # The order is that of the salted names, in which nothing of the stratum is.
        order = salted.rater_state("ana", [], ["ana"])["order"]
        assert order == sorted(shown)
        orders.add(tuple(shown[name] for name in order))
    assert len(orders) == 3
