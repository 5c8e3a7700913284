import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from click.testing import CliRunner

from tests.loopback.builders import Caller, batch_body
from tests.loopback.faulty_judges import BATCHES, judge, results, service_of, submit
from tournament_assets.cli import main
from tournament_assets.loopback.faults import (
    CATALOGUE,
    Fault,
    describe_catalogue,
    parse_fault,
)
from tournament_assets.loopback.running import LoopbackServer
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
        LoopbackServer(faults=[text])


def test_the_command_lists_every_fault_and_refuses_others() -> None:
    listing = CliRunner().invoke(main, ["judge-server", "--list-faults"])
    names = [line.split()[0].split("[")[0].split(":")[0] for line in listing.output.splitlines()
             if line.startswith("  ")]  # fmt: skip
    assert sorted(names) == sorted(CATALOGUE)
    refused = CliRunner().invoke(main, ["judge-server", "--fault", "poll_404", "--fault", "nope"])
    assert refused.exit_code == 2
    assert "'nope' is not a fault" in refused.output


def test_the_page_on_the_loopback_judge_lists_what_the_command_lists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "loopback_judge.md").read_text(encoding="utf-8")
    assert f"```\n{describe_catalogue()}\n```" in page, (
        "put what `tournament judge-server --list-faults` prints on the page"
    )


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
                        timeout=0.3, trust_env=False)  # fmt: skip
        assert server.log.batches == 1
        assert create(caller).elapsed.total_seconds() >= 0.05
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
