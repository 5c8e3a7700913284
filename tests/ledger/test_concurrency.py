import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tournament_assets.ledger import Ledger

from .at_once import KEYS, N_WORKERS, run_at_once, run_in_workers, write_everything
from .builders import acquire, begin_batch, numbered_keys, select, success, texts

WRITERS = ("one", "two", "three")


def check_that_all_was_written_once(url: str) -> None:
    ledger = Ledger(url)
    assert ledger.answered_keys(KEYS) == set(KEYS)
    for (key, _), text in texts(ledger, KEYS).items():
        assert text in {f"{writer} on {key}" for writer in WRITERS}
    ledger.close()
    count = len(KEYS)
    for table, expected in {
        "judge_replies": count,
        "responses": count,
        "judge_failures": 3 * count,
        "judge_paid_twice": 2 * count,
        "judge_leases": 0,
    }.items():
        assert select(url, f"SELECT count(*) FROM {table}") == [(expected,)]  # noqa: S608
    states = select(url, "SELECT state, count(*) FROM judge_batches GROUP BY state")
    assert states == [("harvested", 3)]


def test_several_threads_can_write_the_same_keys_at_once(ledger_url: str) -> None:
    wasted = run_at_once([partial(write_everything, (ledger_url, writer)) for writer in WRITERS])
    assert sum(count for count in wasted if isinstance(count, int)) == 2 * len(KEYS)
    check_that_all_was_written_once(ledger_url)


def test_several_processes_can_write_the_same_keys_at_once(
    ledger_url: str, workers: ProcessPoolExecutor
) -> None:
    arguments = [(ledger_url, writer) for writer in WRITERS]
    assert len(arguments) == N_WORKERS
    wasted = run_in_workers(workers, write_everything, arguments)
    assert sum(wasted) == 2 * len(KEYS)
    check_that_all_was_written_once(ledger_url)


def test_runs_that_read_the_same_replies_in_other_orders_wait_for_each_other(
    ledger: Ledger, other_ledger: Ledger
) -> None:
    keys = numbered_keys(3000)
    begin_batch(ledger, "n1", keys)
    begin_batch(ledger, "n2", keys)
    forwards = [(key, success("forwards")) for key in keys]
    backwards = [(key, success("backwards")) for key in reversed(keys)]
    wasted = run_at_once(
        [
            lambda: ledger.record_rows("n1", forwards),
            lambda: other_ledger.record_rows("n2", backwards),
        ]
    )
    assert sum(count for count in wasted if isinstance(count, int)) == len(keys)
    assert len(set(texts(ledger, keys).values())) == 1


def test_several_threads_can_use_one_ledger(ledger: Ledger) -> None:
    keys = numbered_keys(40)
    begin_batch(ledger, "n1", keys, attempt=2)
    lease = acquire(ledger)
    is_over = threading.Event()

    def keep_lease() -> bool:
        while not is_over.wait(0.002):
            if not ledger.renew_lease(lease):
                return False
        return True

    def write(part: list[str]) -> None:
        for key in part:
            ledger.record_rows("n1", [(key, success(key))])
            assert ledger.answered_keys(keys, attempt=2) >= {key}

    def write_all() -> None:
        try:
            run_at_once([partial(write, keys[part::4]) for part in range(4)])
        finally:
            is_over.set()

    assert run_at_once([keep_lease, write_all]) == [True, None]
    assert texts(ledger, keys) == {(key, 2): key for key in keys}
