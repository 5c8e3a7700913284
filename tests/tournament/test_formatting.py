from tournament_assets.tournament.formatting import (
    format_confidence,
    format_count_of,
    format_gap,
    format_interval,
    join_names,
)


def test_an_interval_with_one_end_says_which_end_it_is() -> None:
    assert format_interval(1380.4, 1420.6, absent="none") == "1380\N{EN DASH}1421"
    assert format_interval(None, 1420.0, absent="none") == "up to 1420"
    assert format_interval(1380.0, None, absent="none") == "from 1380"
    assert format_interval(None, None, absent="none") == "none"


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
