"""A judge behind OpenAI's chat completions: OpenAI itself, a gateway, or a vLLM of one's own.

The protocol has no name under which a reply could be asked for again: what was under way when a
process was killed is asked twice. The key never reaches a message, a log or a `repr`.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, NoReturn
from urllib.parse import quote

from tournament_assets.judging.batch_service import BatchStatus, ReplyRow, SubmittedRequest
from tournament_assets.providers.openai.wire_format import (
    CONNECT_SECONDS,
    NEW_CAP,
    OLD_CAP,
    Dialect,
    chat_body,
    describe_failure,
    is_out_of_credit,
    open_client,
    read_completion,
)
from tournament_assets.providers.service_words import (
    classify_by_status,
    clean_key,
    parse_object,
    quote_service,
    read_retry_after,
)
from tournament_assets.tournament.errors import JudgeError, JudgeFailure
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.places import origin_of

OWN_URL = "https://api.openai.com/v1"
_LOOK_SECONDS = 60.0
_DIRECT_SECONDS = 600.0
_MAX_RETRY_AFTER = 3600.0
_QUOTED_LENGTH = 500
_NO_ROUTE = frozenset({404, 405, 501})
_NO_SERVER = frozenset({405, 410})


@contextmanager
def open_chat(connection: ServiceConnection) -> "Iterator[ChatJudge]":
    """Connect to a server that answers chat completions."""
    with closing(ChatJudge(connection)) as service:
        yield service


class ChatJudge:
    """A service without batches; satisfies `judging.batch_service.BatchService`.

    Args:
        connection: Where it is, OpenAI's own address unless given, and the key to it, if it wants
            one.
    """

    def __init__(self, connection: ServiceConnection) -> None:
        base_url = connection.base_url or OWN_URL
        self._key = clean_key(connection.api_key, name=connection.key_variable) or None
        self._address = origin_of(base_url) or "the server"
        self._dialect = Dialect(NEW_CAP if base_url == OWN_URL else OLD_CAP)
        self._client = open_client(base_url, self._key, timeout_seconds=_LOOK_SECONDS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._address!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Refuse: there are no batches."""
        self._refuse_batch(sum(1 for _ in requests))

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield nothing: there are no batches."""
        yield from ()

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Refuse: there are no batches."""
        self._refuse_batch(batch_id)

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Refuse: there are no batches."""
        self._refuse_batch(batch_id)

    def _refuse_batch(self, what: object) -> NoReturn:
        raise JudgeError(
            f"{self._address} was asked for a batch ({what}); expected a service with batches: "
            "this one is asked directly"
        )

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request, once, and wait for its reply.

        A request that was refused for the words it uses is sent again in simpler ones.

        Raises:
            JudgeError: If no reply came; where the failure is ambiguous one may have been paid for.
        """
        task = "ask one request"
        while True:
            dialect = self._dialect
            try:
                answer = self._post("/chat/completions", chat_body(request.params, dialect), task)
                break
            except JudgeError as error:
                simpler = dialect.without(str(error))
                if error.failure is not JudgeFailure.INVALID or simpler is None:
                    raise
                self._dialect = simpler
        row = read_completion(request.custom_id, answer)
        if row is None:
            raise self._unexpected(answer, task, "a chat completion", may_cost=True)
        return row

    def check_model(self, model: str) -> str | None:
        """Return if the server can be reached and lets this key in; a warning if it has no model.

        Raises:
            JudgeError: If the key is refused, or the server cannot be reached.
        """
        import httpx2
        import openai

        with self._translated_errors(f"look up the model {model!r}"):
            try:
                self._client.get(f"/models/{quote(model, safe='/')}", cast_to=httpx2.Response)
            except openai.APIStatusError as error:
                if error.status_code not in _NO_ROUTE:
                    raise
                return (
                    f"warning: {self._address} answered {error.status_code} when asked for the "
                    f"model {model!r}: it does not know it, or does not list its models; requests "
                    "are sent to it anyway: if all of them fail, check the name"
                )
        return None

    def _post(
        self, path: str, body: Mapping[str, Any], task: str, *, seconds: float = _DIRECT_SECONDS
    ) -> Mapping[str, Any]:
        """Send something that may cost, once."""
        import httpx2
        import openai

        with self._translated_errors(task, may_cost=True):
            response = self._client.post(
                path,
                body=body,
                cast_to=httpx2.Response,
                options={"timeout": openai.Timeout(seconds, connect=CONNECT_SECONDS)},
            )
        return self._read_object(response.text, task, may_cost=True)

    def _read_object(self, text: str, task: str, *, may_cost: bool = False) -> Mapping[str, Any]:
        answer = parse_object(text)
        if answer is None:
            raise self._unexpected(text, task, "a JSON object", may_cost=may_cost)
        return answer

    def _unexpected(
        self, answer: object, task: str, expected: str, *, may_cost: bool = False
    ) -> JudgeError:
        return JudgeError(
            f"could not {task}: {self._address} answered {self._tidy(str(answer))!r}; "
            f"expected {expected}",
            failure=JudgeFailure.AMBIGUOUS if may_cost else JudgeFailure.TRANSIENT,
        )

    @contextmanager
    def _translated_errors(self, task: str, *, may_cost: bool = False) -> Iterator[None]:
        """Say what went wrong without the SDK's exception, whose request carries the key."""
        import httpx2
        import openai

        try:
            yield
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            explained = describe_failure(error, self._address, quote=self._tidy)
            failure = classify_by_status(
                error, may_cost=may_cost, is_out_of_credit=is_out_of_credit(error)
            )
            if getattr(error, "status_code", None) in _NO_SERVER:
                failure = JudgeFailure.FATAL
            raise JudgeError(
                f"could not {task}: {explained}",
                failure=failure,
                retry_after_seconds=read_retry_after(error, at_most=_MAX_RETRY_AFTER),
            ) from None

    def _tidy(self, text: str) -> str:
        """Shorten what a server said, and take out the key should it repeat it."""
        return quote_service(text, key=self._key, length=_QUOTED_LENGTH)
