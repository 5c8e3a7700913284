"""Who judges: services and models, the rubric, how they are asked, and for how much."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint_text
from tournament_assets.tournament.judge_services import (
    LOOPBACK,
    SERVICES,
    JudgeService,
    ServiceName,
    expected_model,
)
from tournament_assets.tournament.places import Frozen, is_private, url_problem


class ServiceAccess(Frozen):
    """A judging service and how it is reached.

    Attributes:
        service: `loopback`, the lexical judge on 127.0.0.1, or another one, such as `anthropic`.
        base_url: Where the service is asked, such as a gateway; its own address by default. The
            environment comes first (ANTHROPIC_BASE_URL for `anthropic`).
        api_key_env: The environment variable that holds the key; the service's own by default, such
            as `ANTHROPIC_API_KEY`. A service of the OpenAI protocol at a `base_url` gets no key
            without it.
        revision: Part of what names a request, for a model that changes under the same name:
            another revision is asked anew.
        temperature: Sent with every request if given; several models refuse it.
        max_in_flight: How many requests are asked directly at a time, outside batches.
    """

    service: Annotated[str, AfterValidator(ServiceName.check), ServiceName()]
    base_url: str | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    revision: str | None = Field(default=None, min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_in_flight: int = Field(default=4, ge=1, le=256)

    @field_validator("base_url")
    @classmethod
    def _can_be_an_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        service = SERVICES.get(info.data.get("service", ""))
        key_place = "the environment" if service is None else service.key_variable
        problem = None if value is None else url_problem(value, key_place=key_place)
        if problem is not None:
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _can_be_elsewhere(self) -> "ServiceAccess":
        given = next((name for name in ("base_url", "api_key_env") if getattr(self, name)), None)
        if given is not None and not self.row.is_remote:
            others = [each.name for each in SERVICES.values() if each.is_remote]
            raise ValueError(
                f"{given} is given and service is {self.service!r}, which is started on this "
                f"machine; expected service: {' or '.join(others)} with it; change the one or "
                "remove the other"
            )
        return self

    @property
    def row(self) -> JudgeService:
        """What is known of the service."""
        return SERVICES[self.service]

    @property
    def key_variable(self) -> str:
        """The environment variable that holds the key; empty if none is sent."""
        if self.api_key_env is not None:
            return self.api_key_env
        is_foreign = self.base_url is not None and self.row.keeps_key_to_itself
        return "" if is_foreign else self.row.key_variable

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing unless a price is written down, as far as its address tells."""
        is_own = self.row.channel == "direct" and is_private(self.base_url or "")
        return self.row.is_free or is_own

    @property
    def door(self) -> "ServiceAccess":
        """Where it is reached and with which key, whatever is asked there."""
        return ServiceAccess(
            service=self.service, base_url=self.base_url, api_key_env=self.api_key_env
        )

    def url(self, environment: Mapping[str, str]) -> str:
        """Return where the service is asked; empty for its own address."""
        return environment.get(self.row.url_variable) or self.base_url or ""

    def key_problem(self, environment: Mapping[str, str]) -> str | None:
        """Say that the key is missing without which the judge cannot be asked, or None."""
        return self.row.key_problem(
            environment,
            variable=self.key_variable,
            what=f"judge.service is {self.service!r}",
            instead=f"use judge.service: {LOOPBACK.name}",
        )

    def model_problem(self, judge_model: str) -> str | None:
        """Say why a model does not go with the service, or None."""
        expected = expected_model(self.service, judge_model)
        if expected is None:
            return None
        return (
            f"the judge model is {judge_model!r} and judge.service is {self.service!r}; "
            f"expected {expected}, so that no judge's replies pass for another's"
        )

    def named(self, model: str) -> "Judge":
        """Return one of the service's models as a judge."""
        shared = {name: getattr(self, name) for name in ServiceAccess.model_fields}
        return Judge(**shared, model=model)


class Judge(ServiceAccess):
    """One judge: a model of a service.

    Attributes:
        model: The model that judges.
    """

    model: str = Field(min_length=1)

    @property
    def identity(self) -> Mapping[str, str]:
        """What names a request besides what is sent: empty for a judge that needs no more."""
        service = {"service": self.service} if self.row.is_in_keys else {}
        return service if self.revision is None else {**service, "revision": self.revision}


class PanelMember(Judge):
    """One judge of several.

    Attributes:
        share: The share of the pairs that it judges, drawn by their names; every judge of a panel
            but one may have less than all.
    """

    share: float = Field(default=1.0, gt=0, le=1)


def panel_problem(panel: Sequence[PanelMember]) -> str | None:
    """Say what is wrong with several judges together, or None."""
    models = [each.model for each in panel]
    twice = next((name for name in models if models.count(name) > 1), None)
    if len(panel) == 1:
        return (
            f"panel has one judge, {models[0]!r}; expected two or more; name more or leave it out"
        )
    if twice is not None:
        return (
            f"panel has the model {twice!r} twice; expected different models, because every table "
            "knows a judge by its model"
        )
    if panel and all(each.share < 1 for each in panel):
        return (
            f"the shares of panel are {[each.share for each in panel]!r}; expected one judge at "
            "least that judges all pairs"
        )
    return next(filter(None, (each.model_problem(each.model) for each in panel)), None)


class ConfiguredPrice(Frozen):
    """Prices of a model that the price list does not name, in US dollars per million tokens.

    Attributes:
        input: Input tokens.
        output: Output tokens, thinking included.
        cache_write_1h: Input tokens written to the one-hour cache; twice `input` by default.
        cache_read: Input tokens read from the cache; as much as `input` by default.
        min_cacheable_tokens: A prefix shorter than this is not cached.
    """

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_write_1h: float | None = Field(default=None, ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    min_cacheable_tokens: int = Field(default=1024, ge=0)

    @property
    def write_price(self) -> float:
        """What writing to the cache costs."""
        return 2 * self.input if self.cache_write_1h is None else self.cache_write_1h

    @property
    def read_price(self) -> float:
        """What reading from the cache costs."""
        return self.input if self.cache_read is None else self.cache_read


"""In how many orders a pair is shown."""
Aggregate = Literal["judge_aware", "equal"]
"""What several judges' words weigh."""
_REACHED_BY = ("service", "base_url", "api_key_env")


class AdaptiveConfig(Frozen):
    """How pairs stop being judged once it is known who of the two is ahead.

    Attributes:
        goal: The question that a stop answers. `bank`: who would win if every prompt of the bank
            were judged. `population`: who is better on prompts such as these.
        confidence: Probability with which all stops of a dimension are right together.
        rounds: How often it is looked whether a pair may stop; everything is asked in one.
        tail: The share of a stopped pair's other prompts that is judged nevertheless, drawn by a
            hash, so that ratings are not those of lucky beginnings.
        min_prompts: No pair stops on fewer prompts.
    """

    goal: Literal["bank", "population"] = "bank"
    confidence: float = Field(default=0.95, gt=0, lt=1)
    rounds: int = Field(default=5, ge=1, le=100)
    tail: float = Field(default=0.2, gt=0, le=1)
    min_prompts: int = Field(default=20, ge=2)


class JudgeConfig(ServiceAccess):
    """How the judge is asked.

    Attributes:
        domain: What the built-in instructions to the judge call the prompts, such as `medical` or
            `legal`; prompts of any kind unless given. Part of every request.
        instructions: A file, relative to the project folder, with your own text on how to judge in
            place of the built-in one. What is shown and how to reply is added to it.
        experts: Who knows best in this domain, such as `physicians`; named in a text that is
            planted to test the judge.
        max_tokens: The most tokens of one reply, thinking included.
        reply_format: `line`, a verdict on the reply's last line, or `json_schema`, a JSON object
            that the service holds the model to.
        identical_responses_tie: Settle a pair of identical responses as a tie without asking.
        panel: Two judges or more instead of one, each of which judges every pair or a share of
            them. A judge is a model and how it is reached, as under `judge`; without `service` it
            is reached as `judge` says. The modes' `judge_model` must be one of them.
        adaptive: Judge in rounds, and stop a pair once it is known who of the two is ahead;
            everything is judged unless given. A pilot is always judged whole.
        aggregate: What the words of a panel weigh, whose verdict on a pair is the mean of its
            judges' shares of the win: `judge_aware` weighs judges by how much their verdicts are
            about the entrants (with three judges or more, unless said otherwise), `equal` weighs
            them alike.
        budget_usd: The most dollars that may be spent; None sets no limit.
        budget_period: What counts towards the budget: one `run`, or everything that the ledger
            holds of this calendar `month` (UTC).
        allow_unbudgeted: Let modes other than the pilot be judged by a service that costs money
            without `budget_usd`; otherwise that is refused before anything is asked.
        prices: Prices by model id, for models that the price list does not name or that cost
            something else here; entrants' models as well.
        poll_initial_seconds: Wait before the first look at a batch; it doubles from look to look.
        poll_max_seconds: The longest wait between two looks.
        slot_seconds: How long a step waits for its batches before it gives up its place; they are
            kept, and the tournament's sensor collects them. `tournament run` waits to the deadline.
        deadline_seconds: How long `tournament run` waits for batches; they are kept.
        prewarm_wait_seconds: How long to wait for the request that warms the cache before the
            others go out.
        adopt_grace_seconds: How long a batch whose creation was not confirmed is looked for before
            its requests are sent again; the service's own by default, such as 600.
        max_rounds: How often a run sends requests that failed transiently as a batch.
        max_direct: How many of those that failed every time are then asked one by one.
        control_pairs: Planted controls of each kind when the judge is tested.
        anchor_pairs: Pairs that are judged again on every occasion to see whether the judge repeats
            itself, and later whether it drifts.
        test_seed: Draws all three.
    """

    domain: str = Field(default="", max_length=60, pattern=r"^(?:\w(?:[\w ,/&-]*\w)?)?$")
    instructions: str | None = Field(default=None, min_length=1)
    # A count of repetitions inside the pattern would take longer to compile than all else here.
    experts: str = Field(default="experts", max_length=60, pattern=r"^\w(?:[\w ,/&-]*\w)?$")
    max_tokens: int = Field(default=8192, ge=64)
    reply_format: Literal["line", "json_schema"] = "line"
    identical_responses_tie: bool = True
    panel: tuple[PanelMember, ...] = ()
    aggregate: Aggregate | None = None
    adaptive: AdaptiveConfig | None = None
    budget_usd: float | None = Field(default=None, ge=0)
    budget_period: Literal["run", "month"] = "month"
    allow_unbudgeted: bool = False
    prices: dict[Annotated[str, Field(min_length=1)], ConfiguredPrice] = Field(default_factory=dict)
    poll_initial_seconds: float = Field(default=30.0, gt=0)
    poll_max_seconds: float = Field(default=300.0, gt=0)
    slot_seconds: float = Field(default=3600.0, ge=0)
    deadline_seconds: float = Field(default=90_000.0, gt=0)
    prewarm_wait_seconds: float = Field(default=900.0, ge=0)
    adopt_grace_seconds: float | None = Field(default=None, ge=0)
    max_rounds: int = Field(default=3, ge=1)
    max_direct: int = Field(default=200, ge=0)
    control_pairs: int = Field(default=20, ge=0)
    anchor_pairs: int = Field(default=40, ge=0)
    test_seed: int = Field(default=0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _members_are_reached_alike(cls, value: Any) -> Any:
        panel = value.get("panel") if isinstance(value, Mapping) else None
        if not isinstance(panel, list):
            return value
        shared = {name: value[name] for name in _REACHED_BY if name in value}
        members = (
            {**shared, **each} if isinstance(each, Mapping) and "service" not in each else each
            for each in panel
        )
        return {**value, "panel": tuple(members)}

    @model_validator(mode="after")
    def _has_a_panel(self) -> "JudgeConfig":
        problem = panel_problem(self.panel)
        if problem is None and self.aggregate is not None and not self.panel:
            problem = f"aggregate is {self.aggregate!r} and panel is missing; expected both"
        if problem is not None:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _has_one_text(self) -> "JudgeConfig":
        if self.domain and self.instructions is not None:
            raise ValueError(
                f"domain is {self.domain!r} and instructions is {self.instructions!r}; expected "
                "one of them, because domain is a word of the text that instructions replaces; "
                "remove domain and say it in the file"
            )
        return self

    @property
    def accesses(self) -> tuple[ServiceAccess, ...]:
        """How the judges are reached: each of a panel, or the one."""
        return self.panel or (self,)

    @property
    def aggregation(self) -> Aggregate:
        """What the judges' words weigh."""
        if self.aggregate is not None:
            return self.aggregate
        return "judge_aware" if len(self.panel) > 2 else "equal"

    @property
    def grace_seconds(self) -> float:
        """How long a batch whose creation was not confirmed is looked for."""
        if self.adopt_grace_seconds is not None:
            return self.adopt_grace_seconds
        return self.row.grace_seconds


_VERSION_LINE = re.compile(r"^#\s*version:\s*(?P<version>\S.*?)\s*$")


@dataclass(frozen=True, slots=True)
class Rubric:
    """A loaded rubric.

    Attributes:
        dimension: The quality it is about.
        version: What its `# version:` line says.
        text: The whole file as the judge sees it: Unix line ends, no outer white space.
        instructions: The project's own text on how to judge, whatever the dimension; None where
            the program's is sent.
    """

    dimension: str
    version: str
    text: str
    instructions: str | None = None

    @property
    def told(self) -> str:
        """All that the project's files tell the judge."""
        return self.text if self.instructions is None else f"{self.instructions}\n\n{self.text}"

    @property
    def content_hash(self) -> str:
        """SHA-256 of what the judge is told; files that differ only in line ends share it."""
        return fingerprint_text(self.told)


def parse_rubric(text: str, *, dimension: str, where: str) -> Rubric:
    """Read a rubric from the text of its file.

    Args:
        text: The file's whole text.
        dimension: The quality the rubric is about.
        where: The file's name, for messages.

    Raises:
        InputError: If the file says nothing or its first line is no `# version:` line.
    """
    normalised = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    first_line, _, body = normalised.partition("\n")
    match = _VERSION_LINE.match(first_line)
    if match is None:
        raise InputError(
            f"{where}:1: the rubric begins with {first_line[:60]!r}; "
            "expected a line such as '# version: 1'; add one and raise it with every edit"
        )
    if not body.strip():
        raise InputError(
            f"{where}:1: the rubric holds nothing after its version line; "
            f"expected the text that tells the judge how to judge {dimension}"
        )
    return Rubric(dimension=dimension, version=match["version"], text=normalised)
