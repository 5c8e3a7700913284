"""What the echo costs."""

from tournament_assets.extension import ConfiguredPrice

ROWS = {"echo-1": ConfiguredPrice(input=1.0, output=2.0)}
