"""The services that judge, and that models play through: a row each.

To add one, write a folder in `providers/` with a function that opens it, and add a row here; no
other code names a service.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError

from tournament_assets.foundation.extensions import added_rows
from tournament_assets.tournament.service_rows import JudgeService as JudgeService
from tournament_assets.tournament.service_rows import ServiceConnection as ServiceConnection

LOOPBACK = JudgeService(
    name="loopback",
    label="loopback (lexical, not a language model)",
    opener="tournament_assets.providers.loopback_judge:open_loopback",
    source="of the loopback service, which is no language model",
    model_prefix="loopback",
    is_free=True,
    is_language_model=False,
    is_in_keys=False,
    grace_seconds=2.0,
    poll_seconds=(0.1, 1.0),
)
ANTHROPIC = JudgeService(
    name="anthropic",
    label="Claude through Anthropic's API",
    opener="tournament_assets.providers.anthropic.message_batches:open_anthropic",
    source="through the Message Batches API",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    usual_models=("claude-",),
    is_in_keys=False,
    takes=("effort", "thinking", "extra_body"),
)
OPENAI_API = JudgeService(
    name="openai_api",
    label="a model behind a server that speaks OpenAI's protocol",
    opener="tournament_assets.providers.openai.services:open_chat",
    source="through chat completions",
    key_variable="OPENAI_API_KEY",
    keeps_key_to_itself=True,
    may_be_elsewhere=True,
    needs_price=True,
    channel="direct",
    takes=("effort", "extra_body", "headers", "query"),
    may_route=True,
    reads_marks=True,
    poll_seconds=(0.5, 30.0),
)
OPENAI_BATCH = JudgeService(
    name="openai_batch",
    label="a model through OpenAI's API",
    opener="tournament_assets.providers.openai.services:open_batches",
    source="through the Batch API",
    usual_models=("gpt-", "o1", "o3", "o4"),
    key_variable="OPENAI_API_KEY",
    keeps_key_to_itself=True,
    may_be_elsewhere=True,
    needs_price=True,
    takes=("effort", "extra_body", "headers", "query"),
    may_route=True,
    max_batch_requests=50_000,
    max_batch_bytes=190_000_000,  # of 200 MB; the rest is for what each line begins with
    grace_seconds=60.0,
)
KNOWN_SERVERS: Mapping[str, Mapping[str, str]] = {
    "ollama:": {"base_url": "http://127.0.0.1:11434/v1"},
    "gemini-": {
        "base_url": "https://generativelanguage.googleapis.com/v1beta/openai",
        "api_key_env": "GEMINI_API_KEY",
    },
}
"""Servers of OpenAI's protocol at known addresses, by what a name in `init --judge` begins with."""
_CORE = (LOOPBACK, ANTHROPIC, OPENAI_BATCH, OPENAI_API)
SERVICES: dict[str, JudgeService] = {
    row.name: row for row in (*_CORE, *added_rows("services", _CORE))
}


class ServiceName:
    """Holds a key of a config to the names of services, for pydantic and for the documentation."""

    @staticmethod
    def check(name: str) -> str:
        """Return the name, or refuse one that no service has."""
        if name not in SERVICES:
            known = " or ".join(map(repr, SERVICES))
            servers = f"({OPENAI_API.name} asks any server that speaks OpenAI's protocol)"
            raise PydanticKnownError("literal_error", {"expected": f"{known} {servers}"})
        return name

    @staticmethod
    def __get_pydantic_json_schema__(
        core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(core), "enum": [*SERVICES]}


def owner_of(model: str) -> JudgeService | None:
    """Return the service that alone serves models of such a name; None if any may."""
    for service in SERVICES.values():
        if service.model_prefix and model.startswith(service.model_prefix):
            return service
    return None


def service_for(model: str) -> JudgeService | None:
    """Return the service to ask for a model if none is named; None if the name does not show it."""
    usual = (each for each in SERVICES.values() if model.startswith(each.usual_models))
    return owner_of(model) or next(usual, None)


def is_free_model(model: str) -> bool:
    """Return whether a model costs nothing, as the loopback judge's do."""
    owner = owner_of(model)
    return owner is not None and owner.is_free


def expected_model(service_name: str, model: str) -> str | None:
    """Return which models a service expects if this one does not fit, or None.

    The loopback judge answers for any model. Replies are kept by what was asked, so under the name
    of a real model its own would be taken for that model's.
    """
    service, owner = SERVICES[service_name], owner_of(model)
    if owner is service or (owner is None and not service.model_prefix):
        return None
    if service.model_prefix:
        return f"a name that begins with {service.model_prefix!r}"
    return "a served model"
