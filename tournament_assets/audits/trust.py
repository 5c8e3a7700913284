"""The trust panel: every measurement of the judge on one dimension, each with its light.

A light that was not measured is neither green nor red.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.audits.agreement import Agreement, Proportion, measure_proportion
from tournament_assets.audits.judge_trust import (
    SettledControl,
    measure_controls,
    measure_injection,
)
from tournament_assets.audits.position_bias import PositionBias, measure_position_bias
from tournament_assets.audits.retest import JudgedTwice, measure_retest
from tournament_assets.audits.transitivity import CycleCount, Transitivity, measure_transitivity
from tournament_assets.audits.trust_measures import (
    CORRUPTED,
    CYCLES,
    FIRST_SLOT,
    FLIPS,
    HUMANS,
    IDENTICAL,
    INJECTION,
    JUDGES,
    LENGTH,
    MAJORITIES,
    RETEST,
    SWAP,
    UNJUDGED,
    is_red,
    threshold_of,
)
from tournament_assets.judging.controls import ControlKind
from tournament_assets.ratings.matches import code_decisive
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict


class TrustState(StrEnum):
    """What a light shows."""

    GREEN = "green"
    RED = "red"
    NOT_MEASURED = "not measured"
    NO_THRESHOLD = "no threshold"
    """Measured, and the config does not say from where on it is bad."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval.

    Attributes:
        value: The number; None if there is none, as is each end that is not known.
        low: Lower end of the interval.
        high: Upper end.
        n: What it was counted over.
        detail: What else there is to say.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    detail: str


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


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A pair and what its two replies say.

    Attributes:
        judgment: How it was settled.
        verdicts: What the replies to its presentations say.
    """

    judgment: Judgment
    verdicts: tuple[Verdict, Verdict]


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
    bias = measure_position_bias((pair.verdicts for pair in evidence.pairs), confidence=confidence)
    cycles = measure_transitivity(
        code_decisive((pair.judgment for pair in evidence.pairs), entrants=entrants), seed=seed
    )
    estimates: list[tuple[str, str | None, Estimate]] = [
        (FIRST_SLOT, None, _first_slot(bias)),
        (FLIPS, None, _flips(bias)),
        (SWAP, None, _swap(bias)),
        (
            RETEST,
            None,
            _retest(evidence.retest, n_bootstraps=n_bootstraps, seed=seed, confidence=confidence),
        ),
        *((JUDGES, name, each) for name, each in _judges(evidence.judges)),
        *([(HUMANS, None, _or_absent(evidence.people))] if evidence.people is not None else []),
        (LENGTH, None, _or_absent(evidence.length)),
        *((name, None, each) for name, each in _controls(evidence.controls, confidence)),
        (CYCLES, None, _cycles(cycles.within_prompts, "judgments on one prompt", cycles)),
        (MAJORITIES, None, _majorities(cycles)),
        *(
            (UNJUDGED, entrant, _unjudged(evidence.pairs, entrant, confidence))
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
        red = is_red(measure, estimate.value, threshold)
        state = TrustState.RED if red else TrustState.GREEN
    return TrustLine(measure, subject, estimate, threshold, state)


def _or_absent(estimate: Estimate | str) -> Estimate:
    return Estimate(None, None, None, 0, estimate) if isinstance(estimate, str) else estimate


def _share(share: Proportion, detail: str) -> Estimate:
    return Estimate(share.rate, share.low, share.high, share.n, detail)


def _first_slot(bias: PositionBias) -> Estimate:
    if not bias.first_slot.n:
        return _or_absent("no reply prefers a response")
    count, n = bias.first_slot.count, bias.first_slot.n
    return _share(
        bias.first_slot, f"{count} replies prefer the first slot and {n - count} the other"
    )


def _flips(bias: PositionBias) -> Estimate:
    flips = bias.flips_to_first
    more = f"; {bias.half_flips} more pairs were a tie in one order only" if bias.half_flips else ""
    if not flips.n:
        return _or_absent(f"no pair flipped between the responses{more}")
    return _share(
        flips, f"{flips.count} of {flips.n} flipped pairs went to the first slot both times{more}"
    )


def _swap(bias: PositionBias) -> Estimate:
    found = bias.consistent
    if not found.n:
        return _or_absent("no pair has two readable replies")
    return _share(found, f"{found.count} of {found.n} judged pairs came out the same")


def _retest(
    pairs: Sequence[JudgedTwice] | str, *, n_bootstraps: int, seed: int, confidence: float
) -> Estimate:
    if isinstance(pairs, str):
        return _or_absent(pairs)
    found = measure_retest(pairs, n_bootstraps=n_bootstraps, seed=seed, confidence=confidence)
    agreement = found.pairs
    return Estimate(
        agreement.agreement,
        agreement.agreement_low,
        agreement.agreement_high,
        agreement.n,
        found.meaning
        if agreement.n == 0
        else f"{_kappa_words(agreement)}; "
        f"{found.reversed.count} of {found.reversed.n} wins were reversed",
    )


def _kappa_words(agreement: Agreement) -> str:
    if agreement.kappa is None:
        return f"no kappa: {agreement.note}"
    words = f"kappa {agreement.kappa:.2f}"
    if agreement.kappa_low is None or agreement.kappa_high is None:
        return f"{words}, without an interval: {agreement.note}"
    return f"{words} ({agreement.kappa_low:.2f} to {agreement.kappa_high:.2f})"


def kappa_estimate(agreement: Agreement) -> Estimate:
    """Return a kappa as the panel shows it, with the raw agreement beside it."""
    if agreement.kappa is None:
        return Estimate(None, None, None, agreement.n, str(agreement.note))
    note = f"; {agreement.note}" if agreement.note else ""
    return Estimate(
        agreement.kappa,
        agreement.kappa_low,
        agreement.kappa_high,
        agreement.n,
        f"the same in {agreement.agreement:.1%} of {agreement.n} pairs{note}",
    )


def _judges(judges: Mapping[str, Agreement] | str) -> list[tuple[str | None, Estimate]]:
    if isinstance(judges, str):
        return [(None, _or_absent(judges))]
    return [(name, kappa_estimate(agreement)) for name, agreement in sorted(judges.items())]


def _controls(
    controls: Sequence[SettledControl] | str, confidence: float
) -> list[tuple[str, Estimate]]:
    if isinstance(controls, str):
        return [(name, _or_absent(controls)) for name in (IDENTICAL, CORRUPTED, INJECTION)]
    by_kind = {each.kind: each for each in measure_controls(controls, confidence=confidence)}
    injection = measure_injection(controls, confidence=confidence)
    estimates = []
    for name, kind in ((IDENTICAL, ControlKind.IDENTICAL), (CORRUPTED, ControlKind.CORRUPTED)):
        found = by_kind[kind]
        detail = (
            f"{found.as_expected} of {found.judged} judged controls came out right; "
            f"{found.unjudged} of {found.asked} are not judged"
            if found.judged
            else found.meaning
        )
        estimates.append(
            (name, Estimate(found.rate, found.rate_low, found.rate_high, found.judged, detail))
        )
    away = injection.away
    detail = (
        f"{injection.towards.count} of {injection.towards.n} pairs moved towards the text, "
        f"{away.count} of {away.n} away from it; {injection.silenced} were left without a verdict"
        if injection.towards.n
        else injection.meaning
    )
    return [*estimates, (INJECTION, _share(injection.towards, detail))]


def _cycles(found: CycleCount, of: str, everything: Transitivity) -> Estimate:
    if found.p_value is None:
        return _or_absent(f"no three {of} are all decided")
    return Estimate(
        found.p_value,
        None,
        None,
        found.triples,
        f"{found.cycles} of {found.triples} triples of {of} are cycles; chance gives "
        f"{found.expected:.1f} on average over {everything.n_simulations} simulations",
    )


def _majorities(cycles: Transitivity) -> Estimate:
    estimate = _cycles(cycles.of_majorities, "majorities", cycles)
    if not cycles.majority_cycles:
        return estimate
    first = " over ".join((*cycles.majority_cycles[0], cycles.majority_cycles[0][0]))
    return Estimate(
        estimate.value, None, None, estimate.n, f"{estimate.detail}; the first is {first}"
    )


def _unjudged(pairs: Sequence[JudgedPair], entrant: str, confidence: float) -> Estimate:
    outcomes = Counter(
        pair.judgment.outcome
        for pair in pairs
        if entrant in (pair.judgment.entrant_a, pair.judgment.entrant_b)
    )
    share = measure_proportion(outcomes[Outcome.UNJUDGED], outcomes.total(), confidence=confidence)
    if not share.n:
        return _or_absent("it takes part in no pair")
    return _share(share, f"{share.count} of its {share.n} pairs are not judged")
