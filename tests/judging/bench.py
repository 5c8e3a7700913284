"""A ledger and a judge with one clock and one list of events, and ways to run them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tournament_assets.judging.batch_service import Channel
from tournament_assets.judging.requests.requests import JudgeRequest, ModelRequest
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.judging.settlement.records import JudgingScope, Lease
from tournament_assets.judging.settlement.sessions import JudgingOptions, JudgingSession, Tally
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

    def settle(
        self,
        requests: Sequence[JudgeRequest],
        *,
        scope: JudgingScope = SCOPE,
        approve: Callable[[Sequence[ModelRequest], Channel], None] | None = None,
        may_pay_again: bool = False,
        failed_since: datetime | None = None,
        reply_format: ReplyFormat = "line",
        **policy: Any,
    ) -> Tally:
        """Settle some requests as a run of the program would."""
        return settle_requests(
            requests,
            scope=scope,
            ledger=self.ledger,
            service=self.judge,
            progress=self.progress,
            options=JudgingOptions(
                policy=patience(self.clock, **policy),
                approve=approve or (lambda _requests, _channel: None),
                may_pay_again=may_pay_again,
                failed_since=failed_since,
                reply_format=reply_format,
            ),
        )

    def session(self, *, may_pay_again: bool = False, **policy: Any) -> JudgingSession:
        """Begin a settlement whose steps a test takes by itself."""
        lease = self.ledger.acquire_lease(SCOPE)
        assert isinstance(lease, Lease)
        return JudgingSession(
            lease=lease,
            ledger=self.ledger,
            service=self.judge,
            progress=self.progress,
            options=JudgingOptions(patience(self.clock, **policy), may_pay_again=may_pay_again),
        )
