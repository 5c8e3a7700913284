"""Judging in rounds, until the winners are known."""

from tournament_assets.extras.stopping.adaptive_judging import course_so_far
from tournament_assets.extras.stopping.decisions import outcome_of_decisions
from tournament_assets.extras.stopping.mode_keys import adaptive_of
from tournament_assets.verdicts.rounds import RoundsRow

ROWS = (RoundsRow(adaptive_of, course_so_far, outcome_of_decisions),)
