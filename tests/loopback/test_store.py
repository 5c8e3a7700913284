import json
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.builders import judge_params
from tournament_assets.loopback.messages import CacheUse, PromptCache, compose_message
from tournament_assets.loopback.store import BatchStore

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
        assert self.may_go_on.wait(20)
        return super().use(params)


def test_batches_are_listed_while_another_one_is_being_accepted() -> None:
    cache = StallingCache()
    store = BatchStore(cache=cache)
    creating = threading.Thread(target=store.create, args=([("a", judge_params())],))
    creating.start()
    assert cache.is_used.wait(20)
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
    with pytest.raises(ValueError, match=r"msgbatch_1\.jsonl holds no batch"):
        BatchStore(tmp_path)


def test_a_batch_that_lost_rows_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    batch = BatchStore(tmp_path).create([("a", judge_params()), ("b", judge_params())])
    path = tmp_path / f"{batch.batch_id}.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="holds 1 requests; expected 2"):
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
