"""Chat completions of OpenAI's protocol, through its SDK; nothing else in the project speaks it.

vLLM, Ray Serve, `transformers serve` and many providers answer it. Answers are read as plain JSON,
because the servers differ in everything but the few fields that are needed here: what they say is
shown, and only the status decides. The key never reaches a message, a log or a `repr`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tournament_assets.judging.batch_service import TokenUsage
from tournament_assets.judging.costs.prices import PriceList
from tournament_assets.providers.openai.wire_format import (
    CONNECT_SECONDS,
    NEW_CAP,
    Dialect,
    can_be_kept,
    classify_failure,
    count_of,
    describe_failure,
    keepable,
    may_be_billed,
    open_client,
    read_usage,
)
from tournament_assets.providers.service_words import (
    clean_key,
    mapping,
    parse_object,
    quote_service,
    read_retry_after,
)
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import Problems, ServerError, ServerFailure
from tournament_assets.tournament.places import is_private, origin_of, url_problem
from tournament_assets.tournament.prompts import (
    GeneratedResponse,
    Prompt,
    ToldApart,
    cut_thought,
    prompt_seed,
)


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


_LIST_SECONDS = 30.0
_LISTED_MODELS = 8
_QUOTED_LENGTH = 300
_FINISH_REASONS = frozenset({"stop", "length"})


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
        self._entrant = entrant
        self._access = access
        self._dialect = Dialect(
            entrant.max_tokens_field or NEW_CAP,
            knows_schemas=False,
            is_settled=entrant.max_tokens_field is not None,
        )
        self._client = open_client(
            access.base_url, access.api_key, timeout_seconds=entrant.timeout_seconds
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
                options={"timeout": openai.Timeout(_LIST_SECONDS, connect=CONNECT_SECONDS)},
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

        while True:
            dialect = self._dialect
            try:
                with self._translated_errors(_task(prompt)):
                    response = self._client.post(
                        "/chat/completions",
                        body=self._request(prompt, dialect),
                        cast_to=httpx2.Response,
                    )
            except ServerError as error:
                other = dialect.without(str(error))
                if error.failure is not ServerFailure.REFUSED or other is None:
                    raise
                # What was refused as a whole was not answered, and is not paid for.
                self._dialect = other
            else:
                return ServerAnswer(response.text, read_usage(parse_object(response.text) or {}))

    def _request(self, prompt: Prompt, dialect: Dialect) -> dict[str, Any]:
        entrant = self._entrant
        system = entrant.system_prompt
        leading = [] if system is None else [{"role": "system", "content": system}]
        sampling: dict[str, Any] = {"temperature": 0.0}
        if entrant.temperature is not None:
            # The whole distribution: some servers cut its tail as the model's files suggest.
            top_p = 1.0 if entrant.top_p is None else entrant.top_p
            sampling = {"temperature": entrant.temperature, "top_p": top_p}
        if entrant.stop is not None:
            sampling["stop"] = list(entrant.stop)
        return {
            "model": entrant.model,
            "messages": [*leading, {"role": "user", "content": prompt.text}],
            dialect.cap: entrant.max_new_tokens,
            "seed": prompt_seed(prompt.prompt_id, entrant.seed),
            **sampling,
            **(entrant.extra_body or {}),
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
        if isinstance(content, str) and not can_be_kept(content):
            raise ServerError(
                f"could not {task}: the text of {self._access.origin} holds half a character (a "
                "lone \\ud800 to \\udfff) or a NUL, which no database keeps; expected Unicode text",
                failure=ServerFailure.REFUSED,
            )
        if not isinstance(content, str):
            refusal = message.get("refusal")
            said = f", refusal {refusal!r}" if refusal else ""
            reason = self._tidy(f"finish_reason {finish_reason!r}{said}")
            raise ServerError(
                f"could not {task}: {self._access.origin} answered without a text "
                f"({reason}); expected one",
                failure=ServerFailure.REFUSED,
            )
        usage = mapping(answer.get("usage"))
        n_written = count_of(usage, "completion_tokens")
        if n_written is not None and n_written > self._entrant.max_new_tokens:
            raise ServerError(
                f"could not {task}: {self._access.origin} answered with {n_written} tokens; "
                f"expected at most {self._entrant.max_new_tokens}; "
                f"the server does not hold itself to {self._dialect.cap}: give it the other "
                "max_tokens_field, or use another one",
                failure=ServerFailure.FATAL,
            )
        told = self._tell_apart(message, content.strip())
        return GeneratedResponse(
            prompt_id=prompt.prompt_id,
            text=told.response,
            finish_reason=finish_reason if finish_reason in _FINISH_REASONS else "other",
            prompt_tokens=count_of(usage, "prompt_tokens"),
            response_tokens=n_written,
            diagnostics={
                "seed": prompt_seed(prompt.prompt_id, self._entrant.seed),
                **told.diagnostics,
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

    def _tell_apart(self, message: Mapping[str, Any], text: str) -> ToldApart:
        """Cut a thought out of a response, or take the one that the server has cut out itself."""
        if self._entrant.strip != "think":
            return ToldApart(text)
        told = cut_thought(text, is_open=False)
        apart = message.get("reasoning_content") or message.get("reasoning")
        if told.thought is None and isinstance(apart, str):
            return ToldApart(text, keepable(apart).strip())
        return told

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


def _task(prompt: Prompt) -> str:
    return f"ask prompt {prompt.prompt_id!r}"
