"""The report's section on whether people would agree."""

from tournament_assets.extras.people.config_keys import people_keys
from tournament_assets.extras.people.human_battle_tables import people_section, people_sentences
from tournament_assets.reports.sections import SectionRow

ROWS = (
    SectionRow(
        "people",
        people_section,
        after="win-grid",
        part="judge",
        remarks=people_sentences,
        settings=lambda config: people_keys(config).labels.changed(),
    ),
)
