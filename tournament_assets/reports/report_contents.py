"""What a report is made from, before it is a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from tournament_assets.reports.battle_data import BattleTables
from tournament_assets.reports.rendering import ReportSection

SLOTS = ("trust", "audit", "fair_comparison", "strata")
"""Where a section of its own can stand in the report, in the order of the page."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportContents:
    """Everything a report is made from.

    Attributes:
        tournament_id: The tournament's name.
        description: What a reader should know about it.
        mode: `pilot` or `headline`.
        judge_model: The model that judged.
        judge_label: What kind of judge that is.
        judge_is_language_model: Whether its verdicts say anything about quality.
        leaderboard: Table "leaderboard" of all dimensions, which come in its order.
        elo_ratings: Table "elo_ratings" of each dimension.
        model_comparison: Table "model_comparison" of each dimension.
        win_rates: Table "win_rates" of each dimension.
        audit: Table "audit" of all dimensions.
        costs: What was spent on what, as people read it.
        provenance: The hash, seed or version of everything that decides the result.
        command: The command that makes this report again.
        versions: What it was made with: program, Python and libraries.
        confidence: Coverage of the intervals.
        further_warnings: What a reader must know before anything else.
        cautions: What comes next: red lights on the judge, and where texts are copies.
        sections: Sections made elsewhere, by the name of their place in `SLOTS`; a place without
            a section is left out of the page.
        prices: US dollars that judging cost, by dimension; None where no price is known.
        battles: What the battle browser shows; without it there is none.
    """

    tournament_id: str
    description: str
    mode: str
    judge_model: str
    judge_label: str
    judge_is_language_model: bool
    leaderboard: pd.DataFrame
    elo_ratings: Mapping[str, pd.DataFrame]
    model_comparison: Mapping[str, pd.DataFrame]
    win_rates: Mapping[str, pd.DataFrame]
    audit: pd.DataFrame
    costs: Sequence[tuple[str, str]]
    provenance: Sequence[tuple[str, str]]
    command: str
    versions: str = ""
    confidence: float = 0.95
    further_warnings: Sequence[str] = ()
    cautions: Sequence[str] = ()
    sections: Mapping[str, ReportSection] = field(default_factory=dict)
    prices: Mapping[str, float | None] = field(default_factory=dict)
    battles: BattleTables | None = None

    def __post_init__(self) -> None:
        """Refuse a section that would not be shown."""
        unknown = sorted(set(self.sections) - set(SLOTS))
        if unknown:
            raise ValueError(
                f"the report has no place for the sections {unknown!r}; expected some of {SLOTS}"
            )
