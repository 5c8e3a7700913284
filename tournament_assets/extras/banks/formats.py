"""The battle formats that this extra adds."""

from tournament_assets.extras.banks.benchmarks import ALPACA_EVAL, ANNOTATIONS, ARENA_HARD, MT_BENCH
from tournament_assets.extras.banks.votes import EVALICA, LMARENA, ONE_HOT, ORQ_ARENA

ROWS = (LMARENA, ALPACA_EVAL, ARENA_HARD, MT_BENCH, ANNOTATIONS, ORQ_ARENA, EVALICA, ONE_HOT)
