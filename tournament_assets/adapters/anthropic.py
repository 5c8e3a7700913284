"""The Message Batches API of Anthropic, through its SDK; nothing else in the project talks to it.

Answers are read as plain JSON rather than through the SDK's classes, which turn what they do not
know into something they do. The key never reaches a message, a log or a `repr`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tournament_assets.adapters.anthropic_bodies import written_body
from tournament_assets.adapters.anthropic_failures import (
    classify_failure,
    describe_failure,
    read_retry_after,
)
from tournament_assets.adapters.anthropic_rows import (
    mapping,
    read_listing,
    read_message,
    read_row,
    read_status,
    split_lines,
)
from tournament_assets.adapters.service_words import clean_key, quote_service
from tournament_assets.judging.service import (
    BatchListing,
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
)
from tournament_assets.tournament.errors import JudgeError, JudgeFailure
from tournament_assets.tournament.fingerprints import canonical_json

_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 60.0
_CREATE_SECONDS = 600.0  # a headline batch is tens of megabytes, and is accepted as a whole
_RESULTS_SECONDS = 120.0  # between two chunks of the stream, not for all of it
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_DIRECT_SECONDS = 600.0
_BATCHES_PATH = "/v1/messages/batches"
_PAGE = 100
_QUOTED_LENGTH = 500


class AnthropicBatches:
    """A batch service behind the Anthropic protocol; satisfies `judging.service.BatchService`.

    Args:
        base_url: The service's address; None leaves it to the SDK, which asks the environment and
            then takes Anthropic's own.
        api_key: The key to it.
    """

    def __init__(self, *, base_url: str | None, api_key: str) -> None:
        import anthropic

        api_key = clean_key(api_key, name="ANTHROPIC_API_KEY")
        if not api_key:
            raise JudgeError("there is no API key; expected one in ANTHROPIC_API_KEY")
        is_local = base_url is not None and urlsplit(base_url).hostname in _LOOPBACK_HOSTS
        self._client = anthropic.Anthropic(
            base_url=base_url,
            api_key=api_key,
            timeout=anthropic.Timeout(_POLL_SECONDS, connect=_CONNECT_SECONDS),
            # A proxy from the environment would look for 127.0.0.1 on its own machine.
            http_client=anthropic.DefaultHttpxClient(trust_env=not is_local),
        )
        url = self._client.base_url
        self._address = f"{url.scheme}://{url.netloc.decode()}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._address!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Submit a batch, once.

        The SDK's retries are off: it would send a batch again whose answer got lost, and both
        would be paid for. The body, of up to 256 MB, goes through a file.

        Raises:
            JudgeError: If the service did not confirm the batch; where the failure is ambiguous
                it may have accepted it nevertheless.
        """
        import anthropic
        import httpx2

        with written_body(requests) as (body, n_requests):
            task = f"create a batch of {n_requests} requests"
            with self._translated_errors(task, may_cost=True):
                response = self._client.post(
                    _BATCHES_PATH,
                    content=body,
                    cast_to=httpx2.Response,
                    options={
                        "headers": {"content-type": "application/json"},
                        "timeout": anthropic.Timeout(_CREATE_SECONDS, connect=_CONNECT_SECONDS),
                        "max_retries": 0,
                    },
                )
        created = self._read_object(response.text, task, may_cost=True)
        return self._read_status(created, task, may_cost=True)

    def list_batches(self) -> Iterator[BatchListing]:
        """Yield the batches this key can see, the newest first, page by page.

        Raises:
            JudgeError: If the service did not say.
        """
        import anthropic

        task = "list the batches"
        after_id: str | None = None
        while True:
            with self._translated_errors(task):
                response = self._client.messages.batches.with_raw_response.list(
                    limit=_PAGE, after_id=anthropic.omit if after_id is None else after_id
                )
            page = self._read_object(response.text(), task)
            rows, after_id = page.get("data"), page.get("last_id")
            has_more = page.get("has_more") is True
            # What is not in the list was never accepted, so half a list is worse than none.
            if not isinstance(rows, list) or (has_more and not isinstance(after_id, str)):
                raise JudgeError(
                    f"could not {task}: {self._address} answered {self._tidy(str(page))!r}; "
                    "expected a page of batches and, if there are more, where they begin",
                    failure=JudgeFailure.PASSING,
                )
            for row in rows:
                listing = read_listing(mapping(row))
                if listing is not None:
                    yield listing
            if not has_more:
                return

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look how far a batch is.

        Raises:
            JudgeError: If the service did not say.
        """
        task = f"look at batch {batch_id}"
        return self._read_status(self._fetch_batch(batch_id, task), task)

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch, in no particular order.

        A line that cannot be read does not keep the others from being yielded.

        Raises:
            JudgeError: If there are no results to be had, or, after every row that could be read,
                if some could not.
        """
        import anthropic

        task = f"read the results of batch {batch_id}"
        self._check_results_url(batch_id, self._fetch_batch(batch_id, task))
        timeout = anthropic.Timeout(_RESULTS_SECONDS, connect=_CONNECT_SECONDS)
        stream = self._client.messages.batches.with_streaming_response
        unreadable = 0
        with self._translated_errors(task), stream.results(batch_id, timeout=timeout) as response:
            for line in split_lines(response.iter_bytes()):
                if (row := read_row(line)) is None:
                    unreadable += 1
                else:
                    yield row
        if unreadable:
            raise JudgeError(
                f"{unreadable} lines of the results of batch {batch_id} could not be read; "
                "expected one JSON object a line; the batch is kept: read it again",
                failure=JudgeFailure.PASSING,
            )

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request outside any batch, once, and wait for its reply.

        Raises:
            JudgeError: If no reply came; where the failure is ambiguous one may have been paid for.
        """
        import anthropic
        import httpx2

        task = "ask one request"
        # Not through `messages.create`, which refuses parameters that a batch takes.
        with self._translated_errors(task, may_cost=True):
            response = self._client.post(
                "/v1/messages",
                content=canonical_json(request.params).encode(),
                cast_to=httpx2.Response,
                options={
                    "headers": {"content-type": "application/json"},
                    "timeout": anthropic.Timeout(_DIRECT_SECONDS, connect=_CONNECT_SECONDS),
                    "max_retries": 0,
                },
            )
        message = self._read_object(response.text, task, may_cost=True)
        if not isinstance(message.get("content"), list):
            raise JudgeError(
                f"could not {task}: {self._address} answered {self._tidy(str(message))!r}; "
                "expected a message with its content",
                failure=JudgeFailure.AMBIGUOUS,
            )
        return read_message(request.custom_id, message)

    def check_model(self, model: str) -> None:
        """Return if the service knows the model and lets this key use it.

        Raises:
            JudgeError: If it does not.
        """
        task = f"look up the model {model!r}"
        with self._translated_errors(task):
            response = self._client.models.with_raw_response.retrieve(model)
        found = self._read_object(response.text(), task)
        if found.get("lifecycle") == "retired":
            raise JudgeError(
                f"the model {model!r} is retired; expected one that is served; name another",
                failure=JudgeFailure.FATAL,
            )

    def _fetch_batch(self, batch_id: str, task: str) -> Mapping[str, Any]:
        with self._translated_errors(task):
            response = self._client.messages.batches.with_raw_response.retrieve(batch_id)
        return self._read_object(response.text(), task)

    def _read_object(self, text: str, task: str, *, may_cost: bool = False) -> Mapping[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, Mapping):
            raise JudgeError(
                f"could not {task}: {self._address} answered {self._tidy(text)!r}; "
                "expected a JSON object",
                failure=_unclear(may_cost),
            )
        return value

    def _read_status(
        self, batch: Mapping[str, Any], task: str, *, may_cost: bool = False
    ) -> BatchStatus:
        status = read_status(batch)
        if status is None:
            raise JudgeError(
                f"could not {task}: {self._address} answered {self._tidy(str(batch))!r}; "
                "expected a batch with its id and its request counts",
                failure=_unclear(may_cost),
            )
        return status

    def _check_results_url(self, batch_id: str, batch: Mapping[str, Any]) -> None:
        url = batch.get("results_url")
        if not isinstance(url, str) or not url:
            is_archived = bool(batch.get("archived_at"))
            state = "are archived" if is_archived else "are not there yet"
            raise JudgeError(
                f"the results of batch {batch_id} {state}: its status is "
                f"{batch.get('processing_status')!r}; expected an ended batch with a results_url",
                failure=JudgeFailure.LOST if is_archived else JudgeFailure.PASSING,
            )
        # The SDK sends the key to whatever host the URL names.
        if _origin(url) != _origin(str(self._client.base_url)):
            raise JudgeError(
                f"the results of batch {batch_id} are said to be at {url[:80]!r}; "
                f"expected {self._address}; the key is not sent anywhere else"
            )

    @contextmanager
    def _translated_errors(self, task: str, *, may_cost: bool = False) -> Iterator[None]:
        """Say what went wrong without the SDK's exception, whose request carries the key."""
        import anthropic
        import httpx2

        try:
            yield
        # httpx2's own errors come out of a stream that breaks off; the SDK does not wrap those.
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError) as error:
            explained = describe_failure(error, self._address, quote=self._tidy)
            raise JudgeError(
                f"could not {task}: {explained}",
                failure=classify_failure(error, may_cost=may_cost),
                retry_after_seconds=read_retry_after(error),
            ) from None

    def _tidy(self, text: str) -> str:
        """Shorten what a service said, and take out the key should it repeat it."""
        return quote_service(text, key=self._client.api_key, length=_QUOTED_LENGTH)


def _unclear(may_cost: bool) -> JudgeFailure:
    """Return what an answer that says nothing means."""
    return JudgeFailure.AMBIGUOUS if may_cost else JudgeFailure.PASSING


def _origin(url: str) -> tuple[str, str, int | None] | None:
    # Read by the library that would send the request, lest two readers see two hosts.
    import httpx2

    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        return None
    return parts.scheme, parts.host, parts.port
