import json
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.builders import Caller, batch_body, judge_params, wait_for
from tests.loopback.faulty_judges import BATCHES, judge, results
from tests.loopback.killable import KillableServer
from tournament_assets.loopback.messages import CacheUse, PromptCache, compose_message
from tournament_assets.loopback.store import (
    BatchStore,
    MessageLog,
    hash_params,
    read_accounts,
    read_messages,
)
from tournament_assets.tournament.fingerprints import fingerprint

PREFIX = "Judge well. " * 200  # 2,400 characters: 600 tokens


def test_a_restarted_store_knows_its_batches_and_their_bill(tmp_path: Path) -> None:
    before = BatchStore(tmp_path)
    first = before.create([("a", judge_params(system=PREFIX)), ("b", judge_params(system=PREFIX))])
    second = before.create([("c", judge_params(system=PREFIX))])
    after = BatchStore(tmp_path)
    assert after.list_newest_first() == [second, first]
    assert list(after.list_newest_first()[1].iterate_lines()) == list(first.iterate_lines())


def test_a_restarted_store_knows_what_was_canceled(tmp_path: Path) -> None:
    store = BatchStore(tmp_path, processing_seconds=60)
    batch_id = store.create([("a", judge_params()), ("b", judge_params())]).batch_id
    canceled = store.cancel(batch_id)
    assert canceled is not None
    assert canceled.cancel_initiated_at is not None
    assert BatchStore(tmp_path).get(batch_id) == canceled
    assert canceled.count_results()["canceled"] == 2
    assert [row["result"]["type"] for row in map(json.loads, canceled.iterate_lines())] == [
        "canceled"
    ] * 2


def test_a_batch_in_memory_can_be_canceled_too() -> None:
    store = BatchStore(processing_seconds=60)
    batch = store.cancel(store.create([("a", judge_params())]).batch_id)
    assert batch is not None
    assert [row["result"]["type"] for row in map(json.loads, batch.iterate_lines())] == ["canceled"]


def test_a_batch_that_was_cut_off_while_it_was_written_is_not_there(tmp_path: Path) -> None:
    leftover = tmp_path / "msgbatch_1.0a.partial"
    leftover.write_text('{"batch_id": "msgb', encoding="utf-8")
    store = BatchStore(tmp_path)
    assert store.list_newest_first() == []
    assert not leftover.exists()
    batch = store.create([("a", judge_params())])
    assert [path.name for path in tmp_path.glob("*.jsonl")] == [f"{batch.batch_id}.jsonl"]
    assert list(tmp_path.glob("*.partial")) == []


class StallingCache(PromptCache):
    """Keeps whoever uses it waiting until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_used = threading.Event()
        self.may_go_on = threading.Event()

    def use(self, params: Mapping[str, Any]) -> CacheUse:
        self.is_used.set()
        assert self.may_go_on.wait(120)
        return super().use(params)


def test_batches_are_listed_while_another_one_is_being_accepted() -> None:
    cache = StallingCache()
    store = BatchStore(cache=cache)
    creating = threading.Thread(target=store.create, args=([("a", judge_params())],))
    creating.start()
    assert cache.is_used.wait(120)
    assert store.list_newest_first() == []
    cache.may_go_on.set()
    creating.join()
    assert len(store.list_newest_first()) == 1


class SlowParams(dict[str, Any]):
    """Parameters whose serialisation waits until a test has looked around."""

    def __init__(self, look_around: Any) -> None:
        super().__init__(judge_params())
        self._look_around = look_around

    def items(self) -> Any:
        self._look_around()
        return super().items()


def test_a_server_that_starts_leaves_alone_what_another_one_is_writing(tmp_path: Path) -> None:
    seen: list[int] = []

    def look_around() -> None:
        if partials := list(tmp_path.glob("*.partial")):
            BatchStore(tmp_path)
            seen.append(sum(path.exists() for path in partials))

    store = BatchStore(tmp_path)
    batch = store.create([("a", SlowParams(look_around))])
    assert seen
    assert set(seen) == {1}
    assert len(list(batch.iterate_lines())) == 1


def test_a_file_that_is_no_batch_is_named(tmp_path: Path) -> None:
    (tmp_path / "msgbatch_1.jsonl").write_text("nonsense", encoding="utf-8")
    with pytest.raises(ValueError, match=r"msgbatch_1\.jsonl"):
        BatchStore(tmp_path)


def test_a_batch_that_lost_rows_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    batch = BatchStore(tmp_path).create([("a", judge_params()), ("b", judge_params())])
    path = tmp_path / f"{batch.batch_id}.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match=r" 1 requests.* 2"):
        list(batch.iterate_lines())


def test_looking_at_a_batch_does_not_read_its_requests(tmp_path: Path) -> None:
    batch = BatchStore(tmp_path).create([(f"r{number}", judge_params()) for number in range(3)])
    path = tmp_path / f"{batch.batch_id}.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    (known,) = BatchStore(tmp_path).list_newest_first()
    assert known.n_requests == 3
    assert known.count_results()["succeeded"] == 3


def test_the_results_are_read_in_bounded_memory(tmp_path: Path) -> None:
    many = [(f"r{number}", judge_params("a" * 5_000, "b" * 5_000)) for number in range(1_000)]
    batch = BatchStore(tmp_path).create(many)
    next(batch.iterate_lines())
    tracemalloc.start()
    try:
        assert sum(1 for _ in batch.iterate_requests()) == 1_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The messages are 10 MB.
    assert peak < 500_000


def test_a_batch_in_memory_holds_a_shared_system_text_once() -> None:
    store = BatchStore()
    batch = store.create([(f"r{number}", judge_params(system="x" * 9_000)) for number in range(50)])
    assert isinstance(batch.source, bytes)
    assert len(batch.source) < 9_000 + 50 * 600
    assert len(list(batch.iterate_lines())) == 50


def test_rows_come_in_a_fixed_order_that_is_not_the_requests() -> None:
    names = [f"r{number}" for number in range(30)]
    store = BatchStore()
    batch = store.create([(name, judge_params()) for name in names])
    order = [row["custom_id"] for row in map(json.loads, batch.iterate_lines())]
    again = [
        row["custom_id"]
        for row in map(
            json.loads, store.create([(name, judge_params()) for name in names]).iterate_lines()
        )
    ]
    assert order == again
    assert order != names
    assert sorted(order) == sorted(names)


def test_usage_counts_every_character_once() -> None:
    params = judge_params(system="x" * 2400)
    question = params["messages"][0]["content"]
    written = compose_message(params, message_id="msg_1", cache_use="write")["usage"]
    read = compose_message(params, message_id="msg_1", cache_use="read")["usage"]
    plain = compose_message(params, message_id="msg_1", cache_use="none")["usage"]
    rest = -(-len(question) // 4)
    assert (written["cache_creation_input_tokens"], written["input_tokens"]) == (600, rest)
    assert written["cache_creation"]["ephemeral_1h_input_tokens"] == 600
    assert (read["cache_read_input_tokens"], read["input_tokens"]) == (600, rest)
    assert read["cache_creation_input_tokens"] == 0
    assert plain["input_tokens"] == 600 + rest


def test_a_short_lived_breakpoint_is_billed_as_such() -> None:
    params = judge_params(system="x" * 2400, ttl="5m")
    usage = compose_message(params, message_id="msg_1", cache_use="write")["usage"]
    assert usage["cache_creation"] == {
        "ephemeral_1h_input_tokens": 0,
        "ephemeral_5m_input_tokens": 600,
    }


MESSAGES = "/v1/messages"


def test_the_accounts_name_the_batches_and_count_their_requests(tmp_path: Path) -> None:
    with judge(directory=tmp_path) as (server, caller):
        first, second = caller.create(3), caller.create(2)
        accounts = read_accounts(tmp_path)
        assert [(each.batch_id, each.n_requests) for each in accounts.batches] == [
            (first, 3),
            (second, 2),
        ]
        assert accounts.n_requests == server.log.requests == 5
    known = read_accounts(tmp_path)
    assert known == accounts
    assert known.batches[0].created_at < known.batches[1].created_at


def test_a_question_paid_for_twice_shows_although_it_has_another_name(tmp_path: Path) -> None:
    once, twice = judge_params("once"), judge_params("twice")
    with judge(directory=tmp_path) as (_, caller):
        for name in ("a", "b"):
            rows = [{"custom_id": name, "params": twice}]
            rows += [{"custom_id": "c", "params": once}] if name == "a" else []
            assert caller.post(BATCHES, {"requests": rows}).status_code == 200
    accounts = read_accounts(tmp_path)
    assert accounts.in_batches == {hash_params(once): 1, hash_params(twice): 2}
    assert accounts.billed_twice == {hash_params(twice): 2}


def test_a_question_in_a_batch_and_in_a_message_is_the_same_question(tmp_path: Path) -> None:
    params = judge_params()
    with judge(directory=tmp_path) as (_, caller):
        caller.create(1)
        assert caller.post(MESSAGES, dict(reversed(params.items()))).status_code == 200
        assert caller.post(MESSAGES, {**params, "max_tokens": 0}).status_code == 400
    accounts = read_accounts(tmp_path)
    assert accounts.accepted == {hash_params(params): 2}
    assert accounts.billed_twice == {hash_params(params): 2}
    assert (accounts.n_requests, accounts.n_messages) == (1, 1)


def test_a_lost_answer_is_in_the_accounts_and_a_refusal_is_not(tmp_path: Path) -> None:
    faults = ("create_drop_after", "create_500", "message_529", "message_drop_after")
    with judge(*faults, directory=tmp_path) as (_, caller):
        for path, body in ((BATCHES, batch_body(2)), (MESSAGES, judge_params())):
            for _ in range(2):
                caller.try_post(path, body)
    accounts = read_accounts(tmp_path)
    assert (len(accounts.batches), accounts.n_requests, accounts.n_messages) == (1, 2, 1)


def test_what_failed_expired_or_was_canceled_is_accepted_and_not_billed(tmp_path: Path) -> None:
    with judge("row_expired", "row_overloaded_error", directory=tmp_path) as (_, caller):
        rows = [
            {"custom_id": f"r{number}", "params": judge_params(str(number))} for number in range(4)
        ]
        rows[3]["params"] = {"model": "no message at all"}
        assert caller.post(BATCHES, {"requests": rows}).status_code == 200
    with judge("never_ends", directory=tmp_path) as (_, caller):
        caller.post(f"{BATCHES}/{caller.create(2)}/cancel")
    accounts = read_accounts(tmp_path)
    assert sum(accounts.accepted.values()) == 6
    assert accounts.billed == {hash_params(judge_params("2")): 1}


def test_a_foreign_batch_is_in_nobodys_accounts(tmp_path: Path) -> None:
    for _ in range(2):
        with judge("foreign_batch", directory=tmp_path) as (server, caller):
            caller.create(2)
    assert server.log.to_dict() == {"batches": 2, "requests": 4, "messages": 0}
    assert read_accounts(tmp_path).n_requests == 4


def test_the_log_goes_on_counting_after_a_restart(tmp_path: Path) -> None:
    for n_before in range(3):
        with judge(directory=tmp_path) as (server, caller):
            before = {"batches": n_before, "requests": 2 * n_before, "messages": n_before}
            assert caller.get("/loopback/log").json() == server.log.to_dict() == before
            caller.create(2)
            caller.post(MESSAGES, judge_params())
    assert len(read_accounts(tmp_path).batches) == 3


def test_a_message_is_one_line_with_its_time_its_question_and_its_model(tmp_path: Path) -> None:
    with judge(directory=tmp_path) as (_, caller):
        caller.post(MESSAGES, judge_params("first"))
        caller.post(MESSAGES, judge_params("second"))
    first, second = read_messages(tmp_path)
    assert first.answered_at < second.answered_at
    assert first.params_hash == hash_params(judge_params("first"))
    assert second.model == "claude-opus-5-5"
    assert len((tmp_path / "messages.jsonl").read_bytes().splitlines()) == 2


def test_a_line_that_a_kill_cut_off_counts_for_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    MessageLog(tmp_path).record(judge_params("one"))
    path = tmp_path / "messages.jsonl"
    path.write_bytes(path.read_bytes() + b'{"answered_at": "20')
    log = MessageLog(tmp_path)
    assert log.n_messages == 1
    log.record(judge_params("two"))
    assert [message.params_hash for message in read_messages(tmp_path)] == [
        hash_params(judge_params("one")),
        hash_params(judge_params("two")),
    ]


def test_a_question_has_the_hash_under_which_the_project_keeps_its_reply() -> None:
    params = judge_params("é \ud800 \N{GRINNING FACE}")
    assert hash_params(params) == fingerprint(params)
    assert hash_params(dict(reversed(params.items()))) == fingerprint(params)


def test_the_accounts_of_no_directory_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        read_accounts(tmp_path / "nowhere")


def test_what_was_answered_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        batch_id = caller.create(3)
        assert caller.post("/v1/messages", judge_params("asked directly")).status_code == 200
        server.kill()
    accounts = read_accounts(tmp_path)
    assert [each.batch_id for each in accounts.batches] == [batch_id]
    assert accounts.in_messages == {hash_params(judge_params("asked directly")): 1}
    with judge(directory=tmp_path) as (again, caller):
        assert again.log.to_dict() == {"batches": 1, "requests": 3, "messages": 1}
        assert len(results(caller, batch_id).text.splitlines()) == 3


def test_a_kill_while_a_batch_is_written_leaves_no_batch_and_no_debris(tmp_path: Path) -> None:
    body = batch_body(20_000, system="Judge well. " * 20)
    with KillableServer(tmp_path) as server, Caller(server.url) as caller:
        asking = threading.Thread(target=caller.try_post, args=(BATCHES, body))
        asking.start()
        wait_for(lambda: bool(list(tmp_path.glob("*.partial"))))
        server.kill()
        asking.join()
    assert len(list(tmp_path.glob("*.partial"))) == 1
    assert read_accounts(tmp_path).batches == ()
    with judge(directory=tmp_path) as (again, _):
        assert list(tmp_path.glob("*.partial")) == []
        assert again.log.batches == 0
