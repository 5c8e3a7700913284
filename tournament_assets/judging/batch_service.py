"""The services as the judging stage sees them: what goes in, what comes out.

The classes hold what a service said, not what it means: replies are parsed and failed rows
classified elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal, Protocol, Required, TypedDict, TypeGuard, TypeVar, runtime_checkable

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.json_lines import JsonObject

Channel = Literal["batch", "direct"]
"""How a request is sent: a batch costs half; a direct message is answered at once."""
UNPARSABLE = "unparsable"
"""The type of a row that stands for an unreadable line of the results."""


class TextBlock(TypedDict):
    """A text, and the marker that makes it a prefix for the cache."""

    type: str
    text: str
    cache_control: Mapping[str, str]


class MessageParams(TypedDict, total=False):
    """The parameters of a message, in the words of the Messages API."""

    model: Required[str]
    max_tokens: Required[int]
    messages: Required[Sequence[Mapping[str, str]]]
    system: str | Sequence[TextBlock]
    output_config: JsonObject
    thinking: JsonObject
    temperature: float
    top_p: float
    stop_sequences: Sequence[str]
    seed: int
    extra_body: JsonObject


@dataclass(frozen=True, slots=True)
class SubmittedRequest:
    """One request of a batch.

    Attributes:
        custom_id: Names the request in the results; unique in its batch.
        params: The parameters of the message, as JSON values.
    """

    custom_id: str
    params: MessageParams


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch's progress as the service reports it; nothing in it says whose batch it is.

    Attributes:
        batch_id: The service's name for the batch.
        has_ended: Whether every request has a result.
        n_requests: How many requests it holds.
        created_at: When the service accepted it; None if it does not say.
        nonce: Our own name for it, where the service stores one with a batch: empty if the batch
            has none of ours, None if unknown.
        n_results: How many results there are if some requests have none; None if every request has
            one.
        is_cancelled: Whether somebody cancelled it, so that not every request need have a reply.
        refusal: Why the whole batch was refused after being accepted, and so not billed; None if it
            was not.
    """

    batch_id: str
    has_ended: bool
    n_requests: int
    created_at: datetime | None = field(default=None, compare=False)
    nonce: str | None = field(default=None, compare=False)
    n_results: int | None = None
    is_cancelled: bool = False
    refusal: JudgeError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one or more replies.

    Attributes:
        input_tokens: Input tokens at full price: neither written to nor read from the cache.
        output_tokens: Written by the model, thinking included.
        cache_creation_input_tokens: Read and written to the cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def read_tokens(self) -> int:
        """Tokens of the whole prompt, from the cache or not."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_creation_input_tokens + other.cache_creation_input_tokens,
            self.cache_read_input_tokens + other.cache_read_input_tokens,
        )


TOKEN_NAMES = tuple(each.name for each in fields(TokenUsage))
"""The counts of tokens, as the provider and every table call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for a request, whatever the source.

    Attributes:
        result_type: `succeeded`, `errored`, `canceled`, `expired`, or any other word, verbatim.
        text: All text blocks of the reply, joined; thinking is left out; None without a reply.
        stop_reason: Why the model stopped; None without a reply.
        error_type: The provider's name of the error; None unless there is one.
        error_message: What the service said about the error.
        model: The model that replied.
        usage: The tokens billed; None if the service did not report them.
    """

    result_type: str
    text: str | None = None
    stop_reason: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRow(Reply):
    """One row of a batch's results.

    Attributes:
        custom_id: The request it belongs to; empty where the row names none.
        raw: Canonical JSON of the row as it was received.
        seconds: How long a direct request took; None for a row of a batch.
    """

    custom_id: str = ""
    raw: str = "{}"
    seconds: float | None = field(default=None, compare=False)


@runtime_checkable
class TokenCounter(Protocol):
    """A service that says how many tokens a request has, without answering it."""

    def count_tokens(self, params: MessageParams) -> int:
        """Return the input tokens of a request; nothing is billed.

        Raises:
            JudgeError: If the service does not say.
        """
        ...


@runtime_checkable
class ListsModels(Protocol):
    """A service that says which models it has."""

    def list_models(self) -> list[str]:
        """Return the models' names; empty if the service does not say.

        Raises:
            JudgeError: If the key is refused, or the service cannot be reached.
        """
        ...


_Row = TypeVar("_Row")
_ROWS_PER_REQUEST = 10
_MOST_REQUESTS = 100_000  # of a batch, whatever a service says of it


def limit_rows(rows: Iterable[_Row], n_requests: int, source: str) -> Iterator[_Row]:
    """Yield the results of some requests, which may have ten rows each, readable or not.

    Args:
        rows: Rows, or the lines that hold them.
        n_requests: How many requests there are; 0 if that is not known.
        source: What gives them, for the message.

    Raises:
        JudgeError: If there are more: they need not end.
    """
    most = _ROWS_PER_REQUEST * min(n_requests or _MOST_REQUESTS, _MOST_REQUESTS)
    for n_rows, row in enumerate(rows):
        if n_rows == most:
            raise JudgeError(
                f"{source} gave more than {n_rows:,} rows for {n_requests:,} requests; expected "
                "one for each",
                failure=JudgeFailure.TRANSIENT,
            )
        yield row


class AsksDirectly(Protocol):
    """A service that answers single requests at once.

    The `failure` of every `JudgeError` tells the caller what to do next.
    """

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request, once, and wait for its reply.

        Raises:
            JudgeError: If no reply came. If the failure is ambiguous, a reply may have been paid
                for.
        """
        ...

    def check_model(self, model: str) -> str | None:
        """Return None if this key may use the model; a warning if the service does not say.

        Raises:
            JudgeError: If the model or the key is refused, or the service cannot be asked.
        """
        ...


class TakesBatches(AsksDirectly, Protocol):
    """A service that also answers requests in batches."""

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Submit a batch, once.

        Raises:
            JudgeError: If the service did not confirm the batch. If the failure is ambiguous, it
                may have accepted the batch anyway: look before submitting again.
        """
        ...

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield the batches this key can see, the newest first.

        Raises:
            JudgeError: If the service does not say.
        """
        ...

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look up a batch's progress.

        Raises:
            JudgeError: If the service does not say.
        """
        ...

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch, in no particular order.

        A stream that ends early looks like a short one: compare the rows with what was submitted.
        An unreadable line is yielded as a row of the type `UNPARSABLE`, without a custom id; its
        error message holds the beginning of the line.

        Raises:
            JudgeError: If no results are available, or if the stream broke; then every readable row
                has been yielded before.
        """
        ...


def takes_batches(service: AsksDirectly) -> TypeGuard[TakesBatches]:
    """Return whether a service takes batches, that is, has a `create_batch`."""
    return hasattr(service, "create_batch")
