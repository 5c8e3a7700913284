"""`python -m tournament_assets` is the command `tournament`."""

from tournament_assets.cli import main

main(prog_name="tournament")
