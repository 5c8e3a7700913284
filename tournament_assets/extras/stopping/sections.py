"""The report's section on where judging stopped."""

from collections.abc import Mapping, Sequence

from tournament_assets.extras.stopping.decisions import DecisionRow
from tournament_assets.extras.stopping.mode_keys import adaptive_of
from tournament_assets.extras.stopping.stopping_tables import stopping_section
from tournament_assets.reports.report_tables import ReportSection
from tournament_assets.reports.sections import SectionRow
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.config import Mode, TournamentConfig


def stops_of_a_mode(
    judging_decisions: Sequence[DecisionRow],
    leaderboard: Mapping[str, Sequence[LeaderboardRow]],
    *,
    config: TournamentConfig,
    mode: Mode,
    prices: Mapping[str, float | None],
) -> ReportSection | None:
    """Return the section of a mode; None where every pair is judged on every prompt."""
    adaptive = adaptive_of(config.mode(mode))
    return stopping_section(judging_decisions, leaderboard, adaptive=adaptive, prices=prices)


ROWS = (SectionRow("stopping", stops_of_a_mode, after="win-grid"),)
