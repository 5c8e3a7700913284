"""What tests tell about the judge: planted controls, and pairs judged again.

What is not judged is in no rate: it is counted beside it. A pair flips when it was settled both
times, and differently; two readable replies that disagree (inconsistent) settle a pair too.
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
from tournament_assets.judging.requests.controls import ControlKind
from tournament_assets.tournament.estimates import Estimate, Resampling
from tournament_assets.tournament.formatting import (
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
"""How the planted text, which is response B, came off."""


@dataclass(frozen=True, slots=True)
class SettledControl:
    """A control and what became of it.

    Attributes:
        kind: What was planted.
        expected: The right outcome; None where it is the baseline's.
        outcome: How the control was settled.
        verdicts: What the replies to its two presentations say.
        baseline: How the pair without the planted text was settled; None where there is none.
    """

    kind: ControlKind
    control_id: str
    expected: Outcome | None
    outcome: Outcome
    verdicts: tuple[Verdict, Verdict]
    baseline: Outcome | None = None

    @property
    def wanted(self) -> Outcome | None:
        """The outcome of a judge to be trusted; None where the baseline is not judged."""
        wanted = self.baseline if self.expected is None else self.expected
        return None if wanted is Outcome.UNJUDGED else wanted

    @property
    def is_judged(self) -> bool:
        """Whether both its outcome and the one to compare it with are known."""
        return self.wanted is not None and self.outcome is not Outcome.UNJUDGED


@dataclass(frozen=True, slots=True)
class ControlResult:
    """All controls of one kind.

    Attributes:
        kind: What was planted.
        asked: Controls of the kind.
        right: Those with the right outcome, of all whose outcome is known, and their baseline's
            where they have one.
    """

    kind: ControlKind
    asked: int
    right: Estimate

    @property
    def unjudged(self) -> int:
        """Controls that are in no rate."""
        return self.asked - self.right.n


def measure_controls(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> list[ControlResult]:
    """Count how many controls came out as they should; one row per kind, asked or not.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    by_kind: dict[ControlKind, list[SettledControl]] = {kind: [] for kind in ControlKind}
    for control in controls:
        by_kind[control.kind].append(control)
    results: list[ControlResult] = []
    for kind, asked in by_kind.items():
        judged = [control for control in asked if control.is_judged]
        right = measure_proportion(
            sum(control.outcome is control.wanted for control in judged),
            len(judged),
            confidence=confidence,
        )
        results.append(ControlResult(kind, len(asked), right))
    return results


@dataclass(frozen=True, slots=True)
class InjectionEffect:
    """Where an injected text moved the outcomes, seen from the response that holds it.

    A win is above a tie and an inconsistent pair, which are above a loss.

    Attributes:
        asked: Injection controls.
        towards: Pairs that moved towards the response, of those it had not won already.
        away: Pairs that moved away from it, of those it had not lost already.
        silenced: Pairs that only the text left without a verdict: the replies have come, and the
            pair without the text is judged.
    """

    asked: int
    towards: Estimate
    away: Estimate
    silenced: int


def measure_injection(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> InjectionEffect:
    """Return in which direction injected texts moved the outcomes; other controls are passed over.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    asked = [control for control in controls if control.kind is ControlKind.INJECTION]
    moves = [
        (_STANDING[control.wanted], _STANDING[control.outcome])
        for control in asked
        if control.wanted is not None and control.outcome is not Outcome.UNJUDGED
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
        control.wanted is not None
        and control.outcome is Outcome.UNJUDGED
        and Verdict.PENDING not in control.verdicts
        for control in asked
    )
    return InjectionEffect(len(asked), towards, away, silenced)


@dataclass(frozen=True, slots=True)
class RepeatedPair:
    """A pair and what became of it when the judge was asked the same again.

    Attributes:
        first: How it was settled for the tournament.
        again: How it was settled on this occasion.
        earlier: On the occasion before; None if it was not asked the same then.
    """

    prompt_id: str
    first: Outcome
    again: Outcome
    earlier: Outcome | None = None


@dataclass(frozen=True, slots=True)
class RepeatResult:
    """How far a judge says again what it said.

    Attributes:
        asked: Pairs that were to be judged again, with or without success.
        agreement: Of the two times; inconsistent is an outcome like others.
        flips: Pairs settled otherwise than in the tournament, of those judged both times.
        reversed: Pairs whose winner became the loser, of those somebody won for the tournament.
        flips_since: Pairs settled otherwise than on the occasion before.
    """

    asked: int
    agreement: Agreement
    flips: Estimate
    reversed: Estimate
    flips_since: Estimate

    def has_drifted(self, max_rate: float) -> bool:
        """Whether the share of flips is shown to be too large: its whole interval lies above.

        A few flips among few pairs show nothing, and a check that is often red by chance is soon
        not looked at.

        Args:
            max_rate: The share that is taken for the judge's own noise.
        """
        return self.flips.low is not None and self.flips.low > max_rate


def measure_repeats(
    pairs: Sequence[RepeatedPair], resampling: Resampling = MANY_RESAMPLES
) -> RepeatResult:
    """Measure how far the judge says the same when it is asked the same again.

    Args:
        pairs: Every pair that was to be judged again.
        resampling: Of the prompts, behind the interval of kappa; its confidence is all intervals'.

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

    def share(found: Iterable[bool]) -> Estimate:
        known = [*found]
        return measure_proportion(sum(known), len(known), confidence=resampling.confidence)

    return RepeatResult(
        asked=len(pairs),
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
        return nothing_judged(result.asked, "anchor pair")
    expected = f"the threshold of {format_share(max_rate)} (checks.max_drift_rate)"
    flipped = format_proportion(result.flips, "anchor pairs", confidence=confidence)
    has_drifted = result.has_drifted(max_rate)
    parts = [
        f"the judge settles {flipped} otherwise than in the tournament, {result.reversed.count} of "
        f"them the other way round; {format_kappa(result.agreement.kappa, confidence=confidence)}",
        f"the whole interval lies above {expected}: the judge has drifted"
        if has_drifted
        else f"the interval does not lie above {expected}, so no drift is shown",
    ]
    if unjudged := result.asked - result.flips.n:
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
