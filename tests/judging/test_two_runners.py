"""Several runs with one ledger and one judge: everything is sent once, and all of them end well."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from tests.judging.builders import SCOPE, Progress, keys_of, quick, requests_for
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.judging.settlement.sessions import JudgingSession, Tally
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.providers.anthropic.message_batches import AnthropicBatches

N_PAIRS = 10


@pytest.fixture
def ledger_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def answered(ledger_url: str) -> int:
    ledger = Ledger(ledger_url)
    found = ledger.answered_keys(keys_of(N_PAIRS))
    ledger.close()
    return len(found)


def run_judging(ledger_url: str, judge_url: str, n_pairs: int, start: Barrier) -> Tally:
    """Settle some requests with a ledger, an adapter and connections of its own."""
    with (
        closing(Ledger(ledger_url)) as ledger,
        closing(AnthropicBatches(base_url=judge_url, api_key="any")) as service,
    ):
        start.wait(60)
        session = JudgingSession(
            scope=SCOPE, ledger=ledger, service=service, progress=Progress(), terms=quick()
        )
        return settle_requests(session, requests_for(n_pairs))


def test_two_threads_send_everything_once_and_both_end_well(ledger_url: str) -> None:
    start = Barrier(2)
    with (
        FaultyServer(processing_seconds=0.3) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        runs = [pool.submit(run_judging, ledger_url, server.url, N_PAIRS, start) for _ in range(2)]
        tallies = [run.result() for run in runs]
        assert (server.log.batches, server.log.requests) == (1, 2 * N_PAIRS)
    assert sorted(tally.submitted for tally in tallies) == [0, 2 * N_PAIRS]
    assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 2
    assert answered(ledger_url) == 2 * N_PAIRS


def test_runs_that_want_different_things_send_their_union_once(ledger_url: str) -> None:
    wanted = [N_PAIRS, 4, 7, 1]
    start = Barrier(len(wanted))
    with (
        FaultyServer(processing_seconds=0.1) as server,
        ThreadPoolExecutor(len(wanted)) as pool,
    ):
        runs = [pool.submit(run_judging, ledger_url, server.url, n, start) for n in wanted]
        assert [run.result().answered for run in runs] == [2 * n for n in wanted]
        assert server.log.requests == 2 * N_PAIRS
