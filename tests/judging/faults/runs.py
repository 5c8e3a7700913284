"""A run of the real adapter and a real ledger against a loopback judge that goes wrong."""

import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tests.judging.builders import SCOPE, Progress, keys_of, quick, requests_for
from tests.loopback.faults.catalogue import CATALOGUE
from tests.loopback.faults.servers import FaultyServer
from tournament_assets.judging.batch_service import TakesBatches
from tournament_assets.judging.requests.verdict_parsing import parse_verdict, read_reply
from tournament_assets.judging.settlement.account import read_account
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.judging.settlement.sessions import Clock, JudgingSession, Tally
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.loopback.lexical_judge import judge_lexically
from tournament_assets.tournament.verdicts import Verdict

REQUESTS = requests_for(2)
KEYS = keys_of(2)
FIRST = KEYS[0]


class Run:
    """A ledger and a judge that goes wrong; settling is done with little patience.

    Attributes:
        server: The judge.
        service: The adapter, connected to it.
        ledger: The ledger.
        progress: What a person would have seen.
        naps: How long it was waited, each time.
    """

    def __init__(self, server: FaultyServer, service: TakesBatches, path: Path) -> None:
        self.server = server
        self.service = service
        self.ledger = Ledger(f"sqlite:///{path}")
        self.progress = Progress()
        self.naps: list[float] = []
        self._path = path

    def settle(self, *, may_pay_again: bool = False, **policy: Any) -> Tally:
        """Settle four requests."""
        session = JudgingSession(
            scope=SCOPE,
            ledger=self.ledger,
            service=self.service,
            progress=self.progress,
            clock=Clock(sleep=self._sleep),
            terms=replace(quick(**policy), may_pay_again=may_pay_again),
        )
        return settle_requests(session, REQUESTS)

    def _sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        time.sleep(seconds)

    @property
    def paid(self) -> tuple[int, int, int]:
        """The batches, the requests in them and the direct messages that were accepted."""
        log = self.server.log
        return log.batches, log.requests, log.messages

    @property
    def states(self) -> list[str]:
        """What became of every batch, in the order in which they were begun."""
        query = "SELECT state FROM judge_batches ORDER BY begun_at"
        with closing(sqlite3.connect(self._path)) as connection:
            return [state for (state,) in connection.execute(query)]

    @property
    def batches(self) -> list[tuple[str, str]]:
        """The nonce and the state of every batch, in the order in which they were begun."""
        query = "SELECT nonce, state FROM judge_batches ORDER BY begun_at"
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(query).fetchall()

    def n_replies_of(self, nonce: str) -> int:
        """Return how many replies of a batch the ledger holds."""
        query = "SELECT count(*) FROM judge_replies WHERE nonce = ?"
        with closing(sqlite3.connect(self._path)) as connection:
            return int(connection.execute(query, [nonce]).fetchone()[0])

    def forget_leases(self) -> None:
        """Let everybody who was at work be gone."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("DELETE FROM judge_leases")

    @property
    def failure_messages(self) -> list[str]:
        """What is written down about every failure, in the order in which they were."""
        query = "SELECT error_message FROM judge_failures ORDER BY failure_id"
        with closing(sqlite3.connect(self._path)) as connection:
            return [message for (message,) in connection.execute(query)]

    @property
    def is_done(self) -> bool:
        """Whether the ledger says that nothing is left to do."""
        return read_account(REQUESTS, scope=SCOPE, ledger=self.ledger, reply_format="line").is_done

    def replies(self, key: str = FIRST) -> list[StoredReply]:
        """Return the replies to a request, one for each attempt."""
        return list(self.ledger.iterate_replies([key]))

    def verdicts(self, key: str = FIRST) -> list[Verdict]:
        """Return what the replies to a request say, one for each attempt."""
        return [
            read_reply(result_type=each.result_type, stop_reason=each.stop_reason, text=each.text)[
                0
            ]
            for each in self.replies(key)
        ]

    @property
    def channels(self) -> list[str]:
        """How the replies to the first request came, one for each attempt."""
        return [reply.channel for reply in self.replies()]

    def is_settled(self) -> bool:
        """Whether every request ends with the verdict of a judge with whom nothing goes wrong."""
        return self.is_done and all(self.verdicts(key)[-1] is true_verdict(key) for key in KEYS)

    def check_struck(self, faults: tuple[str, ...]) -> None:
        """Check that each of some faults struck as often as it was to."""
        struck = Counter(self.server.plan.struck)
        for fault in faults:
            name, _, times = fault.partition(":")
            # The others are told by what they do to every request.
            if CATALOGUE[name].argument == "times":
                assert struck[name] >= 1 if times == "always" else struck[name] == int(times or 1)
            elif CATALOGUE[name].argument == "seconds" and CATALOGUE[name].family == "create":
                assert struck[name] == 1


class Runner(Protocol):
    """Starts a run with some faults; at the test's end every one of them must have struck."""

    def __call__(self, *faults: str, **habits: Any) -> Run: ...


def true_verdict(key: str) -> Verdict:
    """Return what the loopback judge says about a request when nothing goes wrong."""
    message = REQUESTS[KEYS.index(key)].params["messages"][0]["content"]
    return parse_verdict(judge_lexically(message, dimension=None))
