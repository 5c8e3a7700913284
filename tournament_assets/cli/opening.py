"""What commands read through Dagster, which is loaded when the first of them does.

`--help` and wrong usage need none of it.
"""

from typing import TYPE_CHECKING

from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.launching import StoredTables


def stored_tables(plan: TournamentPlan, mode: Mode) -> "StoredTables":
    """Return what reads the stored tables of a mode."""
    from tournament_assets import launching

    return launching.StoredTables(plan, mode)
