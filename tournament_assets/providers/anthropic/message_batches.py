"""The Message Batches API of Anthropic, through its SDK; nothing else in the project talks to it.

Answers are read as plain JSON rather than through the SDK's classes, which turn unknown values into
known ones; here an unknown word stays as it is. An HTTP status that is not in the public
documentation is classified by its first digit. Batches are too large for memory, so they travel
through a file. The key never reaches a message, a log or a `repr`.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import IO
from urllib.parse import quote

import anthropic
import httpx2

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import (
    BatchStatus,
    MessageParams,
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.judging.service_errors import Remedy
from tournament_assets.providers.answers import allow_results, open_http
from tournament_assets.providers.anthropic.wire_format import (
    message_body,
    read_message,
    read_row,
    read_status,
)
from tournament_assets.providers.request_files import temporary_file
from tournament_assets.providers.service_words import (
    NOTHING,
    PAY,
    ServiceAnswers,
    clean_key,
    describe_redirect,
    describe_silence,
    problem_of,
    read_retry_after,
    remedy_of,
)
from tournament_assets.tournament.judge_services import ServiceConnection


@contextmanager
def written_body(requests: Iterable[SubmittedRequest]) -> Iterator[tuple[IO[bytes], int]]:
    """Write a batch to a file, request by request, and return the number of requests.

    Raises:
        JudgeError: If there is no room for it.
    """
    n_requests = 0

    def parts() -> Iterator[bytes]:
        nonlocal n_requests
        yield b'{"requests":['
        for request in requests:
            row = {"custom_id": request.custom_id, "params": message_body(request.params)}
            yield (b"," if n_requests else b"") + canonical_json(row).encode()
            n_requests += 1
        yield b"]}"

    with temporary_file(parts(), most_mb=256) as body:
        yield body, n_requests


_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 60.0
_CREATE_SECONDS = 600.0  # a headline batch is tens of megabytes, and is accepted as a whole
_RESULTS_SECONDS = 120.0  # between two chunks of the stream, not for all of it
_DIRECT_SECONDS = 600.0
_MESSAGES_PATH = "/v1/messages"
_BATCHES_PATH = f"{_MESSAGES_PATH}/batches"
_PAGE = 100
_COUNTED = ("model", "system", "messages", "output_config", "thinking")
"""The parameters that the counting route takes; it refuses those that only a reply needs."""
_NO_ROUTE = frozenset({404, 405, 501})


@contextmanager
def open_anthropic(connection: ServiceConnection) -> "Iterator[AnthropicBatches]":
    """Connect to the API, or to a gateway in front of it."""
    service = AnthropicBatches(base_url=connection.base_url or None, api_key=connection.api_key)
    with closing(service):
        yield service


class AnthropicBatches(ServiceAnswers):
    """A service behind the Anthropic protocol; satisfies `judging.batch_service.TakesBatches`.

    Args:
        base_url: The service's address; None leaves it to the SDK, which asks the environment and
            then takes Anthropic's own. A user name and password in it are sent as basic
            authentication, with the key in `x-api-key`, and shown nowhere.
        api_key: The key to it.
    """

    # httpx2's own errors come out of a stream that breaks off; the SDK does not wrap those.
    _errors = (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError)

    def __init__(self, *, base_url: str | None, api_key: str) -> None:
        api_key = clean_key(api_key, name="ANTHROPIC_API_KEY")
        if not api_key:
            raise JudgeError("ANTHROPIC_API_KEY is not set; expected an API key")
        base_url, credentials = _split_credentials(base_url)
        password = credentials[1] if credentials else ""
        self._keys = [key for key in (password, api_key) if key]
        self._client = anthropic.Anthropic(
            base_url=base_url,
            api_key=api_key,
            timeout=anthropic.Timeout(_POLL_SECONDS, connect=_CONNECT_SECONDS),
            default_headers={"x-api-key": api_key} if credentials else None,
            http_client=open_http(
                anthropic.DefaultHttpxClient,
                base_url,
                on_answer=self._note_time,
                credentials=credentials,
            ),
        )
        url = self._client.base_url
        self._address = f"{url.scheme}://{url.netloc.decode()}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Submit a batch, once.

        The SDK's retries are off: it would resend a batch whose answer got lost, and both would be
        paid for. The body, of up to 256 MB, goes through a file.
        """
        with written_body(requests) as (body, n_requests):
            task = f"create a batch of {n_requests} requests"
            created = self._post(_BATCHES_PATH, body, task, seconds=_CREATE_SECONDS)
        return self._read_status(created, task, may_cost=True)

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield the batches this key can see, the newest first, page by page."""
        task = "list the batches"

        def fetch(after: str) -> JsonObject:
            with self._translated_errors(task):
                response = self._client.messages.batches.with_raw_response.list(
                    limit=_PAGE, after_id=after or anthropic.omit
                )
            return self._read_object(response.text(), task)

        for row in self._list(task, fetch, lambda page: page.get("last_id")):
            listing = self._by_own_clock(read_status(row))
            if listing is not None:
                yield listing

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look up a batch's progress."""
        task = f"look at batch {batch_id}"
        return self._read_status(self._fetch_batch(batch_id, task), task)

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch, in no particular order."""
        task = f"read the results of batch {batch_id}"
        batch = self._fetch_batch(batch_id, task)
        _check_has_results(batch_id, batch)
        n_requests = self._read_status(batch, task).n_requests
        with self._translated_errors(task), closing(self._open_results(batch_id)) as response:
            yield from self._rows(response.iter_bytes(), read_row, n_requests)

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request outside any batch, once, and wait for its reply."""
        task, sent = "ask one request", message_body(request.params)
        # Not through `messages.create`, which refuses parameters that a batch takes.
        body = canonical_json(sent).encode()
        try:
            message = self._post(_MESSAGES_PATH, body, task, seconds=_DIRECT_SECONDS, sent=sent)
        except JudgeError as error:
            raise self._asked_for(error, request) from None
        if not isinstance(message.get("content"), list):
            raise self._unexpected(message, task, "a message with its content", may_cost=True)
        return self._without_key(read_message(request.custom_id, message))

    def count_tokens(self, params: MessageParams) -> int:
        """Return the input tokens of a request, by the service's free counting route."""
        task = "count the tokens of a request"
        counted = {name: value for name, value in params.items() if name in _COUNTED}
        body = canonical_json(counted).encode()
        answer = self._post(f"{_MESSAGES_PATH}/count_tokens", body, task, seconds=None)
        n_tokens = answer.get("input_tokens")
        if not isinstance(n_tokens, int) or isinstance(n_tokens, bool) or n_tokens < 0:
            expected = "its input_tokens; estimate without --count-tokens"
            raise self._unexpected(answer, task, expected)
        return n_tokens

    def check_model(self, model: str) -> str | None:
        """Return None if this key may use the model; a warning if the service does not say."""
        task = f"look up the model {model!r}"
        with self._translated_errors(task):
            try:
                response = self._client.models.with_raw_response.retrieve(model)
            except anthropic.APIStatusError as error:
                if error.status_code not in _NO_ROUTE:
                    raise
                # Gateways that serve batches need not have this route.
                return self._unlisted(model, error.status_code)
        description = self._read_object(response.text(), task)
        if description.get("lifecycle") == "retired":
            raise JudgeError(
                f"the model {model!r} is retired; expected one that is served; name another",
                failure=JudgeFailure.FATAL,
            )
        return None

    def _post(
        self,
        path: str,
        body: bytes | IO[bytes],
        task: str,
        *,
        seconds: float | None,
        sent: JsonObject = NOTHING,
    ) -> JsonObject:
        """Send a JSON body; if it may be slow, send it once, as something that may cost."""
        with self._translated_errors(task, may_cost=seconds is not None, sent=sent):
            response = self._client.post(
                path,
                content=body,
                cast_to=httpx2.Response,
                options={
                    "headers": {"content-type": "application/json"},
                    "timeout": anthropic.Timeout(
                        seconds or _POLL_SECONDS, connect=_CONNECT_SECONDS
                    ),
                    "max_retries": self._client.max_retries if seconds is None else 0,
                },
            )
        return self._read_object(response.text, task, may_cost=seconds is not None)

    def _open_results(self, batch_id: str) -> httpx2.Response:
        """Begin to read results; the stream has to be closed."""
        # Not through the SDK's own `results`, which goes wherever the batch's `results_url` says:
        # behind a gateway that is an address of the upstream service, or no whole address at all.
        response = self._client.get(
            f"{_BATCHES_PATH}/{quote(batch_id, safe='')}/results",
            cast_to=httpx2.Response,
            options={
                "headers": {"accept": "application/binary", "x-stainless-raw-response": "stream"},
                "timeout": anthropic.Timeout(_RESULTS_SECONDS, connect=_CONNECT_SECONDS),
            },
        )
        return allow_results(response)

    def _fetch_batch(self, batch_id: str, task: str) -> JsonObject:
        with self._translated_errors(task):
            response = self._client.messages.batches.with_raw_response.retrieve(batch_id)
        return self._read_object(response.text(), task)

    def _read_status(self, batch: JsonObject, task: str, *, may_cost: bool = False) -> BatchStatus:
        status = self._by_own_clock(read_status(batch))
        if status is None:
            expected = "a batch with its id and its request counts"
            raise self._unexpected(batch, task, expected, may_cost=may_cost)
        return status

    def _describe(self, error: Exception, sent: JsonObject) -> str:
        return describe_failure(error, self._address, quote=self._tidy, sent=sent)


def _check_has_results(batch_id: str, batch: JsonObject) -> None:
    is_archived = bool(batch.get("archived_at"))
    status = batch.get("processing_status")
    if is_archived or status != "ended":
        state = "are archived" if is_archived else "are not there yet"
        raise JudgeError(
            f"the results of batch {batch_id} {state}: its status is {status!r}; "
            "expected a batch that has ended and is not archived",
            failure=JudgeFailure.LOST if is_archived else JudgeFailure.TRANSIENT,
        )


def _split_credentials(base_url: str | None) -> tuple[str | None, tuple[str, str] | None]:
    """Remove a user name and password from a URL, which logs and messages would show."""
    if base_url is None:
        return None, None
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        raise JudgeError(
            "the service's address is not a URL; expected one such as https://gateway.example; "
            "correct the judge's base_url or ANTHROPIC_BASE_URL"
        ) from None
    credentials = (url.username, url.password) if url.userinfo else None
    return str(url.copy_with(userinfo=b"")), credentials


_ADVICE = {
    401: "; the API key was refused: check ANTHROPIC_API_KEY",
    403: "; the API key was refused for this: check ANTHROPIC_API_KEY and its workspace",
    404: "; not found, or this key has no access to it: check the name",
}


def describe_failure(
    error: Exception, address: str, *, quote: Callable[[str], str], sent: JsonObject
) -> str:
    """Describe what went wrong and what to do.

    Args:
        error: What the SDK raised.
        address: The service's address.
        quote: Makes the service's words fit to show, with the key removed.
        sent: The request's body.
    """
    status = getattr(error, "status_code", None)
    if status is None:
        silence = describe_silence(error, address, quote=quote)
        return f"{silence}; check the network and run again"
    if 300 <= status < 400:
        place = "as the judge's base_url or in ANTHROPIC_BASE_URL"
        return describe_redirect(error, status, address, place=place)
    problem = problem_of(error)
    body = getattr(error, "body", None)
    message = quote(str(problem.get("message") or body))
    answer = f"{address} answered {status} ({quote(str(problem.get('type')))}): {message}"
    if remedy_of(error, sent) is Remedy.WHEN_PAID:
        return answer + PAY
    if status == 429:
        seconds = read_retry_after(error)
        when = "in a while" if seconds is None else f"in {seconds:.0f} seconds"
        return f"{answer}; a rate limit is reached: run again {when}"
    return answer + _ADVICE.get(status, "")
