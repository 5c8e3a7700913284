"""Tests of the reader of other tools' tables."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.foreign_tables import LeftOut, Row, TableReader

_CELLS = st.one_of(
    st.none(), st.sampled_from(["", "a", "b", 0, 1.5, False]), st.just([]), st.just(["a"])
)
_NAMES = ("prompt", "answer", "input", "label", "ID")


def _unused(rows: list[dict[str, object]], used: set[str]) -> dict[str, int]:
    """Count column by column, as nobody would for a large table."""
    unused = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [row[name] for row in rows if row.get(name) not in (None, "", [], {})]
        is_known = name in used or name.lower() in {"id", "model"}
        if len({repr(cell) for cell in cells}) > 1 and not is_known:
            unused[name] = len(cells)
    return unused


@given(
    st.lists(st.dictionaries(st.sampled_from(_NAMES), _CELLS), min_size=1, max_size=8),
    st.sets(st.sampled_from(_NAMES)),
    st.sets(st.sampled_from(_NAMES)),
)
def test_every_column_is_read_known_or_named(
    rows: list[dict[str, object]], read: set[str], known: set[str]
) -> None:
    reader = TableReader(known)

    def parse(_: str, row: Row) -> Iterable[int]:
        yield sum(row.get(name) is not None for name in read)

    filled = [sum(row.get(name) is not None for name in read) for row in rows]
    assert list(reader.values([("t:1", row) for row in rows], parse)) == filled
    assert reader.unused == _unused(rows, read | known)
    assert all(name in reader.note for name in reader.unused)


def test_a_column_that_is_read_late_counts_as_used() -> None:
    reader = TableReader()
    rows = [reader.watch({"a": text, "b": text}) for text in "xy"]
    assert reader.unused == {"a": 2, "b": 2}
    assert [row["a"] for row in rows] == ["x", "y"]
    assert reader.note == "not used: b (2 of 2 filled)"


def test_rows_that_are_left_out_are_counted_and_all_problems_come_at_once() -> None:
    reader = TableReader()

    def parse(_: str, row: Row) -> Iterable[object]:
        if row["a"] % 10 == 3:
            raise InputError(f"a is {row['a']}")
        yield LeftOut("even") if row["a"] % 2 == 0 else row["a"]

    rows = [(f"t:{number}", {"a": number}) for number in (1, 2, 4, 3, 13)]
    with pytest.raises(InputError, match="t:3: a is 3") as caught:
        list(reader.values(rows, parse))
    assert len(caught.value.problems) == 2
    assert reader.left_out == {"even": 2}


def test_a_part_of_a_table_is_said_to_be_one() -> None:
    reader = TableReader()
    reader.look_at((("t", {"a": number}) for number in range(5)), at_most=3)
    assert reader.note == "not used: a (3 of the first 3 filled)"
