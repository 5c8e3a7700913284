"""How far a judge's verdicts agree with people's labels, and where they do not.

A judge's errors bias the share of pairs that it says an entrant won. Labels show how often it is
right about wins and about the rest, and both correct the share; its interval allows for the small
number of labels. Sources: Rogan and Gladen, "Estimating prevalence from the results of a screening
test", https://doi.org/10.1093/oxfordjournals.aje.a112510; Lee and others on the interval with both
uncertainties, https://arxiv.org/abs/2511.21140. Cohen's kappa is in `agreement`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    Agreement,
    LabelPair,
    ShareByPrompt,
    measure_agreement,
    measure_by_prompt,
    share_by_prompt,
)
from tournament_assets.extras.people.human_agreement import TIE
from tournament_assets.ratings.matches import require_confidence
from tournament_assets.tournament.asset_rows import MeasureRow
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.estimates import Estimate, Resampling
from tournament_assets.tournament.verdicts import Outcome

JUDGE = "judge"
SHOWN_ERRORS = 10
_WORDS = {Outcome.A_WINS: "a", Outcome.B_WINS: "b"}
_SHARES = {"a": 1.0, "b": 0.0, TIE: 0.5}


@dataclass(frozen=True, slots=True)
class Labelling:
    """What one person said of a pair.

    Attributes:
        word: The winner, `a` or `b`, or `tie`.
        is_both_bad: Whether it is a tie because both are bad.
    """

    rater: str
    word: str
    is_both_bad: bool = False


@dataclass(frozen=True, slots=True)
class CalibratedPair:
    """A pair of one dimension, with the judge's verdict and what people said.

    Attributes:
        stratum: The prompt's source.
        outcome: What the judge's two replies amount to.
        labels: What people said; empty if nobody labelled it.
        chance: The probability that the pair was drawn to be labelled.
    """

    prompt_id: str
    stratum: str
    entrant_a: str
    entrant_b: str
    outcome: Outcome
    labels: tuple[Labelling, ...] = ()
    chance: float = 1.0

    @property
    def judged(self) -> str | None:
        """The judge's verdict: `a`, `b` or `tie`; None if unjudged."""
        if not self.outcome.is_judged:
            return None
        return _WORDS.get(self.outcome, TIE)

    @property
    def labelled(self) -> float:
        """The first entrant's mean share of the labels."""
        return math.fsum(_SHARES[each.word] for each in self.labels) / len(self.labels)


def correct_share(
    share: float,
    n: float,
    *,
    specificity: float,
    sensitivity: float,
    n_negative: float,
    n_positive: float,
    confidence: float = 0.95,
) -> Estimate:
    """Correct the share of a judge's yes answers for its error rates.

    Args:
        share: The share of n to which the judge says yes.
        n: How many independent items it was asked about.
        specificity: How often it says no where people do.
        sensitivity: How often it says yes where people do.
        n_negative: Independent labels behind the specificity.
        n_positive: Independent labels behind the sensitivity.
        confidence: Coverage of the interval.

    Returns:
        The share as people would count it, from 0 to 1; None if the judge is uninformative.

    Raises:
        InputError: If `confidence` is not between 0 and 1, or one kind has no labels.
    """
    require_confidence(confidence)
    if min(n, n_negative, n_positive) <= 0:
        raise InputError(
            f"there are {n:g} verdicts and {n_negative:g} and {n_positive:g} labels; expected some "
            "of each"
        )
    if specificity + sensitivity <= 1:
        return Estimate(None)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    value = (share + specificity - 1) / (specificity + sensitivity - 1)
    # Adds a few imaginary cases of either kind, so that shares of 0 and 1 have intervals.
    share, n = (n * share + z**2 / 2) / (n + z**2), n + z**2
    specificity = (n_negative * specificity + 1) / (n_negative + 2)
    sensitivity = (n_positive * sensitivity + 1) / (n_positive + 2)
    slope = specificity + sensitivity - 1
    if slope <= 0:
        return Estimate(None)
    middle = (share + specificity - 1) / slope
    of_no = specificity * (1 - specificity) / (n_negative + 2)
    of_yes = sensitivity * (1 - sensitivity) / (n_positive + 2)
    shift = 2 * z**2 * (middle * of_yes - (1 - middle) * of_no)
    variance = share * (1 - share) / n + (1 - middle) ** 2 * of_no + middle**2 * of_yes
    reach = z * math.sqrt(variance) / slope
    low, high = (
        min(max(each, 0.0), 1.0) for each in (middle + shift - reach, middle + shift + reach)
    )
    return Estimate(min(max(value, 0.0), 1.0), low, high)


def calibrate_judge(
    pairs: Sequence[CalibratedPair],
    *,
    dimension: str,
    entrants: Sequence[str],
    changed: int = 0,
    resampling: Resampling = MANY_RESAMPLES,
) -> list[MeasureRow]:
    """Return what labels say of the judge on one dimension, as rows; none without a label.

    A label's weight is 1 / the chance with which its pair was drawn. A label on an unjudged pair is
    counted, but enters no share.

    Args:
        pairs: Every pair of the dimension, labelled or not.
        changed: How many labels are on texts that have changed; `pairs` has none of them.
        resampling: Of the prompts, for kappa's intervals; its confidence is used for all intervals.
    """
    heard = [pair for pair in pairs if pair.labels]
    judged = [pair for pair in heard if pair.judged is not None]
    if not heard and not changed:
        return []
    rows = _counts(heard, dimension, changed)
    if judged:
        rows += _right(judged, dimension, resampling.confidence)
        rows += _agreements(judged, heard, dimension, resampling)
        for entrant in entrants:
            rows += _wins(entrant, pairs, judged, dimension, resampling.confidence)
        rows += _errors(judged, dimension)
    return rows


def _counts(heard: Sequence[CalibratedPair], dimension: str, changed: int) -> list[MeasureRow]:
    labels = [label for pair in heard for label in pair.labels]
    counts = {
        "pairs": len(heard),
        "labels": len(labels),
        "both_bad": sum(label.is_both_bad for label in labels),
        "inconsistent": sum(pair.outcome is Outcome.INCONSISTENT for pair in heard),
        "unjudged": sum(pair.judged is None for pair in heard),
        "changed": changed,
    }
    raters = sorted({label.rater for label in labels})
    rows = [
        *(("count", name, count) for name, count in counts.items()),
        *(("rater", name, sum(each.rater == name for each in labels)) for name in raters),
    ]
    return [
        MeasureRow.of(
            Estimate.of_count(count),
            dimension=dimension,
            measure=measure,
            subject=subject,
            unit="count",
        )
        for measure, subject, count in rows
    ]


def _strata(pairs: Sequence[CalibratedPair]) -> list[str | None]:
    """Return None for all sources together, then each source if there are several."""
    found = sorted({pair.stratum for pair in pairs})
    return [None, *(found if len(found) > 1 else ())]


def _within(pairs: Iterable[CalibratedPair], stratum: str | None) -> list[CalibratedPair]:
    return [pair for pair in pairs if stratum in (None, pair.stratum)]


def _right(judged: Sequence[CalibratedPair], dimension: str, confidence: float) -> list[MeasureRow]:
    rows = []
    for stratum in _strata(judged):
        units = [(pair, label) for pair in _within(judged, stratum) for label in pair.labels]
        found = measure_by_prompt(
            ((pair.prompt_id, label.word == pair.judged) for pair, label in units),
            confidence=confidence,
            weights=_weights([1 / (pair.chance * len(pair.labels)) for pair, _ in units]),
        )
        note = None if found.low is not None else "labels on one prompt have no interval"
        rows.append(
            MeasureRow.of(
                replace(found, note=note),
                dimension=dimension,
                measure="right",
                stratum=stratum,
                unit="share",
            )
        )
    return rows


def _weights(weights: list[float]) -> list[float] | None:
    """Return the weights, or None if all are equal, so that shares are unweighted."""
    return None if len(set(weights)) < 2 else weights


def _agreements(
    judged: Sequence[CalibratedPair],
    heard: Sequence[CalibratedPair],
    dimension: str,
    resampling: Resampling,
) -> list[MeasureRow]:
    raters = sorted({label.rater for pair in heard for label in pair.labels})
    both = [*((rater, JUDGE) for rater in raters), *combinations(raters, 2)]
    rows = []
    for first, second in both:
        known = judged if second == JUDGE else heard
        for stratum in _strata(known):
            found = measure_agreement(_read_by(first, second, _within(known, stratum)), resampling)
            if found.n:
                rows += _kappa_rows(found, dimension, first, second, stratum)
    return rows


def _read_by(first: str, second: str, pairs: Iterable[CalibratedPair]) -> list[LabelPair]:
    read = []
    for pair in pairs:
        words: dict[str, str | None] = {label.rater: label.word for label in pair.labels}
        other = pair.judged if second == JUDGE else words.get(second)
        read.append(LabelPair(pair.prompt_id, words.get(first), other, 1 / pair.chance))
    return read


def _kappa_rows(
    found: Agreement, dimension: str, first: str, second: str, stratum: str | None
) -> list[MeasureRow]:
    measures: dict[str, tuple[Estimate, str]] = {
        "agreement": (found.share, "share"),
        "kappa": (found.kappa, "kappa"),
    }
    return [
        MeasureRow.of(
            each,
            dimension=dimension,
            measure=measure,
            subject=first,
            other=second,
            stratum=stratum,
            unit=unit,
        )
        for measure, (each, unit) in measures.items()
    ]


def _wins(
    entrant: str,
    pairs: Sequence[CalibratedPair],
    judged: Sequence[CalibratedPair],
    dimension: str,
    confidence: float,
) -> list[MeasureRow]:
    """Return the share of its pairs that people would say an entrant won, and what corrects it."""
    own = [
        pair
        for pair in pairs
        if entrant in (pair.entrant_a, pair.entrant_b) and pair.judged is not None
    ]
    share = share_by_prompt((pair.prompt_id, pair.judged == _side(pair, entrant)) for pair in own)
    won, missed = (
        _told(
            [
                (pair, (pair.judged == _side(pair, entrant)) == has_won)
                for pair in judged
                for label in pair.labels
                if entrant in (pair.entrant_a, pair.entrant_b)
                and (label.word == _side(pair, entrant)) == has_won
            ]
        )
        for has_won in (True, False)
    )
    corrected, note = Estimate(None), "people gave it no win or no other verdict"
    if share.rate is not None and won.rate is not None and missed.rate is not None:
        corrected = correct_share(
            share.rate,
            share.n_effective,
            specificity=missed.rate,
            sensitivity=won.rate,
            n_negative=missed.n_effective,
            n_positive=won.n_effective,
            confidence=confidence,
        )
        note = "the judge is no better than chance on its pairs, so nothing can be corrected"
    n, why = won.n + missed.n, note if corrected.value is None else None
    measures = {
        "wins": Estimate(corrected.value, corrected.low, corrected.high, n, why),
        "wins_by_judge": Estimate(share.rate, n=share.n),
        "sensitivity": Estimate(won.rate, n=won.n),
        "specificity": Estimate(missed.rate, n=missed.n),
    }
    return [
        MeasureRow.of(found, dimension=dimension, measure=measure, subject=entrant, unit="share")
        for measure, found in measures.items()
    ]


def _side(pair: CalibratedPair, entrant: str) -> str:
    return "a" if pair.entrant_a == entrant else "b"


def _told(units: Sequence[tuple[CalibratedPair, bool]]) -> ShareByPrompt:
    return share_by_prompt(
        ((pair.prompt_id, is_right) for pair, is_right in units),
        _weights([1 / (pair.chance * len(pair.labels)) for pair, _ in units]),
    )


def _errors(judged: Sequence[CalibratedPair], dimension: str) -> list[MeasureRow]:
    """Return the judge's worst errors, to be read, one per prompt before any second one."""
    missed = sorted(
        (pair for pair in judged if pair.labelled != _SHARES[str(pair.judged)]),
        key=lambda pair: (
            -abs(pair.labelled - _SHARES[str(pair.judged)]),
            -len(pair.labels),
            *(pair.prompt_id, pair.entrant_a, pair.entrant_b),
        ),
    )
    worst_of_prompt = {pair.prompt_id: pair for pair in reversed(missed)}
    # Python's sort is stable, so both parts remain sorted by the size of the error.
    missed.sort(key=lambda pair: worst_of_prompt[pair.prompt_id] is not pair)
    return [
        MeasureRow.of(
            Estimate(value, n=len(pair.labels)),
            dimension=dimension,
            measure=measure,
            subject=pair.entrant_a,
            other=pair.entrant_b,
            stratum=pair.stratum,
            prompt_id=pair.prompt_id,
            unit="share",
        )
        for pair in missed[:SHOWN_ERRORS]
        for measure, value in (
            ("error", pair.labelled),
            ("error_by_judge", _SHARES[str(pair.judged)]),
        )
    ]
