"""The audit is not blind, and what is started does not stay."""

import re
import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.ledger.builders import change, select
from tests.loopback.faults.servers import FaultyServer
from tests.torture.auditing import AT_ONCE, Balance, draw_balance, find_unkept_rows
from tests.torture.bench import Outcome
from tests.torture.scenarios import FAIR, true_verdict
from tests.torture.worker import settle
from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.settlement import harvest as harvesting
from tournament_assets.judging.settlement import submission
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches


@dataclass(frozen=True)
class Settled:
    """A ledger and a judge after a settlement with which nothing went wrong."""

    url: str
    folder: Path
    service: AnthropicBatches

    def balance(self) -> Balance:
        return draw_balance(FAIR, ledger_url=self.url, judge_directory=self.folder)


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settled]:
    # The worker sets these for the whole of its process.
    monkeypatch.setattr(submission, "MAX_BATCH_REQUESTS", submission.MAX_BATCH_REQUESTS)
    monkeypatch.setattr(harvesting, "RESULTS_AT_ONCE", harvesting.RESULTS_AT_ONCE)
    monkeypatch.setattr(secrets, "token_hex", secrets.token_hex)
    url = f"sqlite:///{tmp_path}/ledger.sqlite"
    with FaultyServer(tmp_path / "judge", processing_seconds=0) as server:
        status = settle(
            scenario=FAIR.name,
            ledger_url=url,
            judge_url=server.url,
            number=1,
            dies_at=0,
            note=str(tmp_path / "note"),
        )
        assert status == 0
        with closing(AnthropicBatches(base_url=server.url, api_key="any")) as service:
            yield Settled(url, tmp_path / "judge", service)


def test_nothing_is_wrong_when_nobody_is_killed(settled: Settled) -> None:
    assert settled.balance() == Balance(0, 0, 0, 0, ())
    assert {true_verdict(request).value for request in FAIR.requests} == {"A", "B", "TIE"}


def test_a_batch_that_is_in_no_ledger_was_paid_for_twice(settled: Settled) -> None:
    settled.service.create_batch(
        SubmittedRequest(custom_id("00", request.request_key), request.params)
        for request in FAIR.requests[:8]
    )
    balance = settled.balance()
    assert (balance.batches_twice, balance.requests_twice) == (1, 8)
    assert (balance.verdicts_lost, balance.problems) == (0, ())


def test_a_batch_that_was_never_harvested_was_paid_for_in_vain(settled: Settled) -> None:
    change(settled.url, "UPDATE judge_batches SET state = 'abandoned' WHERE n_requests = 8")
    balance = settled.balance()
    n_batches = len(select(settled.url, "SELECT nonce FROM judge_batches WHERE n_requests = 8"))
    assert n_batches == 2
    assert balance.batches_twice == n_batches


def test_a_direct_reply_that_is_in_no_ledger_was_paid_for_twice(settled: Settled) -> None:
    for request in FAIR.requests[:3]:
        settled.service.ask_directly(SubmittedRequest("any", request.params))
    balance = settled.balance()
    assert balance.direct_twice == 3
    assert (balance.batches_twice, balance.requests_twice) == (0, 0)


def test_a_reply_that_is_gone_or_says_something_else_is_a_verdict_lost(settled: Settled) -> None:
    first, second = (
        request.request_key for request in FAIR.requests[1:3]
    )  # the first one was asked directly
    change(settled.url, "DELETE FROM judge_replies WHERE request_key = :key", key=first)
    balance = settled.balance()
    assert (balance.verdicts_lost, balance.requests_twice) == (1, 1)
    assert len(balance.problems) == 1
    change(
        settled.url,
        "UPDATE judge_replies SET text = 'VERDICT: ABSTAIN', attempt = 2 WHERE request_key = :key",
        key=second,
    )
    assert settled.balance().verdicts_lost == 2


def test_a_ledger_that_is_not_tidy_is_a_problem(settled: Settled) -> None:
    change(
        settled.url,
        "INSERT INTO judge_leases VALUES ('t', 'm', 'd', 'p', 'token', 'somebody', '2999')",
        "UPDATE judge_batches SET batch_id = 'the same'",
        "INSERT INTO judge_paid_twice (request_key, nonce, channel, received_at) "
        "VALUES ('key', 'nonce', 'batch', 'now')",
    )
    problems = "; ".join(settled.balance().problems)
    for words in ("nobody gave back", "written down twice", "the ledger itself says"):
        assert words in problems


def test_a_row_that_was_read_is_to_be_written_down_with_its_part(settled: Settled) -> None:
    rows = select(settled.url, "SELECT nonce FROM judge_batches WHERE n_requests = 8")
    nonce = rows[0][0]
    assert find_unkept_rows(settled.url, {nonce: 8}) == []
    change(
        settled.url,
        "DELETE FROM judge_replies WHERE nonce = :nonce AND request_key NOT IN "
        "(SELECT request_key FROM judge_replies WHERE nonce = :nonce LIMIT 5)",
        nonce=nonce,
    )
    # Rows 1 to 3 were one part and 4 to 6 another; the third one was being read.
    assert find_unkept_rows(settled.url, {nonce: 6}) == []
    (problem,) = find_unkept_rows(settled.url, {nonce: 7})
    assert re.findall(r"\b\d\b", problem.replace(nonce, "")) == ["7", "5"]


@pytest.mark.parametrize(
    ("changed", "is_wrong"),
    [
        ({}, False),
        ({"direct_twice": AT_ONCE}, False),
        ({"direct_twice": AT_ONCE + 1}, True),
        ({"verdicts_lost": 1}, True),
        ({"batches_twice": 1}, True),
        ({"requests_twice": 1}, True),
        ({"problems": ("one",)}, True),
    ],
)
def test_only_what_was_under_way_at_a_kill_may_be_paid_for_twice(
    changed: dict[str, Any], is_wrong: bool
) -> None:
    balance = replace(Balance(0, 0, 0, 0, ()), **changed)
    assert Outcome(("after row 7 of iterate_results",), balance, adopted=3).is_wrong is is_wrong
