"""Importing judgments, beside pandas and a plain script: `python -m benchmarks.importing [ROWS]`.

All go into a fresh SQLite file on the same disk in the same run; row by row, a tenth of the rows.
Rows a second of processor time. The ledger reads the file twice: every line is checked before the
first is kept, and what is no judge's words is set apart. pandas and the script check nothing.
"""

import hashlib
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

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
_ROWS_A_SECOND = 8_000
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


def import_plainly(path: Path, database: Path) -> None:
    """Keep the lines of a file as a script would: parsed, and put into a table in one statement."""
    with closing(sqlite3.connect(database)) as connection, path.open(encoding="utf-8") as lines:
        rows = (json.loads(line) for line in lines)
        names = list(json.loads(path.open(encoding="utf-8").readline()))
        connection.execute(
            f"CREATE TABLE replies ({', '.join(names)}, PRIMARY KEY (request_key, attempt))"
        )
        places = ", ".join(f":{name}" for name in names)
        connection.executemany(f"INSERT OR IGNORE INTO replies VALUES ({places})", rows)  # noqa: S608
        connection.commit()


def import_with_pandas(path: Path, database: Path) -> None:
    """Keep the lines of a file as pandas reads and writes them."""
    with closing(sqlite3.connect(database)) as connection:
        pd.read_json(path, lines=True).to_sql("replies", connection, index=False)


def import_by_row(path: Path, database: Path) -> None:
    """Keep every line in a transaction of its own."""
    with closing(Ledger(f"sqlite:///{database}")) as ledger:
        for record in read_judgments(path):
            ledger.import_replies([record.reply])


def import_at_once(path: Path, database: Path) -> None:
    """Keep the lines as `tournament ledger import` does."""
    with closing(Ledger(f"sqlite:///{database}")) as ledger:
        import_judgments([path], ledger=ledger)


_WAYS: dict[str, Callable[[Path, Path], None]] = {
    "ledger import": import_at_once,
    "plain script": import_plainly,
    "pandas": import_with_pandas,
    "row by row": import_by_row,
}


def main() -> None:
    """Time all ways and print their rates."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else _ROWS
    rates: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "judgments_factuality.jsonl"
        for way, run in _WAYS.items():
            n_rows = count // 10 if run is import_by_row else count
            write_judgments(path, records(n_rows))
            began = time.process_time()
            run(path, Path(name) / f"{run.__name__}.sqlite")
            rates[way] = n_rows / (time.process_time() - began)
            ratio = rates[way] / rates["ledger import"]
            print(f"{way:<14} {rates[way]:8,.0f} rows/s {ratio:6.2f}")
    if rates["ledger import"] < _ROWS_A_SECOND:
        raise SystemExit(f"expected {_ROWS_A_SECOND:,} rows a second of processor time")


if __name__ == "__main__":
    main()
