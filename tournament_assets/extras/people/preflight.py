"""What this extra reads of a tournament before anything is spent."""

from tournament_assets.extras.people.arena import load_human_battles

ROWS = (load_human_battles,)
