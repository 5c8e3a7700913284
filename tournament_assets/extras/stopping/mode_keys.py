"""The key of a mode that this extra reads."""

from typing import Literal, cast

from pydantic import Field

from tournament_assets.ratings.prompt_rounds import MIN_PROMPTS, ROUNDS, TAIL
from tournament_assets.tournament.places import Frozen


class AdaptiveConfig(Frozen):
    """The rule by which a pair of entrants stops being judged once it is known which is ahead.

    Attributes:
        goal: The question that a stop answers. `bank`: who would win if every prompt of the bank
            were judged. `population`: who is better on prompts such as these.
        confidence: Probability that all stops of a dimension are right at once.
        rounds: The number of rounds, after each of which pairs may stop; one round judges
            everything.
        tail: The share of a stopped pair's remaining prompts that is judged anyway, drawn by a
            hash, so that lucky beginnings do not bias the ratings.
        min_prompts: No pair stops on fewer prompts.
    """

    goal: Literal["bank", "population"] = "bank"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    rounds: int = Field(default=ROUNDS, ge=1, le=100)
    tail: float = Field(default=TAIL, gt=0, le=1)
    min_prompts: int = Field(default=MIN_PROMPTS, ge=2)


class AdaptiveKeys(Frozen):
    """What a mode says about judging in rounds.

    Attributes:
        adaptive: Judge in rounds, and stop a pair of entrants once it is known which is ahead; by
            default everything is judged.
    """

    adaptive: AdaptiveConfig | None = None


def adaptive_of(mode: Frozen) -> AdaptiveConfig | None:
    """Return how the pairs of a mode stop; None where the mode does not say."""
    return cast("AdaptiveKeys", mode).adaptive


ROWS = (AdaptiveKeys,)
