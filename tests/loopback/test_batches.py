import json
import threading
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.loopback.builders import judge_params
from tournament_assets.loopback.batches import BatchStore
from tournament_assets.loopback.messages import CacheUse, PromptCache

PREFIX = "Judge well. " * 200  # 2,400 characters: 600 tokens


def test_a_restarted_store_knows_its_batches_and_their_bill(tmp_path: Path) -> None:
    before = BatchStore(tmp_path)
    first = before.create([("a", judge_params(system=PREFIX)), ("b", judge_params(system=PREFIX))])
    second = before.create([("c", judge_params(system=PREFIX))])
    after = BatchStore(tmp_path)
    assert after.list_newest_first() == [second, first]
    assert list(after.list_newest_first()[1].iterate_lines()) == list(first.iterate_lines())


def test_a_batch_that_was_cut_off_while_it_was_written_is_not_there(tmp_path: Path) -> None:
    leftover = tmp_path / "msgbatch_1.0a.partial"
    leftover.write_text('{"batch_id": "msgb', encoding="utf-8")
    store = BatchStore(tmp_path)
    assert store.list_newest_first() == []
    batch = store.create([("a", judge_params())])
    assert [path.name for path in tmp_path.glob("*.jsonl")] == [f"{batch.batch_id}.jsonl"]


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


def test_a_file_that_is_no_batch_is_named(tmp_path: Path) -> None:
    (tmp_path / "msgbatch_1.jsonl").write_text("nonsense", encoding="utf-8")
    with pytest.raises(ValueError, match=r"msgbatch_1\.jsonl"):
        BatchStore(tmp_path)


def test_looking_at_a_batch_does_not_read_its_requests(tmp_path: Path) -> None:
    batch = BatchStore(tmp_path).create([(f"r{number}", judge_params()) for number in range(3)])
    path = tmp_path / f"{batch.batch_id}.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    (known,) = BatchStore(tmp_path).list_newest_first()
    assert (known.n_requests, known.n_invalid) == (3, 0)


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
