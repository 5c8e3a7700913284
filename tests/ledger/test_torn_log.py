import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tournament_assets.ledger import Ledger

from .builders import begin_batch, numbered_keys, success, texts

KEYS = numbered_keys(40)
# Says every key once it is committed, and then waits to be killed.
WRITE = """
import sys
from tests.ledger.builders import begin_batch, numbered_keys, success
from tournament_assets.ledger import Ledger
ledger = Ledger(sys.argv[1])
begin_batch(ledger, "n1", numbered_keys(40))
for key in numbered_keys(40):
    ledger.record_rows("n1", [(key, success(f"on {key}"))])
    print(key, flush=True)
input()
"""
FRAME_BYTES = 24 + 4096
HEADER_BYTES = 32


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Leave what a run leaves that was killed before anything went from the log to the database."""
    folder = tmp_path_factory.mktemp("killed")
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, f"sqlite:///{folder}/ledger.sqlite"],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in KEYS] == KEYS
        process.kill()
    return folder


def held_after(killed: Path, folder: Path, damage: Callable[[bytes], bytes]) -> int:
    """Open a copy whose log was damaged, check it, go on writing, and say how much was left."""
    folder.mkdir()
    shutil.copy(killed / "ledger.sqlite", folder)
    log = (killed / "ledger.sqlite-wal").read_bytes()
    (folder / "ledger.sqlite-wal").write_bytes(damage(log))
    ledger = Ledger(f"sqlite:///{folder}/ledger.sqlite")
    found = texts(ledger, KEYS)
    assert found == {(key, 1): f"on {key}" for key in KEYS[: len(found)]}
    if not ledger.batch_keys("n1"):
        assert found == {}
        begin_batch(ledger, "n1", KEYS)
    ledger.record_rows("n1", [(key, success(f"on {key}")) for key in KEYS])
    assert texts(ledger, KEYS) == {(key, 1): f"on {key}" for key in KEYS}
    ledger.close()
    connection = sqlite3.connect(folder / "ledger.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    shutil.rmtree(folder)
    return len(found)


def test_a_run_that_was_killed_loses_nothing_that_it_wrote(killed: Path, tmp_path: Path) -> None:
    assert held_after(killed, tmp_path / "copy", lambda log: log) == len(KEYS)


def test_a_log_that_was_cut_off_holds_the_first_of_what_was_written(
    killed: Path, tmp_path: Path
) -> None:
    def cut(log: bytes, at: int) -> bytes:
        return log[:at]

    size = (killed / "ledger.sqlite-wal").stat().st_size
    assert size > len(KEYS) * FRAME_BYTES
    ends = range(HEADER_BYTES, size, FRAME_BYTES)
    positions = {
        *range(0, HEADER_BYTES, 7),
        *(end + shift for end in ends[::35] for shift in (-1, 0, 1, 24)),
        *random.Random(0).sample(range(size), 10),
        size - 1,
        size,
    }
    counts = [
        held_after(killed, tmp_path / str(position), partial(cut, at=position))
        for position in sorted(positions)
    ]
    assert counts == sorted(counts)
    assert (counts[0], counts[-2], counts[-1]) == (0, len(KEYS) - 1, len(KEYS))


def test_a_log_with_a_wrong_byte_holds_what_was_written_before_it(
    killed: Path, tmp_path: Path
) -> None:
    size = (killed / "ledger.sqlite-wal").stat().st_size
    generator = random.Random(1)
    in_header = range(0, HEADER_BYTES, 5)
    positions = [*in_header, *sorted(generator.sample(range(size // 2, size), 25))]

    def flip(log: bytes, at: int) -> bytes:
        return log[:at] + bytes([log[at] ^ 1 << generator.randrange(8)]) + log[at + 1 :]

    counts = [
        held_after(killed, tmp_path / str(position), partial(flip, at=position))
        for position in positions
    ]
    assert counts == sorted(counts)
    assert counts[: len(in_header)] == [0] * len(in_header)
    assert 0 < counts[len(in_header)] < counts[-1] < len(KEYS)


def test_a_log_that_ends_in_another_s_bytes_holds_what_was_written(
    killed: Path, tmp_path: Path
) -> None:
    rubbish = random.Random(2).randbytes(3 * FRAME_BYTES)
    assert held_after(killed, tmp_path / "more", lambda log: log + rubbish) == len(KEYS)
    assert held_after(killed, tmp_path / "zeros", lambda log: log + bytes(9000)) == len(KEYS)
    shorter = held_after(killed, tmp_path / "replaced", lambda log: log[: -len(rubbish)] + rubbish)
    assert len(KEYS) - 5 < shorter < len(KEYS)
