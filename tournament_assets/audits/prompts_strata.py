"""Entrants that fail in one stratum and nowhere else.

An entrant fails a stratum if its mean score there is below one half and its mean score on the other
prompts is not, and Welch's test tells the two apart. The unit is the prompt: an entrant's score on
a prompt is its win share over its judged pairs there. Source: Welch, "The generalization of
'Student's' problem", https://doi.org/10.1093/biomet/34.1-2.28; Bonferroni's factor for the number
of entrants and strata.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tournament_assets.audits.coverage import PairReading
from tournament_assets.audits.evenness import CHANCE
from tournament_assets.ratings.student_t import two_sided_quantile

_FEWEST_PROMPTS = 3
"""Prompts inside and outside of a stratum below which nothing is said of it."""


@dataclass(frozen=True, slots=True)
class StratumFailure:
    """An entrant that loses in one stratum only.

    Attributes:
        entrant_id: Who.
        stratum: Where.
        inside: Its mean score there.
        outside: Its mean score on all other prompts.
        prompts: Prompts of the stratum with a judged pair of its.
    """

    entrant_id: str
    stratum: str
    inside: float
    outside: float
    prompts: int


def find_stratum_failures(
    pairs: Iterable[PairReading], *, entrants: Sequence[str]
) -> list[StratumFailure]:
    """Return the entrants that fail exactly one stratum, in the order of the tables.

    Args:
        pairs: Pairs of one dimension.
        entrants: In the order of the tables.
    """
    scores = _scores_by_stratum(pairs, entrants)
    tested = [
        (entrant, stratum)
        for entrant in entrants
        for stratum, inside in scores[entrant].items()
        if len(inside) >= _FEWEST_PROMPTS
        and len(_others(scores[entrant], stratum)) >= _FEWEST_PROMPTS
    ]
    failures: list[StratumFailure] = []
    for entrant in entrants:
        own = [
            StratumFailure(entrant, stratum, fmean(inside), fmean(outside), len(inside))
            for name, stratum in tested
            if name == entrant
            for inside, outside in [(scores[entrant][stratum], _others(scores[entrant], stratum))]
            if fmean(inside) < 0.5 <= fmean(outside)
            and _are_apart(inside, outside, confidence=1 - CHANCE / len(tested))
        ]
        if len(own) == 1:
            failures += own
    return failures


def _scores_by_stratum(
    pairs: Iterable[PairReading], entrants: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    points: dict[tuple[str, str, str], list[float]] = {}
    for pair in pairs:
        for entrant in (pair.entrant_a, pair.entrant_b):
            worth = pair.points(entrant)
            if worth is not None:
                points.setdefault((entrant, pair.stratum, pair.prompt_id), []).append(worth)
    scores: dict[str, dict[str, list[float]]] = {entrant: {} for entrant in entrants}
    for (entrant, stratum, _), worths in points.items():
        scores[entrant].setdefault(stratum, []).append(fmean(worths))
    return scores


def _others(scores: dict[str, list[float]], stratum: str) -> list[float]:
    return [score for name, own in scores.items() if name != stratum for score in own]


def _are_apart(first: Sequence[float], second: Sequence[float], *, confidence: float) -> bool:
    errors = [variance(first) / len(first), variance(second) / len(second)]
    error = sum(errors)
    difference = abs(fmean(first) - fmean(second))
    if error == 0:
        return difference > 0
    freedom = error**2 / (errors[0] ** 2 / (len(first) - 1) + errors[1] ** 2 / (len(second) - 1))
    quantile = two_sided_quantile(confidence, degrees_of_freedom=max(1, math.floor(freedom)))
    return difference > quantile * math.sqrt(error)
