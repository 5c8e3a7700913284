"""Coverage: what each entrant was planned for, and what became of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tournament_assets.tournament.responses import GeneratedResponse
from tournament_assets.tournament.verdicts import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class PairReading:
    """A settled pair with what each of its replies said.

    Attributes:
        entrant_a: The pair's first entrant.
        entrant_b: The pair's second entrant.
        outcome: How the pair was settled.
        verdicts: What the replies to its two presentations say.
    """

    entrant_a: str
    entrant_b: str
    outcome: Outcome
    verdicts: tuple[Verdict, Verdict]


@dataclass(frozen=True, slots=True)
class EntrantCoverage:
    """One entrant on one dimension; every count is of the entrant's own.

    Attributes:
        entrant_id: Whose coverage it is.
        prompts_selected: Prompts it should have answered.
        responses: Prompts it answered.
        empty_responses: Answers without any text.
        truncated_responses: Answers that the token cap ended.
        pairs_planned: Pairs it takes part in.
        pairs_judged: Those with two readable replies.
        pairs_inconsistent: Judged pairs whose replies disagree.
        missing_replies: Presentations without a verdict, by reason.
    """

    entrant_id: str
    prompts_selected: int
    responses: int
    empty_responses: int
    truncated_responses: int
    pairs_planned: int
    pairs_judged: int
    pairs_inconsistent: int
    missing_replies: Mapping[Verdict, int]


def measure_coverage(
    *,
    entrants: Sequence[str],
    prompts_selected: int,
    responses: Mapping[str, Sequence[GeneratedResponse]],
    pairs: Iterable[PairReading],
) -> list[EntrantCoverage]:
    """Count, for every entrant, what was planned and what became of it.

    Args:
        entrants: In the order of the tables.
        prompts_selected: Prompts of the mode.
        responses: Each entrant's responses.
        pairs: Every planned pair of one dimension.
    """
    planned: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    inconsistent: Counter[str] = Counter()
    missing: dict[str, Counter[Verdict]] = {entrant: Counter() for entrant in entrants}
    for pair in pairs:
        for entrant in (pair.entrant_a, pair.entrant_b):
            planned[entrant] += 1
            judged[entrant] += pair.outcome is not Outcome.UNJUDGED
            inconsistent[entrant] += pair.outcome is Outcome.INCONSISTENT
            missing[entrant].update(verdict for verdict in pair.verdicts if not verdict.is_decided)
    return [
        EntrantCoverage(
            entrant_id=entrant,
            prompts_selected=prompts_selected,
            responses=len(responses.get(entrant, ())),
            empty_responses=sum(
                not response.text.strip() for response in responses.get(entrant, ())
            ),
            truncated_responses=sum(
                response.finish_reason == "length" for response in responses.get(entrant, ())
            ),
            pairs_planned=planned[entrant],
            pairs_judged=judged[entrant],
            pairs_inconsistent=inconsistent[entrant],
            missing_replies=dict(missing[entrant]),
        )
        for entrant in entrants
    ]
