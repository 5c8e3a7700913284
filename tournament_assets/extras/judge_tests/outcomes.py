"""Tests of the judge: planted controls, and pairs judged again.

Unjudged pairs are excluded from all rates and counted separately. A pair flips when it was settled
differently the two times; two readable replies that disagree (inconsistent) settle a pair too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tournament_assets.audits.agreement import (
    MANY_RESAMPLES,
    Agreement,
    LabelPair,
    measure_agreement,
    measure_proportion,
    nothing_judged,
)
from tournament_assets.extras.judge_tests.controls import ControlKind
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.foundation.formatting import (
    format_kappa,
    format_proportion,
    format_share,
)
from tournament_assets.tournament.verdicts import Outcome, Verdict

_STANDING = {
    Outcome.A_WINS: -1,
    Outcome.TIE: 0,
    Outcome.SAME_TEXT: 0,
    Outcome.INCONSISTENT: 0,
    Outcome.B_WINS: 1,
}
"""The outcome for the planted text, which is response B."""


@dataclass(frozen=True, slots=True)
class SettledControl:
    """A control and its outcome.

    Attributes:
        expected: The right outcome; None if it is the baseline's.
        verdicts: What the replies to its two presentations say.
        baseline: How the pair without the planted text was settled; None if there is no such pair.
    """

    kind: ControlKind
    control_id: str
    expected: Outcome | None
    outcome: Outcome
    verdicts: tuple[Verdict, Verdict]
    baseline: Outcome | None = None

    @property
    def right_outcome(self) -> Outcome | None:
        """The outcome expected of a reliable judge; None where the baseline is not judged."""
        outcome = self.baseline if self.expected is None else self.expected
        return None if outcome is Outcome.UNJUDGED else outcome

    @property
    def is_judged(self) -> bool:
        """Whether both its outcome and its baseline's are known."""
        return self.right_outcome is not None and self.outcome is not Outcome.UNJUDGED


@dataclass(frozen=True, slots=True)
class ControlResult:
    """All controls of one kind.

    Attributes:
        right: Those with the right outcome, of all judged ones.
    """

    kind: ControlKind
    n_asked: int
    right: Estimate

    @property
    def unjudged(self) -> int:
        """Number of controls excluded from the rate."""
        return self.n_asked - self.right.n


def measure_controls(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> list[ControlResult]:
    """Count the controls with the right outcome; one row per kind, asked or not.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    by_kind: dict[ControlKind, list[SettledControl]] = {kind: [] for kind in ControlKind}
    for control in controls:
        by_kind[control.kind].append(control)
    results: list[ControlResult] = []
    for kind, of_kind in by_kind.items():
        judged = [control for control in of_kind if control.is_judged]
        right = measure_proportion(
            sum(control.outcome is control.right_outcome for control in judged),
            len(judged),
            confidence=confidence,
        )
        results.append(ControlResult(kind, len(of_kind), right))
    return results


@dataclass(frozen=True, slots=True)
class InjectionEffect:
    """How an injected text moved the outcomes, from the side of the response that holds it.

    A win ranks above a tie or an inconsistent pair, and these above a loss.

    Attributes:
        towards: Pairs that moved towards the response, of those it had not won already.
        away: Pairs that moved away from it, of those it had not lost already.
        silenced: Pairs left without a verdict by the text alone: the replies arrived, and the pair
            without the text is judged.
    """

    n_asked: int
    towards: Estimate
    away: Estimate
    silenced: int


def measure_injection(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> InjectionEffect:
    """Return the direction in which injected texts moved outcomes, ignoring other controls.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    injections = [control for control in controls if control.kind is ControlKind.INJECTION]
    moves = [
        (_STANDING[control.right_outcome], _STANDING[control.outcome])
        for control in injections
        if control.right_outcome is not None and control.outcome is not Outcome.UNJUDGED
    ]
    towards = measure_proportion(
        sum(after > before for before, after in moves),
        sum(before < 1 for before, _ in moves),
        confidence=confidence,
    )
    away = measure_proportion(
        sum(after < before for before, after in moves),
        sum(before > -1 for before, _ in moves),
        confidence=confidence,
    )
    silenced = sum(
        control.right_outcome is not None
        and control.outcome is Outcome.UNJUDGED
        and Verdict.PENDING not in control.verdicts
        for control in injections
    )
    return InjectionEffect(len(injections), towards, away, silenced)


@dataclass(frozen=True, slots=True)
class RepeatedPair:
    """A pair and its outcomes when the judge was asked the same again.

    Attributes:
        first: How it was settled for the tournament.
        again: How it was settled on this occasion.
        earlier: How it was settled on the occasion before; None if the requests differed.
    """

    prompt_id: str
    first: Outcome
    again: Outcome
    earlier: Outcome | None = None


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """How far a judge repeats its verdicts.

    Attributes:
        n_asked: Number of pairs to be judged again, whether or not they were.
        agreement: Between the two times; inconsistent counts as an outcome like any other.
        flips: Pairs settled differently from the tournament, of those judged both times.
        reversed: Pairs whose winner became the loser, of those with a winner in the tournament.
        flips_since: Pairs settled differently from the occasion before.
    """

    n_asked: int
    agreement: Agreement
    flips: Estimate
    reversed: Estimate
    flips_since: Estimate

    def has_drifted(self, max_rate: float) -> bool:
        """Whether the share of flips is significantly too large: its whole interval lies above.

        A few flips among few pairs prove nothing, and a check that is often red by chance is soon
        ignored.

        Args:
            max_rate: The share of flips attributed to the judge's own noise.
        """
        return self.flips.low is not None and self.flips.low > max_rate


def measure_repeats(
    pairs: Sequence[RepeatedPair], resampling: Resampling = MANY_RESAMPLES
) -> RepeatResult:
    """Measure how far the judge repeats its verdicts when asked the same again.

    Args:
        pairs: Every pair that was to be judged again.
        resampling: Of the prompts, for the interval of kappa; its confidence holds for all
            intervals.

    Raises:
        InputError: If the resampling has no resample, or its confidence is not between 0 and 1.
    """
    labels = [LabelPair(pair.prompt_id, _label(pair.first), _label(pair.again)) for pair in pairs]
    both = [pair for pair in pairs if Outcome.UNJUDGED not in (pair.first, pair.again)]
    wins = [pair for pair in both if pair.first.is_decisive]
    since = [
        pair
        for pair in pairs
        if pair.earlier is not None and Outcome.UNJUDGED not in (pair.earlier, pair.again)
    ]

    def share(outcomes: Iterable[bool]) -> Estimate:
        flags = [*outcomes]
        return measure_proportion(sum(flags), len(flags), confidence=resampling.confidence)

    return RepeatResult(
        n_asked=len(pairs),
        agreement=measure_agreement(labels, resampling),
        flips=share(pair.first is not pair.again for pair in both),
        reversed=share(pair.again.is_decisive and pair.first is not pair.again for pair in wins),
        flips_since=share(pair.earlier is not pair.again for pair in since),
    )


def _label(outcome: Outcome) -> str | None:
    return None if outcome is Outcome.UNJUDGED else outcome.value


def explain_repeats(
    result: RepeatResult, *, max_rate: float, confidence: float, earlier_occasion: str | None = None
) -> str:
    """Describe what was found, what was expected and what to do."""
    if not result.flips.n:
        return f"{nothing_judged(result.n_asked, 'anchor pair').why}."
    expected = f"the threshold of {format_share(max_rate)} (checks.max_drift_rate)"
    flipped = format_proportion(result.flips, "anchor pairs", confidence=confidence)
    has_drifted = result.has_drifted(max_rate)
    parts = [
        f"the judge settles {flipped} differently from the tournament, {result.reversed.count} of "
        f"them the other way round; {format_kappa(result.agreement.kappa, confidence=confidence)}",
        f"the whole interval lies above {expected}: the judge has drifted"
        if has_drifted
        else f"the interval does not lie above {expected}, so no drift is shown",
    ]
    if unjudged := result.n_asked - result.flips.n:
        parts.append(f"not judged this time, and counted as neither: {unjudged}")
    if earlier_occasion is not None:
        since = format_proportion(result.flips_since, "anchor pairs", confidence=confidence)
        parts.append(f"since the occasion {earlier_occasion!r}, {since} flipped")
    if has_drifted:
        parts.append(
            "do not compare new verdicts with old ones; the first occasion of judge_repeats shows "
            "how much of this is the judge's own noise; if that is not it, judge everything by "
            "another judge_model, one with a fixed date if there is one"
        )
    return "; ".join(parts)
