"""What a failure means for the request, and what is done: one table for all protocols and channels.

`docs/judging.md` shows the table, and everything that decides about a failure reads it.

Services put the same trouble under different names: an account without credit is a 402, a 429 with
a code of its own, or an invalid request whose words alone say so. Sources: the pages on errors of
Anthropic (https://docs.claude.com/en/api/errors) and OpenAI
(https://platform.openai.com/docs/guides/error-codes).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tournament_assets.foundation.errors import JudgeFailure
from tournament_assets.judging.batch_service import UNPARSABLE


class Remedy(StrEnum):
    """When a request that failed is asked again; the values are the documentation's words."""

    AGAIN = "by this run, then by the next"
    WHEN_PAID = "by the next run, once there is credit"
    WHEN_A_PERSON_ACTS = "by the next run, once a person has acted"
    NEVER = "never"
    WHEN_PERMITTED = "with `--pay-again`"


@dataclass(frozen=True, slots=True)
class Cause:
    """A kind of failure, and what is done about it: a row of the table.

    Attributes:
        shows: How it shows, in Markdown.
        done: What is done and kept, in Markdown.
        action: What a person is told to do; empty if nothing.
        failures: Calls that failed because of it.
        result_types: Rows of results that say so.
        error_types: The common names of their errors; none for all that no other cause names.
        may_be_billed: Whether the request may have been paid for.
    """

    shows: str
    done: str
    remedy: Remedy = Remedy.AGAIN
    action: str = ""
    failures: tuple[JudgeFailure, ...] = ()
    result_types: tuple[str, ...] = ()
    error_types: tuple[str, ...] = ()
    may_be_billed: bool = False


ERRORED, CANCELLED, REFUSED = "errored", "canceled", "refused"
"""Types of rows, and the error of a request that was refused before anything was answered."""
_ROUNDS = (
    "goes out again, in at most `waiting.max_rounds` batches a run; then, with "
    "`waiting: {direct_fallback: true}`, one by one at the full price"
)
_STOP, _ROW = "stop; what was answered is kept", (ERRORED,)
_AGAIN, _PAID, _ACT, _NEVER, _ALLOWED = Remedy
CAUSES = {
    "cancelled by a person": Cause(
        "a batch cancelled at the service, a row `canceled`",
        f"{_STOP}, and exit with 1",
        _ACT,
        "run again to ask what is missing",
        result_types=(CANCELLED,),
    ),
    "expired": Cause("a row `expired`", _ROUNDS, result_types=("expired",)),
    "busy or broken": Cause("a row with any other error", _ROUNDS, result_types=_ROW),
    "unknown": Cause(
        "no row, and none that the service counts; a row of an unknown type",
        _ROUNDS,
        may_be_billed=True,
    ),
    "unparsable": Cause(
        "a line of the results that is not JSON",
        "sent once more; then as out of reach",
        result_types=(UNPARSABLE,),
        may_be_billed=True,
    ),
    "out of credit": Cause(
        "402, a spend limit, a row `billing_error`, words that say as much",
        _STOP,
        _PAID,
        "the account may spend no more: add credit or raise its spend limit",
        (JudgeFailure.FATAL,),
        _ROW,
        ("billing_error",),
    ),
    "key, account or model refused": Cause(
        "401, 403, a redirect, a refused certificate; a row `authentication_error`, "
        "`permission_error`, `not_found_error`, words that say as much",
        _STOP,
        _ACT,
        "check the API key, the account and the name of the model",
        (JudgeFailure.FATAL,),
        _ROW,
        ("authentication_error", "not_found_error", "permission_error"),
    ),
    "invalid or filtered": Cause(
        "400, 422, a row `invalid_request_error`",
        "kept as *permanent*; stop if all are",
        _NEVER,
        "correct the judge's max_tokens, thinking or model",
        (JudgeFailure.INVALID,),
        _ROW,
        ("invalid_request_error",),
    ),
    "schema refused": Cause(
        "the same for the first three direct requests",
        "stop; nothing is final",
        _ACT,
        "set judging.reply_format: line",
        (),
        _ROW,
        (REFUSED,),
    ),
    "too large": Cause(
        "413, a row `request_too_large`",
        "in halves; alone, kept as *permanent*",
        _NEVER,
        "",
        (JudgeFailure.TOO_LARGE,),
        _ROW,
        ("request_too_large",),
    ),
    "not accepted": Cause(
        "429, no connection at all",
        "wait, as long as `Retry-After` says, and send again",
        failures=(JudgeFailure.NOT_ACCEPTED,),
    ),
    "overloaded": Cause(
        "529",
        "look once whether a batch came to be, then wait as for 429",
        failures=(JudgeFailure.OVERLOADED,),
        may_be_billed=True,
    ),
    "not confirmed": Cause(
        "408, 409, 5xx, a lost, unreadable or endless answer to what may cost",
        "adoption; a direct request counts as paid",
        _AGAIN,
        "",
        (JudgeFailure.AMBIGUOUS,),
        ("lost",),
        may_be_billed=True,
    ),
    "a look that failed": Cause(
        "the same for a look, over 16 MB or ten rows a request, 404 within ten minutes of creation",
        "look again, less and less often",
        failures=(JudgeFailure.TRANSIENT,),
    ),
    "out of reach": Cause(
        "results archived (after 29 days), a batch that this key cannot see; results that are "
        "counted and cannot be read",
        "the batch stays open, and later runs look again",
        _ALLOWED,
        "check that the API key belongs to the workspace that submitted it",
        (JudgeFailure.LOST, JudgeFailure.UNKNOWN),
        ("archived",),
        may_be_billed=True,
    ),
    "filtered reply": Cause("an end `refusal` or a filter", "kept as *refused*, no tie", _NEVER),
    "substituted model": Cause(
        "a reply that names another model than the one asked",
        "kept and counted; the check `judge_is_who_was_asked` is red",
        _NEVER,
    ),
}
"""Every cause of a failure, by name."""
_OF_TYPE = {name: cause for cause in CAUSES.values() for name in cause.error_types}
_OF_RESULT = {
    name: cause for cause in CAUSES.values() if not cause.error_types for name in cause.result_types
}
NEVER_BILLED = frozenset(name for name, cause in _OF_RESULT.items() if not cause.may_be_billed)
"""Types of rows that the service says it did not answer."""


def cause_of(result_type: str, error_type: str | None) -> Cause:
    """Return why a row of results holds no reply.

    Whoever read the row has weighed its words: a message may quote a request.
    """
    cause = _OF_RESULT.get(result_type, CAUSES["unknown"])
    return _OF_TYPE.get((error_type or "").lower(), cause) if result_type == ERRORED else cause


def failures_of(remedy: Remedy, *, may_be_billed: bool) -> frozenset[JudgeFailure]:
    """Return which calls that failed are treated alike."""
    return frozenset(
        failure
        for cause in CAUSES.values()
        if (cause.remedy, cause.may_be_billed) == (remedy, may_be_billed)
        for failure in cause.failures
    )


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
    return next((_OF_TYPE[name].remedy for name in sorted(present & _OF_TYPE.keys())), Remedy.AGAIN)


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
    of_remedy = (name for name in present if name in _OF_TYPE and _OF_TYPE[name].remedy is remedy)
    general = next(of_remedy, "permission_error")
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
