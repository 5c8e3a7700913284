"""Battles as columns: an Arrow table with dictionary-encoded names, and its codes for ratings.

Battles by the million do not fit a list of objects; as columns they take about 50 bytes each. What
is coded from them equals what `ratings.matches.code_judgments` makes of them as judgments.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.ratings.matches import Matches
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
        pa.field("sample", pa.int32(), nullable=False),
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

DEFAULTS: JsonObject = {"sample": 1, "inconsistent": False, "weight": 1.0}
"""What an absent value means in the columns that have one for every battle."""

_ROWS_AT_ONCE = 65_536

Preferences = Literal["share", "winner"]
"""How a preference counts: it shares the win, or is ignored in favour of the winner."""
PREFERENCES: tuple[Preferences, ...] = get_args(Preferences)


def make_battle_table(battles: Iterable[Battle]) -> pa.Table:
    """Put battles into columns, in their order, a part at a time."""
    return encode_battle_table(battle_parts(battles))


def battle_parts(battles: Iterable[Battle]) -> Iterator[pa.Table]:
    """Yield battles as columns, in their order, a part at a time."""
    remaining = iter(battles)
    while part := list(islice(remaining, _ROWS_AT_ONCE)):
        columns = {
            field.name: pa.array(map(attrgetter(field.name), part), type=plain_type(field.type))
            for field in BATTLE_SCHEMA
        }
        yield encode_battle_table([pa.table(columns)])


def encode_battle_table(parts: Iterable[pa.Table | pa.RecordBatch]) -> pa.Table:
    """Put parts of a table together, each column in one piece and each name in it once.

    Columns that a part lacks say nothing, and those that no battle has are dropped.
    """
    encoded = [
        pa.Table.from_arrays(
            [_encode(part, field) for field in BATTLE_SCHEMA], schema=BATTLE_SCHEMA
        )
        for part in parts
    ]
    if not encoded:
        return BATTLE_SCHEMA.empty_table()
    return pa.concat_tables(encoded).unify_dictionaries().combine_chunks()


def battles_of(table: pa.Table) -> Iterator[Battle]:
    """Go through a table as objects, a part at a time."""
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield Battle(**row)


def different_names(table: pa.Table, name: str) -> list[str]:
    """Return the names that occur in a column, by their first battle; absent ones are skipped.

    A dictionary may hold names that no battle has, after a table was filtered.
    """
    values: list[str | None] = pc.unique(table.column(name).cast(pa.string())).to_pylist()
    return [each for each in values if each is not None]


def name_codes(table: pa.Table, name: str, index_of: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the place of every battle's name, shape (n_battles,); -1 where it has none.

    Args:
        name: A column of names, none absent.
        index_of: The places.
    """
    codes = [np.zeros(0, dtype=np.int64)]
    for chunk in table.column(name).chunks:
        places = [*(index_of.get(each, -1) for each in chunk.dictionary.to_pylist()), -1]
        codes.append(np.array(places, dtype=np.int64)[_numbers(chunk.indices)])
    return np.concatenate(codes)


def _numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers none of which is absent."""
    # PyArrow's own conversions load pandas, which takes longer than counting a million battles.
    kind, parts = values.type.to_pandas_dtype(), getattr(values, "chunks", [values])
    return np.concatenate(
        [
            np.frombuffer(part.buffers()[1], kind)[part.offset : part.offset + len(part)]
            for part in parts
        ]
        or [np.zeros(0, kind)]
    )


def battles_per_model(table: pa.Table) -> dict[str, int]:
    """Count the battles that each model fought, whatever their outcome, by name."""
    counts: dict[str, int] = {}
    for side in ("model_a", "model_b"):
        for entry in pc.value_counts(table.column(side).cast(pa.string())).to_pylist():
            counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    return dict(sorted(counts.items()))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values in a column, which may be written as a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _encode(part: pa.Table | pa.RecordBatch, field: pa.Field) -> Any:
    kind = plain_type(field.type)
    if field.name not in part.schema.names:
        return constant(DEFAULTS.get(field.name), field.type, part.num_rows)
    column = part.column(field.name)
    if kind == field.type or pa.types.is_dictionary(column.type):
        return column.cast(field.type)
    return column.cast(kind).dictionary_encode().cast(field.type)


def constant(value: Any, kind: pa.DataType, n: int) -> pa.Array:
    """Return a column of equal values, made of bytes: PyArrow's own ways load pandas."""
    if value is None:
        return pa.nulls(n, kind)
    if isinstance(value, str):
        content = value.encode()
        ends, codes = np.array([0, len(content)], np.int32), np.zeros(n, np.int32)
        name = pa.Array.from_buffers(pa.string(), 1, [None, *map(pa.py_buffer, (ends, content))])
        indices = pa.Array.from_buffers(pa.int32(), n, [None, pa.py_buffer(codes)])
        return pa.DictionaryArray.from_arrays(indices, name)
    is_truth = pa.types.is_boolean(kind)
    values = np.full(n, value, dtype=np.bool_ if is_truth else kind.to_pandas_dtype())
    packed = np.packbits(values) if is_truth else values
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(packed)])


def of_dimension(table: pa.Table, dimension: str | None) -> pa.Table:
    """Return the battles on one dimension, in their order; None means those that have none."""
    column = table.column("dimension").cast(pa.string())
    is_wanted = pc.is_null(column) if dimension is None else pc.equal(column, dimension)
    return table.filter(is_wanted)


OUTCOMES: Mapping[str, int] = {"model_a": 0, "model_b": 1, "tie": 2, "tie (bothbad)": 2}
SHARES = np.array([0.0, 1.0, 0.5])
"""Places of the winners, and model_b's share of the win by each place."""


def finer_preferences(table: pa.Table) -> NDArray[np.bool_]:
    """Return whether each battle has a preference other than its winner says, shape (n_battles,).

    A column that is absent says nothing.
    """
    if "pref" not in table.column_names or table.column("pref").null_count == table.num_rows:
        return np.zeros(table.num_rows, dtype=np.bool_)
    pref = table.column("pref").to_numpy()
    share = SHARES[name_codes(table, "winner", OUTCOMES)]
    return np.asarray(~np.isnan(pref) & (pref != share), dtype=np.bool_)


_WIDEST_WEIGHTS = 1e6


def code_battles(
    table: pa.Table, *, entrants: Sequence[str] = (), preferences: Preferences = "share"
) -> Matches:
    """Code the battles of one dimension as integers, every sample of a prompt for itself.

    A battle without a question_id counts as a prompt of its own.

    Args:
        table: The battles, in the order in which they are to be rated.
        entrants: Everyone who may appear, in the order of the tables; all of the battles, sorted,
            if empty.
        preferences: What a preference that is finer than the winner does.

    Raises:
        InputError: If a battle names somebody else, or weights are so far apart that the smaller
            ones are lost in rounding.
    """
    models = {*different_names(table, "model_a"), *different_names(table, "model_b")}
    names = tuple(entrants) or tuple(sorted(models))
    if unknown := sorted(models - {*names}):
        raise InputError(
            f"a battle names {name!r}; expected one of the entrants {', '.join(names)}"
            for name in unknown
        )
    weight = _numbers(table.column("weight"))
    if weight.size and weight.max() > _WIDEST_WEIGHTS * weight.min():
        raise InputError(
            f"the weights of the battles go from {weight.min():g} to {weight.max():g}; expected "
            f"none more than {_WIDEST_WEIGHTS:g} times another"
        )
    index_of = {name: index for index, name in enumerate(names)}
    share = SHARES[name_codes(table, "winner", OUTCOMES)]
    if preferences == "share" and (is_finer := finer_preferences(table)).any():
        share = np.where(is_finer, table.column("pref").to_numpy(), share)
    prompts, prompt_index = _code_prompts(table.column("question_id"))
    sample = _numbers(table.column("sample")).astype(np.int64)
    return Matches(
        entrants=names,
        prompts=prompts,
        first=name_codes(table, "model_a", index_of),
        second=name_codes(table, "model_b", index_of),
        prompt_index=prompt_index,
        preference=1.0 - share,
        weight=weight,
        sample=sample if (sample > 1).any() else sample[:0],
    )


def _code_prompts(column: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the prompts, sorted, and the prompt of every battle; one of its own if it has none."""
    encoded = pa.chunked_array([column.combine_chunks().dictionary_encode()])
    prompts = sorted(encoded.chunk(0).dictionary.to_pylist()) if len(column) else []
    places = name_codes(
        pa.table([encoded], ["prompt"]),
        "prompt",
        {each: place for place, each in enumerate(prompts)},
    )
    if column.null_count:
        absent = np.flatnonzero(column.is_null().to_numpy())
        places[absent] = len(prompts) + np.arange(absent.size)
        prompts += [f"battle {row + 1}" for row in absent.tolist()]
    return tuple(prompts), places
