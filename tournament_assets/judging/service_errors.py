"""What a service's error means for the request: one answer for every protocol and channel.

Services put the same trouble under different names: an account without credit is a 402, a 429 with
a code of its own, or an invalid request whose words alone say so. Sources: the pages on errors of
Anthropic (https://docs.claude.com/en/api/errors) and OpenAI
(https://platform.openai.com/docs/guides/error-codes).
"""

import re
from collections.abc import Iterable
from enum import StrEnum


class Remedy(StrEnum):
    """When a request that failed may be answered."""

    AGAIN = "again"
    """When it is sent again: the service is busy or broken."""
    WHEN_PAID = "when_paid"
    """When the account has credit, or a higher limit."""
    WHEN_A_PERSON_ACTS = "when_a_person_acts"
    """When somebody corrects the key, the account, or the model's name."""
    NEVER = "never"
    """Never as it stands: it is invalid, too long, or filtered."""


def remedy_for(names: Iterable[str | None], status: int | None, words: str | None) -> Remedy:
    """Return what an error calls for.

    What is particular comes first: a code or a sentence about credit, about the account, about the
    request; then the status; then the general type, which some services give any failure.

    Args:
        names: The error's type and code, in any order.
        status: The HTTP status; None in a batch's row that has none.
        words: The error's message, without the request's own text where that is known.
    """
    present = {name.lower() for name in names if name}
    text = " ".join((words or "")[:_LONGEST_MESSAGE].lower().split())
    for remedy, pattern in _PARTICULAR.items():
        is_passing = remedy is Remedy.WHEN_PAID and _SOON.search(text)
        if pattern.search(" ".join(present)) or (pattern.search(text) and not is_passing):
            return remedy
    if status is not None:
        return _by_status(status)
    return next((_TYPES[name] for name in sorted(present) if name in _TYPES), Remedy.AGAIN)


def error_type_of(names: Iterable[str | None], status: int | None, words: str | None) -> str | None:
    """Return the common name of an error, which by itself says what it calls for.

    An error that passes keeps its own name, unless that says something else.
    """
    present = [name for name in names if name]
    remedy = remedy_for(present, status, words)
    if status == 429 and remedy is Remedy.AGAIN:
        return "rate_limit_error"
    if remedy is Remedy.AGAIN:
        named = present[0] if present else None
        return "api_error" if named and remedy_for([named], None, None) is not remedy else named
    if remedy is Remedy.NEVER:
        is_large = status == 413 or "request_too_large" in present
        return "request_too_large" if is_large else "invalid_request_error"
    if remedy is Remedy.WHEN_PAID:
        return "billing_error"
    by_status = {401: "authentication_error", 404: "not_found_error"}
    general = next((name for name in present if _TYPES.get(name) is remedy), "permission_error")
    return by_status.get(status or 0, general)


def _by_status(status: int) -> Remedy:
    if status == 402:
        return Remedy.WHEN_PAID
    if status in (401, 403, 404, 405, 410) or 300 <= status < 400:
        return Remedy.WHEN_A_PERSON_ACTS
    if status in (408, 409, 425, 429) or status >= 500:
        return Remedy.AGAIN
    return Remedy.NEVER


_LONGEST_MESSAGE = 1000  # characters; what follows in a longer one is what it quotes
_SOON = re.compile(r"rate limit|per (minute|min|second|day|hour)\b|(retry|try again) in\b")
"""What says that a limit passes by itself, though the sentence speaks of a quota."""
_PARTICULAR = {
    Remedy.WHEN_PAID: re.compile(
        r"billing_error|billing_hard_limit|billing_not_active|enforced_spend_limit"
        r"|insufficient_(quota|balance|credits)|credit balance is too low"
        r"|(insufficient|not enough|no|out of) (account )?(balance|credits?|funds)\b"
        r"|exceeded your current quota|requires more credits|check your billing"
        r"|(reached|exceeded) (your|the) (\w+ ){0,2}(usage|spend(ing)?|billing) limits?"
        r"|(usage|spend(ing)?|billing hard) limits? (\w+ ){0,2}(reached|exceeded)"
    ),
    Remedy.WHEN_A_PERSON_ACTS: re.compile(
        r"access_terminated|account_deactivated|deactivated_workspace|invalid_(api_key|organization)"
        r"|model_not_found|organization_disabled|unsupported_country_region_territory"
        r"|(organization|account|workspace|project|api key) (has been |is |was )?(currently )?"
        r"(disabled|deactivated|suspended|archived|on hold)\b"
        r"|(invalid|incorrect) (x-)?api[- ]key|(invalid|unknown) model\b"
        r"|model \S+ (does not exist|was not found|not found)"
    ),
    Remedy.NEVER: re.compile(
        r"content_filter|content_policy_violation|context_length_exceeded|exceed_context_size"
        r"|request_too_large|string_above_max_length|prompt is too long|maximum context length"
        r"|exceeds? (the )?context (limit|length|size)|tokens must be reduced"
        r"|content (filter(ing)?|management) policy"
        r"|(prompt|input|request|content) (was|has been|is) flagged"
    ),
    Remedy.AGAIN: re.compile(r"overloaded_error|rate_limit_(error|exceeded)|server_error"),
}
"""What names a trouble in particular: codes, and words of the sentences that are published."""
_TYPES = {
    "authentication_error": Remedy.WHEN_A_PERSON_ACTS,
    "invalid_request_error": Remedy.NEVER,
    "not_found_error": Remedy.WHEN_A_PERSON_ACTS,
    "permission_error": Remedy.WHEN_A_PERSON_ACTS,
}
