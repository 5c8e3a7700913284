"""Reading verdicts out of a judge's replies, and settling pairs; pure, so fixing it costs nothing.

A verdict is on the last line or in a JSON object. A service that knows the schema lets the model
write nothing else, so a response that quotes a verdict line cannot be mistaken for the judge; it
does not protect against persuasion. Files of judgments that come from elsewhere hold replies such
as "Gateway is restarting", which some gateway put in the judge's place: those are recognised.
"""

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypeVar

from tournament_assets.foundation.errors import VerdictParseError
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.requests.pairs import PRESENTATIONS
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.completions import End, cut_thought, end_of
from tournament_assets.tournament.verdicts import Outcome, Verdict

ReplyFormat = Literal["line", "json_schema"]
"""How a judge writes its verdict: on the last line, or in a JSON object."""

# The reasoning stands first, so that it is written first: a verdict cannot follow from what comes
# after it.
VERDICT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "verdict": {"type": "string", "enum": ["A", "B", "TIE"]},
    },
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}
"""The JSON schema of a structured reply."""

_VERDICTS = {"A": Verdict.A, "B": Verdict.B, "TIE": Verdict.TIE}
_WHITE_SPACE = " \t\n\r"
_INVISIBLE = "\ufeff\u200b\u200e\u200f\u2060"
_EXPECTED_OBJECT = (
    'expected one JSON object and no other, with a text under "reasoning" '
    'and "A", "B" or "TIE" under "verdict"'
)


def output_config() -> JsonObject:
    """Return the request parameter that makes the judge keep to the schema."""
    return {"format": {"type": "json_schema", "schema": VERDICT_SCHEMA}}


def opens_an_object(reply: str) -> bool:
    """Return whether a reply begins like a JSON object, well-formed or not."""
    return reply.lstrip(_WHITE_SPACE).startswith("{")


def without_fence(reply: str) -> str:
    """Return a reply without the code fence around it, if it is nothing but one fenced block.

    Models often fence the JSON they are asked for, even when told not to, and servers that do not
    know schemas let them. A reply with text before or after the fence is returned as it is.
    """
    opening, *inside = reply.strip(_WHITE_SPACE).split("\n")
    closing = inside.pop().strip(_WHITE_SPACE) if inside else ""
    is_fence = len(closing) >= 3 and set(closing) in ({"`"}, {"~"})
    name = opening.strip(_WHITE_SPACE).removeprefix(closing) if is_fence else "?"
    return "\n".join(inside) if name.strip(_WHITE_SPACE).lower() in ("", "json") else reply


def _object_behind_a_sentence(reply: str) -> str | None:
    """Return the fenced object that ends a reply, if it is the only one and nothing contradicts it.

    None where text stands after it, where there is a second fence or brace, or a verdict line.
    """
    lines = reply.rstrip(_WHITE_SPACE).split("\n")
    fences = [n for n, line in enumerate(lines) if _FENCE.match(line)]
    if len(fences) != 2 or fences[1] != len(lines) - 1:
        return None
    before, block = lines[: fences[0]], "\n".join(lines[fences[0] :])
    inside = without_fence(block)
    is_alone = not any("{" in line or _said_by_line(line) is not None for line in before)
    return inside if is_alone and inside != block and opens_an_object(inside) else None


_FENCE = re.compile(r"[ \t]*(?:`{3,}|~{3,})")


def parse_structured_verdict(reply: str) -> Verdict:
    """Read the verdict of a reply that is one JSON object.

    Further keys are passed over, and case does not count. A key that occurs twice is refused, and
    so is a second verdict anywhere in the object: neither of two is valid.

    Raises:
        VerdictParseError: If the reply is anything but an object that the schema allows.
    """
    if not reply.strip():
        raise VerdictParseError(f"the judge's reply is empty; {_EXPECTED_OBJECT}")
    try:
        pairs = json.loads(reply, object_pairs_hook=Members)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        raise VerdictParseError(
            f"the judge's reply is not JSON ({type(error).__name__}) and ends in "
            f"{reply[-80:]!r}; {_EXPECTED_OBJECT}"
        ) from None
    if not isinstance(pairs, Members):
        raise VerdictParseError(f"the judge's reply is JSON but not an object; {_EXPECTED_OBJECT}")
    members = {_small(name): value for name, value in pairs}
    if len(pairs) != len(members) or not {"reasoning", "verdict"} <= members.keys():
        raise VerdictParseError(
            f"the judge's reply has the keys {[key[:40] for key, _ in pairs[:5]]!r}; "
            f"{_EXPECTED_OBJECT}"
        )
    if not isinstance(members["reasoning"], str):
        raise VerdictParseError(f"the judge's reasoning is not a string; {_EXPECTED_OBJECT}")
    verdict = _value_of(members["verdict"])
    if verdict not in _VERDICTS:
        raise VerdictParseError(f"the judge's verdict is {verdict}; {_EXPECTED_OBJECT}")
    others = set(_verdicts_within(pairs))
    if others != {verdict}:
        raise VerdictParseError(
            f"the judge's reply says both {' and '.join(sorted(others))[:80]}; {_EXPECTED_OBJECT}"
        )
    return _VERDICTS[verdict]


def _small(text: str) -> str:
    """Return ASCII letters in small and without blanks; others stay what they are."""
    return text.strip(_WHITE_SPACE).lower() if text.isascii() else text


def _value_of(verdict: object) -> str:
    """Return the verdict that a value of the object names, or a description of another value."""
    if not isinstance(verdict, str):
        return "not a string"
    capital = _small(verdict).upper()
    return capital if verdict.isascii() and capital in _VERDICTS else repr(verdict[:80])


def _verdicts_within(value: object, name: str = "") -> Iterator[str]:
    """Yield what an object says: every value named verdict, and every value that is one."""
    if isinstance(value, Members):
        for key, inner in value:
            yield from _verdicts_within(inner, _small(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _verdicts_within(inner, name)
    elif name == "verdict" or (name != "reasoning" and _value_of(value) in _VERDICTS):
        yield _value_of(value)


class Members(list[tuple[str, Any]]):
    """An object's members in the order they are written, each as often as it is written."""


READING_VERSION = 5
"""Increase it whenever a reply is read differently: earlier verdicts are then out of date."""

# Only these end a line. `str.splitlines` would also cut at U+2028, a form feed and others, and a
# response that the judge quotes could then put a verdict on a line of its own.
_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\u00a0\u202f"
_MARKS = rf"[*_`#>{_BLANK}\"'\u201c\u201d\u2018\u2019«»]*"
# ASCII: otherwise the match without case takes a dotless i (U+0131) for the I of TIE.
_WORD = r"(?P<verdict>[A-Z]+)"
_VERDICT_LINES = [
    re.compile(
        rf"{_MARKS}(?:[-+•]{_MARKS})?(?:FINAL[{_BLANK}]+)?VERDICT{_MARKS}:{_MARKS}"
        rf"{value}{_MARKS}(?:\.{_MARKS})?",
        re.ASCII | re.IGNORECASE,
    )
    for value in (_WORD, rf"\[{_WORD}\]", rf"\[\[{_WORD}\]\]")
]


class _PlainLetters(dict[int, int | str | None]):
    """What a character of a reply stands for, filled as characters occur."""

    def __missing__(self, code: int) -> int | str | None:
        character = chr(code)
        plain: int | str | None = code
        if 0xFF01 <= code <= 0xFF5E:
            plain = code - 0xFEE0  # full width, as judges that reason in Chinese write
        elif unicodedata.category(character) == "Cf" or 0xFE00 <= code <= 0xFE0F:
            plain = None  # nobody sees it: zero width, direction marks, variation selectors
        elif character in "\u3002\uff61\u3010\u3011\u3000":
            plain = "..[] "["\u3002\uff61\u3010\u3011\u3000".index(character)]
        self[code] = plain
        return plain


_PLAIN = _PlainLetters()
_CLOSING_FENCE = re.compile(rf"[{_BLANK}]*(?:`{{3,}}|~{{3,}})[{_BLANK}]*")
_EXPECTED_LINE = "expected 'VERDICT: A', 'VERDICT: B' or 'VERDICT: TIE' alone on the last line"


def parse_verdict(reply: str) -> Verdict:
    r"""Read the verdict from the last non-empty line of a reply.

    Case is ignored for ASCII letters, and so is full width; characters that nobody sees do not
    count, such as direction marks and those of no width. Blanks (no-break ones too), Markdown marks
    and quotation marks around the parts of the line are ignored, and so are a bullet before it, a
    full stop after it, the word `Final` before `VERDICT`, one or two pairs of brackets around the
    letter, and a last line that only closes a code fence. Nothing else is ignored: not text after
    the verdict, a lookalike letter, or a line elsewhere that gives a different verdict, even an
    undefined one (`VERDICT: ABSTAIN`). Lines end in `\n`, `\r\n` or `\r`. A reply whose last line
    quotes a response's verdict line is read by that line.

    Raises:
        VerdictParseError: If the last line is not a verdict, or the reply holds two different ones.
    """
    plain = reply if reply.isascii() else reply.translate(_PLAIN)
    lines = [line for line in _LINE_END.split(plain) if line.strip(_BLANK)]
    if len(lines) > 1 and _CLOSING_FENCE.fullmatch(lines[-1]):
        lines.pop()
    if not lines:
        raise VerdictParseError(f"the judge's reply is empty; {_EXPECTED_LINE}")
    last = _said_by_line(lines[-1])
    if last not in _VERDICTS:
        raise VerdictParseError(f"the judge's reply ends in {lines[-1][-80:]!r}; {_EXPECTED_LINE}")
    for line in lines[:-1]:
        if _said_by_line(line) not in (None, last):
            raise VerdictParseError(
                f"the judge's reply says both {line[:80]!r} and {lines[-1][:80]!r}; "
                f"{_EXPECTED_LINE}"
            )
    return _VERDICTS[last]


def _said_by_line(line: str) -> str | None:
    """Return the word that a line gives as the verdict, valid or not."""
    if "verdict" not in line.lower():
        return None
    found = (pattern.fullmatch(line) for pattern in _VERDICT_LINES)
    return next((match["verdict"].upper() for match in found if match is not None), None)


def read_reply(
    *,
    result_type: str,
    stop_reason: str | None,
    text: str | None,
    reply_format: ReplyFormat = "line",
) -> tuple[Verdict, str | None]:
    """Describe what a result row means: a verdict, or why there is none.

    A reply that was cut off carries no verdict; one that ended for a reason which nobody here knows
    does. What the judge thought aloud does not count.

    Args:
        result_type: The row's type; `pending` where there is no row yet, `identical` where there
            was nothing to ask.
        stop_reason: Why the model stopped.
        text: What it wrote.
        reply_format: How it was told to write its verdict. A reply requested as a JSON object may
            be in a code fence; one that does not begin like an object is read by its last line,
            because not every service knows schemas.

    Returns:
        The verdict or the reason for having none, and a sentence about the reason.
    """
    if result_type != "succeeded":
        return _read_failure(result_type)
    end = end_of(stop_reason)
    if end in _NO_VERDICT:
        return _NO_VERDICT[end]
    try:
        return _parse(text or "", reply_format), None
    except VerdictParseError as error:
        why = f"; the reply stopped for {stop_reason!r}" if end is End.OTHER else ""
        return Verdict.UNREADABLE, f"{error}{why}"


_NO_VERDICT = {
    End.FILTER: (Verdict.REFUSED, "the judge declined to judge"),
    End.CONTEXT: (Verdict.PERMANENT, "the request does not fit the judge's context window"),
    End.LENGTH: (Verdict.UNREADABLE, "the reply was cut off at its token cap"),
    End.TOOLS: (Verdict.UNREADABLE, "the judge called a tool instead of judging"),
    End.BROKEN: (Verdict.PENDING, "the service broke the reply off; it can be asked again"),
}
"""The ends after which no reply carries a verdict: it might have gone on to another."""


def _read_failure(result_type: str) -> tuple[Verdict, str]:
    if result_type == "identical":
        return Verdict.TIE, "the two responses are identical; the judge was not asked"
    if result_type == "pending":
        return Verdict.PENDING, "the reply is pending"
    if result_type == "errored":
        return Verdict.PERMANENT, f"the request ended as {result_type!r}"
    return Verdict.PENDING, f"the request ended as {result_type!r}; it can be asked again"


def _parse(text: str, reply_format: ReplyFormat) -> Verdict:
    return parse_answer(text, partial(_parse_answer, reply_format=reply_format))


def _parse_answer(text: str, *, reply_format: ReplyFormat) -> Verdict:
    text = text.strip(_INVISIBLE + _WHITE_SPACE)
    inside = without_fence(text)
    if reply_format == "json_schema":
        if opens_an_object(inside):
            return parse_structured_verdict(inside)
        behind = _object_behind_a_sentence(text)
        if behind is not None:
            return parse_structured_verdict(behind)
    return parse_verdict(text)


_Parsed = TypeVar("_Parsed")


def parse_answer(text: str, parse: Callable[[str], _Parsed]) -> _Parsed:
    """Parse a judge's reply without what it thought aloud before.

    Where only a mark that closes a thought tells of one, the judge may have quoted it: the reply
    counts as it stands if that can be read.

    Raises:
        VerdictParseError: As `parse` raises it.
    """
    apart = cut_thought(text)
    if apart.is_certain and apart.thought is not None:
        return parse(apart.response)
    try:
        return parse(text)
    except VerdictParseError:
        if apart.thought is None:
            raise
        return parse(apart.response)


def needs_second_question(verdict: Verdict) -> bool:
    """Return whether a request is asked once more: its reply was paid for and holds no verdict."""
    return verdict is Verdict.UNREADABLE


INFRASTRUCTURE_PHRASES: tuple[str, ...] = (
    # what a harness writes where a judge's words should stand
    "gateway is restarting",
    "judge execution failed",
    "judge failed to run",
    "judge call failed",
    "judge request failed",
    "judge timed out",
    "judge is unavailable",
    "judge unavailable",
    # what proxies and load balancers write, each with the status it stands for
    "internal server error",  # 500
    "bad gateway",  # 502
    "service unavailable",  # 503
    "service temporarily unavailable",  # 503
    "gateway timeout",  # 504
    "gateway time-out",  # 504
    "upstream connect error",
    "upstream request timeout",
    "no healthy upstream",
    "too many requests",  # 429
    # what clients and providers write when no reply came
    "connection reset by peer",
    "connection refused",
    "connection aborted",
    "remote end closed connection",
    "read timed out",
    "max retries exceeded",
    "rate_limit_error",
    "overloaded_error",
    "api_error",
)
"""Phrases, in any case, of a text that stands in the place of a judge's reply."""

_PAGE_OPENINGS = ("<!doctype html", "<html")


class FailureClass(StrEnum):
    """Why there is no verdict where one was asked for."""

    ERRORED = "errored"
    """The service answered with an error, or the request can never succeed."""
    EXPIRED = "expired"
    """The batch ran out of time."""
    CANCELED = "canceled"
    """The batch was canceled."""
    REFUSED = "refused"
    """The judge declined to judge."""
    UNREADABLE = "unreadable"
    """The judge replied and its reply holds no verdict."""
    CUT_OFF = "cut_off"
    """The reply reached its token cap."""
    EMPTY = "empty"
    """The reply is empty."""
    INFRASTRUCTURE = "infrastructure"
    """Something between us and the judge put its own words in the reply's place."""
    UNPARSABLE = "unparsable"
    """The result line that should hold the reply is not JSON in any reading."""
    ARCHIVED = "archived"
    """The service no longer keeps the result."""


_CLASS_OF_RESULT = {
    "expired": FailureClass.EXPIRED,
    "canceled": FailureClass.CANCELED,
    "archived": FailureClass.ARCHIVED,
}
_CLASS_OF_END = {
    End.FILTER: FailureClass.REFUSED,
    End.LENGTH: FailureClass.CUT_OFF,
    End.CONTEXT: FailureClass.ERRORED,
}


def is_infrastructure_failure(text: str | None) -> bool:
    """Return whether a text in the place of a judge's reply is not the judge's.

    A missing or blank text is such a failure. A text with a verdict never is, whatever it quotes.
    """
    if text is None or not text.strip():
        return True
    if _holds_a_verdict(text):
        return False
    lowered = " ".join(text.lower().split())
    return lowered.startswith(_PAGE_OPENINGS) or any(
        phrase in lowered for phrase in INFRASTRUCTURE_PHRASES
    )


def classify_reply(
    *,
    result_type: str,
    stop_reason: str | None,
    text: str | None,
    reply_format: ReplyFormat = "line",
) -> FailureClass | None:
    """Explain why a result row carries no verdict.

    Args:
        result_type: The row's type.
        stop_reason: Why the model stopped.
        text: What it wrote.
        reply_format: How it was told to write its verdict.

    Returns:
        The class of the failure; None if the verdict is readable or there is no row yet.
    """
    if result_type == "pending":
        return None
    verdict, _ = read_reply(
        result_type=result_type, stop_reason=stop_reason, text=text, reply_format=reply_format
    )
    if verdict.is_decided:
        return None
    if result_type in _CLASS_OF_RESULT:
        return _CLASS_OF_RESULT[result_type]
    if result_type == "succeeded" and end_of(stop_reason) in _CLASS_OF_END:
        return _CLASS_OF_END[end_of(stop_reason)]
    if text is None or not text.strip():
        return FailureClass.EMPTY if result_type == "succeeded" else FailureClass.ERRORED
    if is_infrastructure_failure(text):
        return FailureClass.INFRASTRUCTURE
    return FailureClass.UNREADABLE if result_type == "succeeded" else FailureClass.ERRORED


def _holds_a_verdict(text: str) -> bool:
    for reply_format in ("line", "json_schema"):
        try:
            _parse(text, reply_format)
        except VerdictParseError:
            continue
        return True
    return False


_UNSWAPPED = {Verdict.A: Outcome.A_WINS, Verdict.B: Outcome.B_WINS, Verdict.TIE: Outcome.TIE}
_SWAPPED = {Verdict.A: Outcome.B_WINS, Verdict.B: Outcome.A_WINS, Verdict.TIE: Outcome.TIE}


def reconcile_swap(verdict_ab: Verdict, verdict_ba: Verdict) -> Outcome:
    """Settle a pair from the verdicts on its two presentations.

    Args:
        verdict_ab: What the judge said with entrant_a's response shown as A.
        verdict_ba: What it said with entrant_b's response shown as A.

    Returns:
        Who won or TIE if both replies mean the same, INCONSISTENT if they do not, UNJUDGED if one
        is missing.
    """
    if not (verdict_ab.is_decided and verdict_ba.is_decided):
        return Outcome.UNJUDGED
    said = _UNSWAPPED[verdict_ab]
    return said if said is _SWAPPED[verdict_ba] else Outcome.INCONSISTENT


_Read = tuple[JudgeReplyRow, Verdict, str | None]
"""A reply, its verdict, and why it has none."""


def settle_pairs(
    replies: Iterable[JudgeReplyRow],
    *,
    reply_format: ReplyFormat = "line",
) -> list[VerdictRow]:
    """Read all judges' replies and settle every pair of a dimension, in the pairs' order.

    If a presentation was asked about more than once, its first reply with a verdict counts, or its
    last reply if none has one.
    """
    pairs: dict[tuple[str, int, str, str, str], dict[str, _Read]] = {}
    for reply in sorted(replies, key=lambda reply: reply.attempt):
        pair = (reply.prompt_id, reply.sample, reply.entrant_a, reply.entrant_b, reply.judge_model)
        presented = pairs.setdefault(pair, {})
        earlier = presented.get(reply.presentation)
        if earlier is None or not earlier[1].is_decided:
            verdict, reason = read_reply(
                result_type=reply.result_type,
                stop_reason=reply.stop_reason,
                text=reply.reply,
                reply_format=reply_format,
            )
            presented[reply.presentation] = reply, verdict, reason
    return [_settle(*(presented[each] for each in PRESENTATIONS)) for presented in pairs.values()]


def _settle(ab: _Read, ba: _Read) -> VerdictRow:
    (reply, verdict_ab, reason_ab), (other, verdict_ba, reason_ba) = ab, ba
    outcome = (
        Outcome.SAME_TEXT
        if {reply.result_type, other.result_type} == {"identical"}
        else reconcile_swap(verdict_ab, verdict_ba)
    )
    winners = {Outcome.A_WINS: reply.entrant_a, Outcome.B_WINS: reply.entrant_b}
    return VerdictRow(
        prompt_id=reply.prompt_id,
        sample=reply.sample,
        source=reply.source,
        dimension=reply.dimension,
        entrant_a=reply.entrant_a,
        entrant_b=reply.entrant_b,
        verdict_ab=verdict_ab,
        verdict_ba=verdict_ba,
        outcome=outcome,
        share=outcome.share,
        winner=winners.get(outcome),
        reason_ab=reason_ab,
        reason_ba=reason_ba,
        request_key_ab=reply.request_key,
        request_key_ba=other.request_key,
        attempt_ab=reply.attempt,
        attempt_ba=other.attempt,
        settled_by=reply.judge_model,
    )


_ROUNDING = 1e-12  # of a sum of a few weights between 0 and 1


def settle_panel(
    by_judge: Sequence[VerdictRow], weights: Mapping[str, float], *, settled_by: str
) -> VerdictRow:
    """Settle one pair from several judges' verdicts, by the weighted mean of their shares.

    The pair is unjudged unless more than half of the judges gave a verdict, whatever they weigh:
    one of three cannot decide alone, and cannot silence two. A judge whose reply is still to come
    is not among them. A judge that contradicts itself is half a win for each.

    Args:
        by_judge: Its row from every judge that was asked, in the order of the judges.
        weights: Each judge's weight, by its model; a judge without an entry has weight 0.
        settled_by: What the row calls the judges together.

    Returns:
        The row of the heaviest judge that agrees with the joint outcome, or else that says
        something, so that the verdict comes with its replies, with the joint share and outcome. If
        the judges balance, the outcome is a tie if ties hold most of the weight, and inconsistent
        if the judges contradict each other.
    """
    own = [weights.get(row.settled_by, 0.0) for row in by_judge]
    replied = [
        (row, weight)
        for row, weight in zip(by_judge, own, strict=True)
        if weight > 0 and not _is_waiting(row)
    ]
    share, outcome = _settle_shares(replied)

    def rank(place: int) -> tuple[bool, bool, float]:
        row = by_judge[place]
        return row.outcome is outcome, row.share is not None, own[place]

    spoken = by_judge[max(range(len(own)), key=rank)]
    winners = {Outcome.A_WINS: spoken.entrant_a, Outcome.B_WINS: spoken.entrant_b}
    return replace(
        spoken, outcome=outcome, share=share, winner=winners.get(outcome), settled_by=settled_by
    )


def _is_waiting(row: VerdictRow) -> bool:
    """Return whether a judge may still give a verdict: replies are pending, and none is silent."""
    missing = {each for each in (row.verdict_ab, row.verdict_ba) if not each.is_decided}
    return missing == {Verdict.PENDING}


def _settle_shares(replied: Sequence[tuple[VerdictRow, float]]) -> tuple[float | None, Outcome]:
    heard = [(row.share, weight) for row, weight in replied if row.share is not None]
    total = math.fsum(weight for _, weight in heard)
    if 2 * len(heard) <= len(replied):
        return None, Outcome.UNJUDGED
    if any(row.outcome is Outcome.SAME_TEXT for row, _ in replied):
        return 0.5, Outcome.SAME_TEXT
    share = math.fsum(share * weight for share, weight in heard) / total
    if abs(share - 0.5) <= _ROUNDING:
        ties = math.fsum(weight for row, weight in replied if row.outcome is Outcome.TIE)
        return 0.5, Outcome.TIE if 2 * ties > total else Outcome.INCONSISTENT
    # The two entrants' shares add up to 1 to the bit, so that a file of battles can hold either.
    return 1 - (1 - share), Outcome.A_WINS if share > 0.5 else Outcome.B_WINS
