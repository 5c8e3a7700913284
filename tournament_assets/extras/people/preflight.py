"""What this extra reads of a tournament before any money is spent."""

from tournament_assets.extras.people.arena import load_human_battles

ROWS = (load_human_battles,)
