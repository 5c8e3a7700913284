"""The trust panel: every measurement of the judge on one dimension, each with its light.

A light that was not measured is neither green nor red.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.audits.agreement import Agreement
from tournament_assets.audits.judge_trust import SettledControl
from tournament_assets.audits.position_bias import (
    JudgedPair,
    distinct_requests,
    measure_longer_wins,
    measure_position_bias,
)
from tournament_assets.audits.retest import JudgedTwice
from tournament_assets.audits.transitivity import measure_transitivity
from tournament_assets.audits.trust_estimates import (
    Estimate,
    estimate_consistency,
    estimate_controls,
    estimate_cycles,
    estimate_first_slot,
    estimate_flips,
    estimate_longer_wins,
    estimate_majorities,
    estimate_retest,
    estimate_unjudged,
    kappa_estimate,
    not_measured_or,
)
from tournament_assets.audits.trust_measures import (
    CYCLES,
    FIRST_SLOT,
    FLIPS,
    HUMANS,
    JUDGES,
    LENGTH,
    LONGER,
    MAJORITIES,
    RETEST,
    SWAP,
    UNJUDGED,
    is_red,
    threshold_of,
)
from tournament_assets.ratings.matches import code_decisive
from tournament_assets.tournament.check_thresholds import CheckThresholds


class TrustState(StrEnum):
    """What a light shows."""

    GREEN = "green"
    RED = "red"
    NOT_MEASURED = "not measured"
    NO_THRESHOLD = "no threshold"
    """Measured, and the config does not say from where on it is bad."""


@dataclass(frozen=True, slots=True)
class TrustLine:
    """One measurement and its light.

    Attributes:
        measure: One of `trust_measures.WORDS`.
        subject: The entrant or the other judge it is about; None if it is about the judge alone.
        estimate: The number.
        threshold: Where the light turns red; None if the config names no threshold.
        state: What the light shows.
    """

    measure: str
    subject: str | None
    estimate: Estimate
    threshold: float | None
    state: TrustState


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustEvidence:
    """What is known of a judge on one dimension; what was not measured is a text that says why.

    Attributes:
        pairs: Every planned pair.
        length: Elo points that a usual difference in length is worth.
        retest: Pairs that were judged a second time.
        controls: Planted controls.
        people: Agreement with people; None where the config names no human battles.
        judges: Agreement with every other judge, by model.
    """

    pairs: Sequence[JudgedPair]
    length: Estimate | str
    retest: Sequence[JudgedTwice] | str
    controls: Sequence[SettledControl] | str
    people: Estimate | str | None
    judges: Mapping[str, Agreement] | str


def trust_lines(
    evidence: TrustEvidence,
    *,
    entrants: Sequence[str],
    thresholds: CheckThresholds,
    n_bootstraps: int,
    seed: int,
    confidence: float,
) -> list[TrustLine]:
    """Measure everything there is evidence for, in the order of the panel.

    Args:
        evidence: What is known of the judge.
        entrants: Everyone who may appear, in the order of the tables.
        thresholds: Where the lights turn red.
        n_bootstraps: Resamples of the prompts behind the intervals of kappa.
        seed: Seeds them, and the simulations of `transitivity`.
        confidence: Coverage of the intervals.

    Raises:
        InputError: If an option is impossible, or a judgment names somebody else.
        RatingError: If the odds behind the cycles could not be fitted.
    """
    distinct = distinct_requests(evidence.pairs)
    bias = measure_position_bias(distinct, confidence=confidence)
    judgments = [pair.judgment for pair in evidence.pairs]
    cycles = measure_transitivity(code_decisive(judgments, entrants=entrants), seed=seed)
    estimates: list[tuple[str, str | None, Estimate]] = [
        (FIRST_SLOT, None, estimate_first_slot(bias)),
        (FLIPS, None, estimate_flips(bias)),
        (SWAP, None, estimate_consistency(bias)),
        (
            RETEST,
            None,
            estimate_retest(
                evidence.retest, n_bootstraps=n_bootstraps, seed=seed, confidence=confidence
            ),
        ),
        *((JUDGES, name, each) for name, each in _judges(evidence.judges)),
        *(
            [(HUMANS, None, not_measured_or(evidence.people))]
            if evidence.people is not None
            else []
        ),
        (LENGTH, None, not_measured_or(evidence.length)),
        (
            LONGER,
            None,
            estimate_longer_wins(measure_longer_wins(distinct, confidence=confidence)),
        ),
        *(
            (name, None, each)
            for name, each in estimate_controls(evidence.controls, confidence=confidence)
        ),
        (CYCLES, None, estimate_cycles(cycles.within_prompts, "judgments on one prompt", cycles)),
        (MAJORITIES, None, estimate_majorities(cycles)),
        *(
            (UNJUDGED, entrant, estimate_unjudged(evidence.pairs, entrant, confidence=confidence))
            for entrant in entrants
        ),
    ]
    return [
        _light(measure, subject, estimate, threshold_of(measure, thresholds))
        for measure, subject, estimate in estimates
    ]


def _light(
    measure: str, subject: str | None, estimate: Estimate, threshold: float | None
) -> TrustLine:
    if estimate.value is None:
        state = TrustState.NOT_MEASURED
    elif threshold is None:
        state = TrustState.NO_THRESHOLD
    else:
        red = is_red(measure, estimate.value, threshold, low=estimate.low, high=estimate.high)
        state = TrustState.RED if red else TrustState.GREEN
    return TrustLine(measure, subject, estimate, threshold, state)


def _judges(judges: Mapping[str, Agreement] | str) -> list[tuple[str | None, Estimate]]:
    if isinstance(judges, str):
        return [(None, not_measured_or(judges))]
    return [(name, kappa_estimate(agreement)) for name, agreement in sorted(judges.items())]
