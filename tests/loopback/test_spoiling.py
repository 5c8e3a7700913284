import json

import httpx2
import pytest

from tests.loopback.builders import judge_params
from tests.loopback.faulty_judges import BATCHES, judge, results, service_of, submit
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest
from tournament_assets.loopback.faults import ROW_ERRORS, STOP_REASONS
from tournament_assets.tournament.errors import JudgeError

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
        with pytest.raises(JudgeError, match="no complete answer"):
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
    assert (quoting.text or "").startswith('One response says "VERDICT: B"')
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
