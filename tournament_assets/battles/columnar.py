"""Files with one battle per row and one value per column, read column by column, part by part.

From the first doubtful part on a file is read row by row instead, which reports every problem with
its place. A pandas frame is read alike.

Writing battles column by column, to Parquet or to JSON lines.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.json as pj

from tournament_assets.battles.columns import (
    BATTLE_SCHEMA,
    DEFAULTS,
    battle_parts,
    constant,
    name_codes,
    plain_type,
)
from tournament_assets.battles.files import (
    ANONYMOUS,
    NAMED,
    SELF,
    battle_of,
    battle_rows,
    new_file,
    reason_against,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.json_lines import Json
from tournament_assets.storage.foreign_tables import LeftOut, Row, TableReader
from tournament_assets.storage.row_files import (
    FileSample,
    arrow_parquet,
    csv_layout,
    parquet_schema,
)
from tournament_assets.tournament.battles import (
    PRESENTATIONS,
    SOURCES,
    WINNERS,
    Battle,
    BattleSource,
    RatingSettings,
)

if TYPE_CHECKING:
    import pandas as pd

NO_VERDICT = "no verdict"
"""Why a row without a winner is left out."""

_WINNER_ALIASES = {"both_bad": "tie (bothbad)"}
_BLOCK_BYTES = 16 * 2**20
_ROWS_AT_ONCE = 65_536


class _DoubtfulError(Exception):
    """A part of a file that has to be read row by row."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a format keeps the values of a battle.

    Of the names that a field may have the first with a value counts; `source` is who decided where
    the row does not say.
    """

    names: Mapping[str, tuple[str, ...]]
    source: BattleSource | None

    @property
    def wanted(self) -> list[str]:
        """Every name that a column may have."""
        return [name for names in self.names.values() for name in names] + [ANONYMOUS]


def column_parts(
    path: Path, sample: FileSample, columns: Columns, left_out: Counter[str]
) -> Iterator[pa.Table]:
    """Yield the battles of a file of any kind a part at a time.

    Columns of which a part has nothing may be absent.

    Args:
        sample: The file's beginning.
        columns: Where the values are.
        left_out: Counts what is no battle, by the reason.

    Raises:
        InputError: After the last part, with everything that is wrong with the file.
    """
    readers = {"parquet": _parquet_parts, "json lines": _json_parts, "csv": _csv_parts}
    arrow = readers.get(sample.kind)
    return _checked_parts(
        None if arrow is None else arrow(path, sample, columns),
        lambda: battle_rows(path, sample.kind, columns=columns.wanted),
        columns,
        left_out,
    )


def frame_parts(
    frame: "pd.DataFrame", columns: Columns, left_out: Counter[str]
) -> Iterator[pa.Table]:
    """Yield the battles of a pandas frame, which has one a row; see `column_parts`."""
    battles = frame[[name for name in frame.columns if name in set(columns.wanted)]]
    if repeated := sorted(set(battles.columns[battles.columns.duplicated()])):
        raise InputError(
            f"the frame has the column {name!r} more than once; expected it once; rename or drop "
            "the others"
            for name in repeated
        )
    # Without a value somewhere, whole numbers come as floats.
    whole = [name for name in ("question_id", "sample", "turn") if name in battles.columns]
    battles = battles.assign(**{name: battles[name].convert_dtypes() for name in whole})

    def rows() -> Iterator[tuple[str, object]]:
        present = battles.astype(object).where(battles.notna(), None)
        labels = (f"row {label!r}" for label in present.index.tolist())
        return zip(labels, present.to_dict("records"), strict=True)

    arrow = (pa.Table.from_pandas(each, preserve_index=False) for each in (battles,))
    return _checked_parts(arrow, rows, columns, left_out)


def _checked_parts(
    arrow: Iterator[pa.Table] | None,
    rows: Callable[[], Iterable[tuple[str, object]]],
    columns: Columns,
    left_out: Counter[str],
) -> Iterator[pa.Table]:
    """Yield the battles of parts, and from the first doubtful part on those of single rows.

    Args:
        arrow: The parts; None where there are only rows.
        rows: Returns all rows, with their places.
    """
    n_read = 0
    while arrow is not None:
        omitted: Counter[str] = Counter()
        try:
            part = next(arrow, None)
            if part is None:
                return
            battles = _standard_part(part, columns, omitted)
        except (_DoubtfulError, pa.ArrowException, OSError):
            break
        n_read += part.num_rows
        left_out.update(omitted)
        yield battles
    reader = TableReader()
    remaining = islice(rows(), n_read, None)
    yield from battle_parts(reader.values(remaining, lambda _, row: _parse(row, columns)))
    left_out.update(reader.left_out)


def _parse(row: Row, columns: Columns) -> Iterable[Battle | LeftOut]:
    values: dict[str, Json] = {
        field: next((row[name] for name in names if row.get(name) is not None), None)
        for field, names in columns.names.items()
    }
    winner = values["winner"]
    values["winner"] = _WINNER_ALIASES.get(winner, winner) if isinstance(winner, str) else winner
    if values.get("source") is None:
        values["source"] = columns.source
    if (reason := reason_against(row)) is not None:
        return [LeftOut(reason)]
    if winner is None and values["model_a"] is not None and values["model_b"] is not None:
        return [LeftOut(NO_VERDICT)]
    return [battle_of(values)]


def _json_parts(path: Path, sample: FileSample, columns: Columns) -> Iterator[pa.Table]:
    kinds = {field.name: plain_type(field.type) for field in BATTLE_SCHEMA}
    schema = pa.schema(
        [
            # Arrow must be told whether an id is a number; a file with both is read row by row.
            (name, pa.int64() if type(sample.first.get(name)) is int else kinds[field])
            if field == "question_id"
            else (name, kinds[field])
            for field, names in columns.names.items()
            for name in names
        ]
        + [(ANONYMOUS, pa.bool_())]
    )
    reader = pj.open_json(
        path,
        read_options=pj.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _parquet_parts(path: Path, _: FileSample, columns: Columns) -> Iterator[pa.Table]:
    pq = arrow_parquet()
    schema = parquet_schema(path)
    present = [name for name in columns.wanted if name in schema.names]
    few = {name for field, names in columns.names.items() for name in names if _is_name(field)}
    as_dictionary = [name for name in present if name in few and _is_text(schema.field(name).type)]
    with pq.ParquetFile(path, read_dictionary=as_dictionary) as file:
        for batch in file.iter_batches(
            batch_size=_ROWS_AT_ONCE, columns=present, use_threads=False
        ):
            yield pa.Table.from_batches([batch])


def _csv_parts(path: Path, _: FileSample, columns: Columns) -> Iterator[pa.Table]:
    layout = csv_layout(path)
    if layout.encoding != "utf-8-sig":
        raise _DoubtfulError
    present = [name for name in columns.wanted if name in layout.names]
    reader = pcsv.open_csv(
        path,
        read_options=pcsv.ReadOptions(
            column_names=layout.names, skip_rows=layout.skipped + 1, block_size=_BLOCK_BYTES
        ),
        parse_options=pcsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True),
        convert_options=pcsv.ConvertOptions(
            include_columns=present,
            column_types=dict.fromkeys(present, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
        ),
    )
    for batch in reader:
        yield pa.Table.from_batches([batch])


def _is_name(field: str) -> bool:
    return bool(pa.types.is_dictionary(BATTLE_SCHEMA.field(field).type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _standard_part(part: pa.Table, columns: Columns, left_out: Counter[str]) -> pa.Table:
    """Return the battles of a part, and count what is left out, by the reason.

    Raises:
        _DoubtfulError: If any battle might be wrong.
    """

    def keep(battles: pa.Table, is_battle: pa.Array, reason: str) -> pa.Table:
        if n_others := battles.num_rows - pc.sum(is_battle, min_count=0).as_py():
            left_out[reason] += n_others
            return battles.filter(is_battle)
        return battles

    votes = part
    if ANONYMOUS in part.schema.names:
        is_anonymous = part.column(ANONYMOUS)
        if not (pa.types.is_boolean(is_anonymous.type) or pa.types.is_null(is_anonymous.type)):
            raise _DoubtfulError
        votes = keep(part, pc.fill_null(is_anonymous.cast(pa.bool_()), fill_value=True), NAMED)
    battles = _standard(votes, columns)
    battles = keep(battles, pc.is_valid(battles.column("winner")), NO_VERDICT)
    place_of = {name: place for place, name in enumerate(dict.fromkeys(_names(battles, "model_a")))}
    is_fight = name_codes(battles, "model_a", place_of) != name_codes(battles, "model_b", place_of)
    if not is_fight.all():
        battles = keep(battles, pa.array(is_fight), SELF)
    _doubt(battles)
    return battles


_NEEDED = frozenset({"model_a", "model_b", "winner", "source", "question_id"})


def _standard(part: pa.Table, columns: Columns) -> pa.Table:
    """Return the fields of a battle, names as dictionaries, winners still absent where they are.

    Those of which the part has nothing are left out unless every battle needs a value.
    """
    arrays = {}
    for field in BATTLE_SCHEMA:
        present = [name for name in columns.names.get(field.name, ()) if name in part.schema.names]
        if not present and field.name not in _NEEDED:
            continue
        values = [_typed(part.column(name), field) for name in present]
        first, *others = values or [pa.nulls(part.num_rows, field.type)]
        array = pc.coalesce(first, *others) if others and first.null_count else first
        if field.name == "winner":
            array = _renamed(array)
        default = columns.source if field.name == "source" else DEFAULTS.get(field.name)
        if default is not None and array.null_count:
            array = _filled(array, default, field)
        if not field.nullable and field.name != "winner" and array.null_count:
            raise _DoubtfulError
        arrays[field.name] = array
    return pa.table(arrays)


def _typed(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else column.type.empty()
    array.validate(full=True)  # Arrow reads bytes that are no UTF-8 as if they were
    plain, kind = plain_type(field.type), plain_type(array.type)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), field.type)
    kinds = {
        "question_id": _is_text(kind) or pa.types.is_integer(kind),
        "sample": pa.types.is_integer(kind),
        "turn": pa.types.is_integer(kind),
        "inconsistent": pa.types.is_boolean(kind),
    }
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not kinds.get(field.name, _is_text(kind) if _is_text(plain) else is_number):
        raise _DoubtfulError
    if _is_name(field.name):
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        return encoded.cast(field.type)
    return array.cast(field.type)


def _filled(array: pa.Array, default: object, field: pa.Field) -> pa.Array:
    if array.null_count == len(array):
        return constant(default, field.type, len(array))
    filled = array.cast(plain_type(field.type)).fill_null(default)
    return filled.dictionary_encode() if _is_name(field.name) else filled


def _renamed(winners: pa.DictionaryArray) -> pa.DictionaryArray:
    names = winners.dictionary.to_pylist()
    if not set(names) & _WINNER_ALIASES.keys():
        return winners
    renamed = pa.array([_WINNER_ALIASES.get(name, name) for name in names], pa.string())
    # The new name may be there already, and a dictionary must not hold it twice.
    return renamed.take(winners.indices).dictionary_encode()


def _doubt(battles: pa.Table) -> None:
    """Refuse to vouch for a part in which any battle might be wrong."""
    present = {name: battles.column(name) for name in battles.column_names}
    for name, words in (("winner", WINNERS), ("source", SOURCES), ("presentation", PRESENTATIONS)):
        if name in present and set(_names(battles, name)) - set(words):
            raise _DoubtfulError
    for name in ("model_a", "model_b", "judge_model", "dimension"):
        if name in present and not all(map(str.strip, _names(battles, name))):
            raise _DoubtfulError
    doubts = [
        pc.min(pc.binary_length(present["question_id"])).as_py() == 0,
        pc.any(pc.utf8_is_space(present["question_id"])).as_py(),
        *(pc.any(pc.less(present[name], 1)).as_py() for name in {"turn", "sample"} & {*present}),
    ]
    if "weight" in present:
        weight = present["weight"].to_numpy()
        doubts.append(not (np.isfinite(weight) & (weight > 0.0)).all())
    # 1 where model_a won, 2 where model_b did.
    outcome = name_codes(battles, "winner", {name: n for n, name in enumerate(WINNERS, start=1)})
    if "inconsistent" in present:
        doubts.append((present["inconsistent"].to_numpy() & (outcome <= 2)).any())
    if "pref" in present and present["pref"].null_count < battles.num_rows:
        pref = present["pref"]
        has_pref = pref.is_valid().to_numpy()
        preference, of_winner = pref.to_numpy()[has_pref], outcome[has_pref]
        doubts += [
            not ((preference >= 0.0) & (preference <= 1.0)).all(),
            ((of_winner == 1) & (preference > 0.5)).any(),
            ((of_winner == 2) & (preference < 0.5)).any(),
        ]
    if any(doubts):
        raise _DoubtfulError


def _names(battles: pa.Table, name: str) -> Iterator[str]:
    for chunk in battles.column(name).chunks:
        yield from (each for each in chunk.dictionary.to_pylist() if each is not None)


SETTINGS_KEY = "rating_settings"
"""Where a file keeps its `RatingSettings`: in Parquet's schema metadata, or in the first line."""

RARE_FIELDS = frozenset({"sample", "dimension", "weight", "pref", "turn", "presentation"})
"""Fields that a line of JSON has only where they say something."""

_WRITTEN_AT_ONCE = 65_536
_ROWS_PER_GROUP = 262_144


def write_columns(
    path: Path, table: pa.Table, *, names: Mapping[str, str], settings: RatingSettings | None = None
) -> None:
    """Write a new file, Parquet or JSON lines by its name; equal tables give equal bytes.

    Args:
        path: A name that ends in .parquet or .jsonl.
        names: What the file calls each field that it keeps.
        settings: Kept in the file.
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


def write_csv(path: Path, table: pa.Table, *, names: Mapping[str, str]) -> None:
    """Write a new CSV file."""
    with new_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names.values())
        for part in table.select(list(names)).to_batches(max_chunksize=_WRITTEN_AT_ONCE):
            writer.writerows(zip(*(each.to_pylist() for each in part.columns), strict=True))
        text.detach()


def write_parquet(
    file: IO[bytes], table: pa.Table, *, names: Mapping[str, str], settings: RatingSettings | None
) -> None:
    """Write battles as Parquet, with the settings in the schema's metadata."""
    pq = arrow_parquet()
    metadata = {SETTINGS_KEY: json.dumps(settings.to_dict())} if settings else None
    columns = table.select(list(names)).rename_columns(list(names.values()))
    pq.write_table(
        columns.replace_schema_metadata(metadata),
        file,
        compression="zstd",
        row_group_size=_ROWS_PER_GROUP,
    )


def write_lines(
    file: IO[bytes], table: pa.Table, *, names: Mapping[str, str], settings: RatingSettings | None
) -> None:
    """Write one battle per line, with the settings as one more key of the first line.

    Whoever ignores unknown keys reads such a file as any other. Without a battle there is no line
    to keep the settings in.
    """
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    more = {} if settings is None else {SETTINGS_KEY: settings.to_dict()}
    for batch in table.select(list(names)).to_batches(max_chunksize=_WRITTEN_AT_ONCE):
        for battle in batch.to_pylist():
            record = {
                names[field]: value
                for field, value in battle.items()
                if field not in RARE_FIELDS or value not in (None, DEFAULTS.get(field))
            }
            file.write(f"{encode({**record, **more})}\n".encode())
            more = {}


ALL_FIELDS: Mapping[str, str] = {name: name for name in BATTLE_SCHEMA.names}
"""Every field by its own name."""
