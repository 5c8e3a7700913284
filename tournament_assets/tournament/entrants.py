"""Entrants and their responses: a model together with its decoding settings, and what it said.

Everything here is serialisable and free of torch, so that a whole tournament can be hashed, logged
and planned on a machine that could not load a single model.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint

IDENTIFIER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
_VARIABLE_PATTERN = re.compile(r"[A-Z_][A-Z0-9_]*")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Location(_Frozen):
    """Where a file or folder is; exactly one of `path`, `env` and `builtin` is given.

    Attributes:
        path: Relative to the project folder, or absolute.
        env: The environment variable that names it.
        builtin: A name inside the package's own data folder.
        source: Where a person can get it from, for messages.
    """

    path: str | None = None
    env: str | None = None
    builtin: str | None = None
    source: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "Location":
        given = [name for name in ("path", "env", "builtin") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'nothing'} is given; "
                "expected exactly one of path, env and builtin"
            )
        return self


class EntrantSpec(_Frozen):
    """Structural description of an entrant; each loader adds the fields it needs.

    Attributes:
        entrant_id: Stable identifier used in tables, file names and reports.
        loader: Which recipe turns the description into responses.
        description: What a reader should know about it.
    """

    entrant_id: str = Field(pattern=IDENTIFIER_PATTERN)
    loader: str
    description: str = ""

    @property
    def display_settings(self) -> dict[str, Any]:
        """What sets this entrant apart, for tables: every field but its names."""
        return self.model_dump(
            mode="json", exclude={"entrant_id", "description"}, exclude_none=True
        )

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything its responses depend on besides the prompt.

        The entrant's name is left out: renaming an entrant does not generate anything again.

        Args:
            content_hash: SHA-256 of the weights or the recorded file the entrant reads.
        """
        settings = self.model_dump(mode="json", exclude={"entrant_id", "description", "weights"})
        return fingerprint({"settings": settings, "content": content_hash})


class VanillaHfEntrant(EntrantSpec):
    """A causal language model in a Hugging Face folder, decoded token by token.

    Attributes:
        weights: The folder with `config.json`, the tokenizer and safetensors weights.
        temperature: Sampling temperature; None decodes greedily.
        max_new_tokens: The most tokens of one response.
        system_prompt: Put before the prompt in the chat template, if given.
    """

    loader: Literal["vanilla_hf"]
    weights: Location
    temperature: float | None = Field(default=None, gt=0)
    max_new_tokens: int = Field(default=256, ge=1)
    system_prompt: str | None = None


class RecordedEntrant(EntrantSpec):
    """Responses that something else has generated, in a JSONL or Parquet file.

    Attributes:
        responses: The file; each row holds `prompt_id` and `response`.
    """

    loader: Literal["recorded"]
    responses: Location

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of the recorded file; where it lies does not count."""
        return fingerprint({"loader": self.loader, "content": content_hash})


class ServerAddress(_Frozen):
    """Where a server answers; exactly one of `url` and `env` is given.

    Attributes:
        url: Its base URL, such as `http://127.0.0.1:8000/v1`.
        env: The environment variable that holds the base URL.
    """

    url: str | None = None
    env: str | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "ServerAddress":
        if (self.url is None) == (self.env is None):
            given = "nothing" if self.url is None else "url and env"
            raise ValueError(f"{given} is given; expected exactly one of url and env")
        problem = None if self.url is None else url_problem(self.url)
        if problem is not None:
            raise ValueError(problem)
        return self


def url_problem(url: str) -> str | None:
    """Say why a text cannot be a server's base URL, or None; secrets in it are not repeated."""
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
            f"{expected}; put a key into the environment variable that api_key_env names"
        )
    if not is_usable:
        return f"the URL begins with {parts.scheme!r}; {expected}"
    return None


class OpenAiApiEntrant(EntrantSpec):
    """A model behind a server that speaks OpenAI's chat completions: vLLM, Ray Serve, a provider.

    No weights can be hashed: the model is known by its name and `revision`. A server that begins to
    serve something else under the name cannot be noticed; give it another `revision`.

    Attributes:
        base_url: Where the server answers; moving it does not generate anything again.
        model: The model's name as the server knows it.
        revision: Which state of the model stands behind the name.
        temperature: Sampling temperature; None decodes greedily.
        max_new_tokens: The most tokens of one response.
        system_prompt: Put before the prompt, if given.
        api_key_env: The name of the environment variable that holds the key, where one is needed.
        max_concurrency: Requests under way at once; the server makes batches of them.
        max_retries: How often a request that failed in passing is sent again.
        timeout_seconds: The longest wait for one response.
    """

    loader: Literal["openai_api"]
    base_url: ServerAddress
    model: str = Field(min_length=1)
    revision: str | None = None
    temperature: float | None = Field(default=None, gt=0)
    max_new_tokens: int = Field(default=256, ge=1)
    system_prompt: str | None = None
    api_key_env: str | None = None
    max_concurrency: int = Field(default=8, ge=1, le=1000)
    max_retries: int = Field(default=6, ge=0)
    timeout_seconds: float = Field(default=600.0, gt=0)

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        # Somebody may have written the key itself here, so it is not repeated.
        if name is not None and not _VARIABLE_PATTERN.fullmatch(name):
            raise ValueError(
                "what is written here is not shown, it may be a key; expected the name of an "
                "environment variable in capital letters, such as 'SERVER_API_KEY'"
            )
        return name

    @property
    def content_hash(self) -> str:
        """SHA-256 of what there is to know of the model."""
        return fingerprint({"api": "openai", "model": self.model, "revision": self.revision})

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything the responses depend on; where and how it is asked is left out."""
        settings = self.model_dump(
            mode="json",
            exclude={
                "entrant_id",
                "description",
                "base_url",
                "model",
                "revision",
                "api_key_env",
                "max_concurrency",
                "max_retries",
                "timeout_seconds",
            },
        )
        return fingerprint({"settings": settings, "content": content_hash})


LOADERS = ("vanilla_hf", "recorded", "openai_api")
AnyEntrant = VanillaHfEntrant | RecordedEntrant | OpenAiApiEntrant


def get_entrant(entrants: Sequence[AnyEntrant], entrant_id: str) -> AnyEntrant:
    """Look an entrant up by its stable id.

    Raises:
        InputError: If there is none of that id.
    """
    for entrant in entrants:
        if entrant.entrant_id == entrant_id:
            return entrant
    known = ", ".join(entrant.entrant_id for entrant in entrants)
    raise InputError(f"there is no entrant {entrant_id!r}; expected one of {known}")


def prompt_seed(prompt_id: str) -> int:
    """Seed of a prompt's random numbers: SHA-256 of its id, modulo 2**32.

    Every entrant draws the same numbers for the same prompt, whatever else is in its batch.
    """
    return int.from_bytes(hashlib.sha256(prompt_id.encode()).digest(), "big") % 2**32


@dataclass(frozen=True, slots=True)
class GeneratedResponse:
    """One entrant's answer to one prompt.

    Attributes:
        prompt_id: The prompt that was answered.
        text: The answer.
        finish_reason: `stop` (the model ended), `length` (the cap ended it), `recorded`, or
            `other` (a server's filter ended it, for one).
        prompt_tokens: Tokens the model read; None where nobody counted.
        response_tokens: Tokens the model wrote; None where nobody counted.
        diagnostics: What the decoder noticed, as JSON values.
    """

    prompt_id: str
    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
