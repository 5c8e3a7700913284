"""Drawing pairs for people to label, dealing them out, and the page on which they are labelled."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workflows.builders import SCOPE, desk, pairs, row
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.labels import LabelSample, LabelVote
from tournament_assets.loopback.running import ThreadedServer
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint_text
from tournament_assets.workflows.label_votes import import_votes
from tournament_assets.workflows.labelling import (
    LabelDesk,
    create_label_app,
    draw_label_sample,
    require_access,
    serve_labelling,
    write_label_page,
)

ENTRANTS = ("ada", "bob", "cy")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def names(sample: LabelSample) -> list[tuple[str, str, str]]:
    return [(each.prompt_id, each.entrant_a, each.entrant_b) for each in sample.pairs]


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5), st.booleans())
def test_an_extended_sample_begins_with_what_was_drawn(
    size: int, larger: int, seed: int, by_judge: bool
) -> None:
    of = {
        (pair.prompt_id, pair.entrant_a, pair.entrant_b): "tie" if place % 5 == 0 else "one side"
        for place, pair in enumerate(pairs())
    }
    strata = of if by_judge else None
    first = draw_label_sample(pairs(), **SCOPE, size=size, seed=seed, strata=strata)
    again = draw_label_sample(pairs(), **SCOPE, size=larger, seed=seed, strata=strata, before=first)
    assert len(again.pairs) == min(max(size, larger), 30)
    assert again.draw == 2
    assert names(again)[: len(first.pairs)] == names(first)
    assert [each.shared for each in again.pairs][:size] == [each.shared for each in first.pairs]
    # Drawn at once or in two steps, it is the same sample, with the same chances.
    at_once = draw_label_sample(pairs(), **SCOPE, size=max(size, larger), seed=seed, strata=strata)
    assert at_once.pairs == again.pairs
    sizes = Counter(of.values()) if by_judge else Counter({"": 30})
    drawn = Counter(each.stratum for each in again.pairs)
    for each in again.pairs:
        assert each.chance == drawn[each.stratum] / sizes[each.stratum]
    # As many of each stratum as long as they last, and the chances add up to all there are.
    if by_judge:
        assert abs(drawn["tie"] - drawn["one side"]) <= 1 or drawn["tie"] == 6
    assert sum(1 / each.chance for each in again.pairs) == pytest.approx(
        sum(sizes[stratum] for stratum in drawn)
    )


def test_every_pair_has_the_chance_that_is_written_down() -> None:
    drawn: Counter[tuple[str, str, str]] = Counter()
    for seed in range(600):
        sample = draw_label_sample(pairs(4), **SCOPE, size=3, seed=seed)
        drawn.update(names(sample))
        assert {each.chance for each in sample.pairs} == {0.25}
    # 600 draws of a quarter: a standard deviation is 10.6.
    assert len(drawn) == 12
    assert all(abs(count - 150) < 45 for count in drawn.values())


def test_the_same_text_is_left_out_and_counted() -> None:
    sample = draw_label_sample(pairs(same=4), **SCOPE, size=100)
    assert (sample.frame_size, sample.same_text, len(sample.pairs)) == (26, 4, 26)
    assert all(each.chance == 1 for each in sample.pairs)


def test_a_pair_whose_response_has_changed_keeps_its_place_and_is_another_pair() -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=9)
    place = 4
    changed = [
        replace(pair, response_b="another")
        if (pair.prompt_id, pair.entrant_a, pair.entrant_b) == names(first)[place]
        else pair
        for pair in pairs()
    ]
    again = draw_label_sample(changed, **SCOPE, size=9, before=first)
    assert names(again) == names(first)
    new = [
        one.pair_id != other.pair_id for one, other in zip(first.pairs, again.pairs, strict=True)
    ]
    assert [number for number, is_new in enumerate(new) if is_new] == [place]


def test_a_sample_over_more_prompts_holds_what_was_drawn_with_chances_of_today() -> None:
    first = draw_label_sample(pairs(10), **SCOPE, size=15)
    more = draw_label_sample(pairs(20), **SCOPE, size=15, before=first)
    assert set(names(first)) < set(names(more))
    assert {each.chance for each in more.pairs} == {len(more.pairs) / 60}


@pytest.mark.parametrize("changed", [{"seed": 1}, {"strata": {}}])
def test_a_sample_is_extended_only_as_it_was_drawn(changed: dict[str, Any]) -> None:
    first = draw_label_sample(pairs(), **SCOPE, size=5)
    with pytest.raises(InputError, match="extended"):
        draw_label_sample(pairs(), **SCOPE, size=9, before=first, **changed)


def test_a_changed_verdict_of_a_drawn_pair_is_refused() -> None:
    strata = {(each.prompt_id, each.entrant_a, each.entrant_b): "tie" for each in pairs()}
    first = draw_label_sample(pairs(), **SCOPE, size=5, strata=strata)
    strata[names(first)[2]] = "one side"
    with pytest.raises(InputError, match="'tie'"):
        draw_label_sample(pairs(), **SCOPE, size=9, strata=strata, before=first)


def vote(of: LabelDesk, place: int, rater: str, said: str = "a", at: float = 0) -> LabelVote:
    return LabelVote(
        vote_id=f"{rater} {place} {at}",
        sample_id=of.sample.sample_id,
        pair_id=of.sample.pairs[place].pair_id,
        rater=rater,
        vote=said,  # type: ignore[arg-type]
        shown="ab",
        given_at=NOW + timedelta(seconds=at),
        seconds=place,
    )


def test_raters_share_the_overlap_and_part_the_rest() -> None:
    of = desk()
    shared = [each.pair_id for each in of.sample.pairs if each.shared]
    states = {name: of.rater_state(name, [], ["ana", "ben"]) for name in ("ana", "ben")}
    ana, ben = (set(state["order"]) for state in states.values())
    assert len(shared) == 4
    assert ana & ben == set(shared)
    assert ana | ben == {each.pair_id for each in of.sample.pairs}
    assert (len(ana), len(ben)) == (12, 12)
    assert set(states["ana"]["others"]) == ben - ana
    # Everybody labels in the order of drawing, so that whoever stops leaves a random sample.
    position = {each.pair_id: each.position for each in of.sample.pairs}
    for state in states.values():
        places = [position[each] for each in state["order"]]
        assert places == sorted(places)


def test_what_somebody_has_labelled_is_nobody_else_s_unless_it_is_shared() -> None:
    of = desk()
    everything = [vote(of, place, "ana") for place in range(20)]
    state = of.rater_state("ben", everything, ["ana"])
    assert state["order"] == [each.pair_id for each in of.sample.pairs if each.shared]
    assert state["others"] == []
    assert of.rater_state("ana", everything, [])["order"] == []
    assert of.rater_state("ana", everything, [])["seconds"] == 9.5
    taken_back = [*everything, vote(of, 7, "ana", "undo", at=9)]
    state = of.rater_state("ana", taken_back, [])
    assert state["order"] == [of.sample.pairs[7].pair_id]
    assert of.sample.pairs[7].pair_id not in [pair_id for pair_id, _ in state["done"]]


def test_a_page_holds_no_name_and_shows_sides_in_both_orders() -> None:
    of = desk(30)
    sides = Counter[bool]()
    for rater in ("ana", "ben"):
        values = of.page_values(rater, of.rater_state(rater, [], [rater]))
        texts = {name: values["pairs"][name] for name in values["order"]}
        for name, shown in texts.items():
            pair = of.texts[name]
            assert {shown["A"], shown["B"]} == {pair.response_a, pair.response_b}
            assert shown["first"] == fingerprint_text(shown["A"])
            assert shown["gold"] == pair.gold_answer
            sides[shown["A"] == pair.response_a] += 1
        for shown in texts.values():
            del shown["A"], shown["B"]
        written = json.dumps(values)
        assert not any(f'"{name}"' in written or f"{name} " in written for name in ENTRANTS)
    assert min(sides.values()) > 15  # of 60


def test_the_expected_behaviour_is_shown_as_the_judge_is_shown_it() -> None:
    of = replace(desk(), shows_expected_behavior=True)
    pair_id, pair = next(iter(of.texts.items()))
    assert of._shown(pair_id, pair, "ana")["expected"] is None
    without = replace(pair, gold_answer=None)
    assert of._shown(pair_id, without, "ana")["expected"] == "hedge"
    assert desk()._shown(pair_id, without, "ana")["expected"] is None


TOKEN = "a token of sixteen"
DESK = desk()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite")
    opened.keep_label_sample(DESK.sample)
    yield opened
    opened.close()


@pytest.fixture
def client(ledger: Ledger) -> Iterator[httpx2.Client]:
    app = create_label_app(DESK, ledger=ledger)
    with ThreadedServer(app) as server, httpx2.Client(base_url=server.url, timeout=60) as made:
        yield made


def body(*rows: Any, rater: str = "ana", **changed: Any) -> dict[str, Any]:
    return {"sample": DESK.sample.sample_id, "rater": rater, "votes": list(rows), **changed}


def test_a_vote_is_in_the_ledger_when_it_is_answered(client: httpx2.Client, ledger: Ledger) -> None:
    work = client.get("/work", params={"rater": "ana"}).json()
    assert work["order"] == [each.pair_id for each in DESK.sample.pairs]
    state = client.post("/votes", json=body(row(DESK, 0))).json()
    assert [(each.rater, each.vote) for each in ledger.labels(*SCOPE.values())] == [("ana", "a")]
    assert state["order"] == work["order"][1:]
    assert client.post("/votes", json=body(row(DESK, 0))).json()["order"] == state["order"]
    assert len(list(ledger.iterate_votes(DESK.sample.sample_id))) == 1
    # Somebody who joins is dealt a part of what is left.
    ben = client.get("/work", params={"rater": "ben"}).json()["order"]
    ana = client.post("/votes", json=body()).json()["order"]
    assert work["order"][0] not in ben + ana
    assert set(ana) | set(ben) == set(work["order"][1:])
    shared = {each.pair_id for each in DESK.sample.pairs if each.shared}
    assert set(ana) & set(ben) == shared


def test_nothing_that_is_sent_names_an_entrant(client: httpx2.Client) -> None:
    page = client.get("/")
    work = client.get("/work", params={"rater": "ana"}).json()
    for pair in work["pairs"].values():
        del pair["A"], pair["B"]  # what an entrant wrote of itself
    votes = client.post("/votes", json=body(row(DESK, 0)))
    worker = client.get("/worker.js")
    assert worker.headers["content-type"].startswith("text/javascript")
    shown = (page.text, json.dumps(work), votes.text, str(page.headers), str(votes.headers))
    for text in (*shown, worker.text):
        assert not any(f"{sign}{name}{sign}" in text for name in ENTRANTS for sign in ('"', " "))
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
    client: httpx2.Client, ledger: Ledger, sent: dict[str, Any], status: int
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
    for path in ("/ledger.sqlite", "/../ledger.sqlite", "/votes"):
        assert client.get(path).status_code in (404, 405)


def test_with_a_token_nobody_without_it_sees_anything(ledger: Ledger) -> None:
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


@pytest.mark.parametrize(
    ("host", "token"),
    [("0.0.0.0", None), ("192.168.1.4", None), ("127.0.0.1", "short")],  # noqa: S104
)
def test_other_machines_need_a_token_that_cannot_be_guessed(host: str, token: str | None) -> None:
    with pytest.raises(InputError, match="expected"):
        require_access(host, token)
    require_access("127.0.0.1", None)
    require_access(host, TOKEN)


def test_a_port_that_is_taken_is_said(ledger: Ledger) -> None:
    app = create_label_app(DESK, ledger=ledger)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match="--port"):
            serve_labelling(app, host="127.0.0.1", port=port, on_ready=lambda _: None)


def test_raters_vote_side_by_side_and_nothing_is_lost(
    client: httpx2.Client, ledger: Ledger
) -> None:
    def label(rater: str) -> None:
        for place in range(20):
            sent = row(DESK, place, id=f"{rater.encode().hex()}{place:026x}")
            assert client.post("/votes", json=body(sent, rater=rater)).status_code == 200

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(label, ["ana", "ben", "cat", "dan"]))
    assert len(list(ledger.labels(*SCOPE.values()))) == 80


def test_a_file_to_send_holds_one_rater_s_pairs_and_no_name(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "label.html"
    count = write_label_page(path, DESK, "ana", ledger=ledger, raters=["ana", "ben"])
    text = path.read_text()
    work = json.loads(text.split('id="work">')[1].split("</script>")[0])
    assert len(work["order"]) == len(work["pairs"]) == count == 12
    assert "connect-src" not in text
    for pair in work["pairs"].values():
        del pair["A"], pair["B"]
    assert not any(f'"{name}"' in json.dumps(work) for name in ENTRANTS)
    assert work["rubric"] == DESK.rubric_hash
    # What it saves can be taken back.
    saved = tmp_path / "votes.json"
    votes = [row(DESK, 0, at="2026-03-01T12:00:00.000Z")]
    head = {"format": "tournament-votes", "version": 1, "rubric": work["rubric"]}
    saved.write_text(json.dumps({**body(*votes), **head}))
    assert import_votes(saved, tournament_id="tiny", ledger=ledger).added == 1
