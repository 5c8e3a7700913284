"""What a failure of the Anthropic API means for what is done next, and how people are told.

The classes follow what the public documentation says of each status; a status that is not in it is
read by its hundreds.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tournament_assets.adapters.anthropic_rows import mapping
from tournament_assets.tournament.errors import JudgeFailure
from tournament_assets.tournament.places import origin_of

_MAX_RETRY_AFTER = 3600.0
_ADVICE = {
    401: "; the API key was refused: check ANTHROPIC_API_KEY",
    402: "; the account cannot pay: check its credit",
    403: "; the API key was refused for this: check ANTHROPIC_API_KEY and its workspace",
    404: "; there is no such thing, or this key may not see it: check the name",
}
_BY_STATUS = {
    401: JudgeFailure.FATAL,
    402: JudgeFailure.FATAL,
    403: JudgeFailure.FATAL,
    404: JudgeFailure.UNKNOWN,
    413: JudgeFailure.TOO_LARGE,
}
_SPEND_LIMIT = "enforced_spend_limit_reached"


def classify_failure(error: Exception, *, may_cost: bool) -> JudgeFailure:
    """Say what a failure of the SDK means.

    Args:
        error: What the SDK, or the HTTP library under it, raised.
        may_cost: Whether the service may have begun something that is paid for.
    """
    import httpx2

    unclear = JudgeFailure.AMBIGUOUS if may_cost else JudgeFailure.PASSING
    status = getattr(error, "status_code", None)
    if status is None:
        never_sent = isinstance(error.__cause__, (httpx2.ConnectError, httpx2.ConnectTimeout))
        return JudgeFailure.NOT_ACCEPTED if may_cost and never_sent else unclear
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 300 <= status < 400:
        return JudgeFailure.FATAL
    if status == 429:
        if _is_spend_limit(error):
            return JudgeFailure.FATAL
        return JudgeFailure.NOT_ACCEPTED if may_cost else JudgeFailure.PASSING
    if status in (408, 409) or status >= 500:
        return unclear
    return JudgeFailure.INVALID


def describe_failure(error: Exception, address: str, *, quote: Callable[[str], str]) -> str:
    """Say what went wrong and what to do.

    Args:
        error: What the SDK raised.
        address: The service's address.
        quote: Makes the service's words fit to be shown, without the key should it repeat it.
    """
    status = getattr(error, "status_code", None)
    if status is None:
        return (
            f"no complete answer from {address} ({type(error).__name__}); "
            "check the network and run again"
        )
    if 300 <= status < 400:
        response: Any = getattr(error, "response", None)
        target = origin_of(response.headers.get("location", "")) if response is not None else None
        return (
            f"{address} answered {status}, a redirect to {target or 'another address of its own'}; "
            "redirects are not followed, so that neither texts nor the key go where nobody sent "
            "them; if the target is right, give it as judge.base_url or in ANTHROPIC_BASE_URL"
        )
    problem = _problem(error)
    body = getattr(error, "body", None)
    said = quote(str(problem.get("message") or body))
    answer = f"{address} answered {status} ({quote(str(problem.get('type')))}): {said}"
    if status == 429:
        if _is_spend_limit(error):
            return f"{answer}; the account's spend limit is reached: raise it, and run again"
        seconds = read_retry_after(error)
        when = "in a while" if seconds is None else f"in {seconds:.0f} seconds"
        return f"{answer}; a rate limit is reached: run again {when}"
    return answer + _ADVICE.get(status, "")


def read_retry_after(error: Exception) -> float | None:
    """Return for how many seconds the service asks to wait; None if it does not say."""
    response: Any = getattr(error, "response", None)
    if response is None:
        return None
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(seconds, _MAX_RETRY_AFTER) if seconds >= 0 else None


def _problem(error: Exception) -> Mapping[str, Any]:
    return mapping(mapping(getattr(error, "body", None)).get("error"))


def _is_spend_limit(error: Exception) -> bool:
    problem = _problem(error)
    details = mapping(problem.get("details"))
    return _SPEND_LIMIT in (details.get("error_code"), problem.get("type"))
