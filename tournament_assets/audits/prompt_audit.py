"""Prompts to check (broken, lucky or decisive), and entrants that fail in one stratum.

An entrant fails a stratum if its mean score there is below one half and its mean score on the other
prompts is not, and Welch's test finds the difference significant. The unit is the prompt: an
entrant's score on a prompt is its win share over its judged pairs there. Source: Welch, "The
generalization of 'Student's' problem", https://doi.org/10.1093/biomet/34.1-2.28; Bonferroni's
factor for the number of entrants and strata.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from tournament_assets.audits.missingness import (
    CHANCE,
    INFRASTRUCTURE,
    PairReading,
    tail_probability,
)
from tournament_assets.audits.prompt_findings import (
    FindingKind,
    describe_influence,
    describe_noise,
    leave_one_prompt_out,
    measure_noise,
)
from tournament_assets.foundation.formatting import format_share
from tournament_assets.ratings.intervals import two_sided_quantile
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.asset_rows import PromptFindingRow
from tournament_assets.tournament.verdicts import Outcome

_FEWEST_PROMPTS = 3
"""Fewest prompts, inside and outside of a stratum, for testing it."""


@dataclass(frozen=True, slots=True)
class StratumFailure:
    """An entrant that loses in one stratum only.

    Attributes:
        inside: Its mean score there.
        outside: Its mean score on all other prompts.
        prompts: Prompts of the stratum on which it has a judged pair.
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
        within = [
            StratumFailure(entrant, stratum, fmean(inside), fmean(outside), len(inside))
            for name, stratum in tested
            if name == entrant
            for inside, outside in [(scores[entrant][stratum], _others(scores[entrant], stratum))]
            if fmean(inside) < 0.5 <= fmean(outside)
            and _are_apart(inside, outside, confidence=1 - CHANCE / len(tested))
        ]
        if len(within) == 1:
            failures += within
    return failures


def _scores_by_stratum(
    pairs: Iterable[PairReading], entrants: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for pair in pairs:
        for entrant in (pair.entrant_a, pair.entrant_b):
            worth = pair.points(entrant)
            if worth is not None:
                entries = points.setdefault((entrant, pair.stratum, pair.prompt_id), [])
                entries.append((worth, pair.weight))
    scores: dict[str, dict[str, list[float]]] = {entrant: {} for entrant in entrants}
    for (entrant, stratum, _), worths in points.items():
        scores[entrant].setdefault(stratum, []).append(fmean(*zip(*worths, strict=True)))
    return scores


def _others(scores: dict[str, list[float]], stratum: str) -> list[float]:
    return [score for name, values in scores.items() if name != stratum for score in values]


def _are_apart(first: Sequence[float], second: Sequence[float], *, confidence: float) -> bool:
    errors = [variance(first) / len(first), variance(second) / len(second)]
    error = sum(errors)
    difference = abs(fmean(first) - fmean(second))
    if error == 0:
        return difference > 0
    freedom = error**2 / (errors[0] ** 2 / (len(first) - 1) + errors[1] ** 2 / (len(second) - 1))
    quantile = two_sided_quantile(confidence, degrees_of_freedom=max(1, math.floor(freedom)))
    return difference > quantile * math.sqrt(error)


_FEWEST_PAIRS = 2
"""Fewest judged pairs for a pattern on a prompt; two entrants never have as many."""


def audit_prompts(
    pairs: Iterable[PairReading], *, dimension: str, entrants: Sequence[str]
) -> list[PromptFindingRow]:
    """Audit every prompt of one dimension across all entrants.

    Args:
        pairs: Every pair that was put to the judge.
        entrants: In the order of the tables.

    Returns:
        Findings before measurements, by kind, worst first, then by prompt.
    """
    pairs = list(pairs)
    by_prompt: dict[str, list[PairReading]] = {}
    for pair in pairs:
        by_prompt.setdefault(pair.prompt_id, []).append(pair)
    findings = [
        *_judge_failures(by_prompt, dimension),
        *(
            finding
            for prompt_id, members in by_prompt.items()
            for finding in (
                *_patterns(prompt_id, members, dimension, entrants),
                describe_noise(
                    measure_noise(prompt_id, members),
                    dimension=dimension,
                    stratum=members[0].stratum,
                ),
            )
        ),
        *_stratum_findings(pairs, dimension, entrants),
        *_deciding(pairs, dimension, entrants, by_prompt),
    ]
    kinds = [kind.value for kind in FindingKind]
    return sorted(
        findings,
        key=lambda each: (
            not each.is_finding,
            kinds.index(each.kind),
            _badness(each),
            each.prompt_id or "",
            each.stratum,
            each.entrants,
        ),
    )


def _badness(finding: PromptFindingRow) -> float:
    if finding.value is None:
        return math.inf
    # For ratios and scores small is bad; for everything else large is.
    is_low = finding.kind in (FindingKind.SIGNAL_TO_NOISE, FindingKind.STRATUM_FAILURE)
    return finding.value if is_low else -abs(finding.value)


def _judge_failures(
    by_prompt: dict[str, list[PairReading]], dimension: str
) -> Iterator[PromptFindingRow]:
    n_replies = {
        prompt_id: sum(
            len(pair.replies) for pair in members if pair.outcome is not Outcome.SAME_TEXT
        )
        for prompt_id, members in by_prompt.items()
    }
    missing = {
        prompt_id: Counter(
            reply.verdict.value
            for pair in members
            for reply in pair.replies
            if not reply.verdict.is_decided
        )
        for prompt_id, members in by_prompt.items()
    }
    total, drawn = sum(n_replies.values()), sum(count.total() for count in missing.values())
    for prompt_id, members in by_prompt.items():
        count = missing[prompt_id].total()
        if count < _FEWEST_PAIRS:
            continue
        chance = len(by_prompt) * tail_probability(
            count, total=total, marked=n_replies[prompt_id], drawn=drawn
        )
        if chance > CHANCE:
            continue
        infra = sum(reply.failure in INFRASTRUCTURE for pair in members for reply in pair.replies)
        reasons = ", ".join(f"{n} {name}" for name, n in sorted(missing[prompt_id].items()))
        yield PromptFindingRow(
            dimension=dimension,
            kind=FindingKind.JUDGE_FAILURES,
            is_finding=True,
            prompt_id=prompt_id,
            stratum=members[0].stratum,
            value=count / n_replies[prompt_id],
            count=count,
            total=n_replies[prompt_id],
            sentence=(
                f"{count} of the {n_replies[prompt_id]} replies on {prompt_id} are missing "
                f"({reasons}; {infra} for reasons of infrastructure), against {drawn - count} of "
                f"{total - n_replies[prompt_id]} on all other prompts."
            ),
        )


def _patterns(
    prompt_id: str, members: Sequence[PairReading], dimension: str, entrants: Sequence[str]
) -> Iterator[PromptFindingRow]:
    judged = [pair for pair in members if pair.is_judged]
    if len(judged) < _FEWEST_PAIRS:
        return
    outcomes = Counter(pair.outcome for pair in judged)
    inconsistent, ties = outcomes[Outcome.INCONSISTENT], outcomes[Outcome.TIE]
    decisive = len(judged) - inconsistent - ties

    def finding(kind: FindingKind, count: int, sentence: str) -> PromptFindingRow:
        return PromptFindingRow(
            dimension=dimension,
            kind=kind,
            is_finding=True,
            prompt_id=prompt_id,
            stratum=members[0].stratum,
            value=count / len(judged),
            count=count,
            total=len(judged),
            sentence=sentence,
        )

    if inconsistent == len(judged):
        yield finding(
            FindingKind.ALL_INCONSISTENT,
            inconsistent,
            f"All {len(judged)} judged pairs on {prompt_id} are inconsistent: the judge follows "
            "the position of the responses, not what they say.",
        )
    elif not decisive:
        yield finding(
            FindingKind.NO_WINNER,
            ties + inconsistent,
            f"No entrant wins on {prompt_id}: {ties} ties and {inconsistent} inconsistent of "
            f"{len(judged)} judged pairs.",
        )
    elif (
        len(judged) == len(entrants) * (len(entrants) - 1) // 2
        and len({sum(pair.points(name) or 0.0 for pair in _of(judged, name)) for name in entrants})
        == 1
    ):
        yield finding(
            FindingKind.EQUAL_SCORES,
            decisive,
            f"All entrants have the same score on {prompt_id}, although {decisive} of "
            f"{len(judged)} judged pairs have a winner: they beat each other in a circle.",
        )


def _of(pairs: Iterable[PairReading], entrant: str) -> list[PairReading]:
    return [pair for pair in pairs if entrant in (pair.entrant_a, pair.entrant_b)]


def _stratum_findings(
    pairs: Sequence[PairReading], dimension: str, entrants: Sequence[str]
) -> Iterator[PromptFindingRow]:
    for failure in find_stratum_failures(pairs, entrants=entrants):
        yield PromptFindingRow(
            dimension=dimension,
            kind=FindingKind.STRATUM_FAILURE,
            is_finding=True,
            stratum=failure.stratum,
            entrants=(failure.entrant_id,),
            value=failure.inside,
            count=failure.prompts,
            total=len({pair.prompt_id for pair in pairs if pair.is_judged}),
            sentence=(
                f"{failure.entrant_id} fails the stratum {failure.stratum} only: a score of "
                f"{format_share(failure.inside)} on its {failure.prompts} prompts, "
                f"{format_share(failure.outside)} on "
                "all others."
            ),
        )


def _deciding(
    pairs: Sequence[PairReading],
    dimension: str,
    entrants: Sequence[str],
    by_prompt: dict[str, list[PairReading]],
) -> Iterator[PromptFindingRow]:
    influences = leave_one_prompt_out(code_judgments(pairs, entrants=entrants))
    moves = [abs(influence.move) for influence in influences if influence.move is not None]
    largest = max(moves, default=0.0)
    for influence in influences:
        members = by_prompt[influence.prompt_id]
        yield from describe_influence(
            influence,
            dimension=dimension,
            stratum=members[0].stratum,
            judged=sum(pair.is_judged for pair in members),
            pairs=len(members),
            largest=largest,
        )
