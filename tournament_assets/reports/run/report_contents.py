"""What a report is made from, and what a reader must know before any number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tournament_assets.audits.missingness import asked
from tournament_assets.reports.battle_pages import BattleTables
from tournament_assets.reports.figures.figures import EntrantEconomy
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.storage.tables import rows_of
from tournament_assets.tournament.asset_rows import (
    CoverageRow,
    MeasureRow,
    RatingRow,
)
from tournament_assets.tournament.formatting import format_count_of, format_plural

DATE_MARK = "<!-- date -->"
"""Stands in a page for the day of its run, of which the page's version must not know."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that should keep a reader from believing a number too soon.

    Attributes:
        short: What it is, in a few words and with its count.
        sentence: The whole of it.
        section: The section of the report that holds the evidence.
        is_red: Whether the numbers should not be used before it is settled.
    """

    short: str
    sentence: str
    section: str
    is_red: bool


@dataclass(frozen=True, slots=True, eq=False)
class ReportContents:
    """Everything a report is made from.

    Attributes:
        tournament_id: The tournament's name.
        description: What a reader should know about it.
        judge_label: What kind of judge that is.
        judge_is_language_model: Whether its verdicts say anything about quality.
        judge_sentence: Who the judge is that people's labels are put beside.
        leaderboard: Table "leaderboard" of all dimensions, which come in its order.
        ratings: Table "ratings" of each dimension.
        win_rates: Table "win_rates" of each dimension.
        audit: Table "audit" of all dimensions.
        costs: What was spent on what, as people read it.
        provenance: The hash, seed or version of everything that decides the result.
        command: The command that makes this report again.
        versions: What it was made with: program, Python and libraries.
        doubts: What speaks against the result, besides what follows from the judge and the audit.
        sections: Sections made elsewhere, by name, in the order in which the page has them.
        prices: US dollars that judging cost, by dimension; None where no price is known.
        battles: What the battle browser shows; without it there is none.
        powered: Table "people_ratings" of all dimensions.
        calibration: Table "people_measures" of all dimensions; empty where nobody labelled.
        n_samples: How often every prompt was answered.
        economies: What the entrants cost and how fast they write, in the order of the config.
    """

    tournament_id: str
    description: str
    mode: str
    judge_model: str
    judge_label: str
    judge_is_language_model: bool
    leaderboard: pd.DataFrame
    ratings: Mapping[str, pd.DataFrame]
    win_rates: Mapping[str, pd.DataFrame]
    audit: pd.DataFrame
    costs: Sequence[tuple[str, str]]
    provenance: Sequence[tuple[str, str]]
    command: str
    versions: str = ""
    confidence: float = 0.95
    doubts: Sequence[Doubt] = ()
    sections: Mapping[str, ReportSection] = field(default_factory=dict)
    prices: Mapping[str, float | None] = field(default_factory=dict)
    battles: BattleTables | None = None
    powered: Sequence[RatingRow] = ()
    calibration: Sequence[MeasureRow] = ()
    judge_sentence: str = ""
    n_samples: int = 1
    economies: Sequence[EntrantEconomy] = ()


_MISSING_REPLIES = (
    "replies_refused",
    "replies_unreadable",
    "replies_permanent",
    "replies_pending",
)
"""Columns of table "audit" that count presentations without a verdict."""


def doubts_of(contents: ReportContents) -> list[Doubt]:
    """Return what speaks against the result: what is red first, then the rest."""
    doubts = [*_judge_doubt(contents), *contents.doubts, *_missing_doubts(contents)]
    return sorted(doubts, key=lambda doubt: not doubt.is_red)


def _judge_doubt(contents: ReportContents) -> list[Doubt]:
    if contents.judge_is_language_model:
        return []
    return [
        Doubt(
            "the judge is not a language model",
            f"judge: {contents.judge_label}. These results say nothing about quality.",
            "method",
            is_red=True,
        )
    ]


def _missing_doubts(contents: ReportContents) -> list[Doubt]:
    rows = list(rows_of(CoverageRow, contents.audit))
    missing = {row.entrant_id: 0 for row in rows}
    shown = dict(missing)
    for row in rows:
        missing[row.entrant_id] += sum(getattr(row, name) for name in _MISSING_REPLIES)
        shown[row.entrant_id] += 2 * asked(row)
    doubts = []
    if any(missing.values()):
        # Every presentation shows two entrants, so it stands in two rows.
        total = format_count_of(math.ceil(sum(missing.values()) / 2), sum(shown.values()) // 2)
        by_entrant = "; ".join(
            f"{name} {format_count_of(count, shown[name])}"
            for name, count in missing.items()
            if count
        )
        doubts.append(
            Doubt(
                f"{total} presentations have no verdict",
                f"{total} presentations have no verdict; they count as nothing, not as ties. "
                f"By entrant: {by_entrant}.",
                "audit",
                is_red=False,
            )
        )
    unanswered = {
        row.entrant_id: f"{row.entrant_id} {row.responses} of {row.prompts_selected}"
        for row in rows
        if row.responses < row.prompts_selected
    }
    if unanswered:
        doubts.append(
            Doubt(
                f"unanswered prompts of {format_plural(len(unanswered), 'entrant')}",
                "Not everyone answered every prompt. Prompts answered: "
                f"{'; '.join(unanswered.values())}.",
                "audit",
                is_red=False,
            )
        )
    return doubts
