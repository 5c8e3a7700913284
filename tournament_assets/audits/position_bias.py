"""Position bias: whether a judge prefers a response because of the slot it is shown in.

Both orders of every pair are judged. A judge without position bias names the first slot in half of
the replies that name one, and a pair that flips, because both of its replies name the same slot,
flips to either slot alike. Sources: Zheng et al., "Judging LLM-as-a-judge with MT-bench and
Chatbot Arena", https://arxiv.org/abs/2306.05685 (the bias, and the swap that shows it); McNemar,
https://doi.org/10.1007/BF02295996 (what discordant pairs say about a direction).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.audits.agreement import Proportion, measure_proportion
from tournament_assets.tournament.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How a judge treats the two slots.

    Attributes:
        first_slot: Replies that name the response shown first, of those that name one, where both
            replies to the pair are readable: otherwise one order would count alone. Its Wilson
            interval takes replies as independent; the two of a pair that is settled alike name one
            slot each, so for a judge that mostly does so the interval is too wide.
        flips_to_first: Pairs whose replies both name the first slot, of those whose replies both
            name the same slot. These are one a pair, so the interval holds what it says where
            pairs are independent.
        half_flips: Pairs with one reply that names a response and one that says tie.
        consistent: Pairs that come out the same whichever response is shown first, of those with
            two readable replies.
    """

    first_slot: Proportion
    flips_to_first: Proportion
    half_flips: int
    consistent: Proportion


def measure_position_bias(
    pairs: Iterable[tuple[Verdict, Verdict]], *, confidence: float = 0.95
) -> PositionBias:
    """Count which slot the replies prefer.

    Args:
        pairs: What the replies to the two presentations of each pair say; A is the response that
            was shown first in that presentation.
        confidence: Coverage of the Wilson intervals.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    given = list(pairs)
    readable = [pair for pair in given if all(reply.is_decided for reply in pair)]
    named = [reply for pair in readable for reply in pair if reply is not Verdict.TIE]
    same_slot = [first for first, second in readable if first is second is not Verdict.TIE]
    half_flips = sum(
        (first is Verdict.TIE) != (second is Verdict.TIE) for first, second in readable
    )
    return PositionBias(
        first_slot=measure_proportion(named.count(Verdict.A), len(named), confidence=confidence),
        flips_to_first=measure_proportion(
            same_slot.count(Verdict.A), len(same_slot), confidence=confidence
        ),
        half_flips=half_flips,
        consistent=measure_proportion(
            len(readable) - len(same_slot) - half_flips, len(readable), confidence=confidence
        ),
    )
