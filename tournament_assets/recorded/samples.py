"""Prompts and responses in other tools' files, read in one way whatever their format."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tournament_assets.foundation.errors import InputError, Problems
from tournament_assets.foundation.json_lines import refuse_half_characters
from tournament_assets.recorded.sample_formats import (
    COLUMN_FIELDS,
    FORMATS,
    SYSTEM,
    Sample,
    SampleFormat,
    format_of_columns,
)
from tournament_assets.storage.foreign_tables import Row, TableReader, choose_format
from tournament_assets.storage.row_files import FileSample, read_rows, sample_file
from tournament_assets.tournament.entrants import SampleColumn

_ADVICE = (
    f"choose one (format: {', '.join(FORMATS)}), or say what its columns hold "
    f"({', '.join(COLUMN_FIELDS)})"
)


@dataclass(frozen=True, slots=True)
class SampleFile:
    """The content of a file.

    Attributes:
        format: The format's name.
        samples: Its rows, in order.
        reader: What read them; whatever is read from the samples' rows later counts as used, too.
        assumed: What was taken for granted of the file, in a clause; empty without anything.
    """

    format: str
    samples: Sequence[Sample]
    reader: TableReader = field(default_factory=TableReader)
    assumed: str = ""

    @property
    def note(self) -> str:
        """What was assumed, and which filled columns are not used; empty without any."""
        return "; ".join(clause for clause in (self.assumed, self.reader.note) if clause)


def read_samples(
    path: Path, *, format_name: str | None = None, columns: Mapping[SampleColumn, str] | None = None
) -> SampleFile:
    """Read the prompts and responses of a file.

    Args:
        format_name: The format; detected from the file if None.
        columns: The column of each field of `COLUMN_FIELDS`, instead of a format; a dot leads into
            a column that is an object.
    """
    sample = sample_file(path)
    chosen = _choose(sample, str(path), format_name, columns)
    rows: Iterable[tuple[str, Any]] = read_rows(path, sample.kind)
    if chosen.rows_in is not None:
        rows = _rows_inside(rows, chosen.rows_in)
    return replace(_parse(chosen, rows), assumed=sample.note)


def detect_format(path: Path) -> str:
    """Detect a file's format from its beginning.

    Raises:
        InputError: If no format fits, or more than one.
    """
    return _choose(sample_file(path), str(path), None, None).name


def parse_samples(
    rows: Sequence[tuple[str, Row]],
    *,
    title: str,
    format_name: str | None = None,
    columns: Mapping[SampleColumn, str] | None = None,
) -> SampleFile:
    """Read prompts and responses from rows in memory; see `read_samples`.

    Args:
        rows: Where each row is, and the row.
        title: What the rows are, for messages.
        format_name: The format; detected from the first row if None.
        columns: The column of each field.
    """
    if not rows:
        raise InputError(f"{title}: the file holds no row; expected at least one")
    problems = Problems(of_file=True)
    for where, row in rows:
        with problems.collected():
            refuse_half_characters(dict(row), where)
    problems.raise_if_any()
    _, first = rows[0]
    sample = FileSample("json lines", frozenset(first), first)
    return _parse(_choose(sample, title, format_name, columns), rows)


def _choose(
    sample: FileSample,
    title: str,
    format_name: str | None,
    columns: Mapping[SampleColumn, str] | None,
) -> SampleFormat:
    if columns is not None:
        return format_of_columns(sample, title, columns)
    return choose_format(FORMATS, sample, title, name=format_name, advice=_ADVICE)


def _parse(chosen: SampleFormat, rows: Iterable[tuple[str, Any]]) -> SampleFile:
    reader = TableReader(chosen.known)

    def parse(where: str, row: Row) -> Iterator[Sample]:
        yield replace(chosen.parse(row), where=where, row=row)

    samples = list(reader.values(rows, parse))
    return SampleFile(chosen.name, _without_lost_systems(samples), reader)


def _without_lost_systems(samples: Sequence[Sample]) -> list[Sample]:
    """Mark samples whose system text would be lost.

    One text for all of a model's rows is a setting of the model, like an entrant's system prompt.
    If there are several, each is part of its row's prompt.
    """
    texts: dict[str | None, set[str | None]] = {}
    for sample in samples:
        texts.setdefault(sample.model, set()).add(sample.system)
    return [
        sample
        if sample.lost or sample.system is None or len(texts[sample.model]) == 1
        else replace(sample, lost=SYSTEM)
        for sample in samples
    ]


def _rows_inside(rows: Iterable[tuple[str, Any]], key: str) -> Iterator[tuple[str, Any]]:
    for where, whole in rows:
        inner = whole.get(key)
        if not isinstance(inner, list) or not all(isinstance(row, Mapping) for row in inner):
            raise InputError(f"{where}: {key} is {inner!r:.60}; expected a list of objects")
        for number, row in enumerate(inner, start=1):
            yield f"{where}:{key} {number}", row
