"""What an error of a service means, whatever protocol it came by: who can mend it, and when.

Sources: https://platform.claude.com/docs/en/api/errors,
https://platform.openai.com/docs/guides/error-codes.
"""

import re
from enum import StrEnum


class Cure(StrEnum):
    """What makes a request succeed that failed."""

    AGAIN = "again"
    """Asking again, in a while."""
    PAYMENT = "when paid"
    """Credit, or a higher limit of what may be spent."""
    PERSON = "when a person acts"
    """Another key, model or address, or whoever disabled the account."""
    NEVER = "never"
    """Nothing: the request itself is refused, and would be again unchanged."""


_BEGINNING = 300
"""Characters of a message that are read: further on it may quote what was asked."""
_QUOTED = re.compile(r"(?P<mark>['\"`]).{20,}?(?P=mark)", re.DOTALL)
_UNPAID = re.compile(
    r"credit balance|insufficient[ _](?:quota|credits?|balance|funds)|out of credits?|no credits?"
    r"|(?:billing|spend(?:ing)?|usage|monthly)[ _](?:hard[ _])?(?:limits?|cap)"
    r"|exceeded your current quota|payment required|billing_error|arrears|overdue",
    re.IGNORECASE,
)
_UNPAID_KINDS = frozenset(
    {"billing_error", "insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
    | {"enforced_spend_limit_reached", "payment_required"}
)
_DISABLED = re.compile(
    r"(?:organization|account|project|workspace|key)\b[^.]{0,60}\b"
    r"(?:disabled|deactivated|suspended|blocked|revoked)",
    re.IGNORECASE,
)
_PERSONAL_KINDS = frozenset(
    {"authentication_error", "permission_error", "not_found_error", "invalid_api_key"}
    | {"account_deactivated", "model_not_found", "permission_denied", "organization_disabled"}
)
_NEVER_KINDS = frozenset(
    {"invalid_request_error", "request_too_large", "context_length_exceeded", "invalid_prompt"}
    | {"content_policy_violation", "content_filter", "unsupported_parameter"}
)
_PERSONAL_STATUSES, _NEVER_STATUSES = (401, 403, 404), (400, 413, 422)


def cure_of(*kinds: str | None, status: int | None = None, words: str = "") -> Cure:
    """Return what mends an error.

    Credit that ran dry is told by words as often as by a type: it comes as a 400, 402, 403 or 429,
    and inside a batch as an `invalid_request_error`. A status of the server's own troubles means
    another attempt, whatever type stands beside it.

    Args:
        kinds: The service's types and codes of the error, as far as it gives them.
        status: The HTTP status; None inside a batch.
        words: What the service says, without the request's own text.
    """
    beginning = _QUOTED.sub("", words)[:_BEGINNING]
    is_servers = status is not None and (status >= 500 or status in (408, 409, 425))
    if status == 402 or not _UNPAID_KINDS.isdisjoint(kinds):
        return Cure.PAYMENT
    if is_servers:
        return Cure.AGAIN
    is_limit = status == 429 or "rate_limit_error" in kinds or "rate_limit_exceeded" in kinds
    if _UNPAID.search(beginning) and not (is_limit and "per " in beginning):
        return Cure.PAYMENT
    if is_limit:
        return Cure.AGAIN
    if _DISABLED.search(beginning) or not _PERSONAL_KINDS.isdisjoint(kinds):
        return Cure.PERSON
    if status in _PERSONAL_STATUSES:
        return Cure.PERSON
    if status in _NEVER_STATUSES or not _NEVER_KINDS.isdisjoint(kinds):
        return Cure.NEVER
    return Cure.AGAIN
