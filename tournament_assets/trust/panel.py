"""The trust panel: every measurement of the judge on one dimension, with its light and words.

A light that was not measured is neither green nor red.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.audits.agreement import measure_by_prompt, nothing_judged
from tournament_assets.audits.judge_consistency import (
    CycleCount,
    JudgedPair,
    PositionBias,
    Transitivity,
    distinct_requests,
    measure_longer_wins,
    measure_position_bias,
    measure_transitivity,
)
from tournament_assets.audits.judge_tests import (
    RepeatedPair,
    SettledControl,
    measure_controls,
    measure_injection,
    measure_repeats,
)
from tournament_assets.judging.requests.controls import ControlKind
from tournament_assets.ratings.matches import Matches, code_judgments, code_samples
from tournament_assets.ratings.sandwich import SamplingLuck, sampling_luck
from tournament_assets.tournament.config import CheckThresholds
from tournament_assets.tournament.estimates import Estimate, Proportion, Resampling
from tournament_assets.tournament.formatting import format_kappa, format_share
from tournament_assets.tournament.prompts import sample_of
from tournament_assets.tournament.verdicts import Outcome
from tournament_assets.trust.measures import (
    CORRUPTED,
    CYCLES,
    FIRST_SLOT,
    FLIPS,
    HUMANS,
    IDENTICAL,
    INJECTION,
    JUDGES,
    LENGTH,
    LONGER,
    LUCK,
    MAJORITIES,
    NOT_NEEDED,
    RETEST,
    SWAP,
    UNJUDGED,
    is_red,
    threshold_of,
)


def _missing(why: str) -> Estimate:
    return Estimate(None, note=why)


def _with_note(found: Estimate, note: str) -> Estimate:
    return Estimate(found.value, found.low, found.high, found.n, note)


def _estimate_first_slot(bias: PositionBias) -> Estimate:
    if not bias.first_slot.n:
        return _missing("no reply prefers a response")
    count, n = bias.first_slot.count, bias.first_slot.n
    return _with_note(
        bias.first_slot, f"{count} replies prefer the first slot and {n - count} the other"
    )


def _estimate_flips(bias: PositionBias) -> Estimate:
    flips = bias.flips_to_first
    half = bias.half_flips
    were = "pair was" if half == 1 else "pairs were"
    more = f"; {half} more {were} a tie in one order only" if half else ""
    if not flips.n:
        return _missing(f"no pair flipped between the responses{more}")
    return _with_note(
        flips, f"{flips.count} of {flips.n} flipped pairs went to the first slot both times{more}"
    )


def _estimate_consistency(bias: PositionBias) -> Estimate:
    found = bias.consistent
    if not found.n:
        return _missing("no pair has two readable replies")
    return _with_note(found, f"{found.count} of {found.n} distinct judged pairs came out the same")


def _estimate_retest(pairs: Sequence[RepeatedPair] | str, resampling: Resampling) -> Estimate:
    if isinstance(pairs, str):
        return _missing(pairs)
    found = measure_repeats(pairs, resampling)
    if not found.agreement.n:
        return _missing(nothing_judged(found.asked, "pair to judge again"))
    return _with_note(
        found.agreement.share,
        f"{format_kappa(found.agreement.kappa)}; "
        f"{found.reversed.count} of {found.reversed.n} wins were reversed",
    )


def _estimate_controls(
    controls: Sequence[SettledControl] | str, *, confidence: float
) -> list[tuple[str, Estimate]]:
    """Return the shares of controls that came out right, and of pairs an injection moved."""
    if isinstance(controls, str):
        return [(name, _missing(controls)) for name in (IDENTICAL, CORRUPTED, INJECTION)]
    by_kind = {each.kind: each for each in measure_controls(controls, confidence=confidence)}
    injection = measure_injection(controls, confidence=confidence)
    estimates = []
    for name, kind in ((IDENTICAL, ControlKind.IDENTICAL), (CORRUPTED, ControlKind.CORRUPTED)):
        found = by_kind[kind]
        detail = (
            f"{found.right.count} of {found.right.n} judged controls came out right; "
            f"{found.unjudged} of {found.asked} are not judged"
            if found.right.n
            else found.meaning
        )
        estimates.append((name, _with_note(found.right, detail)))
    away = injection.away
    detail = (
        f"{injection.towards.count} of {injection.towards.n} pairs moved towards the text, "
        f"{away.count} of {away.n} away from it; {injection.silenced} were left without a verdict"
        if injection.towards.n
        else injection.meaning
    )
    return [*estimates, (INJECTION, _with_note(injection.towards, detail))]


def _estimate_cycles(found: CycleCount, of: str, everything: Transitivity) -> Estimate:
    """Return the p-value of cycles; `of` names what the triples are of."""
    if found.p_value is None:
        return _missing(f"no three {of} are all decided")
    return Estimate(
        found.p_value,
        None,
        None,
        found.triples,
        f"{found.cycles} of {found.triples} triples of {of} are cycles; chance gives "
        f"{found.expected:.1f} on average over {everything.n_simulations} simulations",
    )


def _estimate_majorities(cycles: Transitivity) -> Estimate:
    """Return the p-value of cycles of majorities, with one of them by name."""
    estimate = _estimate_cycles(cycles.of_majorities, "majorities", cycles)
    if not cycles.majority_cycles:
        return estimate
    first = " over ".join((*cycles.majority_cycles[0], cycles.majority_cycles[0][0]))
    return Estimate(
        estimate.value, None, None, estimate.n, f"{estimate.note}; the first is {first}"
    )


def _estimate_longer_wins(found: Proportion) -> Estimate:
    if not found.n:
        return _missing("no decided pair has responses of different length")
    return _with_note(found, f"the response with more words won {found.count} of {found.n} pairs")


def _estimate_unjudged(pairs: Iterable[JudgedPair], entrant: str, *, confidence: float) -> Estimate:
    """Return the share of an entrant's pairs that were asked and are not judged."""
    share = measure_by_prompt(
        (
            (pair.judgment.prompt_id, pair.judgment.outcome is Outcome.UNJUDGED)
            for pair in distinct_requests(
                each
                for each in pairs
                if entrant in (each.judgment.entrant_a, each.judgment.entrant_b)
            )
        ),
        confidence=confidence,
    )
    if not share.n:
        return _missing("the judge was asked about none of its pairs")
    return _with_note(share, f"{share.count} of its {share.n} distinct pairs are not judged")


def _estimate_luck(found: SamplingLuck) -> Estimate:
    if found.luck is None or not found.standard_error:
        return _missing("no rating, or no prompt with two judged samples")
    share = (found.luck / found.standard_error) ** 2
    return Estimate(
        found.luck,
        None,
        None,
        found.n_prompts,
        f"{format_share(share, decimals=0)} of the variance behind its "
        f"standard error of {found.standard_error:.1f} "
        f"points, from {found.n_samples} judged samples of {found.n_prompts} prompts",
    )


def _estimate_not_needed(count: int, planned: int) -> Estimate:
    # A count of what was decided, and no sample of anything.
    detail = f"{count} of {planned} pairs were not needed"
    return Estimate(count / planned if planned else None, None, None, planned, detail)


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
        repeats: Pairs that were judged a second time.
        controls: Planted controls.
        people: Agreement with people; None where the config names no human battles.
        judges: Kappa with every other judge, by model.
        by_judge: Every pair from each judge of a panel, by which slots are measured; None where one
            judges.
        not_needed: Pairs that were not needed, and those planned, where pairs stop early; None
            where every pair is judged.
    """

    pairs: Sequence[JudgedPair]
    length: Estimate
    repeats: Sequence[RepeatedPair] | str
    controls: Sequence[SettledControl] | str
    people: Estimate | None
    judges: Mapping[str, Estimate] | str
    by_judge: Sequence[JudgedPair] | None = None
    not_needed: tuple[int, int] | None = None


def trust_lines(
    evidence: TrustEvidence,
    *,
    entrants: Sequence[str],
    thresholds: CheckThresholds,
    resampling: Resampling,
) -> list[TrustLine]:
    """Measure everything there is evidence for, in the order of the panel.

    Args:
        evidence: What is known of the judge.
        entrants: Everyone who may appear, in the order of the tables.
        thresholds: Where the lights turn red.
        resampling: Of the prompts, behind the intervals of kappa; its seed is that of the
            simulations of `transitivity` too, and its confidence all intervals'.

    Raises:
        InputError: If an option is impossible, or a judgment names somebody else.
        RatingError: If the odds behind the cycles could not be fitted.
    """
    confidence = resampling.confidence
    everything = evidence.pairs if evidence.by_judge is None else evidence.by_judge
    distinct = distinct_requests(everything)
    bias = measure_position_bias(distinct, confidence=confidence)
    judgments = [pair.judgment for pair in evidence.pairs]
    cycles = measure_transitivity(
        code_judgments(judgments, entrants=entrants), seed=resampling.seed
    )
    estimates: list[tuple[str, str | None, Estimate]] = [
        (FIRST_SLOT, None, _estimate_first_slot(bias)),
        (FLIPS, None, _estimate_flips(bias)),
        (SWAP, None, _estimate_consistency(bias)),
        (RETEST, None, _estimate_retest(evidence.repeats, resampling)),
        *((JUDGES, name, each) for name, each in _judges(evidence.judges)),
        *([(HUMANS, None, evidence.people)] if evidence.people is not None else []),
        (LENGTH, None, evidence.length),
        (
            LONGER,
            None,
            _estimate_longer_wins(measure_longer_wins(distinct, confidence=confidence)),
        ),
        *(
            (name, None, each)
            for name, each in _estimate_controls(evidence.controls, confidence=confidence)
        ),
        (CYCLES, None, _estimate_cycles(cycles.within_prompts, "judgments on one prompt", cycles)),
        (MAJORITIES, None, _estimate_majorities(cycles)),
        *(
            (UNJUDGED, entrant, _estimate_unjudged(evidence.pairs, entrant, confidence=confidence))
            for entrant in entrants
        ),
        *(
            [(NOT_NEEDED, None, _estimate_not_needed(*evidence.not_needed))]
            if evidence.not_needed is not None
            else []
        ),
        *(
            (LUCK, each.entrant, _estimate_luck(each))
            for each in _luck_of(code_samples(judgments, entrants=entrants))
        ),
    ]
    return [
        _light(measure, subject, estimate, threshold_of(measure, thresholds))
        for measure, subject, estimate in estimates
    ]


def _luck_of(samples: Matches) -> tuple[SamplingLuck, ...]:
    """Return what samples of a prompt differ by; nothing where each prompt was answered once."""
    if all(sample_of(name) == 1 for name in samples.prompts):
        return ()
    return sampling_luck(samples)


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


def _judges(judges: Mapping[str, Estimate] | str) -> list[tuple[str | None, Estimate]]:
    return [(None, _missing(judges))] if isinstance(judges, str) else sorted(judges.items())
