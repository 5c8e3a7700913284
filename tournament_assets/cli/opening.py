"""What commands open and read, through Dagster; it is loaded when the first of them does.

`--help` and wrong usage need none of it.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tournament_assets.project.config_files import load_config
from tournament_assets.project.plan import TournamentPlan
from tournament_assets.tournament.config import Mode

if TYPE_CHECKING:
    from tournament_assets.launching import StoredTables
    from tournament_assets.ledger import Ledger


def opened_ledger(
    config_path: Path,
) -> "AbstractContextManager[tuple[TournamentPlan, Ledger]]":
    """Read a tournament's configuration and open its ledger while the context is entered."""
    from tournament_assets import launching

    return launching.opened_ledger(config_path, os.environ)


def load_plan(config_path: Path) -> TournamentPlan:
    """Read a tournament's configuration."""
    from tournament_assets.definitions import build_plan

    return build_plan(load_config(config_path), os.environ)


def stored_tables(plan: TournamentPlan, mode: Mode) -> "StoredTables":
    """Return what reads the stored tables of a mode."""
    from tournament_assets import launching

    return launching.StoredTables(plan, mode, environment=os.environ)
