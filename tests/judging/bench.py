"""A ledger and a judge with one clock and one list of events, and ways to run them."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tournament_assets.judging.requests.requests import JudgeRequest
from tournament_assets.judging.settlement.records import Lease
from tournament_assets.judging.settlement.sessions import (
    JudgingSession,
    SettlementTerms,
    Tally,
)
from tournament_assets.judging.settlement.settlement import settle_requests

from .builders import SCOPE, Clock, Progress, patience
from .fake_judge import FakeJudge
from .fake_ledger import FakeLedger


class Bench:
    """A ledger and a judge with one clock and one list of events."""

    def __init__(self, **judge: Any) -> None:
        self.events: list[str] = []
        self.clock = Clock()
        self.ledger = FakeLedger(self.events)
        self.progress = Progress()
        self.judge = FakeJudge(self.clock, self.events, **judge)

    def settle(self, requests: Sequence[JudgeRequest], **options: Any) -> Tally:
        """Settle some requests as a run of the program would."""
        return settle_requests(self.unbegun(**options), requests)

    def session(self, **options: Any) -> JudgingSession:
        """Begin a settlement whose steps a test takes by itself."""
        session = self.unbegun(**options)
        lease = self.ledger.acquire_lease(SCOPE)
        assert isinstance(lease, Lease)
        session.lease = lease
        return session

    def unbegun(self, **options: Any) -> JudgingSession:
        """Return a settlement that does not hold its lease yet, given its fields or waits."""
        session, terms = _take(JudgingSession, options), _take(SettlementTerms, options)
        waits = patience(self.clock, **options)
        usual = {"scope": SCOPE, "ledger": self.ledger, "service": self.judge}
        session = {**usual, "progress": self.progress, **_take(JudgingSession, waits), **session}
        return JudgingSession(**session, terms=SettlementTerms(**{**waits, **terms}))


def _take(row_class: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    names = options.keys() & {each.name for each in fields(row_class)}
    return {name: options.pop(name) for name in names - {"grace_seconds"}}
