import re
from pathlib import Path

import pytest

import tournament_assets
from tournament_assets.foundation.formatting import (
    ABSENT,
    format_confidence,
    format_count_of,
    format_ends,
    format_gap,
    format_interval,
    format_share,
    format_usd,
    join_names,
    list_first,
)


def test_an_interval_with_one_end_says_which_end_it_is() -> None:
    assert format_interval(1380.4, 1420.6, absent="none") == "1380\N{EN DASH}1421"
    assert format_interval(None, 1420.0, absent="none") == "up to 1420"
    assert format_interval(1380.0, None, absent="none") == "from 1380"
    assert format_interval(None, None, absent="none") == "none"
    assert format_interval(-50.2, 82.0, absent="none") == "-50 to 82"  # no dash hides a sign


def test_an_interval_without_an_end_is_a_dash() -> None:
    assert format_ends(0.121, 0.666) == "0.12 to 0.67"
    assert format_ends(0.12, 0.67, format_share) == "12.0 % to 67.0 %"
    assert format_ends(0.1, None) == format_ends(None, 0.1) == ABSENT


def test_a_part_of_nothing_has_no_share() -> None:
    assert format_count_of(3, 60) == "3 of 60 (5.0 %)"
    assert format_count_of(0, 0) == "0 of 0"


def test_a_gap_is_counted_in_whole_points() -> None:
    assert format_gap(0.4) == "less than 1 Elo point"
    assert format_gap(1.2) == "1 Elo point"
    assert format_gap(83.6) == "84 Elo points"


def test_coverage_is_written_without_needless_decimals() -> None:
    assert format_confidence(0.95) == "95 %"
    assert format_confidence(0.999) == "99.9 %"


def test_names_are_joined_as_in_a_sentence() -> None:
    assert join_names(["ada"]) == "ada"
    assert join_names(["ada", "bob", "cy"]) == "ada, bob and cy"
    assert list_first(["ada", "bob", "cy"], 3) == "ada, bob, cy"
    assert list_first(["ada", "bob", "cy"], 1, separator="; ") == "ada and 2 more"


def test_a_share_is_written_in_one_style_everywhere() -> None:
    assert format_share(0.3366) == "33.7 %"
    assert format_share(0.3366, decimals=0) == "34 %"
    assert format_share(None) == ABSENT
    package = Path(tournament_assets.__file__).parent
    other = re.compile(r":\.\d%\}|:g\}%|:\.\df\}%")
    # What the stand-in for a judge writes is a reply, which nobody rewrites.
    found = [
        path.name
        for path in package.rglob("*.py")
        if "loopback" not in path.parts and other.search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("dollars", "words"),
    [
        (None, ABSENT),
        (0.0, "$0.00"),
        (0.0123, "$0.0123"),
        (0.1, "$0.10"),
        (46.844, "$46.84"),
        (1234.5, "$1,234.50"),
    ],
)
def test_cents_are_divided_only_where_there_are_few(dollars: float | None, words: str) -> None:
    assert format_usd(dollars) == words
