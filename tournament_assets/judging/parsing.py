"""Reading a verdict out of a judge's reply; a pure function, so fixing it costs nothing."""

import re

from tournament_assets.judging.structured import (
    ReplyFormat,
    opens_an_object,
    parse_structured_verdict,
)
from tournament_assets.tournament.errors import VerdictParseError
from tournament_assets.tournament.verdicts import Verdict

READING_VERSION = 2
"""Raise it when any reply is read otherwise: verdicts of earlier versions are then out of date."""

# Only these end a line. `str.splitlines` would also cut at U+2028, a form feed and others, and a
# response that the judge quotes could then put a verdict on a line of its own.
_LINE_END = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\u00a0\u202f"
_MARKS = rf"[*_`#>{_BLANK}\"'\u201c\u201d\u2018\u2019«»]*"
# ASCII: otherwise the case-blind match takes a dotless i (U+0131) for the I of TIE.
_VERDICT_LINE = re.compile(
    rf"{_MARKS}(?:[-+•]{_MARKS})?VERDICT{_MARKS}:{_MARKS}(?P<verdict>[A-Z]+){_MARKS}(?:\.{_MARKS})?",
    re.ASCII | re.IGNORECASE,
)
_CLOSING_FENCE = re.compile(rf"[{_BLANK}]*(?:`{{3,}}|~{{3,}})[{_BLANK}]*")
_VERDICTS = {"A": Verdict.A, "B": Verdict.B, "TIE": Verdict.TIE}
SAME_TEXT_REASON = "the two responses are identical; the judge was not asked"
"""Why a pair of one text has no reply; tables of earlier versions are told apart by it."""
_EXPECTED = "expected 'VERDICT: A', 'VERDICT: B' or 'VERDICT: TIE' alone on the last line"


def parse_verdict(reply: str) -> Verdict:
    r"""Read the verdict from the last non-empty line of a reply.

    ASCII letters count in either case. Around the parts of the line blanks (no-break ones too),
    Markdown's marks and quotation marks are ignored, and so are a bullet before it, a full stop
    behind it, and a last line that only closes a code fence. Nothing else is: no text behind the
    verdict, no letter that only looks like one of these, no line elsewhere that gives a different
    verdict, be it one that nobody asked for (`VERDICT: ABSTAIN`). Lines end in `\n`, `\r\n` or
    `\r`. A reply whose last line quotes a response's verdict line is read by that line.

    Raises:
        VerdictParseError: If the last line is no verdict, or the reply holds two different ones.
    """
    lines = [line for line in _LINE_END.split(reply) if line.strip(_BLANK)]
    if len(lines) > 1 and _CLOSING_FENCE.fullmatch(lines[-1]):
        lines.pop()
    if not lines:
        raise VerdictParseError(f"the judge's reply is empty; {_EXPECTED}")
    last = _said_by_line(lines[-1])
    if last not in _VERDICTS:
        raise VerdictParseError(f"the judge's reply ends in {lines[-1][-80:]!r}; {_EXPECTED}")
    for line in lines[:-1]:
        if _said_by_line(line) not in (None, last):
            raise VerdictParseError(
                f"the judge's reply says both {line[:80]!r} and {lines[-1][:80]!r}; {_EXPECTED}"
            )
    return _VERDICTS[last]


def _said_by_line(line: str) -> str | None:
    """Return the word that a line gives as the verdict, one of the three or not."""
    match = _VERDICT_LINE.fullmatch(line)
    return None if match is None else match["verdict"].upper()


def read_reply(
    *,
    result_type: str,
    stop_reason: str | None,
    text: str | None,
    reply_format: ReplyFormat = "line",
) -> tuple[Verdict, str | None]:
    """Say what a result row means: a verdict, or why there is none.

    Only a reply that ended by itself can carry a verdict: one that was cut off may have been about
    to change its mind.

    Args:
        result_type: The row's type; `pending` where there is no row yet, `identical` where there
            was nothing to ask.
        stop_reason: Why the model stopped.
        text: What it wrote.
        reply_format: How it was told to write its verdict. A reply that was to be a JSON object and
            does not set out to be one is read by its last line: not every service knows schemas.

    Returns:
        The verdict or the reason for having none, and a sentence about the reason.
    """
    if result_type != "succeeded":
        return _read_failure(result_type)
    if stop_reason == "refusal":
        return Verdict.REFUSED, "the judge declined to judge"
    if stop_reason == "model_context_window_exceeded":
        return Verdict.PERMANENT, "the request does not fit the judge's context window"
    if stop_reason == "max_tokens":
        return Verdict.UNREADABLE, "the reply was cut off at its token cap"
    if stop_reason != "end_turn":
        return Verdict.UNREADABLE, f"the reply stopped for {stop_reason!r}, not by itself"
    try:
        return _parse(text or "", reply_format), None
    except VerdictParseError as error:
        return Verdict.UNREADABLE, str(error)


def _read_failure(result_type: str) -> tuple[Verdict, str]:
    if result_type == "identical":
        return Verdict.TIE, SAME_TEXT_REASON
    if result_type == "pending":
        return Verdict.PENDING, "there is no reply yet"
    if result_type == "errored":
        return Verdict.PERMANENT, f"the request ended as {result_type!r}"
    return Verdict.PENDING, f"the request ended as {result_type!r}; it can be asked again"


def _parse(text: str, reply_format: ReplyFormat) -> Verdict:
    if reply_format == "json_schema" and opens_an_object(text):
        return parse_structured_verdict(text)
    return parse_verdict(text)


def needs_second_question(verdict: Verdict) -> bool:
    """Say whether a request is asked once more: its reply is paid for and says nothing."""
    return verdict is Verdict.UNREADABLE
