import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.adapters.table_schemas import SCHEMAS
from tournament_assets.adapters.tables import (
    content_version,
    decode_parquet,
    encode_parquet,
    make_table,
    table_rows,
)

RESPONSE = {
    "entrant_id": "ada",
    "prompt_id": "p1",
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
}


def _rows_of(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    columns = {
        field.name: (st.none() | _VALUES[field.type]) if field.nullable else _VALUES[field.type]
        for field in SCHEMAS[name]
    }
    return st.lists(st.fixed_dictionaries(columns), max_size=4)


tables = st.sampled_from(sorted(SCHEMAS)).flatmap(
    lambda name: st.tuples(st.just(name), _rows_of(name))
)


@settings(deadline=None, max_examples=60)
@given(tables)
def test_every_table_comes_back_from_parquet_as_it_was(
    table: tuple[str, list[dict[str, Any]]],
) -> None:
    name, rows = table
    frame = make_table(name, rows)
    assert table_rows(name, frame) == rows
    read = decode_parquet(name, encode_parquet(name, frame))
    assert table_rows(name, read) == rows
    assert content_version(name, read) == content_version(name, frame)
    assert encode_parquet(name, read) == encode_parquet(name, frame)


def test_an_absent_number_stays_absent_and_an_integer_stays_an_integer() -> None:
    frame = make_table("entrant_responses", [RESPONSE, {**RESPONSE, "response_tokens": 2**53 + 1}])
    read = decode_parquet("entrant_responses", encode_parquet("entrant_responses", frame))
    assert [row["response_tokens"] for row in table_rows("entrant_responses", read)] == [
        None,
        9007199254740993,
    ]
    assert all(type(row["prompt_tokens"]) is int for row in table_rows("entrant_responses", read))


def test_a_column_that_may_be_absent_need_not_be_given() -> None:
    rows = [{key: value for key, value in RESPONSE.items() if value is not None}]
    assert table_rows("entrant_responses", make_table("entrant_responses", rows)) == [RESPONSE]


@pytest.mark.parametrize("missing", [{"response": None}, {"entrant_id": None}])
def test_a_column_that_may_not_be_absent_is_refused_without_a_value(
    missing: dict[str, None],
) -> None:
    (column,) = missing
    with pytest.raises(ValueError, match=f"has absent values in column '{column}'"):
        make_table("entrant_responses", [RESPONSE, {**RESPONSE, **missing}])


def test_a_column_that_nobody_declared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"table 'entrant_responses' has no column \['mood'\]"):
        make_table("entrant_responses", [{**RESPONSE, "mood": "good"}])


def test_a_value_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises((ValueError, TypeError)):
        make_table("entrant_responses", [{**RESPONSE, "prompt_tokens": "many"}])


def test_a_frame_with_other_columns_is_not_stored() -> None:
    frame = make_table("entrant_responses", [RESPONSE])
    with pytest.raises(ValueError, match=r"'entrant_responses' has columns .*; expected"):
        encode_parquet("entrant_responses", frame.drop(columns="response"))


def test_a_value_lost_on_the_way_is_not_stored() -> None:
    frame = make_table("entrant_responses", [RESPONSE, RESPONSE])
    frame.loc[1, "response"] = pd.NA
    with pytest.raises(ValueError, match=r"response: .* was non-nullable"):
        encode_parquet("entrant_responses", frame)


def test_a_file_of_another_version_says_what_to_do() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"entrant_id": ["ada"]}), buffer)
    with pytest.raises(ValueError, match="of another version: materialise the asset again"):
        decode_parquet("entrant_responses", buffer.getvalue())


def test_filtered_and_sorted_rows_are_stored_without_their_index() -> None:
    rows = [{**RESPONSE, "prompt_id": prompt_id} for prompt_id in "cab"]
    frame = make_table("entrant_responses", rows).sort_values("prompt_id").iloc[1:]
    read = decode_parquet("entrant_responses", encode_parquet("entrant_responses", frame))
    assert list(read["prompt_id"]) == ["b", "c"]
    assert list(read.columns) == list(RESPONSE)


def test_numbers_computed_with_numpy_are_plain_values_afterwards() -> None:
    rows = [{**RESPONSE, "prompt_tokens": np.int64(7), "response_tokens": np.int64(3)}]
    (row,) = table_rows("entrant_responses", make_table("entrant_responses", rows))
    assert (row["prompt_tokens"], row["response_tokens"]) == (7, 3)
    assert type(row["response_tokens"]) is int


def test_the_version_of_a_table_follows_its_contents_and_their_order() -> None:
    other = {**RESPONSE, "prompt_id": "p2"}
    version = content_version("entrant_responses", make_table("entrant_responses", [RESPONSE]))
    both = make_table("entrant_responses", [RESPONSE, other])
    reversed_rows = make_table("entrant_responses", [other, RESPONSE])
    assert content_version("entrant_responses", both.iloc[:1]) == version
    assert content_version("entrant_responses", both) != version
    assert content_version("entrant_responses", reversed_rows) != content_version(
        "entrant_responses", both
    )
    empty = make_table("entrant_responses", [])
    assert content_version("entrant_responses", empty) != version


def test_lists_are_lists_again() -> None:
    frame = make_table("prompt_bank", [PROMPT, {**PROMPT, "tags": []}])
    read = decode_parquet("prompt_bank", encode_parquet("prompt_bank", frame))
    assert [row["tags"] for row in table_rows("prompt_bank", read)] == [["a", "b"], []]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_column_says_what_it_holds(name: str) -> None:
    for field in SCHEMAS[name]:
        assert field.metadata[b"description"], field.name


def test_equal_tables_give_equal_bytes_however_they_were_made() -> None:
    rows = [{**RESPONSE, "response_tokens": tokens} for tokens in (None, 3, None, 4)]
    made = make_table("entrant_responses", rows)
    joined = pd.concat(
        [make_table("entrant_responses", rows[:1]), make_table("entrant_responses", rows[1:])]
    )
    sliced = make_table("entrant_responses", [RESPONSE, *rows, RESPONSE]).iloc[1:5]
    for frame in (joined, sliced):
        assert content_version("entrant_responses", frame) == content_version(
            "entrant_responses", made
        )
        assert encode_parquet("entrant_responses", frame) == encode_parquet(
            "entrant_responses", made
        )
