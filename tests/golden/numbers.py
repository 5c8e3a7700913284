"""Numbers as text: read from what a run stored, kept as CSV files, and compared row by row.

Nothing here asks the package what a table is, so that a change of the package cannot hide a number.
Times, paths, hashes, versions and what the report says in words are left out; of a sentence, the
numbers in it stay.
"""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

Row = dict[str, str]
Numbers = dict[str, list[Row]]
"""The rows of every table, by its name; what a row does not hold is absent."""

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""What machines may differ in."""

LEFT_OUT = {"prompt_bank", "report", "run_comparison"}
"""Tables without a number, and one that looks back at an earlier run."""
COUNTED = {
    "selected_prompts": ("source", "category"),
    "entrant_responses": ("entrant_id", "finish_reason"),
    "match_list": ("dimension", "source", "entrant_a", "entrant_b"),
    "judge_replies": (
        *("dimension", "judge_model", "presentation", "result_type", "channel", "stop_reason"),
        "error_type",
    ),
    "battles": ("dimension", "model_a", "model_b", "winner", "source", "inconsistent", "weight"),
    "human_battles": ("model_a", "model_b", "winner", "source", "weight"),
}
"""Tables of many rows: how many there are of each kind, and the sums of their whole numbers."""
WORDS = {
    *("detail", "sentence", "note", "reason_ab", "reason_ba", "findings", "problem", "reason"),
    *("outages", "verdict", "words"),
}
"""What holds sentences."""
UNTOLD = {
    *("request_key_ab", "request_key_ba", "rubric_hash"),
    *("started_at", "finished_at", "versions", "project_commit", "inputs", "command", "config"),
    *("rerun", "meaning", "advice", "judge_family", "entrant_family", "same_family"),
}
KEYS = (
    *("path", "ordering", "dimension", "k_factor", "measure", "kind", "subject", "other"),
    *("stratum_by", "stratum", "basis", "model", "verdicts", "goal", "round", "prompt_id"),
    *("source", "entrants", "entrant_id", "entrant_a", "entrant_b", "name", "model_a", "model_b"),
    *("model_id", "task", "tier", "run", "higher", "lower", "condition", "judge_model"),
)
"""Columns that say what a row is about."""
_NUMBER = re.compile(r"(?:(?<!\w)-)?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|\binf\b|\bnan\b)")


def read_run(storage: Path, mode: str, directory: Path) -> Numbers:
    """Read the numbers of a run.

    Args:
        storage: The folder of the tournament's tables: `<asset>/[<partition>/]<mode>.parquet`.
        mode: The mode that ran.
        directory: The run's own directory.
    """
    tables: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted(storage.rglob(f"{mode}.parquet")):
        name = path.relative_to(storage).parts[0]
        if name not in LEFT_OUT:
            tables.setdefault(name, []).extend(pq.read_table(path).to_pylist())
    numbers = {
        name: [*map(_row, _counted(rows, COUNTED[name]) if name in COUNTED else rows)]
        for name, rows in tables.items()
    }
    for path in sorted(directory.glob("*.json")):
        numbers |= read_json(path.name, json.loads(path.read_text()))
    with (directory / "pairwise_winrates.csv").open(newline="") as file:
        numbers["pairwise_winrates.csv"] = [*map(_row, _typed(csv.DictReader(file)))]
    with np.load(directory / "elo_per_perm.npz", allow_pickle=False) as arrays:
        numbers["elo_per_perm.npz"] = [*map(_row, _orderings(dict(arrays)))]
    return {name: rows for name, rows in numbers.items() if rows}


def read_json(name: str, values: Mapping[str, Any]) -> Numbers:
    """Read a document: each list of objects is a table, everything else a row by its path."""
    numbers: Numbers = {}
    rest: list[Row] = []

    def walk(value: Any, path: str) -> None:
        last = path.rpartition(".")[2]
        if last in UNTOLD:
            return
        if isinstance(value, Mapping):
            for key, each in value.items():
                walk(each, f"{path}.{key}" if path else key)
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            numbers[f"{name}.{path}"] = [*map(_row, value)]
        else:
            rest.append(_row({"path": path, "words" if last in WORDS else "value": value}))

    walk(values, "")
    return {**numbers, name: rest}


def _counted(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    sums: dict[tuple[Any, ...], Counter[str]] = {}
    for row in rows:
        group = tuple(row.get(column) for column in columns)
        counts[group] += 1
        sums.setdefault(group, Counter()).update(
            {name: each for name, each in row.items() if type(each) is int and name not in columns}
        )
    for group, count in counts.items():
        yield {**dict(zip(columns, group, strict=True)), "rows": count, **sums[group]}


def _typed(rows: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        yield {
            name: float(text) if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", text) else text
            for name, text in row.items()
        }


def _orderings(arrays: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    columns = {
        f"{dimension}.{entrant}": arrays[name][:, place]
        for name in arrays
        if (dimension := name.removesuffix("__data")) != name
        for place, entrant in enumerate(arrays[f"{dimension}__entrants"])
    }
    for ordering, ratings in enumerate(zip(*columns.values(), strict=True)):
        yield {"ordering": ordering, **dict(zip(columns, map(float, ratings), strict=True))}


def _row(values: Mapping[str, Any]) -> Row:
    cells = {
        name: _words(value) if name in WORDS else _cell(value)
        for name, value in values.items()
        if name not in UNTOLD
    }
    return {name: cell for name, cell in cells.items() if cell}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    if isinstance(value, list | tuple):
        return "|".join(map(_cell, value))
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def _words(value: Any) -> str:
    text = _cell(value)
    return " ".join(_NUMBER.findall(text)) or "…" if text else ""


def write(folder: Path, numbers: Numbers) -> None:
    """Keep numbers, a file a table."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.csv"):
        path.unlink()
    for name, rows in numbers.items():
        columns = dict.fromkeys(column for row in rows for column in row)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [*columns], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def read(folder: Path) -> Numbers:
    """Read what `write` kept."""
    numbers: Numbers = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            rows = [*csv.DictReader(file)]
        numbers[path.stem] = [{name: cell for name, cell in row.items() if cell} for row in rows]
    return numbers


def moved(before: Numbers, after: Numbers) -> list[str]:
    """Name every number that is another one: its table, row and column, before and after.

    Returns:
        A line each, those of the tables with the fewest first.
    """
    found = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            found.append([f"{name}: the table is gone ({len(before[name])} rows)"])
        elif name not in before:
            found.append([f"{name}: the table is new ({len(after[name])} rows)"])
        else:
            found.append([f"{name} {line}" for line in _moved(name, before[name], after[name])])
    return [line for lines in sorted(found, key=len) for line in lines]


def _moved(name: str, before: list[Row], after: list[Row]) -> Iterator[str]:
    keys = COUNTED.get(name, KEYS)
    then, now = _by_key(before, keys), _by_key(after, keys)
    if [key for key in then if key in now] != [key for key in now if key in then]:
        yield "has its rows in another order"
    for key in {**then, **now}:
        if key not in now:
            yield f"[{key}]: the row is gone"
        elif key not in then:
            yield f"[{key}]: the row is new"
        else:
            for column in {**then[key], **now[key]}:
                old, new = then[key].get(column, ""), now[key].get(column, "")
                if not _is_same(old, new, is_rounded=column in WORDS):
                    yield f"[{key}] {column}: {old or 'absent'} → {new or 'absent'}"


def _by_key(rows: Iterable[Row], keys: Sequence[str]) -> dict[str, Row]:
    """Return rows by what they are about; with a number where that is the same for several."""
    keyed: dict[str, Row] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        key = ", ".join(row[name] for name in keys if name in row)
        seen[key] += 1
        keyed[key if seen[key] == 1 else f"{key} #{seen[key]}"] = row
    return keyed


def _is_same(old: str, new: str, *, is_rounded: bool) -> bool:
    if old == new:
        return True
    if _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    pairs = zip_longest(_NUMBER.findall(old), _NUMBER.findall(new), fillvalue="")
    return all(_is_near(*pair, is_rounded=is_rounded) for pair in pairs)


def _is_near(old: str, new: str, *, is_rounded: bool) -> bool:
    if old == new:
        return True
    decimals = max(len(text.partition(".")[2]) for text in (old, new))
    if not decimals and "e" not in old + new:
        return False
    # A number in a sentence may be rounded the other way.
    least = 1.01 * 10.0**-decimals if is_rounded else ABSOLUTE
    return math.isclose(float(old), float(new), rel_tol=RELATIVE, abs_tol=least)
