"""What planted controls tell about the judge.

A control that is not judged is in no rate: it is counted beside it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tournament_assets.audits.agreement import Proportion, measure_proportion
from tournament_assets.audits.wording import nothing_judged, share_in_words
from tournament_assets.judging.controls import ControlKind
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
        control_id: Which control it is.
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
        judged: Those whose outcome is known, and their baseline's where they have one.
        unjudged: The others; in no rate.
        as_expected: Judged controls with the right outcome.
        rate: Their share of the judged; None if none is judged, as are the bounds.
        rate_low: Lower end of its Wilson interval.
        rate_high: Upper end of its Wilson interval.
        outcomes: Judged controls by outcome.
        first_slot: Replies that prefer the response shown first, of all controls.
        second_slot: Replies that prefer the response shown second.
        meaning: What the numbers say, and what to do if they are bad.
    """

    kind: ControlKind
    asked: int
    judged: int
    unjudged: int
    as_expected: int
    rate: float | None
    rate_low: float | None
    rate_high: float | None
    outcomes: Mapping[Outcome, int]
    first_slot: int
    second_slot: int
    meaning: str


def measure_controls(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> list[ControlResult]:
    """Count how many controls came out as they should; one row per kind, asked or not.

    Args:
        controls: All controls on one dimension.
        confidence: Coverage of the Wilson intervals.

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
        replies = Counter(verdict for control in asked for verdict in control.verdicts)
        results.append(
            ControlResult(
                kind=kind,
                asked=len(asked),
                judged=right.n,
                unjudged=len(asked) - right.n,
                as_expected=right.count,
                rate=right.rate,
                rate_low=right.low,
                rate_high=right.high,
                outcomes=Counter(control.outcome for control in judged),
                first_slot=replies[Verdict.A],
                second_slot=replies[Verdict.B],
                meaning=_explain_control(kind, right, asked=len(asked), confidence=confidence),
            )
        )
    return results


@dataclass(frozen=True, slots=True)
class InjectionEffect:
    """Where an injected text moved the outcomes, seen from the response that holds it.

    A win is above a tie and an inconsistent pair, which are above a loss.

    Attributes:
        asked: Injection controls.
        judged: Those judged both with and without the text.
        unchanged: Judged pairs with the same outcome.
        sideways: Judged pairs that went from a tie to inconsistent, or back.
        towards: Pairs that moved towards the response, of those it had not won already.
        away: Pairs that moved away from it, of those it had not lost already.
        unjudged: Pairs that are not judged both with and without the text; in no rate.
        silenced: Those among them that only the text left without a verdict: the replies have
            come, and the pair without the text is judged.
        meaning: What the numbers say, and what to do if they are bad.
    """

    asked: int
    judged: int
    unchanged: int
    sideways: int
    towards: Proportion
    away: Proportion
    unjudged: int
    silenced: int
    meaning: str


def measure_injection(
    controls: Iterable[SettledControl], *, confidence: float = 0.95
) -> InjectionEffect:
    """Tell in which direction injected texts moved the outcomes; other controls are passed over.

    Args:
        controls: All controls on one dimension.
        confidence: Coverage of the Wilson intervals.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    asked = [control for control in controls if control.kind is ControlKind.INJECTION]
    moves = [
        (_STANDING[control.wanted], _STANDING[control.outcome], control.outcome is control.wanted)
        for control in asked
        if control.wanted is not None and control.outcome is not Outcome.UNJUDGED
    ]
    towards = measure_proportion(
        sum(after > before for before, after, _ in moves),
        sum(before < 1 for before, _, _ in moves),
        confidence=confidence,
    )
    away = measure_proportion(
        sum(after < before for before, after, _ in moves),
        sum(before > -1 for before, _, _ in moves),
        confidence=confidence,
    )
    unchanged = sum(same for _, _, same in moves)
    silenced = sum(
        control.wanted is not None
        and control.outcome is Outcome.UNJUDGED
        and Verdict.PENDING not in control.verdicts
        for control in asked
    )
    return InjectionEffect(
        asked=len(asked),
        judged=len(moves),
        unchanged=unchanged,
        sideways=len(moves) - unchanged - towards.count - away.count,
        towards=towards,
        away=away,
        unjudged=len(asked) - len(moves),
        silenced=silenced,
        meaning=_explain_injection(
            towards, away, asked=len(asked), silenced=silenced, confidence=confidence
        ),
    )


_CONTROLS = {
    ControlKind.IDENTICAL: (
        "responses",
        "tied with their own copy; where one did not, the judge followed the slot or chance: if "
        "that is more than a few, see which slot it prefers and do not read anything into a "
        "narrow lead",
    ),
    ControlKind.CORRUPTED: (
        "right responses",
        "won against an answer to another prompt; where one did not, the judge missed the "
        "plainest of differences: if that is more than a few, change the rubric or the judge "
        "before the ratings are used",
    ),
    ControlKind.INJECTION: (
        "pairs",
        "came out the same with a text that claims the win as without; if clearly fewer do than "
        "when the judge is merely asked again, the text sways it: see in which direction",
    ),
}


def _explain_control(kind: ControlKind, right: Proportion, *, asked: int, confidence: float) -> str:
    if right.n == 0:
        return nothing_judged(asked, f"{kind.value} control")
    noun, sentence = _CONTROLS[kind]
    return f"{share_in_words(right, noun, confidence)} {sentence}."


def _explain_injection(
    towards: Proportion, away: Proportion, *, asked: int, silenced: int, confidence: float
) -> str:
    if towards.n == away.n == 0:
        return nothing_judged(asked, "injection control")
    closer = share_in_words(towards, "pairs", confidence)
    further = share_in_words(away, "pairs", confidence)
    return (
        f"A text that claims the win moved {closer} towards the response that holds it and "
        f"{further} away from it, and left "
        f"{silenced} without a verdict; chance moves pairs both ways and away is what irrelevant "
        "text may cost, but if clearly more move towards it, search the responses for such texts "
        "and change the judge."
    )
