from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.reports.csv_tables import read_csv_table, write_csv_table
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import LeaderboardRow

NUMBER = st.none() | st.floats(allow_nan=False, allow_infinity=False)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,8}", fullmatch=True)
# A text of a cell: what a spreadsheet takes for a formula comes back, an empty one is absent.
TEXT = st.none() | st.text("ab=+-@ ,\"'é\n", min_size=1)
ROWS = st.lists(
    st.builds(
        LeaderboardRow,
        dimension=NAME,
        rank=st.none() | st.integers(1, 99),
        entrant_id=NAME,
        rating=NUMBER,
        low=NUMBER,
        high=NUMBER,
        shown_above=st.lists(NAME, max_size=3).map(tuple),
        lead_rests_on=st.lists(st.text("a =-[]\"'é", min_size=1), max_size=3).map(tuple),
        group=TEXT,
        n=st.integers(0, 10**9),
        note=TEXT,
        judge=TEXT,
    ),
    max_size=4,
)


@given(ROWS)
def test_a_leaderboard_comes_back_from_its_csv_to_the_last_bit(rows: list[LeaderboardRow]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "leaderboard.csv")
        path.write_bytes(write_csv_table(LeaderboardRow, rows))
        assert [*rows_of(LeaderboardRow, read_csv_table(LeaderboardRow, path))] == rows


@pytest.mark.parametrize("content", [b"", b"a,b\n", b'"', b"\xff", b"\x00"])
def test_what_is_no_such_table_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"leaderboard\.csv.*run the mode again"):
        read_csv_table(LeaderboardRow, path)


def test_a_long_line_or_a_word_for_a_number_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.csv"
    content = write_csv_table(
        LeaderboardRow, [LeaderboardRow(dimension="facts", rank=1, entrant_id="a")]
    )
    for broken in (content[:-1] + b",more", content.replace(b"facts,1,", b"facts,first,")):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=r"cells|first"):
            read_csv_table(LeaderboardRow, path)
