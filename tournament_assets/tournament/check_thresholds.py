"""Where the asset checks of a tournament turn red."""

from pydantic import Field

from tournament_assets.tournament.frozen import Frozen


class CheckThresholds(Frozen):
    """Where an asset check turns red.

    Attributes:
        max_unjudged_rate: Share of pairs without two readable replies.
        max_inconsistency_rate: Share of judged pairs whose two presentations disagree.
        max_drift_rate: Share of anchor pairs that are settled otherwise than in the tournament; the
            check turns red when the whole interval of the share lies above it.
        max_missing_spread: Difference between the shares of verdicts, or of answers, that two
            entrants miss; a larger one that chance does not explain is red.
    """

    max_unjudged_rate: float = Field(default=0.02, ge=0, le=1)
    max_inconsistency_rate: float = Field(default=0.35, ge=0, le=1)
    max_drift_rate: float = Field(default=0.10, ge=0, le=1)
    max_missing_spread: float = Field(default=0.02, ge=0, le=1)
