"""Reading battles row by row: what is a battle, what is left out and why, and all that is wrong.

The slow way, for formats whose rows are nested, and for finding out where a large file is wrong.

What a format has no place for: counted before battles are written in it.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tournament_assets.battles.columns import (
    BATTLE_SCHEMA,
    DEFAULTS,
    different_names,
    make_battle_table,
)
from tournament_assets.tournament.battles import Battle, BattleSource
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.json_lines import parse_rows


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A comparison that is no battle.

    Attributes:
        reason: Why; few different ones, since they are counted.
    """

    reason: str


ParseRow = Callable[[Mapping[str, Any]], Iterable[Battle | LeftOut]]
"""Reads the battles of one row; raises `InputError` with what is wrong, not saying where."""


def read_battle_rows(
    rows: Iterable[tuple[str, object]], parse: ParseRow
) -> tuple[pa.Table, dict[str, int]]:
    """Read every row, and refuse them all if one is wrong.

    Args:
        rows: Where each row stands, and a line of JSON, or what was read from one.
        parse: Reads one row.

    Returns:
        The battles in columns, and how many comparisons were left out, by the reason.

    Raises:
        InputError: With the first problems of the rows and the number of the others.
    """
    left_out: Counter[str] = Counter()

    def battles() -> Iterator[Battle]:
        for found in parse_rows(rows, lambda _, row: list(parse(row))):
            for each in found:
                if isinstance(each, LeftOut):
                    left_out[each.reason] += 1
                else:
                    yield each

    table = make_battle_table(battles())
    return table, dict(sorted(left_out.items()))


def find_prompt(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return what names the prompt of a row, or None.

    Args:
        row: The row.
        names: The columns that may; the first with a value counts. A conversation is written as
            JSON, so that equal ones are the same prompt.
    """
    found = next((row[name] for name in names if row.get(name) not in (None, "")), None)
    if isinstance(found, list | dict):
        return json.dumps(found, ensure_ascii=False, sort_keys=True)
    return found


def need(row: Mapping[str, Any], **kinds: tuple[type, ...]) -> None:
    """Refuse a row that lacks something or has something else in its place.

    Args:
        row: The row.
        kinds: What each value must be.

    Raises:
        InputError: With everything that is missing or wrong.
    """
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
    source: BattleSource | None = None,
    tells_ties_apart: bool = False,
) -> dict[str, int]:
    """Count the values that a format has no place for, by their field.

    Args:
        table: The battles.
        holds: The fields that the format keeps, in whatever way.
        title: Whose format it is.
        source: Who decided all battles of such a file; None where it says so itself.
        tells_ties_apart: Whether a tie of two bad responses is written as such.

    Raises:
        InputError: If the battles are of several dimensions, which the format cannot tell apart.
    """
    lost = {
        field.name: _count_other(table.column(field.name), DEFAULTS.get(field.name))
        for field in BATTLE_SCHEMA
        if field.name not in holds and field.name != "source"
    }
    if source is not None:
        lost["source"] = _count_other(table.column("source"), source)
    if not tells_ties_apart:
        lost["winner"] = _count_same(table.column("winner"), "tie (bothbad)")
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
    return len(column) - _count_same(column, default)


def _count_same(column: pa.ChunkedArray, value: object) -> int:
    plain = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    return int(pc.sum(pc.equal(plain, pa.scalar(value)), min_count=0).as_py())
