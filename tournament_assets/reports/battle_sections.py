"""The ratings of battles as sections, for a terminal and for a notebook."""

from collections.abc import Iterator, Sequence

from tournament_assets.battles.rating import BattleRatings
from tournament_assets.foundation.formatting import format_claim, format_confidence, format_share
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    METHODS,
    STYLE,
    compared_methods,
    rows_by,
)
from tournament_assets.reports.rating_method_tables import ONE_METHOD, AnyStanding
from tournament_assets.reports.report_tables import (
    Cell,
    ReportSection,
    ReportTable,
    select_columns,
)
from tournament_assets.tournament.asset_rows import EloRow, RatingRow, WinRateRow
from tournament_assets.tournament.battles import RatingSettings


def battle_sections(
    ratings: Sequence[BattleRatings], settings: RatingSettings
) -> list[ReportSection]:
    """Return a section for each dimension, its counts among them, and what the intervals cover.

    Args:
        settings: How the battles were rated.
    """
    sections = []
    for rated in ratings:
        counts, name = rated.counts, rated.dimension or "no dimension named"
        line = (
            f"{counts['battles']} battles on {counts['prompts']} prompts: {counts['decisive']} "
            f"decisive, {counts['ties']} ties, of which {counts['inconsistent']} inconsistent"
        )
        sentences = (line, *_unrated(rated), *rated.notes)
        sections.append(ReportSection(name, sentences, tuple(_tables(rated, settings))))
    return [*sections, ReportSection("", tuple(_explanations(ratings, settings)), is_note=True)]


def _tables(ratings: BattleRatings, settings: RatingSettings) -> Iterator[tuple[str, ReportTable]]:
    win_rate: dict[str, Cell[AnyStanding]] = {
        "win rate": lambda row: format_share(ratings.win_rates.get(row.entrant_id))
    }
    if rows := ratings.by(BRADLEY_TERRY):
        places = ("places_and_group",) if any(row.group for row in rows) else ()
        columns = select_columns(RatingRow, "rank", "model", "rating", "interval", *places)
        yield "Bradley–Terry", ReportTable.of(rows, columns | win_rate, n_labels=2)
    if elo := [row for row in ratings.elo if row.is_primary]:
        means = select_columns(EloRow, "rank", "entrant_id", "mean_and_error", "n_entrant_matches")
        title = "Elo, mean over orderings ± SEM (order noise)"
        yield title, ReportTable.of(elo, means | win_rate, n_labels=2)
    for name in compared_methods():
        if name != BRADLEY_TERRY and (rows := ratings.by(name)):
            yield str(METHODS[name]), ReportTable.of(rows, ONE_METHOD, n_labels=2)
    if style := rows_by(ratings.ratings, STYLE):
        yield (
            "at equal style (Elo points; a feature's are what one unit of it was worth)",
            ReportTable.of(style, ONE_METHOD, n_labels=2),
        )
    if ratings.pairs:
        pair_columns: dict[str, Cell[WinRateRow]] = {
            "A": lambda row: row.entrant_a,
            "B": lambda row: row.entrant_b,
            "A wins": lambda row: row.wins_a,
            "B wins": lambda row: row.wins_b,
            "ties": lambda row: row.ties,
            "A's win rate": lambda row: format_share(row.win_rate_a),
            "claim": lambda row: format_claim(row.claim, settings.equivalent_within),
        }
        yield (
            "each two that met; claims hold together",
            ReportTable.of(ratings.pairs, pair_columns, n_labels=2),
        )


def _unrated(ratings: BattleRatings) -> list[str]:
    """Name, for everyone without a number, which rating lacks it and why."""
    elo = [row for row in ratings.elo if row.is_primary]
    reasons: dict[str, dict[str, list[str]]] = {}
    for method, rows in (("Elo", elo), ("Bradley–Terry", ratings.by(BRADLEY_TERRY))):
        for row in rows:
            if row.note:
                by_note = reasons.setdefault(row.entrant_id, {})
                by_note.setdefault(row.note, []).append(method)
    return [
        f"no {' and no '.join(methods)} rating of {name}: {note}"
        for name, by_note in reasons.items()
        for note, methods in by_note.items()
    ]


def _explanations(ratings: Sequence[BattleRatings], settings: RatingSettings) -> list[str]:
    confidence = format_confidence(settings.confidence)
    lines = []
    if any(each.elo for each in ratings):
        lines.append(
            f"Elo: K = {settings.k_factor:g}, {settings.n_permutations} orderings (seed "
            f"{settings.shuffle_seed}), from {settings.initial_rating:g}. SEM shows "
            "order noise only."
        )
    lines.append(
        f"Sampling intervals ({confidence}): whole prompts resampled {settings.n_bootstraps} times "
        f"(seed {settings.bootstrap_seed})."
    )
    return lines
