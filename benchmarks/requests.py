"""What a request costs before it is sent: its key and size, and looking what there is to do.

    python -m benchmarks.requests [--entrants 10] [--prompts 112]

The peer is the plain way, which the tests hold the columns to: each request is built, encoded and
hashed by itself. Looking is measured on a ledger that holds every reply, as in a rerun with nothing
to do. All figures are processor time a request, the best of five.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.judging import invent_text
from tournament_assets.foundation.fingerprints import canonical_json, fingerprint
from tournament_assets.judging.batch_service import ReplyRow, TokenUsage
from tournament_assets.judging.requests.pairs import build_match_list
from tournament_assets.judging.requests.requests import JudgeRequests, RequestSettings
from tournament_assets.judging.settlement.account import read_account
from tournament_assets.judging.settlement.records import BatchIntent, JudgingScope, Lease
from tournament_assets.ledger import Ledger
from tournament_assets.tournament.judges import Rubric
from tournament_assets.tournament.prompts import Prompt

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
    pairs = build_match_list(prompts, responses, entrants=entrants).pairs
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


def main() -> None:
    """Measure, and print a table with ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entrants", type=int, default=10)
    parser.add_argument("--prompts", type=int, default=112)
    options = parser.parse_args()
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
