"""Writing battles column by column, to Parquet or to JSON lines."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tournament_assets.adapters.battle_files.columns import BATTLE_SCHEMA, DEFAULTS
from tournament_assets.adapters.battle_files.files import new_file
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.rating_settings import RatingSettings

SETTINGS_KEY = "rating_settings"
"""Where a file keeps its `RatingSettings`: in Parquet's schema metadata, or in the first line."""

RARE_FIELDS = frozenset({"dimension", "weight", "pref", "turn", "presentation"})
"""Fields that a line of JSON has only where they say something."""

_ROWS_AT_ONCE = 65_536
_ROWS_PER_GROUP = 262_144


def write_columns(
    path: Path,
    table: pa.Table,
    *,
    names: Mapping[str, str],
    settings: RatingSettings | None = None,
) -> None:
    """Write a new file, Parquet or JSON lines by its name; equal tables give equal bytes.

    Args:
        path: A name that ends in .parquet or .jsonl.
        table: The battles.
        names: What the file calls each field that it keeps.
        settings: Kept in the file.

    Raises:
        InputError: If the file is there already, or its name ends in something else.
    """
    writers = {".parquet": write_parquet, ".jsonl": write_lines}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise InputError(
            f"{path}: the name ends in {path.suffix!r}; expected .parquet or .jsonl, which says "
            "how to write the battles"
        )
    with new_file(path) as file:
        writer(file, table, names=names, settings=settings)


def write_parquet(
    file: IO[bytes], table: pa.Table, *, names: Mapping[str, str], settings: RatingSettings | None
) -> None:
    """Write battles as Parquet, with the settings in the schema's metadata."""
    metadata = {SETTINGS_KEY: json.dumps(settings.to_dict())} if settings else None
    kept = table.select(list(names)).rename_columns(list(names.values()))
    pq.write_table(
        kept.replace_schema_metadata(metadata),
        file,
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
    )


def write_lines(
    file: IO[bytes], table: pa.Table, *, names: Mapping[str, str], settings: RatingSettings | None
) -> None:
    """Write one battle a line, with the settings as one more key of the first line.

    Whoever ignores unknown keys reads such a file as any other. Without a battle there is no line
    to keep the settings in.
    """
    is_first = True
    for batch in table.select(list(names)).to_batches(max_chunksize=_ROWS_AT_ONCE):
        if not batch.num_rows:
            continue
        lines = _lines(batch, names)
        if is_first and settings is not None:
            more = json.dumps({SETTINGS_KEY: settings.to_dict()}, ensure_ascii=False)
            lines[0] = f"{lines[0][:-1]}, {more[1:]}"
        is_first = False
        file.write("\n".join([*lines, ""]).encode())


def _lines(batch: pa.RecordBatch, names: Mapping[str, str]) -> list[str]:
    pieces = [pa.scalar("{")]
    for number, (field, name) in enumerate(names.items()):
        comma = ", " if number else ""
        pieces.append(_pieces(batch.column(field), field, f"{comma}{json.dumps(name)}: "))
    lines: list[str] = pc.binary_join_element_wise(*pieces, pa.scalar("}"), "").to_pylist()
    return lines


def _pieces(column: pa.Array, field: str, key: str) -> pa.Array:
    """Write a column's values as JSON, each different value once."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    is_rare = field in RARE_FIELDS
    texts = ["" if is_rare and _is_default(v, field) else key + text for v, text in _dump(values)]
    absent = "" if is_rare else f"{key}null"
    codes = encoded.indices.fill_null(len(values))
    return pa.array([*texts, absent], pa.string()).take(codes)


def _dump(values: list[Any]) -> Iterator[tuple[Any, str]]:
    dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    return ((value, dump(value)) for value in values)


def _is_default(value: object, field: str) -> bool:
    return value == DEFAULTS.get(field)


ALL_FIELDS: Mapping[str, str] = {name: name for name in BATTLE_SCHEMA.names}
"""Every field by its own name."""
