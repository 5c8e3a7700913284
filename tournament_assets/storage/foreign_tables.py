"""Tables of other tools: how their formats are told apart, and one reader that loses no column.

A format declares which columns all of its files have and which are known not to matter. The reader
notes which columns are read. One that is filled, varies, and is neither read nor known is named
with its count, because it may change what was asked or answered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import expect_one_of
from tournament_assets.foundation.json_lines import JsonObject, parse_rows
from tournament_assets.storage.row_files import FileKind, FileSample

Row = Mapping[str, Any]
Value = TypeVar("Value")

_KNOWN_NAMES = (
    "id idx index uuid doc_hash prompt_hash target_hash timestamp tstamp created created_at"
    " date time object url method status filter datasplit dataset source task_name author"
    " license annotator metadata usage cost latency seed entrant_id model generator"
    " choice_id answer_id model_id sample samples_id tags split"
)
_KNOWN = frozenset(_KNOWN_NAMES.split())
"""Columns that in no format change what was asked or answered."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a row holds nothing that is read: one of few reasons, since they are counted."""

    reason: str


@dataclass(frozen=True, slots=True)
class TableFormat:
    """How the files of a tool are told from others.

    Attributes:
        name: What it is called in a config and on the command line.
        title: Whose files they are, for people.
        columns: What the first row has in all of its files.
        kinds: How the rows of its files are written, where its columns alone do not tell it from
            other formats; in any way if empty.
        one_of: Columns of which the first row has at least one.
        without: Columns that only other formats have.
        tells: A further test of a file's beginning.
        known: Columns that are not read and do not matter, such as a copy of what was judged.
        is_plain: Whether every other format that fits comes first.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    kinds: tuple[FileKind, ...] = field(default=(), kw_only=True)
    one_of: frozenset[str] = field(default=frozenset(), kw_only=True)
    without: frozenset[str] = field(default=frozenset(), kw_only=True)
    tells: Callable[[FileSample], bool] = field(default=lambda _: True, kw_only=True)
    known: frozenset[str] = field(default=frozenset(), kw_only=True)
    is_plain: bool = field(default=False, kw_only=True)

    def recognises(self, sample: FileSample) -> bool:
        """Return whether a file that begins like this has this format."""
        return (
            (not self.kinds or sample.kind in self.kinds)
            and sample.columns >= {*self.columns}
            and (not self.one_of or bool(sample.columns & self.one_of))
            and not sample.columns & self.without
            and self.tells(sample)
        )


AnyFormat = TypeVar("AnyFormat", bound=TableFormat)


def choose_format(
    formats: Mapping[str, AnyFormat],
    sample: FileSample,
    title: str,
    *,
    name: str | None = None,
    advice: str,
) -> AnyFormat:
    """Return the format of a file.

    Args:
        formats: All that it may have, by name.
        sample: The beginning of the file.
        title: What the file is called in messages.
        name: The format, if the user says it.
        advice: What to do where it cannot be told.

    Raises:
        InputError: If there is no such format; if none fits, or more than one.
    """
    if name is not None:
        if name not in formats:
            raise InputError(f"{title}: the format is {name!r}; {expect_one_of(name, formats)}")
        return formats[name]
    candidates = [each for each in formats.values() if each.recognises(sample)]
    candidates = [each for each in candidates if not each.is_plain] or candidates
    if len(candidates) != 1:
        names = " or ".join(each.name for each in candidates) or "unknown format"
        columns = ", ".join(sorted(sample.columns))[:200] or "no columns"
        raise InputError(f"{title}: {names} ({sample.kind} with {columns}); {advice}")
    return candidates[0]


class _Watched(dict[str, Any]):
    """A row that notes which of its columns are read."""

    def __init__(self, row: Row, read: set[str]) -> None:
        super().__init__(row)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)


class TableReader:
    """Reads the rows of a table in one pass, and counts what is not used of it.

    Attributes:
        n_rows: How many rows were read.
        left_out: How many of them hold nothing, by the reason.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        """Take the columns that do not matter, besides those that matter in no table."""
        self.n_rows = 0
        self.left_out: Counter[str] = Counter()
        self._is_part = False
        self._used = {*known}
        self._filled: Counter[str] = Counter()
        self._values: dict[str, set[str]] = {}

    def values(
        self,
        rows: Iterable[tuple[str, object]],
        parse: Callable[[str, Row], Iterable[Value | LeftOut]],
    ) -> Iterator[Value]:
        """Yield what each row holds.

        Args:
            rows: The place of each row, with its line of JSON or what was read from one.
            parse: Reads one row, given its place; raises `InputError` with what is wrong with it.

        Raises:
            InputError: After the last row, with the problems of all.
        """
        for values in parse_rows(rows, lambda where, row: list(parse(where, self.watch(row)))):
            for value in values:
                if isinstance(value, LeftOut):
                    self.left_out[value.reason] += 1
                else:
                    yield value

    def look_at(self, rows: Iterable[tuple[str, object]], *, at_most: int) -> None:
        """Count what is not used of the first rows, which somebody else reads."""
        remaining = iter(rows)
        for _ in self.values(islice(remaining, at_most), lambda *_: ()):
            pass
        self._is_part = next(remaining, None) is not None

    def watch(self, row: JsonObject) -> Row:
        """Return a row whose columns count as used once they are read."""
        self.n_rows += 1
        for name, value in row.items():
            if name in self._used or value in (None, "", [], {}):
                continue
            self._filled[name] += 1
            values = self._values.setdefault(name, set())
            if len(values) < 2:
                values.add(repr(value))
        return _Watched(row, self._used)

    def use(self, names: Iterable[str]) -> None:
        """Count columns as used that were not read by name."""
        self._used.update(names)

    @property
    def unused(self) -> dict[str, int]:
        """How many rows fill each column that was not used, if it varies and may matter."""
        return {
            name: count
            for name, count in self._filled.items()
            if len(self._values[name]) > 1
            and name not in self._used
            and not {name, name.lower()} & _KNOWN
        }

    @property
    def note(self) -> str:
        """Which filled columns are not used; empty without any."""
        total = f"the first {self.n_rows}" if self._is_part else str(self.n_rows)
        return describe_unused(self.unused, total)


def describe_unused(unused: Mapping[str, int], total: str) -> str:
    """Name the filled columns that are not used; empty without any.

    Args:
        total: Of how many rows they were counted.
    """
    listed = ", ".join(f"{name} ({count} of {total} filled)" for name, count in unused.items())
    return f"not used: {listed}" if listed else ""
