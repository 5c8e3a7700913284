"""Battles as columns: an Arrow table with dictionary-encoded names, and its codes for ratings.

Battles by the million do not fit a list of objects; as columns they take about 50 bytes each. What
is coded from them equals what `ratings.matches.code_judgments` makes of them as judgments.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    for part in _parts(battles):
        columns = {
            field.name: pa.array(map(attrgetter(field.name), part), type=plain_type(field.type))
            for field in BATTLE_SCHEMA
        }
        yield encode_battle_table([pa.table(columns)])


def encode_battle_table(parts: Iterable[pa.Table | pa.RecordBatch]) -> pa.Table:
    """Put parts of a table together, each column in one piece and each name in it once."""
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
    """Give battles the columns of `BATTLE_SCHEMA` that they lack, and drop others."""
    columns = {
        field.name: table.column(field.name)
        if field.name in table.column_names
        else pa.repeat(pa.scalar(DEFAULTS.get(field.name), plain_type(field.type)), table.num_rows)
        for field in BATTLE_SCHEMA
    }
    return encode_battle_table([pa.table(columns)])


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
        places = [index_of.get(each, -1) for each in chunk.dictionary.to_pylist()]
        codes.append(np.array(places, dtype=np.int64)[_numbers(chunk.indices)])
    return np.concatenate(codes)


def _numbers(indices: pa.Array) -> NDArray[np.int32]:
    # PyArrow's own conversions load pandas, which takes longer than counting a million battles.
    values = np.frombuffer(indices.buffers()[1], dtype=np.int32)
    return values[indices.offset : indices.offset + len(indices)]


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


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values in a column, which may be written as a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _encode(column: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> Any:
    if not pa.types.is_dictionary(kind) or pa.types.is_dictionary(column.type):
        return column.cast(kind)
    return column.cast(kind.value_type).dictionary_encode().cast(kind)


_LARGEST_KEY = 2**62
_WIDEST_WEIGHTS = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class CodedBattles:
    """The battles of one dimension as integers, and what was found on the way.

    Attributes:
        matches: All of them in their order, by their shares of a win. Where a prompt has several
            samples, each two met there once, with the mean as share.
        apart: The same with every sample of a prompt for itself.
        winners: `apart` with what the winner alone says: won, lost or tied.
        n_ties: Those nobody won, inconsistent ones among them.
        n_inconsistent: Ties that stand for two presentations that disagreed.
        n_without_prompt: Battles without a question_id; each counts as a prompt of its own.
        n_weighted: Battles whose weight is not 1.
        n_repeated: Battles that repeat an earlier one on the same prompt and pair.
        n_soft: Battles whose preference is finer than their winner.
    """

    matches: Matches
    apart: Matches
    winners: Matches
    n_ties: int
    n_inconsistent: int
    n_without_prompt: int
    n_weighted: int
    n_repeated: int
    n_soft: int


def of_dimension(table: pa.Table, dimension: str | None) -> pa.Table:
    """Return the battles on one dimension, in their order; None means those that have none."""
    column = table.column("dimension").cast(pa.string())
    is_wanted = pc.is_null(column) if dimension is None else pc.equal(column, dimension)
    return table.filter(is_wanted)


def code_battles(
    table: pa.Table, *, entrants: Sequence[str] = (), preferences: Preferences = "share"
) -> CodedBattles:
    """Code the battles of one dimension as integers.

    Args:
        table: The battles, in the order in which they are to be rated.
        entrants: Everyone who may appear, in the order of the tables; all of the battles, sorted,
            if empty.
        preferences: What a preference that is finer than the winner does.
    """
    models = {*different_names(table, "model_a"), *different_names(table, "model_b")}
    names = tuple(entrants) or tuple(sorted(models))
    allowed = set(names)
    if unknown := sorted(models - allowed):
        raise InputError(
            f"a battle names {name!r}; expected one of the entrants {', '.join(names)}"
            for name in unknown
        )
    index_of = {name: index for index, name in enumerate(names)}
    model_a, model_b = (name_codes(table, side, index_of) for side in ("model_a", "model_b"))
    outcome = name_codes(
        table, "winner", {"model_a": 1, "model_b": 2, "tie": 0, "tie (bothbad)": 0}
    )
    prompts, prompt_index = _code_prompts(table)
    sample = table.column("sample").to_numpy().astype(np.int64)
    weight = table.column("weight").to_numpy()
    _refuse_far_weights(weight)
    pref = table.column("pref").to_numpy()
    # The share of model_b: what the winner says, or the preference where that is finer.
    share = np.array([0.5, 0.0, 1.0])[outcome]
    is_soft = ~np.isnan(pref) & (pref != share)
    winners = Matches(
        entrants=names,
        prompts=prompts,
        first=model_a,
        second=model_b,
        prompt_index=prompt_index,
        preference=1.0 - share,
        weight=weight,
        sample=sample if (sample > 1).any() else sample[:0],
    )
    apart = winners
    if preferences == "share" and is_soft.any():
        apart = replace(winners, preference=1.0 - np.where(is_soft, pref, share))
    return CodedBattles(
        matches=apart.averaged_over_samples(),
        apart=apart,
        winners=winners,
        n_ties=int((outcome == 0).sum()),
        n_inconsistent=int(np.count_nonzero(table.column("inconsistent").to_numpy())),
        n_without_prompt=int(table.column("question_id").null_count),
        n_weighted=int((weight != 1.0).sum()),
        n_repeated=_count_repeated(table, prompt_index, model_a, model_b, len(names)),
        n_soft=int(is_soft.sum()),
    )


def _refuse_far_weights(weight: NDArray[np.float64]) -> None:
    """Refuse weights so far apart that the smaller ones are lost in rounding."""
    if weight.size and weight.max() > _WIDEST_WEIGHTS * weight.min():
        raise InputError(
            f"the weights of the battles go from {weight.min():g} to {weight.max():g}; expected "
            f"none more than {_WIDEST_WEIGHTS:g} times another"
        )


def _code_prompts(table: pa.Table) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the prompts, sorted, and the prompt of every battle; one of its own if it has none."""
    column = table.column("question_id")
    encoded = pa.chunked_array([column.combine_chunks()], pa.string()).dictionary_encode()
    if not encoded.num_chunks:
        return (), np.zeros(0, dtype=np.int64)
    codes, dictionary = encoded.chunk(0).indices, encoded.chunk(0).dictionary
    # Bytes of UTF-8 sort as the characters they stand for, which is how Python sorts texts.
    order = pc.sort_indices(dictionary)
    prompts = dictionary.take(order).to_pylist()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    absent = np.flatnonzero(codes.is_null().to_numpy(zero_copy_only=False))
    prompt_index = np.zeros(len(codes), dtype=np.int64)
    if len(prompts):
        prompt_index = rank[codes.fill_null(0).to_numpy()]
    prompt_index[absent] = len(prompts) + np.arange(absent.size)
    prompts.extend(f"battle {row + 1}" for row in absent.tolist())
    return tuple(prompts), prompt_index


def _count_repeated(
    table: pa.Table,
    prompt_index: NDArray[np.int64],
    model_a: NDArray[np.int64],
    model_b: NDArray[np.int64],
    n_entrants: int,
) -> int:
    """Count the battles with all but the outcome in common with an earlier one."""
    keys = prompt_index * n_entrants + np.minimum(model_a, model_b)
    keys = keys * n_entrants + np.maximum(model_a, model_b)
    n_keys = (int(prompt_index.max(initial=0)) + 1) * n_entrants * n_entrants
    for name in ("judge_model", "presentation", "sample", "source", "turn"):
        column = table.column(name)
        if column.null_count == len(column):
            continue
        encoded = pa.chunked_array([column.combine_chunks()]).cast(pa.string()).dictionary_encode()
        codes, n_codes = encoded.chunk(0).indices, len(encoded.chunk(0).dictionary) + 1
        if n_keys > _LARGEST_KEY // n_codes:
            keys = np.unique(keys, return_inverse=True)[1]
            n_keys = keys.size
        keys = keys * n_codes + codes.fill_null(n_codes - 1).to_numpy()
        n_keys *= n_codes
    keys = np.sort(keys)
    return int((keys[1:] == keys[:-1]).sum())
