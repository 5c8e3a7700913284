"""Where files and servers are, as a config names them; and the model that its parts build on."""

import ipaddress
import re
import socket
from collections.abc import Collection, Mapping
from datetime import date
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from tournament_assets.foundation.json_lines import JsonObject

_PRIVATE_ENDINGS = (".localhost", ".local", ".internal")


class Frozen(BaseModel):
    """A model that is immutable, refuses unknown keys, and turns no text into a number."""

    # An input can be a URL with a password in it: no exception repeats what was given.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    def changed(self, *, without: Collection[str] = ()) -> JsonObject:
        """Return the fields that differ from their defaults, as JSON values, for a fingerprint.

        So adding a key with a default changes no fingerprint.

        Args:
            without: Fields to leave out.
        """
        return self.model_dump(mode="json", exclude_defaults=True, exclude=set(without))

    def by_default(self, *names: str) -> Self:
        """Return a copy with some fields set to their defaults."""
        fields = type(self).model_fields
        defaults = {name: fields[name].get_default(call_default_factory=True) for name in names}
        return self.model_copy(update=defaults)


FROM_LIST = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
"""YAML has lists only; strict mode would refuse them where a frozen model holds tuples."""


class Location(Frozen):
    """Where a file or folder is; exactly one of `path`, `env` and `builtin` is given.

    Attributes:
        path: Relative to the project folder, or absolute.
        env: The environment variable that names it.
        builtin: A name inside the package's own data folder.
        source: Where a person can get it from, for messages.
    """

    ways: ClassVar[tuple[str, ...]] = ("path", "env", "builtin")

    path: str | None = None
    env: str | None = None
    builtin: str | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "Location":
        ways = [name for name in self.ways if getattr(self, name) is not None]
        if len(ways) != 1:
            raise ValueError(
                f"{' and '.join(ways) or 'nothing'} is given; "
                f"expected exactly one of {', '.join(self.ways[:-1])} and {self.ways[-1]}"
            )
        return self


class FilePlace(Location):
    """Where a file is; a folder is refused there."""


class ResponsesPlace(FilePlace):
    """Where recorded responses are; exactly one of `path`, `env`, `builtin` and `asset` is given.

    Attributes:
        path: Relative to the project folder, or absolute.
        env: The environment variable that names it.
        builtin: A name inside the package's own data folder.
        source: Where a person can get it from, for messages.
        asset: The key of an asset of the surrounding Dagster project, such as
            `models/my_outputs`; its value is a data frame or a list of rows.
    """

    ways: ClassVar[tuple[str, ...]] = ("path", "env", "builtin", "asset")

    asset: str | None = Field(default=None, min_length=1)


class ServerAddress(Frozen):
    """Where a server answers: its base URL alone, or the variable that holds it.

    Attributes:
        url: Its base URL, such as `http://127.0.0.1:8000/v1`.
        env: The environment variable that holds the base URL.
    """

    ways: ClassVar[tuple[str, ...]] = ("url", "env")

    url: str | None = None
    env: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_url(cls, value: object) -> object:
        return {"url": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _exactly_one(self) -> "ServerAddress":
        if (self.url is None) == (self.env is None):
            both = "nothing" if self.url is None else "url and env"
            raise ValueError(f"{both} is given; expected exactly one of url and env")
        problem = None if self.url is None else url_problem(self.url)
        if problem is not None:
            raise ValueError(problem)
        return self

    def base_url(self, environment: Mapping[str, str]) -> str:
        """Return the base URL; empty if the variable that holds it is not set."""
        return self.url or environment.get(self.env or "", "")


_SECRET_NAME = re.compile(
    r"auth|key|token|secret|passw|cookie|credential|^sig|^code$", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"(?:bearer|basic)\s|(?=\S*[0-9])(?=\S*[a-z])[\w+/=.-]{24,}$", re.IGNORECASE
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SET_BY_PROGRAM = frozenset({"host", "connection", "accept-encoding", "transfer-encoding"})


class FromEnvironment(Frozen):
    """A value that the environment holds.

    Attributes:
        env: The environment variable's name.
    """

    env: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")


_Text = Annotated[
    str,
    # YAML reads a version such as 2024-10-21 as a date.
    BeforeValidator(lambda value: value.isoformat() if type(value) is date else value),
]


class RequestAdditions(Frozen):
    """What every request to a server carries besides its address and key.

    Neither is in a fingerprint or a request key: `model`, `revision` and `extra_body` say what
    answers, these only how it is reached.

    Attributes:
        headers: Headers of every request, by name: a text, or `{env: NAME}` for a secret.
        query: The query of every address, such as `api-version`; never a secret.
    """

    headers: dict[str, _Text | FromEnvironment] | None = None
    query: dict[str, _Text] | None = None

    @field_validator("headers", "query")
    @classmethod
    def _holds_no_secret(
        cls, values: dict[str, str | FromEnvironment] | None
    ) -> dict[str, str | FromEnvironment] | None:
        for name, value in (values or {}).items():
            if isinstance(value, str) and (_SECRET_NAME.search(name) or _SECRET_VALUE.match(value)):
                raise ValueError(
                    f"the value of {name!r} is not shown because it may be a secret; expected it "
                    f"in the environment: headers: {{NAME: {{env: VARIABLE}}}}"
                )
            if isinstance(value, str) and not _is_for_headers(value):
                raise ValueError(f"the value of {name!r} is empty or not printable ASCII")
        return values

    @field_validator("headers")
    @classmethod
    def _can_be_sent(
        cls, headers: dict[str, str | FromEnvironment] | None
    ) -> dict[str, str | FromEnvironment] | None:
        for name in headers or {}:
            is_ours = name.lower() in _SET_BY_PROGRAM or name.lower().startswith("content-")
            if is_ours or not _HEADER_NAME.fullmatch(name):
                raise ValueError(
                    f"a header is called {name!r}; expected a name such as 'api-key', and none "
                    "that the program sets by itself"
                )
        return headers

    @property
    def header_variables(self) -> dict[str, str]:
        """The environment variables that hold headers, by the header's name."""
        headers = (self.headers or {}).items()
        return {name: value.env for name, value in headers if isinstance(value, FromEnvironment)}

    @property
    def plain_headers(self) -> dict[str, str]:
        """The headers that the config holds."""
        headers = (self.headers or {}).items()
        return {name: value for name, value in headers if isinstance(value, str)}

    def secret_headers(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that the environment holds, without blanks around them."""
        variables = self.header_variables.items()
        return {name: environment.get(variable, "").strip() for name, variable in variables}

    def header_problems(self, environment: Mapping[str, str]) -> list[str]:
        """Explain which environment variables of headers are missing or cannot be sent."""
        values = self.secret_headers(environment)
        return [
            f"the environment variable {variable} is not set or holds what no header can carry; "
            f"expected the value of the header {name!r}; export it"
            for name, variable in self.header_variables.items()
            if not _is_for_headers(values[name])
        ]


def _is_for_headers(value: str) -> bool:
    return bool(value) and value.isascii() and value.isprintable()


def origin_of(url: str) -> str | None:
    """Return a URL's scheme, host and port, and nothing secret; None if it names no host."""
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme or 'https'}://{host}{port}" if host else None


def is_private(url: str) -> bool:
    """Return whether a URL leads to this machine or a private network, judged by its text alone.

    A name without a dot is one of the local network; any other name may lead anywhere.
    """
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    address = _address_of(host)
    if address is None:
        return bool(host) and ("." not in host or host.endswith(_PRIVATE_ENDINGS))
    return address.is_private


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        # As a connection reads it: `2130706433` and `0x7f.1` are addresses as well.
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        pass
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return None
    return address.ipv4_mapped or address


def url_problem(
    url: str, *, key_place: str = "the environment variable that api_key_env names"
) -> str | None:
    """Explain why a text cannot be a server's base URL, or None; secrets in it are not repeated."""
    expected = "expected a base URL such as 'http://127.0.0.1:8000/v1'"
    try:
        parts = urlsplit(url)
        has_secret = "@" in parts.netloc or bool(parts.query or parts.fragment)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises if it is none
    except ValueError:
        return f"the URL cannot be read; {expected}"
    if has_secret:
        return (
            "the URL holds a user name, a query or a fragment, which are not shown here; "
            f"{expected}; put a key into {key_place}"
        )
    if not is_usable:
        return f"the URL begins with {parts.scheme!r}; {expected}"
    return None
