"""Reads the scores of files, whatever tool wrote them, into one table of items by systems.

A table of scores is long (a row for each score, with a column that names the system) or wide (a row
for each item, a column for each system). A file that names no system is one, named after the file.
Several answers of a system to an item are their mean.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tournament_assets.extras.results.scored_answers import (
    FORMATS,
    SCORE,
    ScoredAnswer,
    number_of,
)
from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.formatting import format_plural, hint_at, list_first
from tournament_assets.recorded.sample_formats import value_at
from tournament_assets.storage.foreign_tables import Row
from tournament_assets.storage.row_files import FileSample, read_rows, sample_file

_ITEM = "item item_id id instance_id task_id question_id sample_id prompt_id example_id doc_id uid"
_SYSTEM = "system model model_id entrant entrant_id submission agent generator method"
_SCORE = "score value correct is_correct passed resolved success accuracy acc reward points loss"
_REPEAT = "epoch repeat repetition trial seed attempt replicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """How to read results, where their columns do not show it.

    Attributes:
        item: The column that names the item.
        system: The column that names the system.
        score: The column, metric or scorer that is compared.
        group: The column of what an item is part of, such as a repository; groups are resampled.
        repeat: The column that tells a system's answers to one item apart.
        lower_is_better: Whether the scores are losses.
        by_file: Whether each file is one system, named after it.
    """

    item: str | None = None
    system: str | None = None
    score: str | None = None
    group: str | None = None
    repeat: str | None = None
    lower_is_better: bool = False
    by_file: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Scores of systems on items.

    Attributes:
        score: The name of the score.
        items: By their first row.
        systems: Sorted.
        values: Mean score of every answer, shape (n_items, n_systems); NaN where there is none.
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


def read_results(paths: Sequence[Path], options: ResultOptions) -> ScoreTable:
    """Read the scores of files together.

    Raises:
        InputError: With everything that is wrong with the files.
    """
    problems, gathered = Problems(), _Gathered(options)
    for path in paths:
        of_file = Problems(of_file=True)
        with of_file.collected():
            for where, answer in _answers(path, options, gathered.notes):
                gathered.add(f"{where}: ", answer, of_file)
        with problems.collected():
            of_file.raise_if_any()
    problems.raise_if_any()
    return gathered.table(", ".join(map(str, paths)))


@dataclass(slots=True)
class _Gathered:
    """The scores that were read, by name, then by item and system, then by repeat."""

    options: ResultOptions
    scores: dict[str, dict[tuple[str, str], dict[str, float | None]]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, where: str, answer: ScoredAnswer, problems: Problems) -> None:
        options, key = self.options, (answer.item, answer.system)
        repeat = answer.repeat
        if options.repeat is not None:
            repeat = str(value_at(answer.row, options.repeat))
        if options.group is not None:
            group = value_at(answer.row, options.group)
            before = self.groups.setdefault(answer.item, str(group))
            if group is None or before != str(group):
                problems.add(
                    f"{where}item {answer.item!r} has the {options.group} {group!r:.60}"
                    + ("" if group is None else f", and {before!r} elsewhere")
                    + "; expected one group for each item; mend it, or leave out --group"
                )
        for name, value in answer.scores.items():
            if options.score not in (None, name):
                continue
            try:
                score = number_of(value)
            except InputError as error:
                if options.score is None and len(answer.scores) > 1:
                    continue  # one of several, which is not a score
                problems.add(f"{where}{name} of {answer.system!r} is {error}; mend it, or empty it")
                continue
            repeats = self.scores.setdefault(name, {}).setdefault(key, {})
            if repeat in repeats:
                problems.add(
                    f"{where}{answer.system!r} has a second score on item {answer.item!r}; expected "
                    "one; remove a row, or name the column that tells answers apart with --repeat, "
                    "or what tells systems apart with --system or --by-file"
                )
            repeats[repeat] = score

    def table(self, title: str) -> ScoreTable:
        name = self._score(title)
        scores = self.scores[name]
        items = tuple(dict.fromkeys(item for item, _ in scores))
        systems = tuple(sorted({system for _, system in scores}))
        places = {item: place for place, item in enumerate(items)}
        columns = {system: place for place, system in enumerate(systems)}
        values = np.full((len(items), len(systems)), np.nan)
        for (item, system), repeats in scores.items():
            scored = [score for score in repeats.values() if score is not None]
            if scored:
                values[places[item], columns[system]] = sum(scored) / len(scored)
        _refuse_unpaired(title, items, systems, values)
        groups = [self.groups.get(item, item) for item in items]
        missing = {
            system: int(n)
            for system, n in zip(systems, np.isnan(values).sum(axis=0), strict=True)
            if n
        }
        if missing:
            counts = ", ".join(f"{n} of {system}" for system, n in missing.items())
            self.notes.append(
                f"missing scores, which count for nobody: {counts}, of "
                f"{format_plural(len(items), 'item')}"
            )
        return ScoreTable(
            *(name, items, systems, values),
            np.unique(groups, return_inverse=True)[1].astype(np.int64),
            self.options.lower_is_better,
            tuple(dict.fromkeys(self.notes)),
        )

    def _score(self, title: str) -> str:
        names, score = [*self.scores], self.options.score or SCORE
        if not names:
            named = "" if self.options.score is None else f" named {score!r}"
            raise InputError(f"{title}: holds no score{named}; expected systems scored on items")
        if score in names or len(names) > 1:
            if score not in names:
                raise InputError(
                    f"{title}: holds the scores {', '.join(names)}; expected one; name it, such as "
                    f"--score {names[0]}"
                )
            return score
        return names[0]


def _refuse_unpaired(
    title: str, items: Sequence[str], systems: Sequence[str], values: NDArray[np.float64]
) -> None:
    """Refuse fewer than two systems, and systems that share no item with another."""
    if len(systems) < 2:
        raise InputError(
            f"{title}: holds one system, {', '.join(systems)}; expected two or more that were "
            "scored on the same items; name its column with --system, or add a file"
        )
    has_score = ~np.isnan(values)
    together = has_score.T.astype(np.int64) @ has_score
    problems = Problems()
    for place, system in enumerate(systems):
        if together[place].sum() == together[place, place]:
            examples = [items[row] for row in np.flatnonzero(has_score[:, place])]
            problems.add(
                f"{title}: {system!r} shares no item with another system (its items: "
                f"{list_first(examples) or 'none'}); expected the same names of items in all "
                "systems; name their column with --item, or leave the system out"
            )
    problems.raise_if_any()


def _answers(
    path: Path, options: ResultOptions, notes: list[str]
) -> Iterator[tuple[str, ScoredAnswer]]:
    """Yield the scored answers of a file, each with its place."""
    if zipfile.is_zipfile(path) and path.suffix == ".eval":
        rows: Iterable[tuple[str, Row]] = [(path.name, _read_eval_archive(path))]
        chosen = FORMATS["inspect"]
    else:
        sample = sample_file(path)
        notes += [f"{path.name}: {sample.note}"] if sample.note else []
        rows = read_rows(path, sample.kind)
        fitting = [each for each in FORMATS.values() if each.recognises(sample)]
        if not fitting:
            yield from _table_answers(path, sample, list(rows), options, notes)
            return
        chosen = fitting[0]
    for where, row in rows:
        for answer in chosen.parse(row, path):
            system = path.name.removesuffix(path.suffix) if options.by_file else answer.system
            if options.system is not None:
                system = str(value_at(answer.row, options.system))
            item = answer.item if options.item is None else str(value_at(answer.row, options.item))
            yield (
                where,
                ScoredAnswer(item, system, answer.scores, answer.repeat, answer.row),
            )


def _read_eval_archive(path: Path) -> Row:
    """Return a log of inspect in its own format, a ZIP archive, as the JSON log would be."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.startswith("samples/")]
            samples = [json.loads(archive.read(name)) for name in sorted(names)]
            return {**json.loads(archive.read("header.json")), "samples": samples}
    except (KeyError, ValueError, NotImplementedError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: the log cannot be read ({type(error).__name__}: {error}); expected a "
            "finished log of inspect; convert it (inspect log convert --to json)"
        ) from None


def _table_answers(
    path: Path,
    sample: FileSample,
    rows: Sequence[tuple[str, Row]],
    options: ResultOptions,
    notes: list[str],
) -> Iterator[tuple[str, ScoredAnswer]]:
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    problems = Problems()
    problems.extend(
        f"{path}: has no column {name!r}; expected one of {', '.join(sorted(columns))}"
        f"{hint_at(name, columns)}"
        for name in (options.item, options.system, options.score, options.group, options.repeat)
        if name is not None and name.split(".")[0] not in sample.columns | {*columns}
    )
    problems.raise_if_any()
    repeat = options.repeat or _usual(_REPEAT, columns)
    system = options.system or _usual(_SYSTEM, columns)
    score = options.score or _usual(_SCORE, columns)
    item = options.item or _usual(_ITEM, columns)
    others = {item, system, score, options.group, repeat}
    scored = [
        name
        for name in columns
        if name not in others and any(_is_score(row, name) for _, row in rows)
    ]
    item = item or _first_names(columns, scored, rows)
    scored = [name for name in scored if name != item]
    if score is None and (system is not None or len(scored) == 1):
        if len(scored) != 1:
            raise InputError(
                f"{path}: the columns {', '.join(scored) or 'none'} hold numbers; expected one "
                "score beside the system; name it with --score"
            )
        score = scored[0]
    left_out = [name for name in columns if name not in {*others, *scored, item, score}]
    if left_out:
        notes.append(f"{path.name}: not used: {', '.join(left_out)}")
    for number, (where, row) in enumerate(rows, start=1):
        name = str(number) if item is None else str(value_at(row, item))
        which = "" if repeat is None else str(value_at(row, repeat))
        if score is None:
            for each in scored:
                yield where, ScoredAnswer(name, each, {SCORE: row.get(each)}, which, row)
        else:
            own = path.stem if options.by_file or system is None else str(value_at(row, system))
            yield where, ScoredAnswer(name, own, {score: value_at(row, score)}, which, row)


def _usual(names: str, columns: Sequence[str]) -> str | None:
    """Return the first column that is called as such columns usually are, in capitals or not."""
    plain = {re.sub(r"[\s-]+", "_", column.strip().lower()): column for column in columns[::-1]}
    return next((plain[name] for name in names.split() if name in plain), None)


def _is_score(row: Row, name: str) -> bool:
    try:
        return number_of(row.get(name)) is not None
    except InputError:
        return False


def _first_names(
    columns: Sequence[str], scored: Sequence[str], rows: Sequence[tuple[str, Mapping[str, Any]]]
) -> str | None:
    """Return the first column if it names the items: different texts, or numbers that count."""
    cells = [row.get(columns[0]) for _, row in rows] if columns else []
    texts = {str(cell) for cell in cells}
    if len(texts) < len(cells) or len(cells) < 2:
        return None
    if columns[0] not in scored:
        return columns[0]
    numbers = sorted(int(text) for text in texts if text.isdecimal())
    counts = len(numbers) == len(cells) and numbers[-1] - numbers[0] == len(cells) - 1
    return columns[0] if counts and len(cells) > 2 else None
