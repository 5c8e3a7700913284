from datetime import UTC, datetime, timedelta

from tournament_assets.ledger import Ledger

from .builders import begin_batch, failure, numbered_keys, select, success


def test_a_passing_failure_answers_nothing_and_is_kept_every_time(
    ledger: Ledger, ledger_url: str
) -> None:
    busy = failure("overloaded_error")
    ledger.record_failures("n1", [("k1", busy), ("k2", busy)])
    ledger.record_failures("n2", [("k1", busy)])
    ledger.record_failures("n3", [])
    assert ledger.answered_keys(["k1", "k2"]) == set()
    assert list(ledger.iterate_replies(["k1", "k2"])) == []
    assert select(
        ledger_url,
        "SELECT request_key, nonce, error_type FROM judge_failures ORDER BY failure_id",
    ) == [
        ("k1", "n1", "overloaded_error"),
        ("k2", "n1", "overloaded_error"),
        ("k1", "n2", "overloaded_error"),
    ]


def test_it_is_told_how_a_request_failed_last(ledger: Ledger) -> None:
    ledger.record_failures("n1", [("k1", failure("overloaded_error")), ("k2", failure(None))])
    ledger.record_failures("n2", [("k1", failure(None, result_type="expired"))])
    assert ledger.failed_keys(["k1", "k2", "k3"]) == {"k1": "expired", "k2": "errored"}
    assert ledger.failed_keys([]) == {}


def test_it_is_told_what_failed_since_a_moment(ledger: Ledger) -> None:
    ledger.record_failures("n1", [("k1", failure("timeout"))])
    between = datetime.now(UTC)
    ledger.record_failures("n2", [("k2", failure("timeout"))])
    assert ledger.failed_keys(["k1", "k2"], since=between) == {"k2": "timeout"}
    assert ledger.failed_keys(["k1", "k2"], since=between + timedelta(hours=1)) == {}


def test_a_request_that_failed_may_be_answered_later(ledger: Ledger) -> None:
    begin_batch(ledger, "n2")
    ledger.record_failures("n1", [("k1", failure("overloaded_error"))])
    ledger.record_rows("n2", [("k1", success("VERDICT: A"))])
    assert ledger.answered_keys(["k1"]) == {"k1"}
    assert ledger.failed_keys(["k1"]) == {"k1": "overloaded_error"}


def test_failures_of_more_keys_than_one_query_can_name_are_found(ledger: Ledger) -> None:
    keys = numbered_keys(1201)
    ledger.record_failures("n1", [(key, failure("timeout")) for key in keys])
    assert ledger.failed_keys(iter(keys)) == dict.fromkeys(keys, "timeout")


def test_a_failure_that_no_database_could_store_is_not_lost(
    ledger: Ledger, ledger_url: str
) -> None:
    ledger.record_failures("n1", [("k1", failure("a\0b\ud83d", result_type="\udfff"))])
    assert ledger.failed_keys(["k1"]) == {"k1": "a\ufffdb\ufffd"}
    assert select(ledger_url, "SELECT result_type FROM judge_failures") == [("\ufffd",)]
