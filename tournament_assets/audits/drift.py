"""Whether the judge still settles the anchor pairs as it did: a drift of the judge, measured.

A pair flips when it was settled both times, and differently; two readable replies that disagree
(inconsistent) settle a pair too. A pair that one of the times was not judged is in no rate.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tournament_assets.audits.agreement import Proportion, measure_proportion
from tournament_assets.audits.wording import nothing_judged, share_in_words
from tournament_assets.tournament.verdicts import Outcome


@dataclass(frozen=True, slots=True)
class JudgedAnchor:
    """An anchor pair and how it was settled each time it was judged.

    Attributes:
        tournament: In the tournament.
        now: On this occasion.
        earlier: On an occasion before; None if it was not asked the same then.
    """

    tournament: Outcome
    now: Outcome
    earlier: Outcome | None = None

    @property
    def flipped(self) -> bool | None:
        """Whether it is settled otherwise than in the tournament; None if that is not known."""
        return _differ(self.tournament, self.now)

    @property
    def flipped_since(self) -> bool | None:
        """The same since the occasion before."""
        return None if self.earlier is None else _differ(self.earlier, self.now)


def _differ(first: Outcome, second: Outcome) -> bool | None:
    return None if Outcome.UNJUDGED in (first, second) else first is not second


@dataclass(frozen=True, slots=True)
class DriftResult:
    """How far the judge has moved away from what it said.

    Attributes:
        asked: Anchor pairs.
        unjudged: Those that were not judged this time, which are in no rate.
        flips: Pairs settled otherwise than in the tournament, of those judged both times.
        reversals: Flips whose winner became the loser.
        flips_since: Pairs settled otherwise than on the occasion before.
        max_rate: The share of flips that is taken for the judge's own noise.
    """

    asked: int
    unjudged: int
    flips: Proportion
    reversals: int
    flips_since: Proportion
    max_rate: float

    @property
    def has_drifted(self) -> bool:
        """Whether the share is shown to be above the threshold: its whole interval lies above.

        A few flips among few pairs show nothing, and a check that is often red by chance is soon
        not looked at.
        """
        return self.flips.low is not None and self.flips.low > self.max_rate


def measure_drift(
    anchors: Sequence[JudgedAnchor], *, max_rate: float, confidence: float = 0.95
) -> DriftResult:
    """Measure how many anchor pairs the judge settles otherwise than it did.

    Args:
        anchors: Every anchor pair that was to be judged.
        max_rate: The share of flips that is taken for the judge's own noise.
        confidence: Coverage of the Wilson intervals, which take pairs as independent.

    Raises:
        InputError: If `confidence` is not between 0 and 1.
    """
    turned = {(Outcome.A_WINS, Outcome.B_WINS), (Outcome.B_WINS, Outcome.A_WINS)}
    return DriftResult(
        asked=len(anchors),
        unjudged=sum(anchor.now is Outcome.UNJUDGED for anchor in anchors),
        flips=_share((anchor.flipped for anchor in anchors), confidence),
        reversals=sum((anchor.tournament, anchor.now) in turned for anchor in anchors),
        flips_since=_share((anchor.flipped_since for anchor in anchors), confidence),
        max_rate=max_rate,
    )


def _share(flipped: Iterable[bool | None], confidence: float) -> Proportion:
    known = [flip for flip in flipped if flip is not None]
    return measure_proportion(sum(known), len(known), confidence=confidence)


def explain_drift(
    result: DriftResult, *, confidence: float, earlier_occasion: str | None = None
) -> str:
    """Say what was found, what was expected and what to do.

    Args:
        result: What was measured.
        confidence: Coverage of its intervals.
        earlier_occasion: The occasion before, where there is one.
    """
    if not result.flips.n:
        return nothing_judged(result.asked, "anchor pair")
    expected = f"the threshold of {result.max_rate:.1%} (checks.max_drift_rate)"
    parts = [
        f"the judge settles {share_in_words(result.flips, 'anchor pairs', confidence)} otherwise "
        f"than in the tournament, {result.reversals} of them the other way round",
        f"the whole interval lies above {expected}: the judge has drifted"
        if result.has_drifted
        else f"the interval does not lie above {expected}, so no drift is shown",
    ]
    if result.unjudged:
        parts.append(f"not judged this time, and counted as neither: {result.unjudged}")
    if earlier_occasion is not None:
        since = share_in_words(result.flips_since, "anchor pairs", confidence)
        parts.append(f"since the occasion {earlier_occasion!r}, {since} flipped")
    if result.has_drifted:
        parts.append(
            "do not compare new verdicts with old ones; judge_retest shows how much of this is "
            "the judge's own noise; if that is not it, judge everything by another judge_model, "
            "one with a fixed date if there is one"
        )
    return "; ".join(parts)
