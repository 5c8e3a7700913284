"""Reads the scores of files, whatever tool wrote them, into one table of items by systems.

A table of scores is long (a row for each score, with a column that names the system) or wide (a row
for each item, a column for each system); logs are read as long ones. A file that names no system is
one, named after the file. What is empty, NaN or a failed request is missing, which is never 0.

Sources: inspect, https://inspect.aisi.org.uk/eval-logs.html; lm-eval,
https://github.com/EleutherAI/lm-evaluation-harness; Every Eval Ever,
https://github.com/evaleval/every_eval_ever; promptfoo, https://www.promptfoo.dev/docs.
"""

import gzip
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.battles.files import BattleFile, FormatOptions
from tournament_assets.battles.registry import FORMATS, detect_format, read_battles
from tournament_assets.foundation.errors import InputError, Problems, make_each
from tournament_assets.foundation.formatting import hint_at, list_first
from tournament_assets.foundation.input_files import MOST_DOCUMENT_BYTES
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
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, zipfile.BadZipFile)
"""What broken logs raise."""
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
        systems: Sorted.
        values: Mean score of every system's answers, shape (n_items, n_systems); NaN without one.
        groups: Each item's group, from 0, shape (n_items,).
        lower_is_better: Whether the scores are losses.
        notes: Sentences on what is missing or left out.
    """

    score: str
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

    @property
    def gains(self) -> NDArray[np.float64]:
        """The scores as parts of their range, of which more are better, shape as `values`."""
        return (-self.values if self.lower_is_better else self.values) / self.span


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
            for where, names, cell in _cells(path, options, notes):
                with problems.collected():
                    _keep(where, names, cell, scores, groups)
    problems.raise_if_any()
    items = tuple(dict.fromkeys(item for item, _ in scores))
    systems = tuple(sorted({system for _, system in scores}))
    rows, columns = ({name: n for n, name in enumerate(each)} for each in (items, systems))
    values = np.full((len(items), len(systems)), np.nan)
    for (item, system), repeats in scores.items():
        present = [score for score in repeats.values() if score is not None]
        values[rows[item], columns[system]] = fmean(present) if present else math.nan
    _refuse_unpaired(", ".join(map(str, paths)), items, systems, values)
    gaps = zip(systems, np.isnan(values).sum(axis=0).tolist(), strict=True)
    if counts := [f"{n} of {system}" for system, n in gaps if n]:
        notes.append(f"Missing scores, which count for nobody: {', '.join(counts)}.")
    places = np.unique([groups[item] or item for item in items], return_inverse=True)[1]
    name, lower_is_better = options.score or "score", options.lower_is_better
    return ScoreTable(name, systems, values, places.astype(int), lower_is_better, tuple(notes))


def _keep(
    where: str,
    names: Mapping[str, str],
    cell: Any,
    scores: dict[tuple[str, str], dict[str, float | None]],
    groups: dict[str, str],
) -> None:
    """Keep a cell under what it is a score of: `item`, `system`, `repeat` and `group`."""
    item, system, group = (names[role] for role in ("item", "system", "group"))
    if not item or not system:
        missing = "system" if item else "item"
        raise InputError(f"{where}: names no {missing}; expected one for every score")
    if groups.setdefault(item, group) != group:
        raise InputError(
            f"{where}: item {item!r} is in group {group!r}; expected {groups[item]!r}, as above"
        )
    repeats = scores.setdefault((item, system), {})
    if names["repeat"] in repeats:
        raise InputError(
            f"{where}: {system!r} has a second score on item {item!r}; expected one; tell them "
            "apart with --repeat, --system or --by-file, or choose rows with --where"
        )
    repeats[names["repeat"]] = None
    try:
        repeats[names["repeat"]] = number_of(cell)
    except InputError as error:
        raise InputError(f"{where}: the score of {system!r} is {error}; mend or empty it") from None


def number_of(value: Any) -> float | None:
    """Return a score; None where it is missing.

    Raises:
        InputError: If it is neither a finite number nor a word for passed or failed.
    """
    word = value.strip().lower() if isinstance(value, str) else value
    if isinstance(word, str):
        word = None if word in _MISSING else _WORDS.get(word, word)
    try:
        number = math.nan if word is None else float(word)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if math.isinf(number):
        raise InputError(f"{value!r:.60}; expected a finite number, or true or false")
    return None if math.isnan(number) else number


def _refuse_unpaired(
    title: str, items: Sequence[str], systems: Sequence[str], values: NDArray[np.float64]
) -> None:
    """Refuse systems that share no item with another."""
    if not systems:
        raise InputError(
            f"{title}: holds no score; expected a column of numbers for each of two systems or "
            "more, or a row for each score; name the columns with --item, --system and --score"
        )
    problems, has_score = Problems(), ~np.isnan(values)
    is_shared = has_score.sum(axis=1) > 1
    for system, scored in zip(systems, has_score.T, strict=True):
        if not (scored & is_shared).any():
            examples = list_first([items[n] for n in np.flatnonzero(scored).tolist()])
            problems.add(
                f"{title}: {system!r} shares no item with another system (it has "
                f"{examples or 'no score'}); expected the same items by the same names in two "
                "systems or more; name their columns with --item and --system, or add a file"
            )
    problems.raise_if_any()


def _cells(
    path: Path, options: ResultOptions, notes: list[str]
) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Yield the scores of a file, each with its place and what it is a score of."""
    rows = [
        (where, row)
        for where, row in _rows(path, notes)
        if all(_text(row, column) == text for column, text in options.where)
    ]
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    named = make_each(lambda role: _column(role, getattr(options, role), path, rows), _USUAL)
    of = dict(zip(_USUAL, named, strict=True))
    numbers = [name for name in columns if name not in named and _holds_scores(name, rows)]
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
    if unused := [name for name in columns if name not in (*of.values(), *systems)]:
        notes.append(f"Not used of {path.name}: {', '.join(unused)}.")
    # lm-eval names a file after the task, and its folder after the model.
    owner = path.absolute().parent.name if path.stem.startswith("samples_") else path.stem
    for number, (where, row) in enumerate(rows, start=1):
        names = {role: _text(row, of[role]) for role in ("item", "system", "repeat", "group")}
        if of["item"] is None:
            names["item"] = str(number)
        if options.by_file or of["system"] is None:
            names["system"] = owner
        if of["score"]:
            yield where, names, value_at(row, of["score"])
        for system in systems:
            yield where, {**names, "system": system}, row.get(system)


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
    # Tables of pandas leave the header of the index empty.
    plain = {name.strip().lower().replace(" ", "_") or "index": name for name in reversed(columns)}
    usual = (plain.get(name, name) for name in _USUAL[role].split())
    first = [row for _, row in rows[:100]]
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
    try:
        if path.suffix == ".gz":
            with TemporaryDirectory() as folder, gzip.open(path) as packed:
                plain = Path(folder, path.stem)
                plain.write_bytes(packed.read(MOST_DOCUMENT_BYTES))
                return _rows(plain, notes)
        if path.suffix == ".eval" and zipfile.is_zipfile(path):  # inspect's own format
            with zipfile.ZipFile(path) as archive:
                names = sorted(name for name in archive.namelist() if name.startswith("samples/"))
                samples = [json.loads(archive.read(name)) for name in names]
                log = {**json.loads(archive.read("header.json")), "samples": samples}
            return list(_inspect_rows(path.name, log))
        sample = sample_file(path)
        notes += [f"{path.name}: {sample.note}."] if sample.note else []
        rows = read_rows(path, sample.kind)
        if {"eval", "samples"} <= sample.columns:
            return [row for log in rows for row in _inspect_rows(*log)]
        if isinstance(value_at(sample.first, "results.results"), list):
            return [row for log in rows for row in _promptfoo_rows(*log)]
    except (*_UNREADABLE, OSError, EOFError) as error:
        raise InputError(
            f"{path}: the file cannot be read ({type(error).__name__}: {error}); expected a table "
            "or a finished log; write a log of inspect as JSON (inspect log convert --to json)"
        ) from None
    return rows


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


def hold_battles(paths: Sequence[Path]) -> bool:
    """Return whether files, or judges' folders, hold battles."""
    if any(path.suffix in (".eval", ".gz") for path in paths):
        return False
    samples = [sample_file(path) for path in paths if not path.is_dir()]
    return all(any(each.recognises(of) for each in FORMATS.values()) for of in samples)


def open_battles(path: Path) -> BattleFile:
    """Open a file of battles, whether or not it says who decided, which changes no claim."""
    is_said = getattr(detect_format(path), "source", "") is not None
    return read_battles(path, options=FormatOptions(source=None if is_said else "llm-judge"))
