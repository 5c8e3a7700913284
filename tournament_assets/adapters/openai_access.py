"""Where an entrant's server is and what opens it, as the environment says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tournament_assets.adapters.service_words import clean_key
from tournament_assets.tournament.api_entrants import OpenAiApiEntrant
from tournament_assets.tournament.errors import Problems
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
