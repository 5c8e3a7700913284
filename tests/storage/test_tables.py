import gc
import io
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rows import table_of, table_rows, typed_rows, verdict_row
from tournament_assets.foundation.fingerprints import fingerprint_bytes
from tournament_assets.graph.table import ASSETS
from tournament_assets.ratings.elo_traces import EloTraces
from tournament_assets.storage.atomic_files import write_atomically
from tournament_assets.storage.tables import (
    StoredTable,
    WrittenTable,
    columns_of,
    content_version,
    decode_npz,
    decode_parquet,
    derive_schema,
    encode_npz,
    encode_parquet,
    join_pairs,
    make_table,
    pair_key,
    rows_of,
    write_table,
)
from tournament_assets.tournament.asset_rows import (
    ReportPageRow,
    ResponseRow,
    VerdictRow,
)
from tournament_assets.tournament.prompts import Prompt

RESPONSE: dict[str, Any] = {
    "entrant_id": "ada",
    "prompt_id": "p1",
    "sample": 1,
    "response": "Ja: 5 µg – täglich 😀",
    "finish_reason": "stop",
    "prompt_tokens": 7,
    "response_tokens": None,
    "diagnostics": "{}",
}
PROMPT = {
    "prompt_id": "p1",
    "text": "Which?",
    "source": "recall",
    "subject": None,
    "gold_answer": "C",
    "expected_behavior": None,
    "category": None,
    "tags": ["a", "b"],
    "extra": "{}",
}

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): _texts,
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.list_(pa.string()): st.lists(_texts, max_size=3),
    pa.list_(pa.float64()): st.lists(st.floats(allow_nan=False), max_size=3),
}


def _rows_of(row_type: type) -> st.SearchStrategy[list[dict[str, Any]]]:
    columns = {}
    for column, field in zip(columns_of(row_type), derive_schema(row_type), strict=True):
        value = st.sampled_from(column.words) if column.words else _VALUES[field.type]
        columns[column.name] = (st.none() | value) if column.is_nullable else value
    return st.lists(st.fixed_dictionaries(columns), max_size=4)


ROW_TYPES = [*dict.fromkeys(row.row_type for row in ASSETS if row.is_table)]
tables = st.sampled_from(ROW_TYPES).flatmap(
    lambda row_type: st.tuples(st.just(row_type), _rows_of(row_type))
)


@given(tables)
def test_every_table_comes_back_from_parquet_as_it_was(
    table: tuple[type, list[dict[str, Any]]],
) -> None:
    row_type, rows = table
    frame = table_of(row_type, rows)
    assert table_rows(row_type, frame) == rows
    read = decode_parquet(row_type, encode_parquet(row_type, frame))
    assert table_rows(row_type, read) == rows
    assert content_version(row_type, read) == content_version(row_type, frame)
    assert encode_parquet(row_type, read) == encode_parquet(row_type, frame)


def test_an_absent_number_stays_absent_and_an_integer_stays_an_integer() -> None:
    frame = table_of(ResponseRow, [RESPONSE, {**RESPONSE, "response_tokens": 2**53 + 1}])
    read = decode_parquet(ResponseRow, encode_parquet(ResponseRow, frame))
    assert [row["response_tokens"] for row in table_rows(ResponseRow, read)] == [
        None,
        9007199254740993,
    ]
    assert all(type(row["prompt_tokens"]) is int for row in table_rows(ResponseRow, read))


def test_a_column_that_may_be_absent_need_not_be_given() -> None:
    rows = [{key: value for key, value in RESPONSE.items() if value is not None}]
    assert table_rows(ResponseRow, table_of(ResponseRow, rows)) == [RESPONSE]


@pytest.mark.parametrize("missing", [{"response": None}, {"entrant_id": None}])
def test_a_column_that_may_not_be_absent_is_refused_without_a_value(
    missing: dict[str, None],
) -> None:
    (column,) = missing
    with pytest.raises(ValueError, match=f"'{column}'"):
        table_of(ResponseRow, [RESPONSE, {**RESPONSE, **missing}])


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises((ValueError, TypeError)):
        table_of(ResponseRow, [{**RESPONSE, "prompt_tokens": "many"}])


def test_a_frame_with_other_columns_is_not_stored() -> None:
    frame = table_of(ResponseRow, [RESPONSE])
    with pytest.raises(ValueError, match=r"ResponseRow.*columns"):
        encode_parquet(ResponseRow, frame.drop(columns="response"))


def test_a_value_lost_on_the_way_is_not_stored() -> None:
    frame = table_of(ResponseRow, [RESPONSE, RESPONSE])
    frame.loc[1, "response"] = pd.NA
    with pytest.raises(ValueError, match=r"response:.*non-nullable"):
        encode_parquet(ResponseRow, frame)


def test_a_file_of_another_version_says_what_to_do() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"entrant_id": ["ada"]}), buffer)
    with pytest.raises(ValueError, match="materialise the asset"):
        decode_parquet(ResponseRow, buffer.getvalue())


def test_filtered_and_sorted_rows_are_stored_without_their_index() -> None:
    rows = [{**RESPONSE, "prompt_id": prompt_id} for prompt_id in "cab"]
    frame = table_of(ResponseRow, rows).sort_values("prompt_id").iloc[1:]
    read = decode_parquet(ResponseRow, encode_parquet(ResponseRow, frame))
    assert list(read["prompt_id"]) == ["b", "c"]
    assert list(read.columns) == list(RESPONSE)


def test_numbers_computed_with_numpy_are_plain_values_afterwards() -> None:
    rows = [{**RESPONSE, "prompt_tokens": np.int64(7), "response_tokens": np.int64(3)}]
    (row,) = table_rows(ResponseRow, table_of(ResponseRow, rows))
    assert (row["prompt_tokens"], row["response_tokens"]) == (7, 3)
    assert type(row["response_tokens"]) is int


def test_how_long_a_response_took_is_no_part_of_its_tables_version() -> None:
    untimed = {**RESPONSE, "diagnostics": '{"a": 1, "z": 2}'}
    timed = {**RESPONSE, "diagnostics": '{"a": 1, "seconds": 2.5, "z": 2}'}
    other = {**RESPONSE, "diagnostics": '{"a": 2, "seconds": 2.5, "z": 2}'}
    versions = [
        content_version(ResponseRow, table_of(ResponseRow, [row]))
        for row in (untimed, timed, other)
    ]
    assert versions[0] == versions[1] != versions[2]


def test_the_version_of_a_table_follows_its_contents_and_their_order() -> None:
    other = {**RESPONSE, "prompt_id": "p2"}
    version = content_version(ResponseRow, table_of(ResponseRow, [RESPONSE]))
    both = table_of(ResponseRow, [RESPONSE, other])
    reversed_rows = table_of(ResponseRow, [other, RESPONSE])
    assert content_version(ResponseRow, both.iloc[:1]) == version
    assert content_version(ResponseRow, both) != version
    assert content_version(ResponseRow, reversed_rows) != content_version(ResponseRow, both)
    empty = table_of(ResponseRow, [])
    assert content_version(ResponseRow, empty) != version


def test_lists_are_lists_again() -> None:
    frame = table_of(Prompt, [PROMPT, {**PROMPT, "tags": []}])
    read = decode_parquet(Prompt, encode_parquet(Prompt, frame))
    assert [row["tags"] for row in table_rows(Prompt, read)] == [["a", "b"], []]


@pytest.mark.parametrize("row_type", ROW_TYPES)
def test_every_column_says_what_it_holds(row_type: type) -> None:
    for field in derive_schema(row_type):
        assert field.metadata[b"description"], field.name


def test_equal_tables_give_equal_bytes_however_they_were_made() -> None:
    rows = [{**RESPONSE, "response_tokens": tokens} for tokens in (None, 3, None, 4)]
    made = table_of(ResponseRow, rows)
    joined = pd.concat([table_of(ResponseRow, rows[:1]), table_of(ResponseRow, rows[1:])])
    sliced = table_of(ResponseRow, [RESPONSE, *rows, RESPONSE]).iloc[1:5]
    for frame in (joined, sliced):
        assert content_version(ResponseRow, frame) == content_version(ResponseRow, made)
        assert encode_parquet(ResponseRow, frame) == encode_parquet(ResponseRow, made)


def _verdicts(n_pairs: int) -> Iterator[VerdictRow]:
    for number in range(n_pairs):
        yield verdict_row(
            f"p{number // 3}",
            entrant_a=("ada", "ada", "bob")[number % 3],
            entrant_b=("bob", "cyd", "cyd")[number % 3],
            request_key_ab=f"{number:064d}",
            request_key_ba=f"{number:064x}",
        )


def _stored(folder: Path, written: WrittenTable[Any]) -> StoredTable:
    path = folder / "table.parquet"
    write_atomically(path, written.content.copy_to)
    return StoredTable(written.row_type, path)


@pytest.mark.parametrize("n_rows", [0, 1, 20_000])
def test_a_table_written_row_by_row_is_the_table_of_its_rows(n_rows: int, tmp_path: Path) -> None:
    frame = make_table(VerdictRow, list(_verdicts(n_rows)))
    written = write_table(VerdictRow, _verdicts(n_rows))
    assert written.version == content_version(VerdictRow, frame)
    stored = _stored(tmp_path, written)
    assert len(stored) == len(written) == n_rows
    assert content_version(VerdictRow, stored) == written.version
    assert table_rows(VerdictRow, stored) == table_rows(VerdictRow, frame)
    pd.testing.assert_frame_equal(stored.frame(), frame)


def test_the_version_of_a_small_table_is_the_hash_of_one_arrow_stream() -> None:
    frame = make_table(VerdictRow, list(_verdicts(100)))
    plain = pa.schema([field.remove_metadata() for field in derive_schema(VerdictRow)])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, plain) as stream:
        stream.write_table(pa.Table.from_pylist(table_rows(VerdictRow, frame), schema=plain))
    assert content_version(VerdictRow, frame) == fingerprint_bytes(sink.getvalue())


def test_only_a_part_of_the_rows_exists_at_a_time_on_the_way_through_a_file(
    tmp_path: Path,
) -> None:
    def alive() -> int:
        return sum(type(each) is VerdictRow for each in gc.get_objects())

    before, most = alive(), 0  # what other tests hold is none of this one's

    def counted() -> Iterator[VerdictRow]:
        nonlocal most
        for number, row in enumerate(_verdicts(40_000)):
            if number % 10_000 == 7_999:  # each look goes through all objects of this process
                most = max(most, alive() - before)
            yield row

    stored = _stored(tmp_path, write_table(VerdictRow, counted()))
    assert 1_000 < most <= 10_000
    assert max(batch.num_rows for batch in stored.batches()) <= 2_000


def test_a_few_columns_are_read_without_the_others(tmp_path: Path) -> None:
    stored = _stored(tmp_path, write_table(VerdictRow, _verdicts(2)))
    wanted = ("outcome", "prompt_id")
    assert [batch.schema.names for batch in stored.batches(wanted)] == [list(wanted)]


def test_a_table_is_read_as_it_was_when_its_file_is_replaced_meanwhile(tmp_path: Path) -> None:
    stored = _stored(tmp_path, write_table(VerdictRow, _verdicts(3_000)))
    reading = rows_of(VerdictRow, stored)
    first = next(reading)
    _stored(tmp_path, write_table(VerdictRow, _verdicts(1)))
    assert [first, *reading] == list(_verdicts(3_000))


def test_a_row_of_another_shape_is_refused_wherever_it_comes() -> None:
    rows: list[Any] = [*_verdicts(9_000), ReportPageRow(format="md", content="good")]
    with pytest.raises(TypeError, match="ReportPageRow; expected VerdictRow"):
        write_table(VerdictRow, rows)


def test_pages_of_a_report_are_read_one_after_another(tmp_path: Path) -> None:
    pages = [
        ReportPageRow(format=f"{number}.html", content="x" * 20_000_000) for number in range(4)
    ]
    stored = _stored(tmp_path, write_table(ReportPageRow, pages))
    assert [batch.num_rows for batch in stored.batches()] == [1, 1, 1, 1]


def test_of_many_pages_a_few_are_in_memory_when_they_are_written_and_when_they_are_read(
    tmp_path: Path,
) -> None:
    size, n_pages = 2_000_000, 12
    usual = pa.default_memory_pool()
    watched = pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(watched)
    tracemalloc.start()
    try:
        stored = _stored(
            tmp_path,
            write_table(
                ReportPageRow,
                (ReportPageRow(format=str(n), content=chr(97 + n) * size) for n in range(n_pages)),
            ),
        )
        assert sum(len(row.content) for row in rows_of(ReportPageRow, stored)) == size * n_pages
        _, most_traced = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert watched.max_memory() < 6 * size
    assert most_traced < 6 * size


def test_rows_about_one_pair_are_joined_in_any_order_of_pairs() -> None:
    pairs = list(_verdicts(6))
    replies = [_PairReply(*pair_key(row), n) for row in pairs for n in (1, 2)]
    joined = [(pair_key(row), [each.n for each in own]) for row, own in join_pairs(pairs, replies)]
    assert joined == [(pair_key(row), [1, 2]) for row in pairs]
    late = [*replies[4:], *replies[:4]]
    assert list(join_pairs(pairs, late)) == list(join_pairs(pairs, replies))
    (first, *_, last) = join_pairs(pairs, replies[2:])
    assert (first[1], len(last[1])) == ([], 2)


@dataclass(frozen=True)
class _PairReply:
    prompt_id: str
    sample: int
    entrant_a: str
    entrant_b: str
    n: int


@given(tables)
def test_rows_of_a_class_come_back_as_they_were(table: tuple[type, list[dict[str, Any]]]) -> None:
    row_type, mappings = table
    rows = typed_rows(row_type, mappings)
    assert list(rows_of(row_type, make_table(row_type, rows))) == rows


@dataclass(frozen=True)
class _Answer:
    response: str


def test_a_narrower_class_reads_its_own_columns_alone(tmp_path: Path) -> None:
    rows = [ResponseRow(**RESPONSE)]
    stored = _stored(tmp_path, write_table(ResponseRow, rows))
    assert list(rows_of(_Answer, stored)) == [_Answer(str(RESPONSE["response"]))]
    assert list(rows_of(_Answer, make_table(ResponseRow, rows))) == [
        _Answer(str(RESPONSE["response"]))
    ]
    with pytest.raises(ValueError, match=r"\['response'\]"):
        list(rows_of(_Answer, table_of(Prompt, [PROMPT])))


def test_a_row_of_another_table_is_refused() -> None:
    with pytest.raises(TypeError, match="ResponseRow; expected Prompt"):
        make_table(Prompt, [ResponseRow(**RESPONSE)])


def test_a_type_that_no_column_has_is_refused() -> None:
    with pytest.raises(TypeError, match=r"'when'.*complex"):
        derive_schema(make_dataclass("Odd", [("when", complex)]))


def traces(*entrants: str, seed: int = 7) -> EloTraces:
    generator = np.random.default_rng(seed)
    return EloTraces(
        entrants=entrants,
        ratings=1400 + generator.normal(size=(3, len(entrants))),
        matches_per_entrant=np.arange(len(entrants), dtype=np.int64),
        k_factor=16.0,
        seed=seed,
        initial_rating=1400.0,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), max_size=5))
def test_traces_come_back_as_they_were_stored(entrants: list[str]) -> None:
    stored = traces(*entrants)
    read = decode_npz(encode_npz(stored))
    assert read.entrants == stored.entrants
    np.testing.assert_array_equal(read.ratings, stored.ratings)
    np.testing.assert_array_equal(read.matches_per_entrant, stored.matches_per_entrant)
    assert read.ratings.dtype == np.float64
    assert read.matches_per_entrant.dtype == np.int64
    assert (read.k_factor, read.seed, read.initial_rating) == (16.0, 7, 1400.0)
    assert read.n_matches == stored.n_matches


def test_equal_traces_give_equal_bytes() -> None:
    assert encode_npz(traces("ada", "bob")) == encode_npz(traces("ada", "bob"))
    assert encode_npz(traces("ada", "bob")) != encode_npz(traces("ada", "bob", seed=8))


def test_nothing_is_ever_unpickled() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, entrants=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        decode_npz(buffer.getvalue())
