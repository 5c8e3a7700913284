"""What a request costs before it is sent: its key and size, and looking what there is to do.

    python -m benchmarks.requests [--entrants 10] [--prompts 112] [--growth]

The peer is the plain way, which the tests hold the columns to: each request is built, encoded and
hashed by itself. Looking is measured on a ledger that holds every reply, as in a rerun with nothing
to do. All figures are processor time a request, the best of five.

`--growth` prices, asks and settles 2,000 and 100,000 requests instead, on a ledger of their own and
of a judge that answers at once, and prints by which power of their number the time grows.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.judging import invent_text
from tests.judging.builders import Clock, Progress, patience
from tests.judging.fake_judge import FakeJudge
from tournament_assets.foundation.fingerprints import canonical_json, fingerprint
from tournament_assets.judging.batch_service import ReplyRow, TokenUsage
from tournament_assets.judging.costs.estimates import measure_workload
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.judging.requests.pairs import build_match_list
from tournament_assets.judging.requests.requests import JudgeRequests, RequestSettings, by_pair
from tournament_assets.judging.settlement.account import Account, read_account
from tournament_assets.judging.settlement.records import BatchIntent, JudgingScope, Lease
from tournament_assets.judging.settlement.sessions import JudgingSession, SettlementTerms
from tournament_assets.judging.settlement.settlement import settle_requests
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.verdicts.table_rows import reply_rows, settled_rows

_SCOPE = JudgingScope("benchmark", "pilot", "factuality")
_SETTINGS = RequestSettings(
    judge_model="claude-haiku-4-5",
    max_tokens=1024,
    shows_gold_answer=False,
    shows_expected_behavior=False,
)
_RUBRIC = Rubric("factuality", "1", "# version: 1\n" + "Judge what is true. " * 350)


def make_requests(n_entrants: int, n_prompts: int) -> Callable[[], JudgeRequests]:
    """Return a function that begins the same requests anew, with no column filled."""
    rng = np.random.default_rng(0)
    entrants = [f"entrant_{number}" for number in range(n_entrants)]
    prompts = [
        Prompt(prompt_id=f"p{number}", text=invent_text(rng, 60), source="curated")
        for number in range(n_prompts)
    ]
    responses = {
        (entrant, (prompt.prompt_id, 1)): invent_text(rng, 150)
        for entrant in entrants
        for prompt in prompts
    }
    pairs = [*build_match_list(prompts, responses, entrants=entrants).pairs]
    return lambda: JudgeRequests(pairs, _RUBRIC, _SETTINGS)


def fill_ledger(ledger: Ledger, requests: JudgeRequests) -> None:
    """Write down a reply to each request."""
    lease = ledger.acquire_lease(_SCOPE)
    if not isinstance(lease, Lease):
        raise TypeError(f"somebody else holds the lease: {lease}")
    keys = list(requests.columns.keys())
    model = _SETTINGS.judge_model
    ledger.record_intent(lease, BatchIntent("0" * 12, model, 1, "batch", datetime.now(UTC), keys))
    row = ReplyRow(
        result_type="succeeded",
        text="Response A names the right vitamin.\n\nVERDICT: A",
        stop_reason="end_turn",
        usage=TokenUsage(10, 100, 0, 0),
        raw="{}",
    )
    ledger.record_rows("0" * 12, [(key, row) for key in keys])
    ledger.record_closed("0" * 12, state="harvested")


def time_of(work: Callable[[], object]) -> float:
    """Return the least seconds of processor time that some work takes."""
    times = []
    for _ in range(5):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def measure_growth(n_entrants: int, sizes: tuple[int, int] = (2_000, 100_000)) -> None:
    """Print what each step takes at two sizes, and the exponent between them."""
    seconds: dict[str, list[float]] = {}
    counts: list[int] = []
    for size in sizes:
        begin = make_requests(n_entrants, round(size / (n_entrants * (n_entrants - 1))))
        counts.append(len(begin()))
        with (
            tempfile.TemporaryDirectory() as folder,
            closing(Ledger(f"sqlite:///{Path(folder) / 'ledger.sqlite'}")) as ledger,
        ):
            for name, work in _steps(begin, ledger).items():
                began = time.process_time()
                work()
                seconds.setdefault(name, []).append(time.process_time() - began)
    print(f"{'':<10}" + "".join(f"{count:>12,}" for count in counts) + "    exponent")
    for name, (few, many) in seconds.items():
        times = "".join(
            f"{1e6 * spent / count:9.1f} us"
            for spent, count in zip((few, many), counts, strict=True)
        )
        print(f"{name:<10}{times}{math.log(many / few) / math.log(counts[1] / counts[0]):12.3f}")


def _steps(begin: Callable[[], JudgeRequests], ledger: Ledger) -> dict[str, Callable[[], object]]:
    clock = Clock()
    waits = patience(clock)

    def account() -> Account:
        return read_account(begin(), scope=_SCOPE, ledger=ledger, reply_format="line")

    def ask() -> None:
        session = JudgingSession(
            scope=_SCOPE,
            ledger=ledger,
            service=FakeJudge(clock),
            progress=Progress(),
            clock=waits["clock"],
            terms=SettlementTerms(waiting=waits["waiting"]),
        )
        settle_requests(session, begin())

    def settle() -> None:
        requests = begin()
        shown = by_pair(requests.pairs, [requests])
        rows = reply_rows(shown, requests.pairs, ledger.iterate_replies, _RUBRIC)
        for _ in settled_rows(rows, reply_format="line"):
            pass

    prices = load_newest_prices()
    model = _SETTINGS.judge_model
    return {
        "price": lambda: measure_workload([account().counted()], model=model, prices=prices),
        "ask": ask,
        "look": account,
        "settle": settle,
    }


def main() -> None:
    """Measure, and print a table with ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entrants", type=int, default=10)
    parser.add_argument("--prompts", type=int, default=112)
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_args()
    if options.growth:
        measure_growth(options.entrants)
        return
    begin = make_requests(options.entrants, options.prompts)
    requests = begin()
    n_requests, n_bytes = len(requests), float(requests.columns.sizes.mean())

    def plainly() -> list[tuple[str, int]]:
        return [
            (fingerprint(each.params), len(canonical_json(each.params).encode()))
            for each in requests
        ]

    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Ledger(f"sqlite:///{Path(folder) / 'ledger.sqlite'}")) as ledger,
    ):
        fill_ledger(ledger, requests)
        rows = {
            "key and size, one by one": time_of(plainly),
            "key and size, as columns": time_of(lambda: begin().columns),
            "nothing to do: key, size and state": time_of(
                lambda: (
                    read_account(begin(), scope=_SCOPE, ledger=ledger, reply_format="line").is_done
                )
            ),
        }
    plain = rows["key and size, one by one"]
    print(f"{n_requests:,} requests of {n_bytes:,.0f} bytes")
    for name, seconds in rows.items():
        print(f"{name:<36}{1e6 * seconds / n_requests:8.1f} us{seconds / plain:8.2f} x")


if __name__ == "__main__":
    main()
