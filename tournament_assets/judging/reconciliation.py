"""Settling a pair from the replies to its two presentations."""

from collections.abc import Iterable
from dataclasses import dataclass

from tournament_assets.judging.pairing import Presentation
from tournament_assets.judging.parsing import SAME_TEXT_REASON, read_reply
from tournament_assets.judging.structured import ReplyFormat
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

_UNSWAPPED = {Verdict.A: Outcome.A_WINS, Verdict.B: Outcome.B_WINS, Verdict.TIE: Outcome.TIE}
_SWAPPED = {Verdict.A: Outcome.B_WINS, Verdict.B: Outcome.A_WINS, Verdict.TIE: Outcome.TIE}


def reconcile_swap(verdict_ab: Verdict, verdict_ba: Verdict) -> Outcome:
    """Settle a pair once the positions are undone.

    Args:
        verdict_ab: What the judge said with entrant_a's response shown as A.
        verdict_ba: What it said with entrant_b's response shown as A.

    Returns:
        Who won or TIE if both replies mean the same, INCONSISTENT if they do not, UNJUDGED if
        either says nothing.
    """
    if not (verdict_ab.is_decided and verdict_ba.is_decided):
        return Outcome.UNJUDGED
    first, second = _UNSWAPPED[verdict_ab], _SWAPPED[verdict_ba]
    return first if first is second else Outcome.INCONSISTENT


def stored_outcome(outcome: str, reason: str | None) -> Outcome:
    """Read how a pair was settled, from a row that this version or an earlier one wrote.

    Earlier versions called pairs of one text ties and gave the reason.

    Raises:
        ValueError: If there is no such outcome.
    """
    found = Outcome(outcome)
    is_copy = found is Outcome.TIE and reason == SAME_TEXT_REASON
    return Outcome.SAME_TEXT if is_copy else found


@dataclass(frozen=True, slots=True)
class PresentedReply:
    """What came back for one presentation of one pair.

    Attributes:
        prompt_id: The prompt both entrants answered.
        dimension: The quality being judged.
        entrant_a: The pair's first entrant.
        entrant_b: The pair's second entrant.
        presentation: Whose response was shown as response A.
        asking: Which time of asking this is the reply to; 1 is the first.
        result_type: The result's type; `pending` where there is none yet, `identical` where there
            was nothing to ask.
        stop_reason: Why the judge stopped.
        text: What it wrote.
    """

    prompt_id: str
    dimension: str
    entrant_a: str
    entrant_b: str
    presentation: Presentation
    asking: int
    result_type: str
    stop_reason: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class SettledPair:
    """A judgment, with what each of the two replies said.

    Attributes:
        judgment: How the pair was settled.
        verdict_ab: What the reply says where entrant_a's response was shown as A.
        verdict_ba: What the reply says where entrant_b's response was shown as A.
        reason_ab: Why the first reply holds no verdict, if so.
        reason_ba: Why the second reply holds no verdict, if so.
        asking_ab: Which asking the first reply answers.
        asking_ba: Which asking the second reply answers.
    """

    judgment: Judgment
    verdict_ab: Verdict
    verdict_ba: Verdict
    reason_ab: str | None
    reason_ba: str | None
    asking_ab: int
    asking_ba: int


def settle_pairs(
    replies: Iterable[PresentedReply], *, reply_format: ReplyFormat = "line"
) -> list[SettledPair]:
    """Read the replies to every pair and settle it; the pairs keep their order.

    A presentation that was asked about more than once counts by its first reply that holds a
    verdict, and by its last one if none does.

    Raises:
        KeyError: If a presentation of a pair is missing altogether; a reply that is still
            to come is a `pending` row, not a missing one.
    """
    pairs: dict[tuple[str, str, str], dict[Presentation, _Reading]] = {}
    for reply in sorted(replies, key=lambda reply: reply.asking):
        pair = (reply.prompt_id, reply.entrant_a, reply.entrant_b)
        presented = pairs.setdefault(pair, {})
        earlier = presented.get(reply.presentation)
        if earlier is None or not earlier.verdict.is_decided:
            presented[reply.presentation] = _read(reply, reply_format)
    settled: list[SettledPair] = []
    for presented in pairs.values():
        first, second = presented[Presentation.AB], presented[Presentation.BA]
        judgment = Judgment(
            prompt_id=first.reply.prompt_id,
            dimension=first.reply.dimension,
            entrant_a=first.reply.entrant_a,
            entrant_b=first.reply.entrant_b,
            outcome=(
                Outcome.SAME_TEXT
                if first.reply.result_type == second.reply.result_type == "identical"
                else reconcile_swap(first.verdict, second.verdict)
            ),
        )
        settled.append(
            SettledPair(
                judgment=judgment,
                verdict_ab=first.verdict,
                verdict_ba=second.verdict,
                reason_ab=first.reason,
                reason_ba=second.reason,
                asking_ab=first.reply.asking,
                asking_ba=second.reply.asking,
            )
        )
    return settled


@dataclass(frozen=True, slots=True)
class _Reading:
    reply: PresentedReply
    verdict: Verdict
    reason: str | None


def _read(reply: PresentedReply, reply_format: ReplyFormat) -> _Reading:
    verdict, reason = read_reply(
        result_type=reply.result_type,
        stop_reason=reply.stop_reason,
        text=reply.text,
        reply_format=reply_format,
    )
    return _Reading(reply, verdict, reason)
