"""Chat completions of OpenAI's protocol, through its SDK; nothing else in the project speaks it.

vLLM, Ray Serve, `transformers serve` and many providers answer it. Answers are read as plain JSON,
because the servers differ in everything but the few fields that are needed here. The key never
reaches a message, a log or a `repr`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tournament_assets.providers.openai.server_access import (
    ServerAccess,
    classify_failure,
    describe_failure,
    read_retry_after,
)
from tournament_assets.providers.service_words import quote_service
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import ServerError, ServerFailure
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt, prompt_seed

if TYPE_CHECKING:
    import httpx2

_CONNECT_SECONDS = 10.0
_LIST_SECONDS = 30.0
_LISTED_MODELS = 8
_QUOTED_LENGTH = 300
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
        import httpx2

        task = f"ask prompt {prompt.prompt_id!r}"
        with self._translated_errors(task):
            response = self._client.post(
                "/chat/completions", body=self._request(prompt), cast_to=httpx2.Response
            )
        return self._read_response(response.text, prompt, task)

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

    def _read_response(self, text: str, prompt: Prompt, task: str) -> GeneratedResponse:
        answer = _mapping(_parse(text))
        choices = answer.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
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
        usage = _mapping(answer.get("usage"))
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
            ) from None

    def _tidy(self, text: str) -> str:
        """Shorten what a server said, and take out the key should it repeat it."""
        return quote_service(text, key=self._access.api_key, length=_QUOTED_LENGTH)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_models(text: str) -> Sequence[str]:
    rows = _mapping(_parse(text)).get("data")
    names = [_mapping(row).get("id") for row in rows] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)]


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if type(value) is int and value >= 0 else None


def _can_be_kept(text: str) -> bool:
    """Whether every database can hold a text: no half characters, no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text
