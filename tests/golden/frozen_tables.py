"""Numbers as text: read from what a run stored, kept as CSV files, and compared row by row.

Nothing here asks the package what a table is: no change of it hides a number. Times, paths, hashes,
versions and sentences are left out, but for the numbers in sentences.
"""

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq

Row = dict[str, str]
Numbers = dict[str, list[Row]]
"""The rows of every table, by its name; what a row does not hold is absent."""
Names = Mapping[str, Mapping[str, AbstractSet[str]]]
"""What the cells of tables hold, by table and column."""

COUNTED = {
    "entrant_responses": "entrant_id finish_reason",
    "judge_replies": "dimension judge_model presentation result_type channel stop_reason",
    "battles": "dimension model_a model_b winner source inconsistent weight",
    "human_battles": "model_a model_b winner source weight",
}
"""Tables of many rows: how many there are of each kind, and the sums of their whole numbers."""
WORDS = re.compile("detail|sentence|note|reason(_ab|_ba)?|findings|problem|outages|verdict|words")
"""What holds sentences, of which the numbers are kept."""
UNTOLD = re.compile(
    "request_key_(ab|ba)|rubric_hash|(started|finished)_at|versions|project_commit|inputs|command|"
    "config|rerun|meaning|advice|remedy|(judge|entrant|same)_family|rubrics|economies|first_screen"
)
LEFT_OUT = {
    "prompt_bank",
    "selected_prompts",
    "match_list",
    "report",
    "run_comparison",
}
KEYS = (
    "path ordering dimension k_factor method measure kind subject other stratum basis "
    "model verdicts goal round prompt_id source entrants entrant_id entrant_a entrant_b name "
    "model_a model_b model_id task tier run higher lower condition judge_model asked"
)
"""Columns that say what a row is about."""
_NUMBER = re.compile(r"(?:(?<!\w)-)?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|\binf\b|\bnan\b)")


def read_run(storage: Path, mode: str, directory: Path) -> Numbers:
    """Read what a run stored in `<asset>/[<partition>/]<mode>.parquet`, and in its directory."""
    tables: dict[str, Any] = {}
    for path in sorted(storage.rglob(f"{mode}.parquet")):
        name = path.relative_to(storage).parts[0]
        tables.setdefault(name, []).extend(pq.read_table(path).to_pylist())
    for name in tables.keys() & COUNTED.keys():
        tables[name] = [*_counted(tables[name], COUNTED[name].split())]
    winrates = directory / "pairwise_winrates.csv"
    tables[winrates.name] = pyarrow.csv.read_csv(winrates).to_pylist()
    with np.load(directory / "elo_per_perm.npz", allow_pickle=False) as arrays:
        for name in (each for each in arrays if each.endswith("__data")):
            columns = arrays[name.replace("__data", "__entrants")]
            frame = pd.DataFrame(arrays[name], columns=columns).reset_index(names="ordering")
            tables[f"elo_per_perm.npz.{name}"] = frame.to_dict("records")
    kept = {name: rows for name, rows in tables.items() if rows and name not in LEFT_OUT}
    numbers = {name: [*map(_row, rows)] for name, rows in kept.items()}
    for path in sorted({*directory.glob("*.json")} - {directory / name for name in LEFT_OUT}):
        numbers |= read_json(path.name, path.read_text())
    return numbers


def read_json(name: str, document: str) -> Numbers:
    """Read a document: each list of objects is a table, everything else a row by its path."""
    numbers: Numbers = {name: []}

    def walk(value: Any, path: str) -> None:
        last = path.rpartition(".")[2]
        if UNTOLD.fullmatch(last):
            return
        if isinstance(value, Mapping):
            for key, each in value.items():
                walk(each, f"{path}.{key}" if path else key)
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            numbers[f"{name}.{path}"] = [*map(_row, value)]
        else:
            column = "words" if WORDS.fullmatch(last) else "value"
            numbers[name].append(_row({"path": path, column: value}))

    walk(json.loads(document), "")
    return numbers


def _counted(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for row in rows:
        group = tuple(row.get(column) for column in columns)
        counts = {name: each for name, each in row.items() if type(each) is int}
        sums.setdefault(group, Counter()).update({"rows": 1, **counts})
    for group, counted in sums.items():
        yield {**dict(zip(columns, group, strict=True)), **counted}


def _row(values: Mapping[str, Any]) -> Row:
    cells = {name: _cell(value) for name, value in values.items() if not UNTOLD.fullmatch(name)}
    for name in filter(WORDS.fullmatch, cells):
        cells[name] = " ".join(_NUMBER.findall(cells[name])) or "…" * bool(cells[name])
    return {name: cell for name, cell in cells.items() if cell}


def _compared(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _compared(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if not UNTOLD.fullmatch(name)
    }


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    if isinstance(value, list):
        return "|".join(map(_cell, value))
    if isinstance(value, Mapping):
        value = _compared(value)
    return "" if value is None else str(value)


def write(folder: Path, numbers: Numbers) -> None:
    """Keep numbers, a file a table."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, rows in numbers.items():
        pd.DataFrame(rows).to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def read(folder: Path) -> Numbers:
    """Read what `write` kept."""
    numbers: dict[str, Any] = {}
    for path in folder.glob("*.csv"):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        numbers[path.stem] = frame.to_dict("records")
    return numbers


def names_of(every: Iterable[Numbers]) -> Names:
    """Return what is named in several cases' numbers."""
    names: dict[str, dict[str, set[str]]] = {}
    for table, rows in (item for numbers in every for item in numbers.items()):
        columns = names.setdefault(table, {})
        for column, cell in (item for row in rows for item in row.items()):
            columns.setdefault(column, set()).add(cell)
    return names


def compare(before: Numbers, after: Numbers, names: Names) -> tuple[list[str], list[str]]:
    """Return what moved, and what is passed over.

    A row or column is passed over that names what no case's table of that name does: the rows of a
    measure that was added, but not one row more of a measure that is known.

    Args:
        before: The frozen numbers of a case.
        after: Its numbers now.
        names: What is named in the frozen numbers of all cases.

    Returns:
        Numbers that are other ones, by table, row and column, the shortest list first; and tables,
        rows and columns that are passed over.
    """
    changes: list[list[str]] = []
    passed_over: list[str] = []
    for table in sorted(before.keys() | after.keys()):
        columns = names.get(table)
        if columns is None:
            passed_over.append(table)
            continue
        keys = [name for name in COUNTED.get(table, KEYS).split() if name in columns]
        then, now = (_by_key(numbers.get(table, []), keys) for numbers in (before, after))
        known = {}
        for key, row in now.items():
            if any(name in row and row[name] not in columns[name] for name in keys):
                passed_over.append(f"{table} [{key}]")
            else:
                known[key] = {name: cell for name, cell in row.items() if name in columns}
        added = {name for row in now.values() for name in row if name not in columns}
        passed_over += [f"{table} {name}" for name in sorted(added)]
        changes.append([f"{table} {line}" for line in _moved(then, known)])
    return [line for lines in sorted(changes, key=len) for line in lines], passed_over


def _moved(then: Mapping[str, Row], now: Mapping[str, Row]) -> Iterator[str]:
    for key in {**then, **now}:
        if key not in now or key not in then:
            yield f"[{key}]: the row is {'new' if key in now else 'gone'}"
            continue
        for column in {**then[key], **now[key]}:
            old, new = then[key].get(column, ""), now[key].get(column, "")
            if old != new and not _is_near(old, new, is_rounded=bool(WORDS.fullmatch(column))):
                yield f"[{key}] {column}: {old or 'absent'} → {new or 'absent'}"


def _by_key(rows: Iterable[Row], keys: Sequence[str]) -> dict[str, Row]:
    """Return rows by what they are about; with marks where that is the same for several."""
    keyed: dict[str, Row] = {}
    for row in rows:
        key = ", ".join(row[name] for name in keys if row.get(name))
        while key in keyed:
            key += "'"
        keyed[key] = row
    return keyed


def _is_near(old: str, new: str, *, is_rounded: bool) -> bool:
    """Say whether two texts differ in nothing but the last digits of numbers with decimals."""
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        decimals = max(len(text.partition(".")[2]) for text in (a, b))
        is_whole = not decimals and "e" not in a + b
        # Machines differ in the last bits; a number in a sentence may be rounded the other way.
        least = 1.01 * 10.0**-decimals if is_rounded else 1e-9
        is_close = math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=least)
        if a != b and (is_whole or not is_close):
            return False
    return True
