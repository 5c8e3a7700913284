"""The columnar form of many battles: one Arrow table, in which names are dictionaries.

Battles by the million do not fit a list of objects; as columns they take about 50 bytes each.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tournament_assets.tournament.battles import Battle

NAME = pa.dictionary(pa.int32(), pa.string())
"""A column of few different texts."""

BATTLE_SCHEMA = pa.schema(
    [
        pa.field("model_a", NAME, nullable=False),
        pa.field("model_b", NAME, nullable=False),
        pa.field("winner", NAME, nullable=False),
        pa.field("source", NAME, nullable=False),
        pa.field("question_id", pa.string()),
        pa.field("judge_model", NAME),
        pa.field("dimension", NAME),
        pa.field("inconsistent", pa.bool_(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("pref", pa.float64()),
        pa.field("turn", pa.int32()),
        pa.field("presentation", NAME),
    ]
)
"""The fields of a `Battle`, in their order."""

DEFAULTS: Mapping[str, Any] = {"inconsistent": False, "weight": 1.0}
"""What an absent value means in the columns that have one for every battle."""

_ROWS_AT_ONCE = 65_536


def make_battle_table(battles: Iterable[Battle]) -> pa.Table:
    """Put battles into columns, in their order, a part at a time."""
    parts = (
        pa.table(
            {
                field.name: pa.array(map(attrgetter(field.name), part), type=_plain(field.type))
                for field in BATTLE_SCHEMA
            }
        )
        for part in _parts(battles)
    )
    return encode_battle_table(parts)


def encode_battle_table(parts: Iterable[pa.Table | pa.RecordBatch]) -> pa.Table:
    """Put parts of a table together, each column in one piece and each name in it once.

    Args:
        parts: Tables with the columns of `BATTLE_SCHEMA`, their names as dictionaries or as texts.
    """
    encoded = [
        pa.Table.from_arrays(
            [_encode(part.column(field.name), field.type) for field in BATTLE_SCHEMA],
            schema=BATTLE_SCHEMA,
        )
        for part in parts
    ]
    if not encoded:
        return BATTLE_SCHEMA.empty_table()
    return pa.concat_tables(encoded).unify_dictionaries().combine_chunks()


def complete_battle_table(table: pa.Table) -> pa.Table:
    """Give a table the columns of `BATTLE_SCHEMA` that it lacks, with what an absent value means.

    Args:
        table: Some columns of battles, names as dictionaries or as texts; others are dropped.
    """
    columns = {
        field.name: table.column(field.name)
        if field.name in table.column_names
        else pa.repeat(pa.scalar(DEFAULTS.get(field.name), _plain(field.type)), table.num_rows)
        for field in BATTLE_SCHEMA
    }
    return encode_battle_table([pa.table(columns)])


def battles_of(table: pa.Table) -> Iterator[Battle]:
    """Go through a table as objects, a part at a time."""
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield Battle(**row)


def different_names(table: pa.Table, name: str) -> list[str]:
    """Return the names that occur in a column, by their first battle; absent ones are passed over.

    A dictionary may hold names that no battle has, after a table was filtered.
    """
    found: list[str | None] = pc.unique(table.column(name).cast(pa.string())).to_pylist()
    return [each for each in found if each is not None]


def name_codes(table: pa.Table, name: str, index_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the place of every battle's name, shape (n_battles,); -1 where it has none.

    Args:
        table: The battles.
        name: A column of names without an absent one.
        index_of: The places.
    """
    codes = [np.zeros(0, dtype=np.int64)]
    for chunk in table.column(name).chunks:
        places = [index_of.get(each, -1) for each in chunk.dictionary.to_pylist()]
        codes.append(np.array(places, dtype=np.int64)[chunk.indices.to_numpy()])
    return np.concatenate(codes)


def battles_per_model(table: pa.Table) -> dict[str, int]:
    """Count the battles that each model fought, whatever their outcome, by name."""
    counts: dict[str, int] = {}
    for side in ("model_a", "model_b"):
        for entry in pc.value_counts(table.column(side).cast(pa.string())).to_pylist():
            counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    return dict(sorted(counts.items()))


def _parts(battles: Iterable[Battle]) -> Iterator[list[Battle]]:
    remaining = iter(battles)
    while part := list(islice(remaining, _ROWS_AT_ONCE)):
        yield part


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _encode(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> Any:
    if not pa.types.is_dictionary(kind) or pa.types.is_dictionary(column.type):
        return column.cast(kind)
    return column.cast(kind.value_type).dictionary_encode().cast(kind)
