"""An arena with a file of battles a day: each day is counted wherever it fits, and one asset adds.

Counts are a few megabytes whatever the day holds, so only they have to come together.
"""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg

FOLDER = Path(os.environ.get("ARENA_FOLDER", "arena"))
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-01")


def rate(*options: str | Path) -> str:
    """Run `tournament battles rate`, and return what it prints."""
    command = [sys.executable, "-m", "tournament_assets", "battles", "rate", *map(str, options)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


@dg.asset(partitions_def=DAYS)
def day_counts(context: dg.AssetExecutionContext) -> None:
    """Count one day's battles."""
    day = context.partition_key
    counts = FOLDER / f"{day}.counts"
    counts.unlink(missing_ok=True)  # no file of counts is overwritten
    rate(FOLDER / f"{day}.parquet", "--save-counts", counts)


@dg.asset(deps=[day_counts])
def arena_ratings() -> None:
    """Add the days that are counted, and rate them as one file of all battles."""
    days = sorted(FOLDER.glob("*.counts"))
    ratings = rate(*(option for day in days for option in ("--add", day)), "--json")
    (FOLDER / "ratings.json").write_text(ratings, encoding="utf-8")


definitions = dg.Definitions([day_counts, arena_ratings])
