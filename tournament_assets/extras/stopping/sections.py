"""The report's section on where judging stopped."""

from tournament_assets.extras.stopping.stopping_tables import stopping_section
from tournament_assets.reports.sections import SectionRow

ROWS = (SectionRow("stopping", stopping_section, after="win-grid"),)
