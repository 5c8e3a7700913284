"""Prints the ratings of a file of battles."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tournament_assets.adapters.battle_files.rating import BattleRatings
from tournament_assets.reports.formatting import (
    ABSENT,
    format_confidence,
    format_interval,
    format_rating,
    format_share,
)
from tournament_assets.reports.rendering import ReportTable
from tournament_assets.reports.terminal import print_table, shown
from tournament_assets.tournament.rating_settings import RatingSettings

_ELO_COLUMNS = ("mean\n± SEM", "order\ninterval", "sampling\ninterval", "decisive\nmatches")
_BRADLEY_TERRY_COLUMNS = ("Bradley–\nTerry", "its sampling\ninterval")


def print_battle_ratings(
    ratings: Sequence[BattleRatings], console: Console, settings: RatingSettings
) -> None:
    """Print one table for each dimension, its counts, and what the intervals cover.

    Args:
        ratings: The ratings, by dimension.
        console: Where to print.
        settings: How the battles were rated.
    """
    for each in ratings:
        console.print()
        if each.elo or each.bradley_terry:
            console.print(_table(each))
        for more in _more_tables(each):
            print_table(*more, console)
        counts = each.counts
        line = (
            f"{counts['battles']} battles on {counts['prompts']} prompts: {counts['decisive']} "
            f"decisive, {counts['ties']} ties, of which {counts['inconsistent']} inconsistent"
        )
        for text in (line, *_unrated(each), *each.notes):
            console.print(Text(shown(text)))
    console.print()
    for text in _explanations(ratings, settings):
        console.print(Text(shown(text), style="dim"))


def _more_tables(ratings: BattleRatings) -> Iterator[tuple[str, ReportTable]]:
    for model in dict.fromkeys(row["model"] for row in ratings.tie_models):
        rows = [row for row in ratings.tie_models if row["model"] == model]
        yield (
            f"{model}: ties at a rate of their own",
            ReportTable(
                ("model", "rating", "why not"),
                tuple((r["entrant_id"], format_rating(r["rating"]), r["note"] or "") for r in rows),
            ),
        )
    if ratings.style:
        yield (
            "at equal style (Elo points; a feature's are what one unit of it was worth)",
            ReportTable(
                ("model or feature", "points", "interval", "why not"),
                tuple(
                    (
                        row["name"],
                        ABSENT if row.get("points") is None else f"{row['points']:.1f}",
                        format_interval(row.get("low"), row.get("high"), absent=ABSENT),
                        row["note"] or "",
                    )
                    for row in ratings.style
                ),
            ),
        )
    if ratings.pairs:
        yield (
            "each two that met; P: share of the resamples with A above B by Bradley–Terry",
            ReportTable(
                ("A", "B", "A wins", "B wins", "ties", "A's win rate", "P(A above B)"),
                tuple(
                    (
                        *(row["model_a"], row["model_b"]),
                        *(str(row["wins_a"]), str(row["wins_b"]), str(row["ties"])),
                        *(format_share(row["win_rate_a"]), format_share(row["p_a_above_b"])),
                    )
                    for row in ratings.pairs
                ),
                n_labels=2,
            ),
        )


def _unrated(ratings: BattleRatings) -> list[str]:
    """Say of everyone without a number which rating lacks it and why."""
    elo = [row for row in ratings.elo if row["is_primary"]]
    reasons: dict[str, dict[str, list[str]]] = {}
    for method, rows in (("Elo", elo), ("Bradley–Terry", ratings.bradley_terry)):
        for row in rows:
            if row["note"]:
                by_note = reasons.setdefault(row["entrant_id"], {})
                by_note.setdefault(row["note"], []).append(method)
    return [
        f"no {' and no '.join(methods)} rating of {name}: {note}"
        for name, by_note in reasons.items()
        for note, methods in by_note.items()
    ]


def _table(ratings: BattleRatings) -> Table:
    table = Table(
        title=Text(shown(ratings.dimension or "no dimension named"), style="bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    elo = {row["entrant_id"]: row for row in ratings.elo if row["is_primary"]}
    bradley_terry = {row["entrant_id"]: row for row in ratings.bradley_terry}
    table.add_column("#", justify="right")
    table.add_column("model", overflow="fold", style="bold")
    for header in (
        *(_ELO_COLUMNS if elo else ()),
        *(_BRADLEY_TERRY_COLUMNS if bradley_terry else ()),
    ):
        table.add_column(header, justify="right", no_wrap=True)
    if ratings.win_rates:
        table.add_column("win\nrate", justify="right", no_wrap=True)
    for place, name in enumerate(elo or bradley_terry, start=1):
        place_of = elo[name]["rank"] if elo else place if bradley_terry[name]["rating"] else None
        cells = [ABSENT if place_of is None else str(place_of), name]
        cells += _elo_cells(elo[name]) if elo else []
        cells += _bradley_terry_cells(bradley_terry[name]) if bradley_terry else []
        if ratings.win_rates:
            cells.append(format_share(ratings.win_rates.get(name)))
        table.add_row(*(Text(shown(cell)) for cell in cells))
    return table


def _elo_cells(row: Mapping[str, Any]) -> list[str]:
    sem = ABSENT if row["sem"] is None else f"{row['sem']:.1f}"
    mean = ABSENT if row["mean"] is None else f"{row['mean']:.1f} ± {sem}"
    return [
        mean,
        format_interval(row["order_low"], row["order_high"], absent=ABSENT),
        format_interval(row["sampling_low"], row["sampling_high"], absent=ABSENT),
        str(row["n_entrant_matches"]),
    ]


def _bradley_terry_cells(row: Mapping[str, Any]) -> list[str]:
    return [
        format_rating(row["rating"]),
        format_interval(row["sampling_low"], row["sampling_high"], absent=ABSENT),
    ]


def _explanations(ratings: Sequence[BattleRatings], settings: RatingSettings) -> list[str]:
    confidence = format_confidence(settings.confidence)
    lines = []
    if any(each.elo for each in ratings):
        lines.append(
            f"Elo: K = {settings.k_factor:g}, {settings.n_permutations} orderings (seed "
            f"{settings.shuffle_seed}), from {settings.initial_rating:g}. SEM and order interval "
            "show order noise only."
        )
    lines.append(
        f"Sampling intervals ({confidence}): whole prompts resampled {settings.n_bootstraps} times "
        f"(seed {settings.bootstrap_seed})."
    )
    return lines
