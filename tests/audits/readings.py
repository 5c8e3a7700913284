"""Builds settled pairs as the audits read them."""

from tournament_assets.audits.missingness import PairReading, ReplyReading
from tournament_assets.judging.requests.verdict_parsing import FailureClass, reconcile_swap
from tournament_assets.tournament.verdicts import Outcome, Verdict

VERDICTS = {
    Outcome.A_WINS: (Verdict.A, Verdict.B),
    Outcome.B_WINS: (Verdict.B, Verdict.A),
    Outcome.TIE: (Verdict.TIE, Verdict.TIE),
    Outcome.INCONSISTENT: (Verdict.A, Verdict.A),
    Outcome.UNJUDGED: (Verdict.PENDING, Verdict.PENDING),
}
_VERDICT_OF = {
    None: Verdict.PENDING,
    FailureClass.REFUSED: Verdict.REFUSED,
    FailureClass.UNREADABLE: Verdict.UNREADABLE,
    FailureClass.CUT_OFF: Verdict.UNREADABLE,
    FailureClass.EMPTY: Verdict.UNREADABLE,
    FailureClass.INFRASTRUCTURE: Verdict.UNREADABLE,
    FailureClass.ERRORED: Verdict.PERMANENT,
}


def said(verdict: Verdict) -> ReplyReading:
    return ReplyReading(verdict)


def missing(failure: FailureClass | None) -> ReplyReading:
    """A presentation without a verdict; without a failure either, it is still to come."""
    return ReplyReading(_VERDICT_OF.get(failure, Verdict.PENDING), failure)


def pair(
    entrant_a: str,
    entrant_b: str,
    outcome: Outcome = Outcome.UNJUDGED,
    prompt_id: str = "p1",
    *,
    stratum: str = "recall",
    replies: tuple[ReplyReading, ReplyReading] | None = None,
    weight: float = 1.0,
) -> PairReading:
    """A pair settled from its two replies, or with those that lead to an outcome."""
    if replies is None:
        ab, ba = VERDICTS[outcome]
        replies = (said(ab), said(ba))
    return PairReading(
        prompt_id,
        "factuality",
        entrant_a,
        entrant_b,
        reconcile_swap(replies[0].verdict, replies[1].verdict),
        weight,
        stratum=stratum,
        replies=replies,
    )
