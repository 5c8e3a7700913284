"""Where an entrant's server is and what opens it, as the environment says.

What a failure of a chat server means for what is done next, and how people are told.

Servers that speak the protocol agree on little beyond the status: what they say is shown, and only
the status decides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tournament_assets.providers.service_words import clean_key
from tournament_assets.tournament.entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import Problems, ServerFailure
from tournament_assets.tournament.places import origin_of, url_problem

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
        response: Any = getattr(error, "response", None)
        target = origin_of(response.headers.get("location", "")) if response is not None else None
        return (
            f"{origin} answered {status}, a redirect to {target or 'another address of its own'}; "
            "redirects are not followed, so that neither prompts nor the key go where nobody sent "
            "them; if the target is right, give its final address as base_url"
        )
    answer = f"{origin} answered {status}: {quote(_said(error))}"
    if status == 429 and _is_out_of_credit(error):
        return f"{answer}; the account has no credit left: raise it, and run again"
    return answer + _ADVICE.get(status, "")


def read_retry_after(error: Exception) -> float | None:
    """Return for how many seconds the server asks to wait; None if it does not say in seconds."""
    response: Any = getattr(error, "response", None)
    if response is None:
        return None
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


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
