"""The faults that a `FaultyServer` can be told to commit, and when each of them strikes.

A fault strikes a number of events of its family: the first ones, in the order in which the faults
were given. So a test knows beforehand what goes wrong, and that it goes right after that. Of two
faults in a family, the one given first strikes first. Row and message faults count as one family,
since a row holds one or the other, and none is spent on a batch that a batch fault strikes.
`_after` means accepted: `create_500` refuses a batch, `create_500_after` accepts it and then says
500. Readings are spoiled once, rows for good. The SDK retries polls twice: to be seen through it,
`poll_5xx` has to strike three times.
"""

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Family = Literal[
    "create",  # submitting a batch; N submissions
    "limit",  # what may be submitted at all, as long as the server lives
    "foreign",  # what else is in the workspace; N submissions
    "list",  # listing the batches; N times
    "poll",  # looking at a batch; N looks
    "ended",  # looking at a batch that has ended; N looks
    "results",  # reading the results; N readings
    "batch",  # what becomes of a batch; N batches
    "row",  # results that are no reply; N requests, each for good
    "message",  # replies of a batch; N requests, each for good
    "direct",  # asking directly, without a batch; N messages
    "direct_reply",  # replies to direct messages; N messages
    "cache",  # the prompt cache, as long as the server lives
    "model",  # looking up a model; N look-ups
]
Argument = Literal["times", "seconds", "share", "requests", "none"]

ROW_ERRORS = (
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "overloaded_error",
    "timeout_error",
    "unknown_error_type",
)
OUT_OF_CREDIT = "Your credit balance is too low to access the service."
STOP_REASONS = {
    "stop_sequence": "stop_sequence",
    "stop_tool_use": "tool_use",
    "stop_max_tokens": "max_tokens",
    "stop_refusal": "refusal",
    "stop_context_window": "model_context_window_exceeded",
    "stop_pause_turn": "pause_turn",
    "stop_unknown": "a_stop_reason_of_tomorrow",
}


@dataclass(frozen=True, slots=True)
class FaultKind:
    """An entry of the catalogue.

    Attributes:
        name: What a test calls it.
        family: The kind of event that it strikes.
        description: What goes wrong, in a line.
        argument: What its number means.
        default: The number if none is given; None where one has to be.
    """

    name: str
    family: Family
    description: str
    argument: Argument = "times"
    default: float | None = 1


def _kinds(family: Family, **descriptions: str) -> list[FaultKind]:
    return [FaultKind(name, family, description) for name, description in descriptions.items()]


_REPLY_KINDS = (
    *(
        FaultKind(name, "message", f"a whole reply, verdict and all, with stop_reason {reason}")
        for name, reason in STOP_REASONS.items()
    ),
    *_kinds(
        "message",
        text_empty="the text is empty",
        schema_ignored="prose and a verdict line, though a schema was asked for",
        content_empty="there is no text at all: the content is an empty list",
        no_verdict="the reasoning alone, without a verdict",
        thinking_first="a thinking block with the opposite verdict comes first",
        two_verdicts="the opposite verdict follows the verdict",
        verdict_abstain="VERDICT: ABSTAIN",
        verdict_markdown="the verdict line in bold: **VERDICT: A**",
        verdict_quoted="a response's own, opposite verdict is quoted before the reasoning",
        usage_huge="the usage names more output tokens than 64 bits hold",
        reply_long="the reply takes all of max_tokens, and is billed for it",
        reply_thinks="it thinks for 200 to 400 tokens first, and is cut off at max_tokens",
        reply_thinks_twice="likewise; one in 32 thinks three times as long",
    ),
)
_KINDS = (
    *_kinds(
        "create",
        create_drop="the connection is closed; nothing was accepted",
        create_drop_after="the batch is accepted, then the connection is closed",
    ),
    FaultKind(
        "create_hang",
        "create",
        "the batch is accepted, and the answer comes SECONDS later (30)",
        "seconds",
        30,
    ),
    *_kinds(
        "create",
        create_500="500 api_error; nothing was accepted",
        create_500_after="the batch is accepted, then 500 api_error",
        create_504="504 timeout_error; nothing was accepted",
        create_504_after="the batch is accepted, then 504 timeout_error",
        create_529="529 overloaded_error; nothing was accepted",
        create_529_after="the batch is accepted, then 529 overloaded_error",
        create_429="429 rate_limit_error with Retry-After: 1",
        create_429_bare="429 rate_limit_error without Retry-After",
        create_spend_limit="429 enforced_spend_limit_reached: waiting does not help",
        create_credit="400 invalid_request_error, whose message alone speaks of credit",
        create_401="401 authentication_error",
        create_402="402 billing_error",
        create_403="403 permission_error",
        create_413="413 request_too_large",
        create_html_502="502 with a gateway's HTML page; nothing was accepted",
        create_html_502_after="the batch is accepted, then 502 with a gateway's HTML page",
        create_no_id="the batch is accepted; the answer is 200 without an id",
        create_redirect="307 to the same server under another name; nothing was accepted",
    ),
    FaultKind(
        "create_413_above",
        "limit",
        "413 request_too_large for every submission of more than N requests",
        "requests",
        None,
    ),
    *_kinds(
        "foreign",
        foreign_batch="a batch of the same size, not ours, appears above ours, or without it",
    ),
    *_kinds("list", list_lag="the batch accepted last is not in the list yet"),
    *_kinds(
        "poll",
        poll_404="404: the batch is not known yet",
        poll_5xx="500, 503, 504 and 529 in turn",
        poll_redirect="302 to the same server under another name",
        unknown_status="the status is a word of tomorrow",
    ),
    *_kinds(
        "ended",
        ended_without_url="the results_url is null",
        foreign_host="the results_url names a host that is not the service's",
        relative_url="the results_url is a path without a host",
    ),
    *_kinds(
        "results",
        results_cut_mid_line="half of the rows and half a line; Content-Length announced all",
        results_cut_mid_line_silent="half of the rows and half a line; no Content-Length",
        results_cut_at_line="half of the rows; Content-Length announced all",
        results_cut_at_line_silent="half of the rows; no Content-Length",
        results_garbage_line="a line that is not JSON among the others",
        results_blank_line="a blank line among the others",
        results_split_crlf="CRLF ends the lines, its halves in two chunks",
        results_duplicate_same="the first row comes a second time",
        results_duplicate_different="the first row comes a second time and says something else",
        results_missing_row="the last row is missing",
        results_foreign_row="one more row, which nobody asked for",
        results_unknown_type="the first row's result has a type of tomorrow",
        results_redirect="302 to the same server under another name",
    ),
    *_kinds(
        "batch",
        never_ends="it stays in progress for ever",
        archived="it ends, but its results are gone",
        results_stay_short="half of its rows are never shown, though it counts them all",
        results_stay_empty="none of its rows is ever shown, though it counts them all",
        batch_canceled="a person cancels it: every other request is answered before; in OpenAI's "
        "protocol no row says so of the rest",
        all_invalid="every request of it ends as invalid_request_error",
        batch_refused="it fails as a whole once looked at; in Anthropic's protocol: all_invalid",
    ),
    *(FaultKind(f"row_{error}", "row", f"errored: {error}") for error in ROW_ERRORS),
    *_kinds(
        "row",
        row_credit="errored: invalid_request_error, whose message alone speaks of credit",
        row_expired="expired",
        row_canceled="canceled, though nobody canceled it",
        row_unparsable="counted as succeeded, and a line that is not JSON",
    ),
    *_REPLY_KINDS,
    *_kinds(
        "direct",
        message_drop="the connection is closed; nothing was answered",
        message_drop_after="the message is answered, then the connection is closed",
        message_400="400 invalid_request_error",
        message_credit="400 invalid_request_error, whose message alone speaks of credit",
        message_401="401 authentication_error",
        message_429="429 rate_limit_error with Retry-After: 1",
        message_429_bare="429 rate_limit_error without Retry-After",
        message_500="500 api_error",
        message_529="529 overloaded_error",
        message_spend_limit="429 enforced_spend_limit_reached: waiting does not help",
        message_redirect="307 to the same server under another name; nothing was answered",
    ),
    *(replace(kind, name=f"direct_{kind.name}", family="direct_reply") for kind in _REPLY_KINDS),
    *_kinds("model", model_404="404: the service has no such route"),
    FaultKind("below_minimum", "cache", "every prefix is too short to be cached", "none"),
    FaultKind(
        "hit_rate",
        "cache",
        "of the requests that could read the cache, only the share P does; the rest write it",
        "share",
        None,
    ),
    FaultKind(
        "cache_expiry",
        "cache",
        "a cached prefix lives SECONDS after its last use, whatever was asked for",
        "seconds",
        None,
    ),
)
CATALOGUE = {kind.name: kind for kind in _KINDS}
"""Every kind of fault by its name."""


_ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to commit.

    Attributes:
        name: Which one.
        argument: How often it strikes, or its seconds, or its share.
    """

    name: str
    argument: float

    @property
    def kind(self) -> FaultKind:
        """The entry of the catalogue."""
        return CATALOGUE[self.name]


def parse_fault(text: str) -> Fault:
    """Read a fault as a test writes it: `NAME`, `NAME:NUMBER` or `NAME:always`.

    Raises:
        ValueError: If there is no such fault, or its number makes no sense.
    """
    name, colon, written = text.partition(":")
    kind = CATALOGUE.get(name)
    if kind is None:
        raise ValueError(f"{name!r} is not a fault; expected one of {', '.join(CATALOGUE)}")
    value = _read_number(kind, written) if colon else kind.default
    if value is None or not _is_fitting(kind, value):
        expected = {
            "times": f"a whole number from 1 up, or {_ALWAYS!r}",
            "seconds": "a number of seconds from 0 up",
            "share": "a share from 0 to 1",
            "requests": "a whole number from 1 up",
            "none": "no number",
        }
        raise ValueError(
            f"the fault {name!r} was given {written!r}; expected {expected[kind.argument]}"
        )
    return Fault(name, value)


class FaultPlan:
    """Decides which events are struck, and remembers which were.

    Attributes:
        struck: The names of the faults that struck, in order.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.struck: list[str] = []
        self._faults = list(faults)
        self._left = [_count_strikes(fault) for fault in self._faults]
        self._lock = threading.Lock()

    def take(self, *families: Family) -> Fault | None:
        """Return the fault that strikes an event which has just come, or None."""
        with self._lock:
            for index, fault in enumerate(self._faults):
                if fault.kind.family in families and self._left[index] > 0:
                    self._left[index] -= 1
                    self.struck.append(fault.name)
                    return fault
        return None

    def take_name(self, *families: Family) -> str | None:
        """Return the name of the fault that strikes an event, or None."""
        fault = self.take(*families)
        return None if fault is None else fault.name

    def give_back(self, fault: Fault) -> None:
        """Undo a strike: the event turned out to be none."""
        with self._lock:
            self._left[self._faults.index(fault)] += 1
            self.struck.remove(fault.name)

    def find(self, name: str) -> Fault | None:
        """Return a fault that does not strike single events, if it was asked for."""
        return next((fault for fault in self._faults if fault.name == name), None)


def plan_faults(faults: Sequence[str]) -> FaultPlan:
    """Read faults as a test writes them.

    Raises:
        ValueError: If one of them is none.
    """
    return FaultPlan(parse_fault(text) for text in faults)


def _read_number(kind: FaultKind, written: str) -> float | None:
    if kind.argument == "times" and written == _ALWAYS:
        return math.inf
    if kind.argument == "none":
        return None
    try:
        return float(written)
    except ValueError:
        return None


def _is_fitting(kind: FaultKind, value: float) -> bool:
    if kind.argument == "times":
        return value == math.inf or _is_whole(value)
    if kind.argument == "requests":
        return _is_whole(value)
    if kind.argument == "share":
        return 0 <= value <= 1
    return 0 <= value < math.inf


def _is_whole(value: float) -> bool:
    return value >= 1 and value % 1 == 0


def _count_strikes(fault: Fault) -> float:
    return fault.argument if fault.kind.argument == "times" else 1
