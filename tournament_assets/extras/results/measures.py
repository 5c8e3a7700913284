"""What an audit of verdicts in files counts beside the panel."""

from tournament_assets.trust.lights import Bias, Measure

TIES = Measure(
    "verdicts_tied",
    "ties",
    "Of the verdicts, this share is a tie; a pair whose two orders disagree is none.",
    "There is nothing to do: a tie counts half for each.",
    "share",
    "verdict",
    bias=Bias.NONE,
)
ROWS = (TIES,)
"""The measures that this extra adds."""
