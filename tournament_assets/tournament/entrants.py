"""Entrants: a model with its decoding settings, a model behind an API, or recorded responses.

Everything here is serialisable and free of torch, so that a tournament can be hashed, logged and
planned on a machine that cannot load any model.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union

from pydantic import Field, field_validator, model_validator

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.extensions import added_rows
from tournament_assets.foundation.fingerprints import fingerprint, prompt_seed
from tournament_assets.foundation.formatting import expect_one_of
from tournament_assets.tournament.entrant_settings import (
    EntrantSpec,
    ExtraFields,
    LoaderRow,
    Precision,
    StopStrings,
    TemplateArguments,
    WrittenEntrant,
    refuse_narrowed_greed,
    refuse_own_fields,
)
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, GeneratedEntrant
from tournament_assets.tournament.judge_services import ANTHROPIC, OPENAI_API, owner_of
from tournament_assets.tournament.places import (
    Location,
    RequestAdditions,
    ResponsesPlace,
    ServerAddress,
)

if TYPE_CHECKING:
    from tournament_assets.tournament.prompts import Prompt

SampleColumn = Literal[
    "prompt_id",
    "prompt",
    "response",
    "model",
    "finish_reason",
    "prompt_tokens",
    "response_tokens",
]
"""The fields that a column of a response file can be mapped to."""
_VARIABLE_PATTERN = re.compile(r"[A-Z_][A-Z0-9_]*")


class OpenAiApiEntrant(RequestAdditions, WrittenEntrant):
    """A model behind a server that speaks OpenAI's chat completions: vLLM, Ray Serve, a provider.

    No weights can be hashed: the model is known by its name and `revision`. If a server starts to
    serve something else under the same name, nothing here notices; change `revision` then.

    Attributes:
        base_url: Where the server answers; moving it does not generate anything again.
        model: The model's name as the server knows it.
        revision: Which state of the model stands behind the name.
        temperature: Sampling temperature; None decodes greedily.
        top_p: Draws from the most probable tokens that together have this probability.
        max_tokens_field: The server's name for that field; detected if left out. Does not count in
            the identity of responses.
        stop: Texts that end a response; they are not a part of it.
        system_prompt: Put before the prompt, if given.
        extra_body: Further fields of the request, such as `top_k`, `min_p` or
            `chat_template_kwargs` of vLLM.
        api_key_env: The name of the environment variable that holds the key, where one is needed.
        max_concurrency: Requests under way at once; the server makes batches of them.
        max_retries: How often a request that failed transiently is sent again.
        timeout_seconds: The longest wait for one response.
    """

    kind: ClassVar[str] = "openai"
    takes_seed: ClassVar[bool] = True
    loader: Literal["openai_api"]
    base_url: ServerAddress
    model: str = Field(min_length=1)
    revision: str | None = None
    temperature: float | None = Field(default=None, gt=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    stop: StopStrings | None = None
    system_prompt: str | None = None
    extra_body: ExtraFields | None = None
    api_key_env: str | None = None
    max_concurrency: int = Field(default=8, ge=1, le=1000)
    max_retries: int = Field(default=6, ge=0)
    timeout_seconds: float = Field(default=600.0, gt=0)

    @field_validator("model")
    @classmethod
    def _is_served(cls, model: str) -> str:
        owner = owner_of(model)
        if owner is not None:
            raise ValueError(
                f"{model!r} begins with {owner.model_prefix!r}, as models of the service "
                f"{owner.name!r} do; expected the name of a model that this server has"
            )
        return model

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, name: str | None) -> str | None:
        # The key itself may stand here by mistake, so the message does not repeat it.
        if name is not None and not _VARIABLE_PATTERN.fullmatch(name):
            raise ValueError(
                "the value is not shown because it may be a key; expected the name of an "
                "environment variable in capital letters, such as 'SERVER_API_KEY'"
            )
        return name

    @field_validator("extra_body")
    @classmethod
    def _has_no_setting_of_ours(cls, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        return refuse_own_fields(fields)

    @model_validator(mode="after")
    def _draws_what_it_narrows(self) -> "OpenAiApiEntrant":
        refuse_narrowed_greed(self, "top_p")
        return self

    @property
    def answers_once(self) -> bool:
        """Whether decoding is greedy."""
        return self.temperature is None

    @property
    def service(self) -> str:
        """Who answers."""
        return OPENAI_API.name

    @property
    def server(self) -> ServerAddress:
        """Where the server answers."""
        return self.base_url

    @property
    def model_name(self) -> str:
        """The model's name as the server knows it."""
        return self.model

    def own_params(self, prompt: "Prompt") -> dict[str, Any]:
        """Return what is said to a chat server alone, so that no default of its own counts."""
        if self.temperature is None:
            params: dict[str, Any] = {"temperature": 0.0}
        else:
            # The whole distribution: some servers cut its tail as the model's files suggest.
            params = {"top_p": 1.0 if self.top_p is None else self.top_p}
        if self.stop is not None:
            params["stop_sequences"] = list(self.stop)
        params["seed"] = prompt_seed(prompt.name, self.seed)
        params["extra_body"] = self.extra_body or {}
        return params

    @property
    def unasked(self) -> Sequence[str]:
        """Settings that are not given and sent all the same, unless the server refuses them."""
        return [each for each in ("seed", "temperature", "top_p") if getattr(self, each) is None]

    @property
    def content_hash(self) -> str:
        """SHA-256 of what there is to know of the model."""
        return fingerprint({"api": "openai", "model": self.model, "revision": self.revision})

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything the responses depend on; where and how it is asked is left out."""
        settings = self.settings_without(
            "base_url",
            "model",
            "revision",
            "api_key_env",
            "headers",
            "query",
            "max_concurrency",
            "max_retries",
            "timeout_seconds",
            "max_tokens_field",
        )
        return fingerprint({"settings": settings, "content": content_hash})


class AnthropicApiEntrant(EntrantSpec):
    """A Claude model, asked through the Message Batches API as the judge is.

    The model is known by its name and `revision`, as any model without weights is. The loopback
    server, which is no language model, answers exactly the names that begin with `loopback`, so its
    responses cannot be mistaken for a model's.

    Attributes:
        model: The model's id.
        revision: Which state of the model stands behind the id; another one asks everything again.
        temperature: Sampling temperature; None sends none. Newer models refuse any but their own.
        max_new_tokens: The most tokens of one response, thinking included.
        system_prompt: Put before the prompt, if given.
    """

    kind: ClassVar[str] = "anthropic"
    is_bought: ClassVar[bool] = True
    loader: Literal["anthropic_api"]
    model: str = Field(min_length=1)
    revision: str | None = None
    temperature: float | None = Field(default=None, ge=0, le=1)
    max_new_tokens: int = Field(default=8192, ge=1)
    system_prompt: str | None = Field(default=None, min_length=1)

    @property
    def answers_once(self) -> bool:
        """Whether decoding is greedy; without a temperature the service's own draws samples."""
        return self.temperature == 0

    @property
    def longest_response(self) -> int:
        """The most tokens of one response."""
        return self.max_new_tokens

    @property
    def model_name(self) -> str:
        """The model's id."""
        return self.model

    @property
    def service(self) -> str:
        """Who answers."""
        return (owner_of(self.model) or ANTHROPIC).name

    @property
    def content_hash(self) -> str:
        """SHA-256 of what there is to know of the model."""
        return fingerprint({"api": ANTHROPIC.name, "model": self.model, "revision": self.revision})

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of everything the responses depend on."""
        settings = self.settings_without("model", "revision")
        return fingerprint({"settings": settings, "content": content_hash})


class VanillaHfEntrant(GeneratedEntrant):
    """A causal language model in a Hugging Face folder, decoded token by token.

    Attributes:
        weights: The folder with `config.json`, the tokenizer and safetensors weights.
        adapter: The folder of a LoRA adapter for it, as the peft library writes one.
        temperature: Sampling temperature; None decodes greedily.
        top_p: Draws from the most probable tokens that together have this probability.
        top_k: Draws from this many of the most probable tokens.
        min_p: Draws from tokens at least this probable, as a share of the most probable one's.
        repetition_penalty: Divides the scores of tokens that the prompt or the response has.
        stop: Texts that end a response; they are not a part of it.
        system_prompt: Put before the prompt in the chat template, if given.
        template_arguments: Further variables of the chat template, such as `enable_thinking:
            false`.
        chat_template: A file used instead of the model's own chat template; `none` gives the model
            the bare prompt to continue, as base models expect.
        dtype: The weights' precision; by default the generator's, which the device decides.
    """

    loader: Literal["vanilla_hf"]
    adapter: Location | None = None
    temperature: float | None = Field(default=None, gt=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0)
    stop: StopStrings | None = None
    system_prompt: str | None = None
    template_arguments: TemplateArguments | None = None
    chat_template: Location | Literal["none"] | None = None
    dtype: Precision | None = None

    @model_validator(mode="after")
    def _has_a_template_for_what_it_says(self) -> "VanillaHfEntrant":
        given = [
            name
            for name in ("system_prompt", "template_arguments")
            if getattr(self, name) is not None
        ]
        if given and self.chat_template == "none":
            raise ValueError(
                f"{' and '.join(given)} with chat_template none, which has no place for it; "
                "expected a chat template, or the prompts alone"
            )
        return self

    @model_validator(mode="after")
    def _draws_what_it_narrows(self) -> "VanillaHfEntrant":
        refuse_narrowed_greed(self, "top_p", "top_k", "min_p")
        return self

    @property
    def answers_once(self) -> bool:
        """Whether decoding is greedy."""
        return self.temperature is None

    @property
    def adapter_folder(self) -> Location | None:
        """The folder of its LoRA adapter, if it has one."""
        return self.adapter

    @property
    def template_file(self) -> Location | None:
        """The file of its own chat template, if it has one."""
        return self.chat_template if isinstance(self.chat_template, Location) else None

    @property
    def replaces_template(self) -> bool:
        """Whether it has a template of its own, or none."""
        return self.chat_template is not None


class RecordedEntrant(EntrantSpec):
    """Responses that something else has generated, in a file, or as an asset.

    Attributes:
        responses: The file or asset.
        format: The file's format, such as `alpaca-eval`; detected if left out.
        columns: Which column holds what, instead of a format: `prompt_id` or `prompt`, `response`,
            and where they are there `model`, `finish_reason`, `prompt_tokens`, `response_tokens`.
        model: The file's name for the model whose responses to use, where it holds several models.
    """

    loader: Literal["recorded"]
    responses: ResponsesPlace
    format: str | None = Field(default=None, min_length=1)
    columns: Mapping[SampleColumn, str] | None = None
    model: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_read_in_one_way(self) -> "RecordedEntrant":
        if self.format is not None and self.columns is not None:
            raise ValueError("format and columns are given; expected one of them at most")
        if self.columns is not None and not (
            "response" in self.columns and self.columns.keys() & {"prompt_id", "prompt"}
        ):
            raise ValueError(
                f"columns names {', '.join(self.columns) or 'nothing'}; expected response, and "
                "prompt_id or prompt"
            )
        return self

    @property
    def answers_once(self) -> bool:
        """True: a file holds one answer to a prompt."""
        return True

    @property
    def model_name(self) -> str | None:
        """The file's name for the model, where it holds several."""
        return self.model

    @property
    def upstream_asset(self) -> str | None:
        """The key of the asset that holds the responses, if one does."""
        return self.responses.asset

    @property
    def content_hash(self) -> str | None:
        """SHA-256 of an asset's key; its content has a data version, which responses depend on."""
        asset = self.upstream_asset
        return None if asset is None else fingerprint({"asset": asset})

    def fingerprint(self, content_hash: str) -> str:
        """SHA-256 of the recorded file and how it is read; where it lies does not count."""
        settings = self.model_dump(include={"format", "columns", "model"}, exclude_none=True)
        return fingerprint({"loader": self.loader, "content": content_hash, **settings})


LocalEntrant = VanillaHfEntrant | CustomPoeEntrant
"""An entrant that is generated on this machine."""
ApiEntrant = OpenAiApiEntrant | AnthropicApiEntrant
"""An entrant that a service answers for."""
_RESPONSES = "tournament_assets.responses.entrant_responses"
_generated = partial(
    LoaderRow,
    answer=f"{_RESPONSES}:generate_here",
    check="tournament_assets.preparing.preflight:check_weights_and_device",
    content="tournament_assets.project.project_files:find_entrant_files",
)
_served = partial(
    LoaderRow,
    answer=f"{_RESPONSES}:ask_service",
    check="tournament_assets.preparing.preflight:check_services",
    estimate="tournament_assets.preparing.estimates:estimate_responses",
)
_CORE = (
    _generated(entrant=VanillaHfEntrant),
    _generated(entrant=CustomPoeEntrant),
    LoaderRow(
        entrant=RecordedEntrant,
        answer=f"{_RESPONSES}:read_recorded",
        answered=f"{_RESPONSES}:recorded_responses",
    ),
    _served(entrant=OpenAiApiEntrant),
    _served(entrant=AnthropicApiEntrant),
)
LOADERS: tuple[LoaderRow, ...] = (*_CORE, *added_rows("loaders", _CORE))
"""One row for each loader."""
_ROW_OF = {row.entrant: row for row in LOADERS}
if TYPE_CHECKING:
    from typing_extensions import TypeIs

    AnyEntrant = EntrantSpec
else:
    AnyEntrant = Union[tuple(_ROW_OF)]  # noqa: UP007  # a tuple has no |


def loader_of(entrant: AnyEntrant) -> LoaderRow:
    """Return the row of an entrant's loader."""
    return _ROW_OF[type(entrant)]


def has_server(entrant: AnyEntrant) -> "TypeIs[OpenAiApiEntrant]":
    """Return whether an entrant has a server of its own, which is asked as the config says."""
    return entrant.server is not None


def get_entrant(entrants: Sequence[AnyEntrant], entrant_id: str) -> AnyEntrant:
    """Look an entrant up by its stable id."""
    for entrant in entrants:
        if entrant.entrant_id == entrant_id:
            return entrant
    names = (entrant.entrant_id for entrant in entrants)
    raise InputError(f"{entrant_id!r} is not an entrant; {expect_one_of(entrant_id, names)}")
