"""The job of the asset, after the report."""

from tournament_assets.extension import JobRow

ROWS = (JobRow("words", "words of the entrants"),)
