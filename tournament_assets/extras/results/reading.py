"""Reads the scores of files, whatever tool wrote them, into one table of items by systems.

A table of scores is long (a row for each score, with a column that names the system) or wide (a row
for each item, a column for each system); logs are read as long ones. A file that names no system is
one, named after the file. What is empty, NaN or a failed request is missing, which is never 0.

Sources: inspect, https://inspect.aisi.org.uk/eval-logs.html; lm-eval,
https://github.com/EleutherAI/lm-evaluation-harness; Every Eval Ever,
https://github.com/evaleval/every_eval_ever; promptfoo, https://www.promptfoo.dev/docs.
"""

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError, Problems, make_each
from tournament_assets.foundation.formatting import format_plural, hint_at, list_first
from tournament_assets.recorded.sample_formats import value_at
from tournament_assets.storage.foreign_tables import Row
from tournament_assets.storage.row_files import read_rows, sample_file

_USUAL = {
    "item": "item item_id id instance_id task_id question_id sample_id prompt_id doc_id uid index",
    "system": "system model model_id entrant entrant_id submission agent generator",
    "score": "score evaluation.score value correct is_correct passed resolved success accuracy acc "
    "exact_match reward points loss",
    "repeat": "epoch repeat trial seed attempt",
    "group": "",
}
"""What columns of results are usually called, the likeliest first."""
_WORDS = dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0) | dict.fromkeys(
    ("false", "no", "fail", "failed", "incorrect"), 0.0
)
_MISSING = frozenset(("", "nan", "na", "n/a", "none", "null", "-"))
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Inspect's correct, incorrect, partially correct, and no answer."""
_LOOKED_AT = 100
"""Rows of which one has to fill a column that is recognised by its name."""
_FAILED_REQUEST = 2
"""Promptfoo's `failureReason` of a request that failed, against an answer that did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """How to read results, where their columns do not show it; a dot leads into an object.

    Attributes:
        item: The column that names the item.
        system: The column that names the system.
        score: The column or scorer that is compared.
        group: The column of what an item is part of, such as a repository; groups are resampled.
        repeat: The column that tells a system's answers to one item apart.
        where: Columns and their texts in the rows that are read; others are left out.
        lower_is_better: Whether the scores are losses.
        by_file: Whether each file is one system, named after it.
    """

    item: str | None = None
    system: str | None = None
    score: str | None = None
    group: str | None = None
    repeat: str | None = None
    where: tuple[tuple[str, str], ...] = ()
    lower_is_better: bool = False
    by_file: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Scores of systems on items.

    Attributes:
        score: The name of the score.
        items: In the order of the files.
        systems: Sorted.
        values: Mean score of every system's answers, shape (n_items, n_systems); NaN without one.
        groups: Each item's group, from 0, shape (n_items,).
        lower_is_better: Whether the scores are losses.
        notes: Sentences on what is missing or left out.
    """

    score: str
    items: tuple[str, ...]
    systems: tuple[str, ...]
    values: NDArray[np.float64]
    groups: NDArray[np.int64]
    lower_is_better: bool
    notes: tuple[str, ...]

    @property
    def span(self) -> float:
        """The range of the scores; 1 where all are from 0 to 1, whatever part of it they fill."""
        lowest, highest = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        is_part = lowest >= 0 and highest <= 1
        return 1.0 if is_part or lowest == highest else highest - lowest


def read_results(paths: Sequence[Path], options: ResultOptions) -> ScoreTable:
    """Read the scores of files together.

    Raises:
        InputError: With everything that is wrong with the files.
    """
    problems, notes = Problems(of_file=True), list[str]()
    scores: dict[tuple[str, str], dict[str, float | None]] = {}
    groups: dict[str, str] = {}
    for path in paths:
        with problems.collected():
            for cell in _cells(path, options, notes):
                with problems.collected():
                    _keep(cell, scores, groups)
    problems.raise_if_any()
    title = ", ".join(map(str, paths))
    items = tuple(dict.fromkeys(item for item, _ in scores))
    systems = tuple(sorted({system for _, system in scores}))
    rows, columns = ({name: n for n, name in enumerate(each)} for each in (items, systems))
    values = np.full((len(items), len(systems)), np.nan)
    for (item, system), repeats in scores.items():
        present = [score for score in repeats.values() if score is not None]
        values[rows[item], columns[system]] = fmean(present) if present else math.nan
    _refuse_unpaired(title, items, systems, values)
    gaps = zip(systems, np.isnan(values).sum(axis=0).tolist(), strict=True)
    if counts := [f"{n} of {system}" for system, n in gaps if n]:
        notes.append(f"Missing scores, which count for nobody: {', '.join(counts)}.")
    places = np.unique([groups[item] or item for item in items], return_inverse=True)[1]
    return ScoreTable(
        *(options.score or "score", items, systems, values, places.astype(np.int64)),
        options.lower_is_better,
        tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """A score as its file has it, where it stands, and what it is of."""

    where: str
    item: str
    system: str
    repeat: str
    group: str
    score: Any


def _keep(
    cell: _Cell,
    scores: dict[tuple[str, str], dict[str, float | None]],
    groups: dict[str, str],
) -> None:
    if not cell.item or not cell.system:
        missing = "system" if cell.item else "item"
        raise InputError(f"{cell.where}: names no {missing}; expected one for every score")
    if groups.setdefault(cell.item, cell.group) != cell.group:
        raise InputError(
            f"{cell.where}: item {cell.item!r} is in group {cell.group!r}; expected "
            f"{groups[cell.item]!r} as above; mend one"
        )
    repeats = scores.setdefault((cell.item, cell.system), {})
    if cell.repeat in repeats:
        raise InputError(
            f"{cell.where}: {cell.system!r} has a second score on item {cell.item!r}; expected "
            "one; name the column that tells answers apart with --repeat, what tells systems apart "
            "with --system or --by-file, or which rows to read with --where"
        )
    repeats[cell.repeat] = None
    try:
        repeats[cell.repeat] = number_of(cell.score)
    except InputError as error:
        raise InputError(
            f"{cell.where}: the score of {cell.system!r} is {error}; mend it, or empty it"
        ) from None


def number_of(value: Any) -> float | None:
    """Return a score; None where it is missing.

    Raises:
        InputError: If it is neither a finite number nor a word for passed or failed.
    """
    word = value.strip().lower() if isinstance(value, str) else value
    if word is None or word != word or word in _MISSING:
        return None
    try:
        number = float(_WORDS.get(word, word))
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{value!r:.60}; expected a finite number, or true or false")
    return number


def _refuse_unpaired(
    title: str, items: Sequence[str], systems: Sequence[str], values: NDArray[np.float64]
) -> None:
    """Refuse fewer than two systems, and systems that share no item with another."""
    if len(systems) < 2:
        raise InputError(
            f"{title}: holds {format_plural(len(systems), 'system')} ({', '.join(systems)}); "
            "expected two or more that were scored on the same items; name the column of systems "
            "with --system, or add a file"
        )
    has_score = ~np.isnan(values)
    is_shared = has_score.sum(axis=1) > 1
    problems = Problems()
    problems.extend(
        f"{title}: {system!r} shares no item with another system (it has "
        f"{list_first([items[n] for n in np.flatnonzero(scored)]) or 'no score'}); expected the "
        "same items by the same names; name the column of items with --item"
        for system, scored in zip(systems, has_score.T, strict=True)
        if not (scored & is_shared).any()
    )
    problems.raise_if_any()


def _cells(path: Path, options: ResultOptions, notes: list[str]) -> Iterator[_Cell]:
    """Yield the scores of a file; of a wide table, a row holds one for each system."""
    rows = [
        (where, row)
        for where, row in _rows(path, notes)
        if all(_text(row, column) == text for column, text in options.where)
    ]
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    named = make_each(lambda role: _column(role, getattr(options, role), path, rows), _USUAL)
    of = dict(zip(_USUAL, named, strict=True))
    numbers = [each for each in columns if each not in named and _holds_scores(each, rows)]
    if of["item"] is None and columns and columns[0] not in (*named, *numbers):
        of["item"] = columns[0]
    if of["score"] is None and (of["system"] or options.by_file or len(numbers) == 1):
        if len(numbers) != 1:
            raise InputError(
                f"{path}: numbers are in {', '.join(numbers) or 'no column'}; expected one score "
                "beside the system; name it with --score"
            )
        of["score"] = numbers[0]
    systems = [] if of["score"] else numbers
    if unused := [each for each in columns if each not in (*of.values(), *systems)]:
        notes.append(f"Not used of {path.name}: {', '.join(unused)}.")
    # lm-eval names a file after the task, and its folder after the model.
    owner = path.absolute().parent.name if path.stem.startswith("samples_") else path.stem
    for number, (where, row) in enumerate(rows, start=1):
        item = _text(row, of["item"]) if of["item"] else str(number)
        cells = {each: row.get(each) for each in systems}
        if of["score"]:
            is_owned = options.by_file or of["system"] is None
            cells = {owner if is_owned else _text(row, of["system"]): value_at(row, of["score"])}
        for system, score in cells.items():
            texts = (_text(row, of[role]) for role in ("repeat", "group"))
            yield _Cell(where, item, system, *texts, score)


def _column(
    role: str, named: str | None, path: Path, rows: Sequence[tuple[str, Row]]
) -> str | None:
    """Return the column of a role: the one that is named, or that such columns are called."""
    columns = dict.fromkeys(name for _, row in rows for name in row)
    if named is not None and all(value_at(row, named) is None for _, row in rows):
        raise InputError(
            f"{path}: has no value in {named!r}; expected a column, one of "
            f"{', '.join(columns)[:300]}{hint_at(named, columns)}"
        )
    if named is not None:
        return named
    plain = {name.strip().lower().replace(" ", "_"): name for name in reversed(columns)}
    usual = (plain.get(name, name) for name in _USUAL[role].split())
    first = [row for _, row in rows[:_LOOKED_AT]]
    return next((name for name in usual if any(_text(row, name) for row in first)), None)


def _text(row: Row, column: str | None) -> str:
    value = None if column is None else value_at(row, column)
    return "" if value is None else str(value).strip()


def _holds_scores(name: str, rows: Sequence[tuple[str, Row]]) -> bool:
    """Return whether any cell of a column is a score."""
    problems = Problems()
    for _, row in rows:
        with problems.collected():
            if number_of(row.get(name)) is not None:
                return True
    return False


def _rows(path: Path, notes: list[str]) -> list[tuple[str, Row]]:
    """Return the rows of a file; a log is a row for each of its answers."""
    if path.suffix == ".eval" and zipfile.is_zipfile(path):
        return list(_inspect_rows(path.name, _read_eval(path)))
    sample = sample_file(path)
    notes += [f"{path.name}: {sample.note}."] if sample.note else []
    rows = read_rows(path, sample.kind)
    if {"eval", "samples"} <= sample.columns:
        return [row for log in rows for row in _inspect_rows(*log)]
    if isinstance(value_at(sample.first, "results.results"), list):
        return [row for log in rows for row in _promptfoo_rows(*log)]
    return rows


def _read_eval(path: Path) -> Row:
    """Return a log of inspect in its own format, a ZIP archive, as the JSON log would be."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
            samples = [json.loads(archive.read(name)) for name in names]
            return {**json.loads(archive.read("header.json")), "samples": samples}
    except (KeyError, ValueError, NotImplementedError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: the log cannot be read ({type(error).__name__}: {error}); expected a "
            "finished log of inspect; convert it (inspect log convert --to json)"
        ) from None


def _inspect_rows(where: str, log: Row) -> Iterator[tuple[str, Row]]:
    for number, sample in enumerate(log["samples"] or (), start=1):
        scores = {
            name: _LETTERS.get(value, value) if isinstance(value, str) else value
            for name, score in (sample.get("scores") or {}).items()
            for value in (score.get("value"),)
        }
        item = f"{log['eval'].get('task')}/{sample.get('id')}"
        names = {"item": item, "system": log["eval"].get("model"), "epoch": sample.get("epoch")}
        yield f"{where}:sample {number}", {**names, **scores}


def _promptfoo_rows(where: str, log: Row) -> Iterator[tuple[str, Row]]:
    rows = log["results"]["results"]
    has_prompts = len({row.get("promptIdx") for row in rows}) > 1
    for number, row in enumerate(rows, start=1):
        provider = row.get("provider")
        if isinstance(provider, Mapping):
            provider = provider.get("label") or provider.get("id")
        prompt = f" / prompt {row.get('promptIdx')}" if has_prompts else ""
        score = None if row.get("failureReason") == _FAILED_REQUEST else row.get("score")
        names = {"item": row.get("testIdx"), "system": f"{provider}{prompt}"}
        yield f"{where}:result {number}", {**names, "score": score}
