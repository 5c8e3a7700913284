import threading
from collections.abc import Sequence

from tests.judging.bench import Bench
from tests.judging.builders import keys_of, requests_for
from tests.judging.fake_ledger import FakeLedger
from tests.torture.auditing import AT_ONCE
from tournament_assets.judging.batch_service import ReplyRow
from tournament_assets.judging.settlement.settlement import ask_directly


def test_a_slow_ledger_never_leaves_more_replies_at_risk_than_are_asked_for_at_once() -> None:
    class Slow(FakeLedger):
        def record_rows(self, nonce: str, final: Sequence[tuple[str, ReplyRow]]) -> int:
            pause.wait(0.01)
            at_risk.append(len(bench.judge.direct_requests) - len(self.replies))
            return super().record_rows(nonce, final)

    pause, at_risk = threading.Event(), list[int]()
    bench = Bench()
    bench.ledger = Slow(bench.events)
    ask_directly(bench.session(), requests_for(15), attempt=1)
    assert bench.ledger.answered() == set(keys_of(15))
    assert max(at_risk) == AT_ONCE
