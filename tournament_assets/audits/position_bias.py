"""Position bias: whether a judge prefers a response because of the slot it is shown in.

Both orders of every pair are judged. A judge without position bias names the first slot in half of
the replies that name one, and a pair that flips, because both of its replies name the same slot,
flips to either slot alike. Only pairs that were asked count, and each pair of requests once: two
pairs of entrants that were shown the judge as the same two texts were asked once. Sources: Zheng
et al., "Judging LLM-as-a-judge with MT-bench and Chatbot Arena", https://arxiv.org/abs/2306.05685
(the bias, and the swap that shows it); McNemar, https://doi.org/10.1007/BF02295996 (what discordant
pairs say about a direction).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.audits.agreement import Proportion, measure_by_prompt
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair and what its two replies say.

    Attributes:
        judgment: How it was settled.
        verdicts: What the replies to its presentations say; A is the response shown first.
        requests: The keys of the two requests; pairs with the same two were asked once.
        longer: Which response has more words: `a_wins` for entrant_a's, `b_wins` for
            entrant_b's, `tie` where they have equally many; None where that is not known.
    """

    judgment: Judgment
    verdicts: tuple[Verdict, Verdict]
    requests: tuple[str, str]
    longer: Outcome | None = None


def distinct_requests(pairs: Iterable[JudgedPair]) -> list[JudgedPair]:
    """Return the pairs that the judge was asked about, those that shared both requests once."""
    found: dict[frozenset[str], JudgedPair] = {}
    for pair in pairs:
        if pair.judgment.outcome is not Outcome.SAME_TEXT:
            found.setdefault(frozenset(pair.requests), pair)
    return [*found.values()]


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How a judge treats the two slots; intervals are by prompt.

    Attributes:
        first_slot: Replies that name the response shown first, of those that name one, where both
            replies to the pair are readable: otherwise one order would count alone.
        flips_to_first: Pairs whose replies both name the first slot, of those whose replies both
            name the same slot.
        half_flips: Pairs with one reply that names a response and one that says tie.
        consistent: Pairs that come out the same whichever response is shown first, of those with
            two readable replies.
    """

    first_slot: Proportion
    flips_to_first: Proportion
    half_flips: int
    consistent: Proportion


def measure_position_bias(pairs: Iterable[JudgedPair], *, confidence: float = 0.95) -> PositionBias:
    """Count which slot the replies prefer.

    Args:
        pairs: Pairs that were asked, each pair of requests once; see `distinct_requests`.
        confidence: Coverage of the intervals.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    readable = [
        (pair.judgment.prompt_id, *pair.verdicts)
        for pair in pairs
        # Two presentations of one text are one request, which has no other order.
        if all(reply.is_decided for reply in pair.verdicts) and len(set(pair.requests)) == 2
    ]
    half_flips = sum((ab is Verdict.TIE) != (ba is Verdict.TIE) for _, ab, ba in readable)
    return PositionBias(
        first_slot=measure_by_prompt(
            (
                (prompt_id, reply is Verdict.A)
                for prompt_id, *replies in readable
                for reply in replies
                if reply is not Verdict.TIE
            ),
            confidence=confidence,
        ),
        flips_to_first=measure_by_prompt(
            (
                (prompt_id, ab is Verdict.A)
                for prompt_id, ab, ba in readable
                if ab is ba is not Verdict.TIE
            ),
            confidence=confidence,
        ),
        half_flips=half_flips,
        consistent=measure_by_prompt(
            (
                # The same entrant is A in one order and B in the other.
                (prompt_id, {ab, ba} in ({Verdict.A, Verdict.B}, {Verdict.TIE}))
                for prompt_id, ab, ba in readable
            ),
            confidence=confidence,
        ),
    )


def measure_longer_wins(pairs: Iterable[JudgedPair], *, confidence: float = 0.95) -> Proportion:
    """Count how often the response with more words won, of decided pairs of unequal length.

    Args:
        pairs: Pairs that were asked, each pair of requests once.
        confidence: Coverage of the interval.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    return measure_by_prompt(
        (
            (pair.judgment.prompt_id, pair.judgment.outcome is pair.longer)
            for pair in pairs
            if pair.judgment.outcome.is_decisive
            and pair.longer is not None
            and pair.longer.is_decisive
        ),
        confidence=confidence,
    )
