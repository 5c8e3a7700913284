"""A batch of which nobody knows whether it was accepted, and the search for it."""

from dataclasses import dataclass

from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.judging.requests.requests import custom_id
from tournament_assets.judging.settlement.records import OpenBatch
from tournament_assets.judging.settlement.sessions import JudgingSession
from tournament_assets.judging.settlement.submission import adopt_batch, write_intent

from .bench import Bench
from .builders import reply_row, requests_for
from .fake_judge import FakeJudge


@dataclass
class Search:
    """A batch of two requests was to be created, and nobody knows what became of it."""

    bench: Bench
    session: JudgingSession
    intent: OpenBatch

    @property
    def judge(self) -> FakeJudge:
        return self.bench.judge

    @property
    def seconds(self) -> float:
        return self.bench.clock.seconds

    def accept(self, *, duration: float = 0.0, lag: float = 0.0) -> str:
        """Let the service have accepted the batch, and return the service's name."""
        requests = [
            SubmittedRequest(custom_id(self.intent.nonce, request.request_key), request.params)
            for request in requests_for(1)
        ]
        rows = [reply_row(request.custom_id) for request in requests]
        return self.judge.add_batch(requests, rows, duration=duration, lag=lag)

    def adopt(self) -> str | None:
        """Look for the batch, and return the service's name if it is found."""
        adopted = adopt_batch(self.session, self.intent)
        return None if adopted is None else adopted.batch_id

    def end(self) -> Bench:
        """Let the run be over, as if it had been killed."""
        self.bench.ledger.release_lease(self.session.lease)
        return self.bench


def begin(bench: Bench | None = None) -> Search:
    """Write an intent of which nobody knows what became."""
    bench = bench or Bench()
    session = bench.session()
    intent = write_intent(session, requests_for(1), attempt=1, channel="batch")
    assert intent is not None
    return Search(bench, session, intent)
