"""Files of battles: how a format is declared, and one reader for all formats of rows.

New ones are written whole or not at all.

A format with one row, or a few, per battle is a declaration: which columns identify its files, and
how a row becomes battles. Here is what all formats share: the kinds of files, who decided, what
names the prompt, everything that is wrong at once, and what the format has no place for.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columns import (
    BATTLE_SCHEMA,
    DEFAULTS,
    battle_parts,
    different_names,
    encode_battle_table,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import Json, JsonObject
from tournament_assets.storage.atomic_files import atomic_file
from tournament_assets.storage.foreign_tables import LeftOut, Row, TableFormat, TableReader
from tournament_assets.storage.row_files import FileKind, rows_in, sample_file
from tournament_assets.tournament.battles import Battle, BattleSource, BattleWinner, RatingSettings


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that appears whole or not at all, a part at a time."""
    if path.exists():
        raise InputError(
            f"{path}: the file is there already; expected a new name, so that no battles are "
            "lost; remove it or choose another"
        )
    try:
        with atomic_file(path) as file:
            yield file
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be written ({error.strerror or type(error).__name__}); "
            "expected a folder that can be written to"
        ) from None


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """Options for what a file does not say itself.

    Attributes:
        source: Who decided; None for the format's default.
        baseline: The model that every other one was compared with.
        prompt_column: The column, or key, that names the prompt; None for those of the format.
        apart: Whether each showing of a pair is a battle, where a row holds both.
    """

    source: BattleSource | None = None
    judge: str | None = None
    baseline: str | None = None
    prompt_column: str | None = None
    apart: bool = False

    def prompt_names(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the columns that may name the prompt: the usual ones unless somebody says."""
        return usual if self.prompt_column is None else (self.prompt_column,)


def require_source(source: BattleSource | None, path: Path, title: str) -> BattleSource:
    """Return who decided the battles of a file that does not say it, if somebody else does."""
    if source is None:
        raise InputError(
            f"{path}: files of {title} do not say who decided; expected --source llm-judge or "
            "--source human beside them"
        )
    return source


@dataclass(frozen=True, eq=False)
class BattleFile:
    """A file of battles, which is read once, a part at a time.

    Attributes:
        format: The format's name.
        parts: The battles, with columns of `BATTLE_SCHEMA`. What is wrong with the file is raised
            after the last part.
        left_out: Comparisons that are no battles, of the parts that were read, counted by reason.
        settings: How the battles were rated; None where the file does not say.
        describe: Returns the note.
    """

    format: str
    parts: Iterator[pa.Table]
    left_out: Mapping[str, int] = field(default_factory=dict)
    settings: RatingSettings | None = None
    describe: Callable[[], str] = str

    @cached_property
    def table(self) -> pa.Table:
        """All battles, with the columns of `BATTLE_SCHEMA`; reads the file."""
        return encode_battle_table(self.parts)

    @property
    def note(self) -> str:
        """Which filled columns of the battles that were read are not used; empty without any."""
        return self.describe()


@dataclass(frozen=True, slots=True)
class RowFormat(TableFormat):
    """A format of rows.

    Attributes:
        prompts: What may name the prompt; the first with a value counts.
        source: Who decided; None where that has to be said beside the file.
        parse: Reads the battles of one row: their fields without source and question_id. Raises
            `InputError` with what is wrong, not saying where.
        below: Columns whose texts a template puts below the prompt's.
        is_folder: Whether its files come as a folder, too.
    """

    prompts: tuple[str, ...]
    source: BattleSource | None
    parse: Callable[[Row, FormatOptions], Iterable[Row | LeftOut]]
    below: tuple[str, ...] = ()
    is_folder: bool = False

    def open(self, path: Path, options: FormatOptions) -> BattleFile:
        """Open a file, or every .jsonl file of a judge's folder.

        Raises:
            InputError: If nobody says who decided.
        """
        source = require_source(options.source or self.source, path, self.title)
        prompts = options.prompt_names(self.prompts)
        below = self.below if options.prompt_column is None else ()
        files = [path]
        if path.is_dir():
            files, options = sorted(path.glob("*.jsonl")), replace(options, judge=path.name)
        if not files:
            raise InputError(f"{path}: the folder holds no .jsonl file; expected judgments")

        def parse(_: str, row: Row) -> Iterable[Battle | LeftOut]:
            reason = reason_against(row)
            for values in [LeftOut(reason)] if reason else self.parse(row, options):
                if isinstance(values, LeftOut):
                    yield values
                else:
                    prompt = find_prompt(row, prompts, below)
                    yield battle_of({**values, "source": source, "question_id": prompt})

        rows = (battle_rows(file, sample_file(file).kind, needed=self.columns) for file in files)
        reader = TableReader({*self.known, *self.prompts, *self.one_of})
        parts = battle_parts(reader.values(chain.from_iterable(rows), parse))
        return BattleFile(self.name, parts, reader.left_out, describe=lambda: reader.note)


def _number_of(cell: str) -> Json:
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if number.is_integer() else number


def _truth_of(cell: str) -> Json:
    return {"true": True, "false": False}.get(cell.strip().lower(), cell)


_CELLS: Mapping[str, Callable[[str], Json]] = {
    **dict.fromkeys(("sample", "turn", "weight", "pref", "preference"), _number_of),
    **dict.fromkeys(("inconsistent", "swapped"), _truth_of),
}
"""What the texts in the cells of a column stand for, where they are no texts."""


def battle_rows(
    path: Path,
    kind: FileKind,
    *,
    columns: Iterable[str] | None = None,
    needed: Sequence[str] = (),
) -> Iterable[tuple[str, object]]:
    """Return the rows of a file of battles; see `rows_in`."""
    rows = rows_in(path, kind, columns=columns, needed=needed)
    return ((at, _typed(row)) for at, row in rows) if kind in ("csv", "xlsx") else rows


def _typed(row: JsonObject) -> JsonObject:
    return {
        name: _CELLS[name](cell) if name in _CELLS and isinstance(cell, str) else cell
        for name, cell in row.items()
    }


ANONYMOUS = "anony"
"""The column of an arena's votes that is false where the voter saw the models' names."""
NAMED = "not anonymous: the voter saw the models' names"
SELF = "a model against itself"


def reason_against(row: Row) -> str | None:
    """Return why a row is not rated, whatever it says; None if it is.

    An arena rates only anonymous votes: https://github.com/lm-sys/FastChat.
    """
    is_named = str(row.get(ANONYMOUS, True)).strip().lower() in ("false", "0", "no")
    return NAMED if is_named else None


def battle_of(values: Row) -> Battle | LeftOut:
    """Return a battle of two models; a model against itself says nothing."""
    names = [values.get(side) for side in ("model_a", "model_b")]
    if isinstance(names[0], str) and names[0].strip() and names[0] == names[1]:
        return LeftOut(SELF)
    return Battle.from_dict(values)


NO_FLAG = "no verdict: the winner's columns are empty"
FLAG_COLUMNS: Mapping[str, BattleWinner] = {
    "winner_model_a": "model_a",
    "winner_model_b": "model_b",
    "winner_tie": "tie",
    "winner_tie (bothbad)": "tie (bothbad)",
    "winner_tie(bothbad)": "tie (bothbad)",
}
"""Columns of which one is 1 and the others are 0, as in LMSYS's sets on Kaggle."""
_FLAGS = {
    **dict.fromkeys(("0", "0.0", "false"), False),
    **dict.fromkeys(("1", "1.0", "true"), True),
}


def flagged_winner(row: Row) -> BattleWinner | None:
    """Return who won by the one of `FLAG_COLUMNS` that is 1; None if all are empty."""
    flags = {name: row[name] for name in FLAG_COLUMNS if row.get(name) not in (None, "")}
    marks = [_FLAGS.get(str(value).lower()) for value in flags.values()]
    if not flags:
        return None
    if None in marks or marks.count(True) != 1:
        values = ", ".join(f"{name} {value!r:.40}" for name, value in flags.items())
        raise InputError(f"the winner's columns are {values}; expected one 1 and otherwise 0")
    return FLAG_COLUMNS[[*flags][marks.index(True)]]


def find_prompt(row: JsonObject, names: Iterable[str], below: Iterable[str] = ()) -> Any:
    """Return what names the prompt of a row: the first of the names with a value, or None.

    A conversation is written as JSON, so that equal ones are the same prompt.

    Args:
        below: What stands below it, after a blank line.
    """
    above = [next((row[name] for name in names if row.get(name) not in (None, "")), None)]
    parts = [
        json.dumps(part, ensure_ascii=False, sort_keys=True)
        if isinstance(part, list | dict)
        else part
        for part in (*above, *map(row.get, below))
        if part not in (None, "")
    ]
    return "\n\n".join(map(str, parts)) if len(parts) > 1 else next(iter(parts), None)


def need(row: JsonObject, **kinds: tuple[type, ...]) -> None:
    """Refuse a row that lacks something or has something of another kind in its place."""
    problems = []
    for name, allowed in kinds.items():
        value = row.get(name)
        if type(value) not in allowed or (isinstance(value, str) and not value.strip()):
            found = f"is {value!r:.80}" if name in row else "is missing"
            problems.append(f"{name} {found}; expected {_SPOKEN[allowed]}")
    if problems:
        raise InputError(problems)


TEXT: tuple[type, ...] = (str,)
TEXT_OR_NUMBER: tuple[type, ...] = (str, int)
LIST: tuple[type, ...] = (list,)
_SPOKEN = {
    TEXT: "a text that says something",
    TEXT_OR_NUMBER: "a text that says something, or a whole number",
    LIST: "a list",
}


def count_losses(
    table: pa.Table,
    *,
    holds: Collection[str],
    title: str,
) -> dict[str, int]:
    """Count the values that a format has no place for, by their field.

    Args:
        holds: The fields that the format keeps, in whatever way.
        title: Whose format it is.
    """
    lost = {
        field.name: _count_other(table.column(field.name), DEFAULTS.get(field.name))
        for field in BATTLE_SCHEMA
        if field.name not in holds
    }
    dimensions = different_names(table, "dimension")
    n_without = table.column("dimension").null_count
    if "dimension" not in holds and len(dimensions) + bool(n_without) > 1:
        raise InputError(
            f"the battles are of {len(dimensions) + bool(n_without)} dimensions "
            f"({', '.join(dimensions)}{', none' if n_without else ''}), which the files of {title} "
            "cannot tell apart; choose one by --dimension"
        )
    return {name: count for name, count in lost.items() if count}


def _count_other(column: pa.ChunkedArray, default: object) -> int:
    if default is None:
        return len(column) - int(column.null_count)
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return len(column) - int(pc.sum(pc.equal(plain, pa.scalar(default)), min_count=0).as_py())
