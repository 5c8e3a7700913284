"""Files of battles: new ones written whole or not at all, and what beside them is to be told.

Beside them `elo_ratings.json`, a leaderboard with the keys that JudgeArena's has and no other; a
run of several dimensions has one for each.
"""

import csv
import io
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from tournament_assets.tournament.battles import BattleSource, EloReport, RatingSettings
from tournament_assets.tournament.errors import InputError


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears whole or not at all, a part at a time.

    Raises:
        InputError: If there is such a file already, or nothing can be written there.
    """
    if path.exists():
        raise InputError(
            f"{path}: the file is there already; expected a new name, so that no battles are "
            "lost; remove it or choose another"
        )
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be written ({error.strerror or type(error).__name__}); "
            "expected a folder that can be written to"
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_json_list(file: BinaryIO, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a JSON list, one object a line."""
    number = 0
    for number, row in enumerate(rows, start=1):
        text = json.dumps(row, ensure_ascii=False, allow_nan=False)
        file.write(f"{',' if number > 1 else '['}\n  {text}".encode())
    file.write(b"\n]\n" if number else b"[]\n")


def write_csv(file: BinaryIO, rows: Iterable[Mapping[str, Any]], *, columns: Sequence[str]) -> None:
    """Write CSV in UTF-8 with a header."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.detach()


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """What a file may not say itself.

    Attributes:
        source: Who decided; None takes the format's word for it.
        judge: The model that judged.
        baseline: The model that every other one was compared with.
        prompt_column: The column, or key, that names the prompt; None for those of the format.
    """

    source: BattleSource | None = None
    judge: str | None = None
    baseline: str | None = None
    prompt_column: str | None = None

    def prompt_names(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the columns that may name the prompt: the usual ones unless somebody says."""
        return usual if self.prompt_column is None else (self.prompt_column,)


@dataclass(frozen=True, slots=True, eq=False)
class BattleFile:
    """What a file of battles holds.

    Attributes:
        format: The format's name.
        table: The battles, with the columns of `BATTLE_SCHEMA`.
        left_out: Comparisons that are no battles, counted by the reason.
        settings: How the battles were rated; None where the file does not say.
    """

    format: str
    table: pa.Table
    left_out: Mapping[str, int]
    settings: RatingSettings | None = None


@dataclass(frozen=True, slots=True)
class WriteReport:
    """How many battles are in a new file, and what is not.

    Battles that the format cannot hold are counted by the reason, and those of which one value
    could not be written by the value's name.
    """

    n_written: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


def encode_elo_reports(reports: Mapping[str, EloReport]) -> dict[str, bytes]:
    """Write leaderboards by dimension as JSON files, by name.

    The first is `elo_ratings.json`, where other tools look for it; its arena names the dimension.
    """
    files = {}
    for number, (dimension, report) in enumerate(reports.items()):
        name = f"elo_ratings_{dimension}.json" if number else "elo_ratings.json"
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        files[name] = f"{text}\n".encode()
    return files
