"""Telling what a judge said from what a machine on the way to it said.

Files of judgments that come from elsewhere hold replies such as "Gateway is restarting", which
some gateway put in the judge's place. They are no judgments, and no judge's fault either.
"""

from enum import StrEnum

from tournament_assets.judging.parsing import parse_verdict, read_reply
from tournament_assets.judging.structured import ReplyFormat, parse_structured_verdict
from tournament_assets.tournament.errors import VerdictParseError

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
"""What is found, in any case, in a text that stands in the place of a judge's reply."""

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
    """There is a reply and it says nothing."""
    INFRASTRUCTURE = "infrastructure"
    """Something on the way to the judge put its own words in the reply's place."""
    UNPARSABLE = "unparsable"
    """The line of the results that should hold the reply is not JSON, however often it is read."""
    ARCHIVED = "archived"
    """The service no longer keeps the result."""


_CLASS_OF_RESULT = {
    "expired": FailureClass.EXPIRED,
    "canceled": FailureClass.CANCELED,
    "archived": FailureClass.ARCHIVED,
}
_CLASS_OF_STOP = {
    "refusal": FailureClass.REFUSED,
    "max_tokens": FailureClass.CUT_OFF,
    "model_context_window_exceeded": FailureClass.ERRORED,
}


def is_infrastructure_failure(text: str | None) -> bool:
    """Say whether a text in the place of a judge's reply is none of the judge's.

    No text and white space are such a failure. A text with a verdict never is, whatever it quotes.
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
    """Say why a result row carries no verdict.

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
    if result_type == "succeeded" and stop_reason in _CLASS_OF_STOP:
        return _CLASS_OF_STOP[stop_reason]
    if text is None or not text.strip():
        return FailureClass.EMPTY if result_type == "succeeded" else FailureClass.ERRORED
    if is_infrastructure_failure(text):
        return FailureClass.INFRASTRUCTURE
    return FailureClass.UNREADABLE if result_type == "succeeded" else FailureClass.ERRORED


def _holds_a_verdict(text: str) -> bool:
    for parse in (parse_verdict, parse_structured_verdict):
        try:
            parse(text)
        except VerdictParseError:
            continue
        return True
    return False
