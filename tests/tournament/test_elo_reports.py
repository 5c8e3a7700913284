from typing import Any

from tournament_assets.tournament.asset_rows import EloRow
from tournament_assets.tournament.battles import (
    build_elo_report,
    elo_entries,
)


def elo_row(entrant: str, mean: float | None, *, is_primary: bool = True) -> EloRow:
    return EloRow(
        dimension="factuality",
        k_factor=16.0,
        is_primary=is_primary,
        entrant_id=entrant,
        mean=mean,
        sampling_low=mean and mean - 10,
        shown_above=(),
        n_decisive_matches=9,
        n_entrant_matches=5,
    )


def test_entries_are_best_first_and_only_of_the_primary_k_factor() -> None:
    entries = elo_entries(
        [elo_row("ada", 1390.0), elo_row("bob", 1410.0), elo_row("bob", 1500.0, is_primary=False)],
        known_from_humans={"bob"},
    )
    assert [(entry.model, entry.rating, entry.source) for entry in entries] == [
        ("bob", 1410.0, "human"),
        ("ada", 1390.0, "evaluated"),
    ]
    assert (entries[1].ci_low, entries[1].ci_high, entries[1].n_battles) == (1380.0, None, 5)


def test_a_model_without_a_rating_is_last_and_has_none() -> None:
    entries = elo_entries([elo_row("ada", None), elo_row("bob", -5.0)])
    assert [(entry.model, entry.rating) for entry in entries] == [("bob", -5.0), ("ada", None)]


def test_a_report_names_the_model_under_test_only_if_there_is_one() -> None:
    rows = [elo_row("ada", 1390.0), elo_row("bob", 1410.0)]
    options: Any = {"arena": "x", "judge_model": "judge-1", "n_bootstraps": 100, "seed": 0}
    assert build_elo_report(elo_entries(rows), **options).model is None
    placed = build_elo_report(elo_entries(rows, known_from_humans=["bob"]), **options)
    assert placed.model == "ada"
    assert [entry.model for entry in placed.ratings] == ["bob", "ada"]
