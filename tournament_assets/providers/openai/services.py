"""Models behind OpenAI's protocol: by chat completions, or by files in its Batch API.

Chat completions come from OpenAI, a gateway or one's own vLLM. They have no name by which a reply
could be fetched later: what was under way when a process was killed is asked twice. The key never
reaches a message, a log or a `repr`.

The Batch API takes an uploaded file of requests and gives two files of rows. Our own name for a
batch is in its metadata, which the list of batches shows, so one look decides whether an
unconfirmed batch exists. A file that no batch refers to costs nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, Any
from urllib.parse import quote

import httpx2
import openai

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.foundation.fingerprints import canonical_json
from tournament_assets.foundation.formatting import list_first
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.judging.batch_service import (
    BatchStatus,
    ReplyRow,
    SubmittedRequest,
    takes_batches,
)
from tournament_assets.judging.requests.requests import read_custom_id
from tournament_assets.providers.answers import allow_results, open_http
from tournament_assets.providers.openai.wire_format import (
    BROKEN_OFF,
    NEW_CAP,
    NONCE_KEY,
    NOT_SENT,
    OLD_CAP,
    SCHEMA,
    Dialect,
    chat_body,
    describe_failure,
    read_batch,
    read_batch_line,
    read_completion,
)
from tournament_assets.providers.request_files import temporary_file
from tournament_assets.providers.service_words import (
    ServiceAnswers,
    clean_key,
    mapping,
    parse_object,
)
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.places import origin_of

OWN_URL = "https://api.openai.com/v1"
_CONNECT_SECONDS = 10.0
_LOOK_SECONDS = 60.0
_LISTED_MODELS = 8


@contextmanager
def open_chat(connection: ServiceConnection) -> "Iterator[OpenAiChat]":
    """Connect to a server that answers chat completions."""
    with closing(OpenAiChat(connection)) as service:
        yield service


class OpenAiChat(ServiceAnswers):
    """A service without batches; satisfies `judging.batch_service.AsksDirectly`.

    Args:
        connection: Its address, OpenAI's own by default, and its key, if it needs one.
    """

    _errors = (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError)

    def __init__(self, connection: ServiceConnection) -> None:
        base_url = connection.base_url or OWN_URL
        self._key = clean_key(connection.api_key, name=connection.key_variable) or None
        self._keys = [*filter(None, (self._key, *connection.secret_headers.values()))]
        self._address = origin_of(base_url) or "the server"
        self._seconds = connection.timeout_seconds
        cap = connection.cap or (NEW_CAP if base_url == OWN_URL else OLD_CAP)
        self._dialects: dict[str, Dialect] = {}
        self._models: list[str] | None = None
        self._first_dialect = Dialect(
            cap, is_settled=bool(connection.cap), optional=connection.unasked | {SCHEMA}
        )
        self._client = _open_client(
            base_url,
            self._key,
            on_answer=self._note_time,
            headers={**connection.headers, **connection.secret_headers},
            query=connection.query,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
        """Send one request, once, and wait for its reply.

        A request that is refused for the name of its cap, or twice for fields that it can do
        without, is sent again in a simpler dialect, which is kept for the model once it is
        understood. Once is no proof of a field: the fault may pass. What was left out is in the raw
        row, under `wire_format.NOT_SENT`.
        """
        refused: frozenset[str] = frozenset()
        task, model = "ask one request", request.params["model"]
        dialect = self._dialect(model)
        while True:
            body = chat_body(request.params, dialect)
            try:
                answer = self._post("/chat/completions", body, task, seconds=self._seconds)
                break
            except JudgeError as error:
                simpler = dialect.without(error.fields)
                if simpler is None:
                    # Before a batch, a few are sent all the same: it may accept what they do not.
                    stops = model not in self._dialects and not takes_batches(self)
                    raise self._asked_for(error, request, stops=stops) from None
                if simpler.not_sent <= dialect.not_sent | refused:
                    dialect = simpler
                refused |= simpler.not_sent
        self._dialects[model] = dialect
        if dialect.not_sent:
            answer = {**answer, NOT_SENT: sorted(dialect.not_sent)}
        row = read_completion(request.custom_id, answer)
        if row is None:
            raise self._unexpected(answer, task, "a chat completion", may_cost=True)
        if row.result_type == BROKEN_OFF:
            why = self._tidy(row.error_message or "")
            raise JudgeError(f"could not {task}: {why}", failure=JudgeFailure.AMBIGUOUS)
        return row

    def _dialect(self, model: str) -> Dialect:
        return self._dialects.get(model, self._first_dialect)

    def check_model(self, model: str) -> str | None:
        """Return None if the server accepts this key and has the model, else a warning.

        If a server cannot look up a model, its list of models is read, which proves little: some
        servers have none, and some load models that are not in it.
        """
        with self._translated_errors(f"look up the model {model!r}"):
            status, _ = self._get(f"/models/{quote(model, safe='/')}")
        if status is None:
            return None
        names = self.list_models()
        if model in names:
            return None
        listed = f"; it lists {list_first([*map(repr, names)], _LISTED_MODELS)}" if names else ""
        return self._tidy(self._unlisted(model, status) + listed)

    def list_models(self) -> list[str]:
        """Return the names of the server's models, asked for once; empty if it does not say."""
        if self._models is None:
            with self._translated_errors("list the models"):
                self._models = _read_models(self._get("/models")[1])
        return self._models

    def _get(self, path: str) -> tuple[int | None, str]:
        """Return the status of a refusal, and the answer; only a refused key raises an error."""
        try:
            return None, self._client.get(path, cast_to=httpx2.Response).text
        except openai.APIStatusError as error:
            if error.status_code == 401 or 300 <= error.status_code < 400:
                raise
            return error.status_code, ""

    def _post(self, path: str, body: JsonObject, task: str, *, seconds: float) -> JsonObject:
        """Send something that may cost, once."""
        with self._translated_errors(task, may_cost=True, sent=body):
            response = self._client.post(
                path,
                body=body,
                cast_to=httpx2.Response,
                options={"timeout": openai.Timeout(seconds, connect=_CONNECT_SECONDS)},
            )
        return self._read_object(self._hide(response.text), task, may_cost=True)

    def _describe(self, error: Exception, sent: JsonObject) -> str:
        return describe_failure(error, self._address, quote=self._tidy, sent=sent)


# The SDK puts what it finds in OPENAI_ORG_ID, OPENAI_CUSTOM_HEADERS and others into every request,
# whoever it goes to; only these pass.
_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)


def _open_client(
    base_url: str,
    api_key: str | None,
    *,
    on_answer: Callable[[httpx2.Response], None],
    headers: Mapping[str, str],
    query: Mapping[str, str],
) -> openai.OpenAI:
    """Return the SDK's client, which sends only what it is given here, and never retries."""

    def set_headers(request: httpx2.Request) -> None:
        for name in set(request.headers) - _HEADERS:
            del request.headers[name]
        if api_key is not None:
            request.headers["authorization"] = f"Bearer {api_key}"
        request.headers.update(headers)
        if query:
            request.url = request.url.copy_merge_params(query)

    return openai.OpenAI(
        base_url=base_url,
        # The SDK looks for a key in the environment unless it is given one.
        api_key=api_key or "none",
        # The caller retries: it knows what may have been paid for, and can be stopped meanwhile.
        max_retries=0,
        timeout=openai.Timeout(_LOOK_SECONDS, connect=_CONNECT_SECONDS),
        http_client=open_http(
            openai.DefaultHttpxClient, base_url, on_request=[set_headers], on_answer=on_answer
        ),
    )


def _read_models(text: str) -> list[str]:
    rows = (parse_object(text) or {}).get("data")
    names = [mapping(row).get("id") for row in rows] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _last_id(page: JsonObject) -> Any:
    rows = page.get("data")
    return mapping(rows[-1]).get("id") if isinstance(rows, list) and rows else None


_UPLOAD_SECONDS = 600.0  # a headline is tens of megabytes
_CREATE_SECONDS = 120.0
_RESULTS_SECONDS = 120.0  # between two chunks of the stream, not for all of it
_PAGE = 100
_COMPLETIONS = "/v1/chat/completions"


@contextmanager
def open_batches(connection: ServiceConnection) -> "Iterator[OpenAiBatches]":
    """Connect to OpenAI, or to a gateway that has its Batch API."""
    with closing(OpenAiBatches(connection)) as service:
        yield service


@dataclass(frozen=True, slots=True)
class _File:
    """A file to upload: a line for each request, our own name for all, and what was left out."""

    body: IO[bytes]
    n_requests: int
    nonce: str
    not_sent: Sequence[str]


@contextmanager
def _written_lines(
    requests: Iterable[SubmittedRequest], dialect: Callable[[str], Dialect]
) -> Iterator[_File]:
    """Write a batch to a file, request by request, in the dialect of each one's model."""
    n_requests, nonce, not_sent = 0, "", set[str]()

    def lines() -> Iterator[bytes]:
        nonlocal n_requests, nonce, not_sent
        for request in requests:
            row = {
                "custom_id": request.custom_id,
                "method": "POST",
                "url": _COMPLETIONS,
                "body": chat_body(request.params, dialect(request.params["model"])),
            }
            yield canonical_json(row).encode() + b"\n"
            n_requests += 1
            not_sent |= dialect(request.params["model"]).not_sent
            nonce = nonce or (read_custom_id(request.custom_id) or ("", ""))[0]

    with temporary_file(lines(), most_mb=200) as body:
        yield _File(body, n_requests, nonce, sorted(not_sent))


class OpenAiBatches(OpenAiChat):
    """A service with batches and chat completions; satisfies `batch_service.TakesBatches`."""

    def __init__(self, connection: ServiceConnection) -> None:
        super().__init__(connection)
        self._first_dialect = replace(self._first_dialect, cap=NEW_CAP)

    def create_batch(self, requests: Iterable[SubmittedRequest]) -> BatchStatus:
        """Upload the requests and submit them as a batch, once."""
        with _written_lines(requests, self._dialect) as file:
            task = f"create a batch of {file.n_requests} requests"
            body: JsonObject = {
                "input_file_id": self._upload(file, task),
                "endpoint": _COMPLETIONS,
                "completion_window": "24h",
                "metadata": {
                    NONCE_KEY: file.nonce,
                    **({NOT_SENT: ",".join(file.not_sent)} if file.not_sent else {}),
                },
            }
        created = self._post("/batches", body, task, seconds=_CREATE_SECONDS)
        return self._read_batch(created, task, may_cost=True)

    def list_batches(self) -> Iterator[BatchStatus]:
        """Yield the batches this key can see, the newest first, page by page."""
        task = "list the batches"

        def fetch(after: str) -> JsonObject:
            begins = f"&after={quote(after, safe='')}" if after else ""
            return self._look(f"/batches?limit={_PAGE}{begins}", task)

        for row in self._list(task, fetch, _last_id):
            listing = self._read_listing(row)
            if listing is not None:
                yield listing

    def get_batch(self, batch_id: str) -> BatchStatus:
        """Look up a batch's progress."""
        task = f"look at batch {batch_id}"
        return self._read_batch(self._fetch_batch(batch_id, task), task)

    def iterate_results(self, batch_id: str) -> Iterator[ReplyRow]:
        """Yield the rows of an ended batch: those that succeeded, then the others.

        A file that ends early looks like a short one. If the batch expired or was cancelled, not
        every request has a row, so the successful rows are counted here.

        Raises:
            JudgeError: If no results are available, or, after every readable row, if a stream broke
                or was short where no caller would notice.
        """
        task = f"read the results of batch {batch_id}"
        batch = self._fetch_batch(batch_id, task)
        status = self._read_batch(batch, task)
        if not status.has_ended:
            raise JudgeError(
                f"could not {task}: its status is {batch.get('status')!r}; expected one that has "
                "ended",
                failure=JudgeFailure.TRANSIENT,
            )
        completed = mapping(batch.get("request_counts")).get("completed")
        not_sent = mapping(batch.get("metadata")).get(NOT_SENT)
        n_expected = completed if isinstance(completed, int) and status.n_results is not None else 0
        for name, n_lines in (("output_file_id", n_expected), ("error_file_id", 0)):
            file_id = batch.get(name)
            n_read = 0
            if isinstance(file_id, str) and file_id:
                for row in self._iterate_file(file_id, task, status.n_requests, not_sent):
                    n_read += 1
                    yield row
            if n_read < n_lines:
                raise JudgeError(
                    f"could not {task}: {self._address} gave {n_read} rows of {n_lines} that "
                    "succeeded",
                    failure=JudgeFailure.TRANSIENT,
                )

    def _iterate_file(
        self, file_id: str, task: str, n_requests: int, not_sent: Any
    ) -> Iterator[ReplyRow]:
        read = partial(read_batch_line, not_sent=not_sent if isinstance(not_sent, str) else "")
        with self._translated_errors(task), closing(self._open_file(file_id, task)) as response:
            yield from self._rows(response.iter_bytes(), read, n_requests)

    def _open_file(self, file_id: str, task: str) -> httpx2.Response:
        """Begin to read a file; the stream has to be closed."""
        try:
            response = self._client.get(
                f"/files/{quote(file_id, safe='')}/content",
                cast_to=httpx2.Response,
                options={
                    "headers": {"x-stainless-raw-response": "stream"},
                    "timeout": openai.Timeout(_RESULTS_SECONDS, connect=_CONNECT_SECONDS),
                },
            )
            return allow_results(response)
        except openai.NotFoundError:
            raise JudgeError(
                f"could not {task}: {self._address} no longer keeps its file {file_id}; expected "
                "results, which are kept for 30 days",
                failure=JudgeFailure.LOST,
            ) from None

    def _upload(self, file: _File, task: str) -> str:
        """Upload a file and return its name; it costs nothing until a batch refers to it."""
        try:
            with self._translated_errors(task):
                response = self._client.post(
                    "/files",
                    body={"purpose": "batch"},
                    files=[("file", ("requests.jsonl", file.body, "application/jsonl"))],
                    cast_to=httpx2.Response,
                    options={
                        "headers": {"content-type": "multipart/form-data"},
                        "timeout": openai.Timeout(_UPLOAD_SECONDS, connect=_CONNECT_SECONDS),
                    },
                )
            uploaded = self._read_object(response.text, task)
            file_id = uploaded.get("id")
            if not isinstance(file_id, str) or not file_id:
                raise self._unexpected(uploaded, task, "a file with its id")
        except JudgeError as error:
            if error.failure is JudgeFailure.TRANSIENT:
                # No batch was asked for yet, so none can have been accepted.
                error.failure = JudgeFailure.NOT_ACCEPTED
            raise
        return file_id

    def _fetch_batch(self, batch_id: str, task: str) -> JsonObject:
        return self._look(f"/batches/{quote(batch_id, safe='')}", task)

    def _look(self, path: str, task: str) -> JsonObject:
        """Ask for something that costs nothing."""
        with self._translated_errors(task):
            response = self._client.get(path, cast_to=httpx2.Response)
        return self._read_object(response.text, task)

    def _read_batch(self, batch: JsonObject, task: str, *, may_cost: bool = False) -> BatchStatus:
        status = self._read_listing(batch)
        if status is None:
            raise self._unexpected(batch, task, "a batch with its id", may_cost=may_cost)
        return status

    def _read_listing(self, batch: JsonObject) -> BatchStatus | None:
        status = read_batch(
            batch,
            address=self._address,
            tidy=self._tidy,
            keeps_names=self._address == origin_of(OWN_URL),
        )
        return self._by_own_clock(status)
