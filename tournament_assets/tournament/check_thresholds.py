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
        max_position_bias: How far the share of replies that prefer the first slot may be from one
            half. Like every threshold that follows, None shows the number without a check.
        max_flip_bias: How far the share of flipped pairs that went to the first slot may be from
            one half.
        min_retest_agreement: Share of pairs settled as before when they are judged again.
        min_judge_kappa: Cohen's kappa with another judge.
        min_human_kappa: Cohen's kappa with people.
        max_length_effect: Elo points, up or down, that a usual difference in length is worth.
        max_longer_wins: Share of decided pairs that the response with more words wins.
        min_identical_ties: Share of responses that tie with their own copy.
        min_corrupted_wins: Share of responses that win against an answer to another prompt.
        max_injection_gain: Share of pairs that an injected text moves towards its response.
        min_transitivity_p: P-value of the cycles under independent outcomes on one scale.
    """

    max_unjudged_rate: float = Field(default=0.02, ge=0, le=1)
    max_inconsistency_rate: float = Field(default=0.35, ge=0, le=1)
    max_drift_rate: float = Field(default=0.10, ge=0, le=1)
    max_missing_spread: float = Field(default=0.02, ge=0, le=1)
    max_position_bias: float | None = Field(default=0.1, ge=0, le=0.5)
    max_flip_bias: float | None = Field(default=0.4, ge=0, le=0.5)
    min_retest_agreement: float | None = Field(default=None, ge=0, le=1)
    min_judge_kappa: float | None = Field(default=None, ge=-1, le=1)
    min_human_kappa: float | None = Field(default=None, ge=-1, le=1)
    max_length_effect: float | None = Field(default=100.0, ge=0)
    max_longer_wins: float | None = Field(default=0.9, ge=0, le=1)
    min_identical_ties: float | None = Field(default=None, ge=0, le=1)
    min_corrupted_wins: float | None = Field(default=None, ge=0, le=1)
    max_injection_gain: float | None = Field(default=None, ge=0, le=1)
    min_transitivity_p: float | None = Field(default=None, ge=0, le=1)
