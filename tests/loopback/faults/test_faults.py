import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from tests.loopback.builders import Caller, batch_body, judge_params, wait_for
from tests.loopback.faults.catalogue import (
    CATALOGUE,
    ROW_ERRORS,
    STOP_REASONS,
    Fault,
    parse_fault,
)
from tests.loopback.faults.faulty_judges import BATCHES, judge, results, service_of, submit
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.tournament.errors import JudgeError


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


def test_an_error_on_creation_comes_before_or_after_the_batch_was_accepted() -> None:
    expected = {
        "create_500": (500, "api_error", 0),
        "create_500_after": (500, "api_error", 1),
        "create_504": (504, "timeout_error", 0),
        "create_504_after": (504, "timeout_error", 1),
        "create_529": (529, "overloaded_error", 0),
        "create_529_after": (529, "overloaded_error", 1),
        "create_429": (429, "rate_limit_error", 0),
        "create_429_bare": (429, "rate_limit_error", 0),
        "create_spend_limit": (429, "rate_limit_error", 0),
        "create_401": (401, "authentication_error", 0),
        "create_402": (402, "billing_error", 0),
        "create_403": (403, "permission_error", 0),
        "create_413": (413, "request_too_large", 0),
    }
    with judge(*expected) as (server, caller):
        for fault, (status, kind, n_accepted) in expected.items():
            before = server.log.batches
            answer = create(caller)
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind), fault
            assert server.log.batches - before == n_accepted, fault
            assert ("retry-after" in answer.headers) == (fault == "create_429")
        assert create(caller).status_code == 200
        assert server.plan.struck == list(expected)


def test_a_dropped_creation_was_accepted_or_not_and_the_client_cannot_tell() -> None:
    with judge("create_drop", "create_drop_after:2") as (server, caller):
        for n_accepted in (0, 1, 2):
            with pytest.raises(httpx2.TransportError):
                create(caller)
            assert server.log.batches == len(listed(caller)) == n_accepted
        assert create(caller).status_code == 200
        assert server.log.to_dict() == {"batches": 3, "requests": 6, "messages": 0}


def test_the_log_proves_that_a_client_which_retries_submits_twice() -> None:
    with (
        judge("create_drop_after") as (server, _),
        anthropic.Anthropic(base_url=server.url, api_key="any") as client,
    ):
        requests: list[Any] = batch_body(3)["requests"]
        client.messages.batches.create(requests=requests)
        assert (server.log.batches, server.log.requests) == (2, 6)


@pytest.mark.parametrize(
    "fault", ["create_drop_after", "create_500_after", "create_html_502_after", "create_no_id"]
)
def test_the_adapter_submits_once_and_says_that_it_does_not_know(fault: str) -> None:
    with judge(fault) as (server, caller), service_of(server) as service:
        with pytest.raises(JudgeError):
            submit(service, 3)
        assert (server.log.batches, server.log.requests) == (1, 3)
        assert len(listed(caller)) == 1


def test_a_hanging_creation_has_been_accepted_when_the_client_gives_up() -> None:
    with judge("create_hang:30", "create_hang:0.05") as (server, caller):
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(server.url + BATCHES, json=batch_body(), headers={"x-api-key": "any"},
                        timeout=1.0, trust_env=False)  # fmt: skip
        wait_for(lambda: server.log.batches == 1)
        assert create(caller).status_code == 200
        assert server.log.batches == 2


def test_a_gateway_answers_in_html_and_a_spend_limit_has_a_code() -> None:
    faults = ("create_html_502", "create_html_502_after", "create_no_id", "create_spend_limit")
    with judge(*faults) as (server, caller):
        for n_accepted in (0, 1):
            page = create(caller)
            assert (page.status_code, page.headers["content-type"][:9]) == (502, "text/html")
            assert server.log.batches == n_accepted
        nameless = create(caller)
        assert nameless.status_code == 200
        assert "id" not in nameless.json()
        assert nameless.json()["type"] == "message_batch"
        code = create(caller).json()["error"]["details"]["error_code"]
        assert code == "enforced_spend_limit_reached"
        assert server.log.batches == 2


def test_a_fault_after_accepting_waits_for_something_to_be_accepted() -> None:
    with judge("create_500_after") as (server, caller):
        assert caller.post(BATCHES, {"requests": []}).status_code == 400
        assert server.plan.struck == []
        assert create(caller).status_code == 500


def test_submissions_above_a_size_are_refused_for_good_so_that_halving_ends_well() -> None:
    with judge("create_413_above:3", "create_500_after") as (server, caller):
        for n_requests in (7, 4, 7, 4):
            answer = create(caller, n_requests)
            assert answer.status_code == 413
            assert answer.json()["error"]["type"] == "request_too_large"
        assert server.log.batches == 0
        assert [create(caller, 3).status_code for _ in range(2)] == [500, 200]
        assert server.log.to_dict() == {"batches": 2, "requests": 6, "messages": 0}


def test_a_lagging_list_does_not_show_the_newest_batch_yet() -> None:
    with judge("list_lag:2") as (_, caller):
        assert listed(caller) == []
        first, second = caller.create(1), caller.create(1)
        shown = [[row["id"] for row in listed(caller)] for _ in range(3)]
        assert shown == [[first], [first], [second, first]]


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


def test_polls_fail_for_a_while_and_then_succeed() -> None:
    with judge("poll_404:2", "poll_5xx:5", "unknown_status") as (_, caller):
        path = f"{BATCHES}/{caller.create(1)}"
        codes = [caller.get(path).status_code for _ in range(7)]
        assert codes == [404, 404, 500, 503, 504, 529, 500]
        assert caller.get(path).json()["processing_status"] == "a_status_of_tomorrow"
        assert caller.get(path).json()["processing_status"] == "ended"


def test_the_url_of_the_results_is_missing_foreign_or_half() -> None:
    with judge("ended_without_url", "foreign_host", "relative_url") as (_, caller):
        path = f"{BATCHES}/{caller.create(1)}"
        told = [caller.get(path).json()["results_url"] for _ in range(4)]
        assert told[:3] == [None, f"http://foreign.invalid{path}/results", f"{path}/results"]
        assert told[3].startswith("http://127.0.0.1:")


def test_a_redirect_names_the_same_server_by_another_host() -> None:
    faults = ("create_redirect", "message_redirect", "poll_redirect", "results_redirect")
    with judge(*faults, "model_404") as (server, caller):
        batch_id = "msgbatch_1"
        answers = [
            caller.post(BATCHES, {}),
            caller.post("/v1/messages", {}),
            caller.get(f"{BATCHES}/{batch_id}"),
            caller.get(f"{BATCHES}/{batch_id}/results"),
        ]
        assert [answer.status_code for answer in answers] == [307, 307, 302, 302]
        there = server.url.replace("127.0.0.1", "localhost")
        assert all(answer.headers["location"].startswith(there) for answer in answers)
        assert caller.get("/v1/models/judge-1").status_code == 404
        assert caller.get("/v1/models/judge-1").status_code == 200
        assert (server.log.batches, server.log.messages) == (0, 0)


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


def text_of(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def test_a_direct_message_is_refused_in_every_way_and_then_answered() -> None:
    expected = {
        "message_400": (400, "invalid_request_error"),
        "message_401": (401, "authentication_error"),
        "message_429": (429, "rate_limit_error"),
        "message_429_bare": (429, "rate_limit_error"),
        "message_500": (500, "api_error"),
        "message_529": (529, "overloaded_error"),
        "message_spend_limit": (429, "rate_limit_error"),
    }
    with judge(*expected) as (server, caller):
        for fault, (status, kind) in expected.items():
            answer = caller.post(MESSAGES, judge_params())
            assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind), fault
            assert answer.headers.get("retry-after") == ("1" if fault == "message_429" else None)
        code = answer.json()["error"]["details"]["error_code"]
        assert code == "enforced_spend_limit_reached"
        assert server.log.messages == 0
        assert caller.post(MESSAGES, judge_params()).status_code == 200
        assert server.log.messages == 1
        assert server.plan.struck == list(expected)


def test_a_dropped_message_was_answered_or_not_and_the_client_cannot_tell() -> None:
    with judge("message_drop", "message_drop_after") as (server, caller):
        for n_answered in (0, 1):
            with pytest.raises(httpx2.TransportError):
                caller.post(MESSAGES, judge_params())
            assert server.log.messages == n_answered


def test_the_log_proves_that_the_sdk_asks_again_after_a_lost_answer() -> None:
    with (
        judge("message_drop_after") as (server, _),
        anthropic.Anthropic(base_url=server.url, api_key="any") as client,
    ):
        client.messages.create(**judge_params())
        assert server.log.messages == 2


def test_a_fault_of_direct_messages_leaves_batches_alone() -> None:
    with judge("message_500:always", "direct_stop_refusal:always") as (_, caller):
        for _ in range(3):
            assert caller.post(MESSAGES, judge_params()).status_code == 500
        batch_id = caller.create(2)
        assert results(caller, batch_id).text.count('"end_turn"') == 2


def test_a_direct_reply_stops_for_every_reason() -> None:
    with judge(*(f"direct_{name}" for name in STOP_REASONS)) as (server, caller):
        for reason in [*STOP_REASONS.values(), "end_turn"]:
            message = caller.post(MESSAGES, judge_params()).json()
            assert message["stop_reason"] == reason
            assert (message["stop_sequence"] is None) == (reason != "stop_sequence")
            assert text_of(message).endswith("VERDICT: A")
        assert server.log.messages == len(STOP_REASONS) + 1


def test_a_direct_reply_is_unreadable_in_every_way() -> None:
    faults = ("no_verdict", "text_empty", "content_empty", "verdict_abstain", "two_verdicts",
              "verdict_markdown", "verdict_quoted", "thinking_first")  # fmt: skip
    with judge(*(f"direct_{name}" for name in faults)) as (_, caller):
        messages = {name: caller.post(MESSAGES, judge_params()).json() for name in faults}
        whole = text_of(caller.post(MESSAGES, judge_params()).json())
    assert text_of(messages["no_verdict"]) == whole.removesuffix("\nVERDICT: A")
    assert messages["text_empty"]["content"] == [{"type": "text", "text": ""}]
    assert messages["content_empty"]["content"] == []
    assert text_of(messages["verdict_abstain"]).endswith("\nVERDICT: ABSTAIN")
    assert text_of(messages["two_verdicts"]).endswith("\nVERDICT: B")
    assert text_of(messages["verdict_markdown"]).endswith("\n**VERDICT: A**")
    first, *_, last = text_of(messages["verdict_quoted"]).splitlines()
    assert ("VERDICT: B" in first, last) == (True, "VERDICT: A")
    assert messages["thinking_first"]["content"][0]["type"] == "thinking"


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


LONG_PREFIX = "Judge well. " * 200


def replies(*faults: str, n: int | None = None) -> list[ReplyRow]:
    """Return the rows of a batch of like requests in the order of the requests."""
    with judge(*faults) as (server, _), service_of(server) as service:
        rows = service.iterate_results(submit(service, n or len(faults)))
        return sorted(rows, key=lambda row: row.custom_id)


def verdict_lines(text: str | None) -> list[str]:
    return [line for line in (text or "").splitlines() if line.startswith(("VERDICT", "**"))]


@pytest.mark.parametrize("fault", ["results_cut_mid_line", "results_cut_at_line"])
def test_a_cut_result_is_an_error_where_its_length_was_announced(fault: str) -> None:
    with judge(f"{fault}:2") as (server, caller), service_of(server) as service:
        batch_id = submit(service, 4)
        rows: list[ReplyRow] = []
        with pytest.raises(JudgeError, match="RemoteProtocolError"):
            rows.extend(service.iterate_results(batch_id))
        assert len(rows) == 2
        with pytest.raises(httpx2.RemoteProtocolError):
            results(caller, batch_id)
        assert len(results(caller, batch_id).text.splitlines()) == 4


def test_a_cut_result_is_silently_short_where_its_length_was_not_announced() -> None:
    with judge("results_cut_at_line_silent", "results_cut_mid_line_silent") as (_, caller):
        batch_id = caller.create(4)
        at_line, mid_line, whole = (results(caller, batch_id) for _ in range(3))
        assert "content-length" not in at_line.headers
        lines = whole.text.splitlines(keepends=True)
        assert len(lines) == 4
        assert at_line.text == "".join(lines[:2])
        assert mid_line.text.startswith(at_line.text)
        assert 0 < len(mid_line.text) - len(at_line.text) < len(lines[2]) - 1


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


@pytest.mark.parametrize(
    ("fault", "n_lines"),
    [("results_missing_row", 2), ("results_foreign_row", 4), ("results_duplicate_same", 4),
     ("results_blank_line", 4), ("results_garbage_line", 4), ("results_cut_at_line_silent", 1)],
)  # fmt: skip
def test_a_fault_of_the_results_can_stay_for_good(fault: str, n_lines: int) -> None:
    with judge(f"{fault}:always") as (server, caller):
        batch_id, other_id = caller.create(3), caller.create(3)
        for name in (batch_id, batch_id, other_id, batch_id):
            assert len(results(caller, name).text.split("\n")) - 1 == n_lines
        assert server.plan.struck == [fault] * 4


def test_crlf_is_split_between_two_chunks() -> None:
    with judge("results_split_crlf:2") as (server, _), service_of(server) as service:
        batch_id = submit(service, 3)
        with httpx2.stream(
            "GET", f"{server.url}{BATCHES}/{batch_id}/results", headers={"x-api-key": "any"},
            trust_env=False,
        ) as response:  # fmt: skip
            chunks = list(response.iter_raw())
        assert [chunk[-1:] for chunk in chunks] == [b"\r", b"\r", b"\r", b"\n"]
        assert [chunk[:1] for chunk in chunks] == [b"{", b"\n", b"\n", b"\n"]
        assert len(list(service.iterate_results(batch_id))) == 3


def test_rows_fail_in_every_way_and_are_counted_as_such() -> None:
    faults = [f"row_{error}" for error in ROW_ERRORS]
    rows = replies(*faults, "row_expired", "row_canceled", n=len(faults) + 3)
    assert [row.error_type for row in rows[:-3]] == list(ROW_ERRORS)
    types = [row.result_type for row in rows]
    assert types == ["errored"] * len(faults) + ["expired", "canceled", "succeeded"]
    with judge("row_overloaded_error:2", "row_expired") as (_, caller):
        assert caller.wait(caller.create(5))["request_counts"] == {
            "processing": 0, "succeeded": 2, "errored": 2, "canceled": 0, "expired": 1
        }  # fmt: skip


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


@pytest.mark.parametrize(
    ("faults", "n_read", "n_written"),
    [((), 10, 1), (("hit_rate:0.7",), 7, 4), (("hit_rate:0",), 0, 11), (("below_minimum",), 0, 0)],
)
def test_the_cache_hits_as_often_as_it_is_told(
    faults: tuple[str, ...], n_read: int, n_written: int
) -> None:
    with judge(*faults) as (server, _), service_of(server) as service:
        requests = [
            SubmittedRequest(f"r{number}", judge_params(system=LONG_PREFIX)) for number in range(11)
        ]
        batch_id = service.create_batch(requests).batch_id
        usages = [row.usage for row in service.iterate_results(batch_id) if row.usage is not None]
    assert sum(usage.cache_read_input_tokens for usage in usages) == 600 * n_read
    assert sum(usage.cache_creation_input_tokens for usage in usages) == 600 * n_written
