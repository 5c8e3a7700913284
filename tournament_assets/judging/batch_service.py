"""The services as the judging stage sees them: what goes in, what comes out.

The classes hold what a service said, not what it means: a reply's text is parsed, and a failed row
classified, elsewhere.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Literal, Protocol, Required, TypedDict, TypeGuard, runtime_checkable

from tournament_assets.tournament.errors import JudgeError
from tournament_assets.tournament.json_lines import JsonObject

Channel = Literal["batch", "direct"]
"""How a request is sent: a batch costs half, a direct message is answered at once."""
UNPARSABLE = "unparsable"
"""The type of a row that stands for a line of the results which is no row at all."""


class TextBlock(TypedDict):
    """A text and what marks it as a prefix for the cache."""

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
    """How far a batch is, as the service says; nothing in it says whose it is.

    Attributes:
        batch_id: The service's name for the batch.
        has_ended: Whether every request has a result.
        n_requests: How many requests it holds.
        created_at: When the service accepted it; None if it does not say.
        nonce: Our own name for it, where the service keeps one beside a batch: empty if it has
            none of ours, None where nobody can tell.
        n_results: How many results there are, where not every request has one; None if all have.
        refusal: Why all of it was refused after it had been accepted, so that nothing of it is
            billed; None unless it was.
    """

    batch_id: str
    has_ended: bool
    n_requests: int
    created_at: datetime | None = field(default=None, compare=False)
    nonce: str | None = field(default=None, compare=False)
    n_results: int | None = None
    refusal: JudgeError | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one or of many replies.

    Attributes:
        input_tokens: Read at the full price: neither written to nor read from the cache.
        output_tokens: Written by the model, thinking included.
        cache_creation_input_tokens: Read and written to the cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0

    @property
    def read_tokens(self) -> int:
        """Tokens of the whole prompt, wherever they were read from."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            **{name: getattr(self, name) + getattr(other, name) for name in TOKEN_NAMES}
        )


TOKEN_NAMES = tuple(each.name for each in fields(TokenUsage))
"""The counts of tokens, as the provider and every table call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for a request, from wherever it is read.

    Attributes:
        result_type: `succeeded`, `errored`, `canceled`, `expired`, or any other word, verbatim.
        text: All text blocks of the reply, joined; thinking is left out; None without a reply.
        stop_reason: Why the model stopped; None without a reply.
        error_type: The provider's name of the error; None unless there is one.
        error_message: What the service said about the error.
        model: The model that replied.
        usage: The tokens billed; None where the service did not say.
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
        seconds: How long a request that was asked directly took; None of a row of a batch.
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


class AsksDirectly(Protocol):
    """A service that answers single requests at once.

    Every `JudgeError` says by its `failure` what it means for what is done next.
    """

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request, once, and wait for its reply.

        Raises:
            JudgeError: If no reply came. Where the failure is ambiguous one may have been paid for.
        """
        ...

    def check_model(self, model: str) -> str | None:
        """Return if the service lets this key use the model, or does not say; then, a warning.

        Raises:
            JudgeError: If the model or the key is refused, or the service cannot be asked.
        """
        ...


class TakesBatches(AsksDirectly, Protocol):
    """A service that answers requests in batches as well."""

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Submit a batch, once.

        Raises:
            JudgeError: If the service did not confirm the batch. Where the failure is ambiguous
                it may have accepted it nevertheless: look before submitting again.
        """
        ...

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield the batches this key can see, the newest first.

        Raises:
            JudgeError: If the service did not say.
        """
        ...

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look how far a batch is.

        Raises:
            JudgeError: If the service did not say.
        """
        ...

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch, in no particular order.

        A stream that ends early cannot be told from a short one: compare the rows with what was
        submitted. A line that is no row is yielded as one without a custom id, of the type
        `UNPARSABLE`, whose error message holds the line's beginning.

        Raises:
            JudgeError: If there are no results to be had, or, after every row that could be read,
                if the stream broke.
        """
        ...


def takes_batches(service: AsksDirectly) -> TypeGuard[TakesBatches]:
    """Return whether a service takes batches, which it shows by having a way to create one."""
    return hasattr(service, "create_batch")
