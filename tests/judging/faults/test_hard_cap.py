"""A budget is never exceeded: by long replies, by runs side by side, or by asking again."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.judging.builders import PAIR, SETTINGS, Progress, most_each, quick, requests_for
from tests.judging.faults.conftest import connect
from tests.loopback.faults.servers import FaultyServer
from tests.postgresql import PostgresServer
from tournament_assets.foundation.errors import BudgetError, JudgeWaitingError
from tournament_assets.judging.batch_service import Channel, TokenUsage
from tournament_assets.judging.costs.prices import BudgetTerms, PriceList, load_newest_prices
from tournament_assets.judging.requests.requests import JudgeRequests
from tournament_assets.judging.settlement.records import JudgingScope
from tournament_assets.judging.settlement.sessions import (
    ApproveAnything,
    JudgingSession,
    Tally,
    hold_lease,
)
from tournament_assets.judging.settlement.settlement import ask_directly, settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches
from tournament_assets.tournament.judges import ConfiguredPrice, Rubric
from tournament_assets.verdicts.spending_plans import build_approval

OPUS = "claude-opus-5-5"
PRICES = load_newest_prices()
AT_A_GATEWAY = load_newest_prices({OPUS: ConfiguredPrice(input=4.0, output=20.0)})


def asked(n_pairs: int, dimension: str = "0", *, max_tokens: int = 2000) -> JudgeRequests:
    """Build requests of a model with a price; those of two dimensions differ."""
    # The key covers the cap, so that every dimension asks something of its own.
    return requests_for(
        n_pairs,
        settings=replace(SETTINGS, judge_model=OPUS, max_tokens=max_tokens + int(dimension)),
    )


def most_of(requests: JudgeRequests, channel: Channel = "batch") -> float:
    """The most that some requests cost together."""
    return sum(most_each(requests, PRICES, channel))


def terms(limit_usd: float | None, prices: PriceList = PRICES) -> BudgetTerms:
    return BudgetTerms(prices, limit_usd, "month", datetime.now(UTC))


def billed_usd(server: FaultyServer) -> float:
    """What the server's own books say that its batches cost."""
    total = 0.0
    for batch in server.store.list_newest_first():
        for row in map(json.loads, server.iterate_lines(batch)):
            if row["result"]["type"] != "succeeded":
                continue
            usage = row["result"]["message"]["usage"]
            tokens = TokenUsage(**{name: usage[name] for name in TokenUsage.__slots__})
            total += PRICES.cost_usd(OPUS, tokens, channel="batch") or 0.0
    return total


def spent_usd(ledger: Ledger) -> float:
    return PRICES.add_up(ledger.spending_since()).usd


@dataclass
class Payer:
    """A ledger, a server, and ways to ask."""

    ledger_url: str
    server: FaultyServer
    protocol: str = "anthropic"

    @property
    def prices(self) -> PriceList:
        return PRICES if self.protocol == "anthropic" else AT_A_GATEWAY

    def settle(
        self,
        requests: JudgeRequests,
        limit_usd: float,
        *,
        dimension: str = "0",
        is_planned: bool = False,
        **policy: Any,
    ) -> Tally:
        """Ask as a run of the program does, with connections of its own."""
        with (
            closing(Ledger(self.ledger_url)) as ledger,
            closing(connect(self.protocol, self.server)) as service,
        ):
            session = JudgingSession(
                scope=JudgingScope("tiny", "pilot", dimension),
                ledger=ledger,
                service=service,
                progress=Progress(),
                terms=replace(
                    quick(**policy),
                    budget=terms(limit_usd, self.prices),
                ),
                approval=build_approval(terms(limit_usd, self.prices), ledger=ledger)
                if is_planned
                else ApproveAnything(),
            )
            return settle_requests(session, requests)

    def ask_directly(self, requests: JudgeRequests, limit_usd: float) -> Tally:
        """Ask one by one."""
        with (
            closing(Ledger(self.ledger_url)) as ledger,
            closing(AnthropicBatches(base_url=self.server.url, api_key="any")) as service,
        ):
            session = JudgingSession(
                scope=JudgingScope("tiny", "pilot", "direct"),
                ledger=ledger,
                service=service,
                progress=Progress(),
                terms=replace(quick(), budget=terms(limit_usd)),
            )
            with hold_lease(session):
                ask_directly(session, requests, attempt=1)
            return session.tally


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.e2e)])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgresql")
        with server.database() as url:
            yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def test_eight_runs_at_once_and_replies_as_long_as_they_can_be_stay_within_the_budget(
    ledger_url: str,
) -> None:
    n_runs, limit = 8, 0.30
    Ledger(ledger_url).close()
    start = Barrier(n_runs)
    with (
        FaultyServer(processing_seconds=0.1, faults=["reply_long:always"]) as server,
        ThreadPoolExecutor(n_runs) as pool,
    ):
        payer = Payer(ledger_url, server)

        def run(number: int) -> str:
            start.wait(60)
            try:
                payer.settle(asked(5, str(number)), limit, dimension=str(number))
            except (BudgetError, JudgeWaitingError) as error:
                return type(error).__name__
            return "done"

        outcomes = list(pool.map(run, range(n_runs)))
        billed = billed_usd(server)
        with closing(Ledger(ledger_url)) as ledger:
            assert spent_usd(ledger) <= billed + 1e-9  # added up in another order
    # All of it would cost much more, and what there was room for was not left unused.
    assert most_of(asked(5)) * n_runs > 3 * limit
    assert 0.6 * limit < billed <= limit
    assert "BudgetError" in outcomes


def test_what_is_too_dear_at_max_tokens_goes_out_in_slices_that_fit(sqlite_url: str) -> None:
    requests = asked(10)
    limit = most_of(requests) / 3
    with FaultyServer() as server:
        tally = Payer(sqlite_url, server).settle(requests, limit)
        assert tally.answered == len(requests)
        sizes = [batch.n_requests for batch in server.store.list_newest_first()][::-1]
        assert billed_usd(server) < limit
    assert len(sizes) > 2
    assert sum(sizes) == len(requests)
    assert most_of(requests) * sizes[0] / len(requests) <= limit


def test_results_that_cannot_be_read_hold_their_part_of_the_budget_and_nobody_waits_for_them(
    sqlite_url: str,
) -> None:
    requests = asked(10)
    limit = most_of(requests) / 3
    with FaultyServer(faults=["results_stay_empty"]) as server:
        with pytest.raises(BudgetError, match=f"{OPUS}.* 2,000,"):
            Payer(sqlite_url, server).settle(requests, limit)
        assert server.log.batches == 1
        assert billed_usd(server) <= limit


def test_a_line_that_is_not_json_counts_at_its_most(sqlite_url: str) -> None:
    requests = asked(10)
    limit = most_of(requests) / 3
    with FaultyServer(faults=["row_unparsable:20", "reply_long:always"]) as server:
        with pytest.raises(BudgetError):
            Payer(sqlite_url, server).settle(requests, limit)
        assert server.log.batches == 1


def test_a_budget_that_is_used_up_stops_the_run_and_keeps_what_was_paid(sqlite_url: str) -> None:
    requests = asked(10)
    limit = most_of(requests) / 3
    with FaultyServer(faults=["reply_long:always"]) as server:
        with pytest.raises(BudgetError, match=f"{OPUS}.* 2,000,"):
            Payer(sqlite_url, server).settle(requests, limit)
        assert 0 < billed_usd(server) <= limit
        with closing(Ledger(sqlite_url)) as ledger:
            keys = [request.request_key for request in requests]
            assert 0 < len(ledger.answered_keys(keys)) < len(requests)


def test_a_second_question_with_twice_the_room_counts_at_twice_the_room(sqlite_url: str) -> None:
    requests = asked(1)
    limit = most_of(requests) * 1.02
    with FaultyServer(faults=["stop_max_tokens:always"]) as server:
        payer = Payer(sqlite_url, server)
        # Both replies were cut off, and there is room for one more of them with twice the cap.
        tally = payer.settle(requests, limit)
        assert tally.second_questions == 2
        sizes = [batch.n_requests for batch in server.store.list_newest_first()][::-1]
    assert sizes == [2, 1, 1]


def test_requests_asked_one_by_one_wait_for_what_those_before_them_cost(sqlite_url: str) -> None:
    requests = asked(4)
    limit = most_of(requests, "direct") / 2
    with FaultyServer() as server:
        tally = Payer(sqlite_url, server).ask_directly(requests, limit)
        assert (tally.direct, server.log.messages) == (8, 8)
    with closing(Ledger(sqlite_url)) as ledger:
        assert tally.harvested == 8
        assert 0 < spent_usd(ledger) < limit


def test_long_replies_to_direct_messages_stay_within_the_budget(sqlite_url: str) -> None:
    requests = asked(4)
    limit = most_of(requests, "direct") / 2
    with FaultyServer(faults=["direct_reply_long:always"]) as server:
        with pytest.raises(BudgetError, match="next request"):
            Payer(sqlite_url, server).ask_directly(requests, limit)
        assert 0 < server.log.messages < 8
    with closing(Ledger(sqlite_url)) as ledger:
        assert 0.5 * limit < spent_usd(ledger) <= limit


def test_a_direct_reply_that_got_lost_counts_as_paid(sqlite_url: str) -> None:
    requests = asked(1)
    one = most_of(requests, "direct") / 2
    with FaultyServer(faults=["message_drop_after:always"]) as server:
        with pytest.raises(BudgetError):
            Payer(sqlite_url, server).ask_directly(requests, one * 3.5)
        # Both were answered and lost, one of the two was asked once more, and that was all.
        assert server.log.messages == 3
    with closing(Ledger(sqlite_url)) as ledger:
        budget = ledger.draw_up_budget(terms(one * 3.5))
        assert budget is not None
        assert budget.committed_usd == pytest.approx(3 * one, rel=0.01)


def test_what_another_run_has_under_way_holds_its_part_of_the_budget(sqlite_url: str) -> None:
    requests = asked(2, "1")
    limit = most_of(requests)
    with FaultyServer(processing_seconds=30) as server:
        payer = Payer(sqlite_url, server)
        with pytest.raises(JudgeWaitingError):
            payer.settle(requests, limit, dimension="1", deadline_seconds=0.1)
        with pytest.raises(JudgeWaitingError, match=r"1 \(pilot\)"):
            payer.settle(asked(2, "2"), limit, dimension="2")
        assert server.log.requests == len(requests)


LONG_RUBRIC = Rubric("factuality", "1", "# version: 1\n" + "Judge what is true. " * 450)


def long_requests(n_pairs: int) -> JudgeRequests:
    """Build requests as long as those of a real tournament: 2,300 tokens of rubric, 500 of texts.

    Both responses of a pair have the same length, as most of what is judged has.
    """
    pairs = [
        replace(
            PAIR,
            prompt_id=f"p{number}",
            prompt_text=f"Question {number}?",
            response_a=f"It is vitamin C, says {number}. " * (25 + number % 20),
            response_b=f"It is vitamin D, says {number}. " * (25 + number % 20),
        )
        for number in range(n_pairs)
    ]
    return JudgeRequests(pairs, LONG_RUBRIC, replace(SETTINGS, judge_model=OPUS, max_tokens=4096))


@pytest.mark.parametrize("protocol", ["anthropic", "openai_batch"])
def test_a_budget_of_half_as_much_again_as_the_bill_needs_two_waits(
    tmp_path: Path, protocol: str
) -> None:
    bill, sizes, wanted = pay_for_long_requests(tmp_path / "ample", "reply_thinks", protocol)
    assert sizes == [110]
    limit = 1.5 * bill
    spent, sizes, replies = pay_for_long_requests(
        tmp_path / "tight", "reply_thinks", protocol, limit
    )
    assert 0.9 * bill < spent <= limit
    assert (len(sizes), sum(sizes)) == (2, 110)
    assert replies == wanted


def test_a_reply_that_a_lower_cap_cut_off_is_asked_for_once_more_under_twice_the_full_one(
    tmp_path: Path,
) -> None:
    bill, sizes, wanted = pay_for_long_requests(tmp_path / "ample", "reply_thinks_twice")
    assert sizes == [110]
    spent, sizes, replies = pay_for_long_requests(
        tmp_path / "tight", "reply_thinks_twice", limit_usd=1.5 * bill
    )
    assert spent <= 1.5 * bill
    cut = {key for key, texts in replies.items() if len(texts) == 2}
    assert 0 < len(cut) == sizes[-1] < 6
    assert {key: texts[-1:] for key, texts in replies.items()} == wanted


def pay_for_long_requests(
    folder: Path, thinks: str, protocol: str = "anthropic", limit_usd: float | None = None
) -> tuple[float, list[int], dict[str, list[str | None]]]:
    """Return what was spent, the sizes of the batches in order, and the replies by request."""
    url, requests = f"sqlite:///{folder}", long_requests(60)
    faults = [f"{thinks}:always", f"direct_{thinks}:always", "hit_rate:0.5"]
    with FaultyServer(processing_seconds=0, faults=faults) as server:
        tally = Payer(url, server, protocol).settle(
            requests, limit_usd or 1000.0, is_planned=True, prewarms=True
        )
        sizes = [batch.n_requests for batch in server.store.list_newest_first()][::-1]
    assert tally.answered == len(requests)
    replies: dict[str, list[str | None]] = {}
    with closing(Ledger(url)) as ledger:
        for each in ledger.iterate_replies([request.request_key for request in requests]):
            replies.setdefault(each.request_key, []).append(each.text)
        return spent_usd(ledger), sizes, replies
