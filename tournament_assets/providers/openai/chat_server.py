"""Chat completions of OpenAI's protocol, through its SDK; nothing else in the project speaks it.

vLLM, Ray Serve, `transformers serve` and many providers answer it. Answers are read as plain JSON,
because the servers differ in everything but the few fields that are needed here: what they say is
shown, and only the status decides. The key never reaches a message, a log or a `repr`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import PriceList
from tournament_assets.providers.service_words import (
    clean_key,
    describe_redirect,
    mapping,
    parse_object,
    quote_service,
    read_retry_after,
)
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import Problems, ServerError, ServerFailure
from tournament_assets.tournament.places import is_private, origin_of, url_problem
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, prompt_seed

if TYPE_CHECKING:
    import httpx2

_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """A server's address and the key to it.

    Attributes:
        base_url: The address, as the SDK wants it.
        api_key: The key; None where none is needed.
    """

    base_url: str
    api_key: str | None = field(repr=False)

    @property
    def origin(self) -> str:
        """The address without its path, for messages."""
        return origin_of(self.base_url) or "the server"

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return urlsplit(self.base_url).hostname in _LOOPBACK_HOSTS


def costs_nothing(
    entrant: OpenAiApiEntrant, environment: Mapping[str, str], prices: PriceList
) -> bool:
    """Say whether an entrant's server is free.

    A price that is written down decides; without one, a server on this machine or in a private
    network costs nothing, and nobody knows what any other costs.
    """
    price = prices.models.get(entrant.model)
    if price is not None:
        return not (price.input or price.output or price.cache_read)
    address = entrant.base_url
    url = environment.get(address.env, "") if address.env is not None else address.url
    return is_private(url or "")


def read_access(entrant: OpenAiApiEntrant, environment: Mapping[str, str]) -> ServerAccess:
    """Find an entrant's server and its key.

    Raises:
        InputError: With every environment variable that is missing or cannot be used.
    """
    problems = Problems()
    name = f"entrant {entrant.entrant_id!r}"
    address = entrant.base_url
    base_url = environment.get(address.env, "") if address.env is not None else address.url
    if not base_url:
        problems.add(
            f"{name}: the environment variable {address.env} is not set; expected the base URL of "
            f"its server; export {address.env}=http://…/v1"
        )
    elif (problem := url_problem(base_url)) is not None:
        problems.add(f"{name}: {address.env or 'base_url'}: {problem}")
    key_name = entrant.api_key_env
    api_key = None
    if key_name is not None:
        api_key = clean_key(environment.get(key_name, ""), name=key_name)
    if api_key == "":
        problems.add(
            f"{name}: the environment variable {key_name} is not set; expected the key of its "
            "server; export it, or leave out api_key_env if the server wants no key"
        )
    elif api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        problems.add(
            f"{name}: the environment variable {key_name} holds characters that no header can "
            "carry; expected the key of its server, and nothing else"
        )
    problems.raise_if_any()
    return ServerAccess(base_url=str(base_url), api_key=api_key)


_CONNECT_SECONDS = 10.0
_LIST_SECONDS = 30.0
_LISTED_MODELS = 8
_QUOTED_LENGTH = 300
_MAX_TOKENS = 2**31 - 1  # what a column of every database holds, and no reply reaches
_FINISH_REASONS = frozenset({"stop", "length"})
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


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server sent for one prompt, whether or not it can be used: it is billed.

    Attributes:
        text: The body of the answer.
        usage: The tokens that it took; None where the server does not say all of them.
    """

    text: str
    usage: TokenUsage | None


class OpenAiServer:
    """A model behind a server; satisfies `generation.server_answers.ChatServer`.

    Args:
        entrant: The model and its decoding settings.
        access: Where the server is, and the key to it.
    """

    def __init__(self, entrant: OpenAiApiEntrant, access: ServerAccess) -> None:
        import openai

        self._entrant = entrant
        self._access = access
        self._client = openai.OpenAI(
            base_url=access.base_url,
            # The SDK looks for a key in the environment unless it is given one.
            api_key=access.api_key or "none",
            # `generation.server_answers` asks again, which can be stopped meanwhile.
            max_retries=0,
            timeout=openai.Timeout(entrant.timeout_seconds, connect=_CONNECT_SECONDS),
            http_client=openai.DefaultHttpxClient(
                # A proxy from the environment would look for 127.0.0.1 on its own machine.
                trust_env=not access.is_local,
                follow_redirects=False,
                event_hooks={"request": [self._set_headers]},
            ),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._entrant.model!r}, {self._access.origin!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def look_around(self) -> str:
        """Say which models the server lists.

        The list proves little: some servers have none, and some load what is not in it.

        Raises:
            ServerError: If the server cannot be reached, or refuses the key.
        """
        origin, model = self._access.origin, self._entrant.model
        try:
            with self._translated_errors("list the models"):
                text = self._list_models()
        except ServerError as error:
            if error.failure is not ServerFailure.TRANSIENT:
                raise
            return str(error)
        if text is None:
            return f"{origin} does not list its models; {model!r} is asked for anyway"
        names = _read_models(text)
        shown = ", ".join(map(repr, names[:_LISTED_MODELS])) or "no models"
        more = len(names) - _LISTED_MODELS
        listed = f"{origin} lists {shown}{f' and {more} more' if more > 0 else ''}"
        found = "is among them" if model in names else "is not among them, and is asked for anyway"
        return self._tidy(f"{listed}; {model!r} {found}")

    def _list_models(self) -> str | None:
        """Return the list as it was sent; None if there is none for this key."""
        import httpx2
        import openai

        try:
            response = self._client.get(
                "/models",
                cast_to=httpx2.Response,
                options={"timeout": openai.Timeout(_LIST_SECONDS, connect=_CONNECT_SECONDS)},
            )
        except openai.APIStatusError as error:
            # Any other status: there is no such list, or this key may ask and not list.
            if error.status_code == 401:
                raise
            return None
        return response.text

    def ask(self, prompt: Prompt) -> GeneratedResponse:
        """Ask one prompt, once, and wait for the response.

        Raises:
            ServerError: If there is none.
        """
        return self.read(self.send(prompt), prompt)

    def send(self, prompt: Prompt) -> ServerAnswer:
        """Ask one prompt, once, and wait for the answer, whatever it holds.

        Raises:
            ServerError: If none came.
        """
        import httpx2

        with self._translated_errors(_task(prompt)):
            response = self._client.post(
                "/chat/completions", body=self._request(prompt), cast_to=httpx2.Response
            )
        return ServerAnswer(response.text, _read_usage(parse_object(response.text) or {}))

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        entrant = self._entrant
        system = entrant.system_prompt
        leading = [] if system is None else [{"role": "system", "content": system}]
        sampling: dict[str, Any] = {"temperature": 0.0}
        if entrant.temperature is not None:
            # The whole distribution: some servers cut its tail as the model's files suggest.
            sampling = {"temperature": entrant.temperature, "top_p": 1.0}
        return {
            "model": entrant.model,
            "messages": [*leading, {"role": "user", "content": prompt.text}],
            "max_completion_tokens": entrant.max_new_tokens,
            "seed": prompt_seed(prompt.prompt_id),
            **sampling,
        }

    def read(self, sent: ServerAnswer, prompt: Prompt) -> GeneratedResponse:
        """Return the response in an answer.

        Raises:
            ServerError: If it holds none.
        """
        text, task = sent.text, _task(prompt)
        answer = parse_object(text) or {}
        choices = answer.get("choices")
        choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise ServerError(
                f"could not {task}: {self._access.origin} answered {self._tidy(text)!r}; "
                "expected a chat completion",
                failure=ServerFailure.TRANSIENT,
            )
        finish_reason = choice.get("finish_reason")
        content = message.get("content")
        if not isinstance(content, str) or not _can_be_kept(content):
            refusal = message.get("refusal")
            said = f", refusal {refusal!r}" if refusal else ""
            reason = self._tidy(f"finish_reason {finish_reason!r}{said}")
            raise ServerError(
                f"could not {task}: {self._access.origin} answered without a text that can be "
                f"kept ({reason}); expected a text",
                failure=ServerFailure.REFUSED,
            )
        usage = mapping(answer.get("usage"))
        n_written = _count(usage, "completion_tokens")
        if n_written is not None and n_written > self._entrant.max_new_tokens:
            raise ServerError(
                f"could not {task}: {self._access.origin} answered with {n_written} tokens; "
                f"expected at most {self._entrant.max_new_tokens}; "
                "the server does not hold itself to max_completion_tokens: use another one",
                failure=ServerFailure.FATAL,
            )
        return GeneratedResponse(
            prompt_id=prompt.prompt_id,
            text=content.strip(),
            finish_reason=finish_reason if finish_reason in _FINISH_REASONS else "other",
            prompt_tokens=_count(usage, "prompt_tokens"),
            response_tokens=n_written,
            diagnostics={
                "seed": prompt_seed(prompt.prompt_id),
                **{
                    name: self._tidy(answer[key])
                    for name, key in (
                        ("served_model", "model"),
                        ("system_fingerprint", "system_fingerprint"),
                    )
                    if isinstance(answer.get(key), str)
                },
            },
        )

    def _set_headers(self, request: "httpx2.Request") -> None:
        for name in set(request.headers) - _HEADERS:
            del request.headers[name]
        if self._access.api_key is not None:
            request.headers["authorization"] = f"Bearer {self._access.api_key}"

    @contextmanager
    def _translated_errors(self, task: str) -> Iterator[None]:
        """Say what went wrong without the SDK's exception, whose request carries the key."""
        import httpx2
        import openai

        try:
            yield
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError) as error:
            explained = describe_failure(error, self._access.origin, quote=self._tidy)
            raise ServerError(
                f"could not {task}: {explained}",
                failure=classify_failure(error),
                retry_after_seconds=read_retry_after(error),
                may_be_billed=may_be_billed(error),
            ) from None

    def _tidy(self, text: str) -> str:
        """Shorten what a server said, and take out the key should it repeat it."""
        return quote_service(text, key=self._access.api_key, length=_QUOTED_LENGTH)


def _read_models(text: str) -> Sequence[str]:
    rows = (parse_object(text) or {}).get("data")
    names = [mapping(row).get("id") for row in rows] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value <= _MAX_TOKENS else None


def _read_usage(answer: Mapping[str, Any]) -> TokenUsage | None:
    usage = mapping(answer.get("usage"))
    read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if read is None or written is None:
        return None
    cached = _count(mapping(usage.get("prompt_tokens_details")), "cached_tokens") or 0
    cached = min(cached, read)
    # Some servers count what a model thinks in the total alone.
    written = max(written, (_count(usage, "total_tokens") or 0) - read)
    return TokenUsage(read - cached, written, cache_read_input_tokens=cached)


def _task(prompt: Prompt) -> str:
    return f"ask prompt {prompt.prompt_id!r}"


def _can_be_kept(text: str) -> bool:
    """Whether every database can hold a text: no half characters, no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
_FATAL = frozenset({401, 402, 403, 404, 405, 410})
_PASSING = frozenset({408, 409, 425, 429})
_ADVICE = {
    401: "; the key was refused: check the environment variable that api_key_env names",
    402: "; the account cannot pay: check its credit",
    403: "; the key was refused for this: check the environment variable that api_key_env names",
    404: "; there is no such model or address: check model, and base_url, which mostly ends in /v1",
    405: "; this is no chat server: check base_url, which mostly ends in /v1",
}


def classify_failure(error: Exception) -> ServerFailure:
    """Say what a failure of the SDK, or of the HTTP library under it, means."""
    import httpx2

    status = getattr(error, "status_code", None)
    if status is None:
        causes = (error, error.__cause__)
        if any(isinstance(each, (httpx2.ConnectError, httpx2.ConnectTimeout)) for each in causes):
            return ServerFailure.UNREACHABLE
        return ServerFailure.TRANSIENT
    if status in _FATAL or 300 <= status < 400:
        return ServerFailure.FATAL
    if status == 429 and _is_out_of_credit(error):
        return ServerFailure.FATAL
    if status in _PASSING or status >= 500:
        return ServerFailure.TRANSIENT
    return ServerFailure.REFUSED


def may_be_billed(error: Exception) -> bool:
    """Say whether a request may have been answered, and billed, although no answer came."""
    status = getattr(error, "status_code", None)
    if status is None:
        return classify_failure(error) is not ServerFailure.UNREACHABLE
    return status in (408, 409) or status >= 500


def describe_failure(error: Exception, origin: str, *, quote: Callable[[str], str]) -> str:
    """Say what went wrong and what to do.

    Args:
        error: What the SDK, or the HTTP library under it, raised.
        origin: The server's address.
        quote: Makes the server's words fit to be shown, without the key should it repeat it.
    """
    status = getattr(error, "status_code", None)
    if status is None:
        if classify_failure(error) is ServerFailure.UNREACHABLE:
            return (
                f"nobody answers at {origin}; start the server or correct base_url, and run again"
            )
        return f"no complete answer from {origin} ({type(error).__name__})"
    if 300 <= status < 400:
        return describe_redirect(error, status, origin, place="as base_url")
    answer = f"{origin} answered {status}: {quote(_said(error))}"
    if status == 429 and _is_out_of_credit(error):
        return f"{answer}; the account has no credit left: raise it, and run again"
    return answer + _ADVICE.get(status, "")


def _said(error: Exception) -> str:
    """Return a server's explanation: OpenAI has `message`, FastAPI `detail`, others plain text."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        return str(body.get("message") or body.get("detail") or body.get("error") or dict(body))
    return str(body or "without a word")


def _is_out_of_credit(error: Exception) -> bool:
    body = getattr(error, "body", None)
    words = (body.get("code"), body.get("type")) if isinstance(body, Mapping) else ()
    return any(word in _NO_CREDIT for word in words if isinstance(word, str))
