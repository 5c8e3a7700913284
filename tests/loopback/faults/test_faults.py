import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.loopback.builders import Caller, batch_body, judge_params
from tests.loopback.faults.catalogue import (
    CATALOGUE,
    STOP_REASONS,
    Fault,
    parse_fault,
)
from tests.loopback.faults.faulty_judges import BATCHES, judge, results, service_of, submit
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.judging.batch_service import ReplyRow


def create(caller: Caller, n: int = 2) -> httpx2.Response:
    return caller.post(BATCHES, batch_body(n))


def listed(caller: Caller) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = caller.get(BATCHES).json()["data"]
    return rows


def test_a_fault_is_a_name_and_perhaps_a_number() -> None:
    assert parse_fault("create_drop_after:2") == Fault("create_drop_after", 2)
    assert parse_fault("create_drop") == Fault("create_drop", 1)
    assert parse_fault("poll_404:always") == Fault("poll_404", math.inf)
    assert parse_fault("create_hang:0.5") == Fault("create_hang", 0.5)
    assert parse_fault("hit_rate:0.7") == Fault("hit_rate", 0.7)
    assert parse_fault("create_413_above:50") == Fault("create_413_above", 50)
    assert parse_fault("cache_expiry:0.5") == Fault("cache_expiry", 0.5)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("creat_drop", "'creat_drop' is not a fault; expected one of create_drop, create_drop_after"),
     ("", "'' is not a fault"), ("create_drop:", "''"), ("create_drop:0", "whole number"),
     ("create_drop:1.5", "whole number"), ("create_drop:x", "'x'"), ("poll_404:nan", "whole"),
     ("hit_rate", "share from 0 to 1"), ("hit_rate:70", "share"), ("create_hang:-1", "seconds"),
     ("below_minimum:2", "expected no number"), ("create_413_above", "whole number from 1"),
     ("create_413_above:0", "whole number"), ("create_413_above:2.5", "whole number"),
     ("create_413_above:inf", "whole number"), ("create_413_above:always", "whole number"),
     ("cache_expiry", "seconds"), ("cache_expiry:soon", "seconds")],
)  # fmt: skip
def test_what_is_no_fault_is_refused_with_what_would_be(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        FaultyServer(faults=[text])


def test_a_fault_after_accepting_waits_for_something_to_be_accepted() -> None:
    with judge("create_500_after") as (server, caller):
        assert caller.post(BATCHES, {"requests": []}).status_code == 400
        assert server.plan.struck == []
        assert create(caller).status_code == 500


def test_a_foreign_batch_of_the_same_size_stands_in_the_list_and_not_in_the_log() -> None:
    with judge("foreign_batch:2", "create_drop", "row_expired:always") as (server, caller):
        with pytest.raises(httpx2.TransportError):
            create(caller, 3)
        (foreign,) = listed(caller)
        assert server.log.batches == 0
        assert foreign["request_counts"]["succeeded"] == 3
        names = [
            json.loads(row)["custom_id"] for row in results(caller, foreign["id"]).iter_lines()
        ]
        assert not set(names) & {"r0", "r1", "r2"}
        ours = caller.create(2)
        assert [row["id"] for row in listed(caller)][1:] == [ours, foreign["id"]]
        assert server.log.batches == 1
        assert caller.wait(ours)["request_counts"]["expired"] == 2


def test_what_becomes_of_a_batch_outlives_the_server(tmp_path: Path) -> None:
    faults = ("never_ends", "archived", "all_invalid", "row_expired", "text_empty")
    with judge(*faults, directory=tmp_path) as (_, caller):
        endless, archived, invalid, mixed = (caller.create(2) for _ in range(4))
    with judge(directory=tmp_path) as (_, caller):
        assert caller.get(f"{BATCHES}/{endless}").json()["processing_status"] == "in_progress"
        gone = caller.wait(archived)
        assert gone["archived_at"] is not None
        assert gone["results_url"] is None
        assert results(caller, archived).status_code == 404
        assert caller.wait(invalid)["request_counts"]["errored"] == 2
        assert results(caller, invalid).text.count('"invalid_request_error"') == 2
        counts = caller.wait(mixed)["request_counts"]
        assert (counts["succeeded"], counts["expired"]) == (1, 1)
        assert '"text": ""' in results(caller, mixed).text


MESSAGES = "/v1/messages"


@pytest.mark.parametrize("fault", ["direct_no_verdict", "message_drop_after"])
def test_a_refused_message_does_not_use_up_a_fault_of_answers(fault: str) -> None:
    with judge(fault) as (server, caller):
        assert caller.post(MESSAGES, {}).status_code == 400
        assert server.plan.struck == []
        answer = caller.try_post(MESSAGES, judge_params())
        assert server.plan.struck == [fault]
        assert answer is None or "VERDICT" not in answer.text


def test_every_fault_of_a_batch_reply_has_a_direct_twin() -> None:
    in_batches = {name for name, kind in CATALOGUE.items() if kind.family == "message"}
    direct = {name for name, kind in CATALOGUE.items() if kind.family == "direct_reply"}
    assert direct == {f"direct_{name}" for name in in_batches}
    with judge("no_verdict") as (_, caller):
        assert caller.post(MESSAGES, judge_params()).text.count("VERDICT: A") == 1
        assert "VERDICT" not in results(caller, caller.create(1)).text


def replies(*faults: str, n: int | None = None) -> list[ReplyRow]:
    """Return the rows of a batch of like requests in the order of the requests."""
    with judge(*faults) as (server, _), service_of(server) as service:
        rows = service.iterate_results(submit(service, n or len(faults)))
        return sorted(rows, key=lambda row: row.custom_id)


def verdict_lines(text: str | None) -> list[str]:
    return [line for line in (text or "").splitlines() if line.startswith(("VERDICT", "**"))]


def test_one_reading_of_the_results_is_spoiled_and_the_next_is_not() -> None:
    faults = [f"results_{name}" for name in (
        "garbage_line", "blank_line", "duplicate_same", "duplicate_different", "missing_row",
        "foreign_row", "unknown_type")]  # fmt: skip
    with judge(*faults) as (server, caller):
        batch_id = caller.create(3)
        garbage, blank, same, different, missing, foreign, unknown, whole = (
            results(caller, batch_id).text.split("\n")[:-1] for _ in range(8)
        )
        assert server.plan.struck == faults
    one, two, three = whole
    assert (garbage[0], garbage[2:]) == (one, [two, three])
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(garbage[1])
    assert blank == [one, "", two, three]
    assert same == [one, two, three, one]
    assert different[:3] == whole
    assert json.loads(different[3])["custom_id"] == json.loads(one)["custom_id"]
    assert "VERDICT: A" in one
    assert "VERDICT: B" in different[3]
    assert missing == [one, two]
    assert foreign[:3] == whole
    assert json.loads(foreign[3])["custom_id"] == "foreign-row"
    assert json.loads(unknown[0])["result"]["type"] == "a_type_of_tomorrow"
    assert unknown[1:] == [two, three]


def test_a_reply_stops_for_every_reason_and_still_holds_a_verdict() -> None:
    rows = replies(*STOP_REASONS, n=len(STOP_REASONS) + 1)
    assert [row.stop_reason for row in rows] == [*STOP_REASONS.values(), "end_turn"]
    assert {tuple(verdict_lines(row.text)) for row in rows} == {("VERDICT: A",)}


def test_replies_say_things_that_are_hard_to_read() -> None:
    names = ("text_empty", "thinking_first", "two_verdicts", "verdict_abstain", "verdict_markdown",
             "verdict_quoted", "content_empty", "no_verdict")  # fmt: skip
    empty, thinking, two, abstaining, bold, quoting, none, without, plain = replies(*names, n=9)
    assert empty.text == none.text == ""
    assert json.loads(none.raw)["result"]["message"]["content"] == []
    assert without.text == (plain.text or "").removesuffix("\nVERDICT: A")
    content = json.loads(thinking.raw)["result"]["message"]["content"]
    assert [block["type"] for block in content] == ["thinking", "text"]
    assert "VERDICT: B" in content[0]["thinking"]
    assert thinking.text == plain.text
    assert verdict_lines(two.text) == ["VERDICT: A", "VERDICT: B"]
    assert verdict_lines(abstaining.text) == ["VERDICT: ABSTAIN"]
    assert verdict_lines(bold.text) == ["**VERDICT: A**"]
    assert "VERDICT: B" in (quoting.text or "")
    assert verdict_lines(quoting.text) == ["VERDICT: A"]
