"""Importing judgments in chunks and row by row: `python -m benchmarks.importing [ROWS]`.

Both go into a fresh SQLite ledger on the same disk in the same run, a tenth of the rows row by row.
Rows a second of wall time, which includes checking the file.
"""

import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from tournament_assets.extras.transfers.judgment_files import (
    JudgmentRecord,
    read_judgments,
    write_judgments,
)
from tournament_assets.extras.transfers.transfers import import_judgments
from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.requests.pairs import Presentation
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.ledger import Ledger

_ROWS = 20_000
_ROWS_A_SECOND = 5_000
_REPLY = "The first response names the right vitamin. " * 20 + "\nVERDICT: A"


def records(count: int) -> Iterator[JudgmentRecord]:
    """Yield judgments of as many requests."""
    for number in range(count):
        yield JudgmentRecord(
            dimension="factuality",
            prompt_id=f"p{number:06d}",
            sample=1,
            entrant_a="ada",
            entrant_b="bob",
            presentation=Presentation.AB,
            reply=StoredReply(
                request_key=hashlib.sha256(str(number).encode()).hexdigest(),
                attempt=1,
                channel="batch",
                result_type="succeeded",
                stop_reason="end_turn",
                text=_REPLY,
                model="judge-1",
                usage=TokenUsage(700, 200, 0, 2200),
                received_at=datetime(2026, 9, 30, tzinfo=UTC),
            ),
        )


def main() -> None:
    """Time both and print their rates."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _ROWS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "judgments_factuality.jsonl"
        write_judgments(path, records(count))
        with closing(Ledger(f"sqlite:///{folder / 'chunks.sqlite'}")) as ledger:
            began, cpu = time.perf_counter(), time.process_time()
            import_judgments([path], ledger=ledger)
            rate = count / (time.perf_counter() - began)
            cpu_rate = count / (time.process_time() - cpu)
        write_judgments(path, records(count // 10))
        with closing(Ledger(f"sqlite:///{folder / 'rows.sqlite'}")) as ledger:
            began = time.perf_counter()
            for record in read_judgments(path):
                ledger.import_replies([record.reply])
            slow = count // 10 / (time.perf_counter() - began)
    print(f"in chunks   {rate:8,.0f} rows/s ({cpu_rate:,.0f} a second of processor time)")
    print(f"row by row  {slow:8,.0f} rows/s")
    print(f"ratio       {rate / slow:8.1f}")
    if cpu_rate < _ROWS_A_SECOND:
        raise SystemExit(f"expected {_ROWS_A_SECOND:,} rows a second of processor time")


if __name__ == "__main__":
    main()
