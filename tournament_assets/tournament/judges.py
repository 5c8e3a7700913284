"""Who judges: services and models, the rubric, how they are asked, and for how much."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint_text
from tournament_assets.foundation.json_lines import JsonObject
from tournament_assets.tournament.entrant_settings import ExtraFields, refuse_own_fields
from tournament_assets.tournament.judge_services import (
    LOOPBACK,
    SERVICES,
    JudgeService,
    ServiceName,
    expected_model,
)
from tournament_assets.tournament.places import Frozen, RequestAdditions, is_private, url_problem

_OWN_FIELDS = (
    "system",
    "output_config",
    "thinking",
    "stop_sequences",
    "response_format",
    "reasoning_effort",
)
"""Fields of a request to a judge that the program sets, besides those of any request."""


NOT_OF_ALL = ("effort", "thinking", "extra_body", "headers", "query", "base_url", "api_key_env")
"""Settings of a judge that not every service takes."""
ChannelChoice = Literal["batch", "direct", "auto"]
"""How judges are asked whose service takes batches and single requests."""


class Waiting(Frozen):
    """How long to wait for a judge's service, and how often to retry.

    Attributes:
        poll_initial_seconds: Wait before the first poll of a batch; it doubles from poll to poll.
        poll_max_seconds: The longest wait between two polls.
        slot_seconds: How long a step waits for its batches before it frees its slot; they are kept,
            and the tournament's sensor collects them. `tournament run` waits to the deadline.
        deadline_seconds: How long `tournament run` waits for batches; they are kept.
        adopt_grace_seconds: How long to look for a batch after an unconfirmed creation before its
            requests are sent again; the service's own by default, such as 600.
        max_rounds: How often a run sends requests that failed transiently as a batch.
        direct_fallback: Whether those that failed every time are then sent one by one, at the full
            price; by default they wait for the next run.
    """

    poll_initial_seconds: float = Field(default=30.0, gt=0)
    poll_max_seconds: float = Field(default=300.0, gt=0)
    slot_seconds: float = Field(default=3600.0, ge=0)
    deadline_seconds: float = Field(default=90_000.0, gt=0)
    adopt_grace_seconds: float | None = Field(default=None, ge=0)
    max_rounds: int = Field(default=3, ge=1)
    direct_fallback: bool = False


class ThinkingBudget(Frozen):
    """Thinking up to a number of tokens, of Claude models that still take one.

    Attributes:
        budget: The most tokens of a thought.
    """

    budget: int = Field(ge=1024)


Thinking = Literal["adaptive", "between_tools", "disabled"] | ThinkingBudget
"""Whether a Claude model thinks before it replies, in the words of the Messages API."""


class Judge(RequestAdditions):
    """One judge: a model of a service, how it is reached, and how long it is waited for.

    Attributes:
        name: What modes call it; the model unless given.
        service: `loopback`, the lexical judge, or another one, such as `anthropic`.
        model: The model that judges.
        revision: Part of the request's key, for a model that changes under the same name: another
            revision is asked again.
        temperature: Sent with every request if given; several models refuse it.
        max_tokens: The most tokens of one reply, thinking included.
        effort: How hard the model is to think, in the service's word, such as `low`; the model's
            own by default.
        thinking: Whether a Claude model thinks: `adaptive`, as much as it finds necessary,
            `disabled`, `between_tools`, which here is off as well, or `{budget: N}`, at most N
            tokens, which current models refuse; the model's own by default. Models differ in which
            of these they take.
        extra_body: Further fields of every request.
        share: The share of the pairs that it judges, drawn by their names; at least one of several
            judges must judge all.
        base_url: Where the service is asked, such as a gateway; its own address by default. The
            environment comes first (ANTHROPIC_BASE_URL for `anthropic`).
        api_key_env: The environment variable that holds the key; the service's own by default, such
            as `ANTHROPIC_API_KEY`. A service of the OpenAI protocol at a `base_url` gets no key
            without it.
        max_in_flight: How many direct requests, outside batches, are in flight at a time.
        waiting: How long the service is waited for.
    """

    name: str = Field(default="", min_length=1)
    service: Annotated[str, AfterValidator(ServiceName.check), ServiceName()]
    model: str = Field(min_length=1)
    revision: str | None = Field(default=None, min_length=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    max_tokens: int = Field(default=8192, ge=64)
    effort: str | None = Field(default=None, pattern=r"^[a-z]+$")
    thinking: Thinking | None = None
    extra_body: ExtraFields | None = None
    share: float = Field(default=1.0, gt=0, le=1)
    base_url: str | None = None
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    max_in_flight: int = Field(default=4, ge=1, le=256)
    waiting: Waiting = Waiting()
    _turn: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _is_called_by_its_model(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "name" not in value and "model" in value:
            return {"name": value["model"], **value}
        return value

    @field_validator("base_url")
    @classmethod
    def _can_be_an_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        service = SERVICES.get(info.data.get("service", ""))
        key_place = "the environment" if service is None else service.key_variable
        problem = None if value is None else url_problem(value, key_place=key_place)
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("extra_body")
    @classmethod
    def _has_no_setting_of_ours(cls, fields: dict[str, Any] | None) -> dict[str, Any] | None:
        return refuse_own_fields(fields, *_OWN_FIELDS)

    @model_validator(mode="after")
    def _can_think(self) -> "Judge":
        budget = self.thinking.budget if isinstance(self.thinking, ThinkingBudget) else 0
        if budget >= self.max_tokens:
            raise ValueError(
                f"thinking.budget is {budget} and max_tokens is {self.max_tokens}; "
                "expected fewer tokens of thought than of the whole reply"
            )
        if (budget or self.thinking == "adaptive") and self.temperature is not None:
            raise ValueError(
                "thinking and temperature are given; expected one of them, because a model "
                "that thinks takes no temperature"
            )
        return self

    @model_validator(mode="after")
    def _is_sent_what_its_service_takes(self) -> "Judge":
        for name in NOT_OF_ALL:
            if getattr(self, name) is not None and name not in self.row.settings:
                others = [each.name for each in SERVICES.values() if name in each.settings]
                raise ValueError(
                    f"{name} is given and service is {self.service!r}, which does not take it; "
                    f"expected service: {' or '.join(others)} with it; change the one or remove "
                    "the other"
                )
        return self

    @model_validator(mode="after")
    def _can_be_asked(self) -> "Judge":
        problem = self.model_problem
        if problem is not None:
            raise ValueError(problem)
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
    def door(self) -> tuple[str | None, ...]:
        """Where it is asked and with which key; judges behind one door share a connection."""
        additions = repr((self.headers, self.query))
        return self.service, self.base_url, self.api_key_env, additions

    @property
    def grace_seconds(self) -> float:
        """How long a batch whose creation was not confirmed is looked for."""
        own = self.waiting.adopt_grace_seconds
        return self.row.grace_seconds if own is None else own

    @property
    def identity(self) -> Mapping[str, str]:
        """What names a request besides what is sent: empty for a judge that needs no more."""
        service = {"service": self.service} if self.row.is_in_keys else {}
        return service if self.revision is None else {**service, "revision": self.revision}

    @property
    def further_params(self) -> JsonObject:
        """What its requests hold besides those of any judge, in the words of the Messages API."""
        effort, thinking, fields = self.effort, self.thinking, self.extra_body
        kind: JsonObject = (
            {"type": "enabled", "budget_tokens": thinking.budget}
            if isinstance(thinking, ThinkingBudget)
            else {"type": thinking}
        )
        return {
            **({} if effort is None else {"output_config": {"effort": effort}}),
            **({} if thinking is None else {"thinking": kind}),
            **({} if fields is None else {"extra_body": fields}),
        }

    def url(self, environment: Mapping[str, str]) -> str:
        """Return where the service is asked; empty for its own address."""
        return environment.get(self.row.url_variable) or self.base_url or ""

    def key_problem(self, environment: Mapping[str, str]) -> str | None:
        """Explain that the key is missing without which the judge cannot be asked, or None."""
        return self.row.key_problem(
            environment,
            variable=self.key_variable,
            what=f"the judge {self.name!r} has service {self.service!r}",
            instead=f"use service: {LOOPBACK.name}",
        )

    @property
    def model_problem(self) -> str | None:
        """Why the model does not fit the service, or None."""
        expected = expected_model(self.service, self.model)
        if expected is None:
            return None
        return (
            f"the judge model is {self.model!r} and the service is {self.service!r}; "
            f"expected {expected}, so that no judge's replies pass for another's"
        )

    @property
    def turn(self) -> tuple[str, ...]:
        """The models of which a pair is given one, in turn; empty if it judges its whole share."""
        return self._turn

    @property
    def takes_all(self) -> bool:
        """Whether it judges all pairs."""
        return self.share >= 1 and not self.turn

    def in_turn(self, models: Sequence[str]) -> "Judge":
        """Return the judge as one of several of whom each pair is given one."""
        judge = self.model_copy()
        judge._turn = tuple(models)
        return judge

    def asking(self, model: str) -> "Judge":
        """Return another model of the same service as a judge."""
        return self.model_copy(update={"name": model, "model": model})


def label_judges(judges: Iterable[Judge]) -> str:
    """Return what every artifact says about who judged."""
    return " and ".join(dict.fromkeys(each.row.label for each in judges))


def jury_problem(judges: Sequence[Judge]) -> str | None:
    """Explain why judges cannot judge together, or None."""
    models = [each.model for each in judges]
    twice = next((name for name in models if models.count(name) > 1), None)
    if twice is not None:
        return (
            f"the model {twice!r} judges twice; expected different models, because every table "
            "knows a judge by its model"
        )
    if any(each.turn and each.share < 1 for each in judges):
        return (
            "a judge has a share and judging.assignment is 'in_turn', which gives all judges "
            "equally many pairs; expected one of them"
        )
    if all(each.share < 1 for each in judges):
        return (
            f"the shares of the judges are {[each.share for each in judges]!r}; expected one at "
            "least that judges all pairs"
        )
    return None


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


Aggregate = Literal["judge_aware", "equal"]
"""How the verdicts of several judges are weighted."""
Aggregation = Aggregate | Literal["in_turn"]
"""How several judges settle a pair: together, or one of them alone."""


class BudgetConfig(Frozen):
    """What some work may cost.

    Attributes:
        usd: The most dollars that may be spent, or `unlimited`.
        period: What counts towards it: one `run`, or all spending in the ledger in this calendar
            `month` (UTC).
    """

    usd: Annotated[float, Field(ge=0)] | Literal["unlimited"] | None = None
    period: Literal["run", "month"] = "month"

    @property
    def limit_usd(self) -> float | None:
        """The most dollars; None without a limit."""
        return None if self.usd == "unlimited" else self.usd


class JudgeTestsConfig(Frozen):
    """What the judge is tested with.

    Attributes:
        control_pairs: Planted controls of each kind.
        anchor_pairs: Pairs that are judged again each time, to see whether the judge is consistent
            and, later, whether it drifts; at most a quarter of a dimension's pairs.
        seed: Draws both.
    """

    control_pairs: int = Field(default=20, ge=0)
    anchor_pairs: int = Field(default=40, ge=0)
    seed: int = Field(default=0, ge=0)

    def n_anchors(self, n_pairs: int) -> int:
        """Return how many of a dimension's pairs are judged again, at most."""
        return min(self.anchor_pairs, -(-n_pairs // 4))


class JudgingConfig(Frozen):
    """What all judges are told, and what becomes of their replies.

    Attributes:
        domain: What the built-in instructions to the judge call the prompts, such as `medical` or
            `legal`; prompts of any kind unless given. Part of every request.
        instructions: A file, relative to the project folder, with your own text on how to judge in
            place of the built-in one. What is shown and how to reply is added to it.
        experts: The experts of this domain, such as `physicians`; named in a text that is planted
            to test the judge.
        reply_format: `line`, a verdict on the reply's last line, or `json_schema`, a JSON object
            that the service holds the model to.
        identical_responses_tie: Settle a pair of identical responses as a tie without asking.
        aggregate: What the words of a mode's judges weigh, whose verdict on a pair is the mean of
            their shares of the win: `judge_aware` weighs judges by how much their verdicts are
            about the entrants (with three judges or more, unless said otherwise), `equal` weighs
            them alike.
        assignment: Which of a mode's judges are given a pair: `all`, or one of them, `in_turn`,
            drawn by the pair's names, whose verdict on both orders settles it. In turn, several
            judges cost what one does. Part of no request.
        channel: How judges are asked whose service takes both: in a `batch`, which costs half and
            takes minutes to a day; `direct`, request by request, answered at once; or `auto`:
            directly where at most 500 requests are left and the budget holds their price. A mode
            may say otherwise. Part of no request.
        budget: What judging may cost. A mode other than the pilot whose judge costs money is
            refused without it, before anything is asked.
        prices: Prices by model id, for models that the price list does not name or that cost
            something else here; entrants' models as well.
        tests: What the judge is tested with.
    """

    domain: str = Field(default="", max_length=60, pattern=r"^(?:\w(?:[\w ,/&-]*\w)?)?$")
    instructions: str | None = Field(default=None, min_length=1)
    # A count of repetitions inside the pattern would take longer to compile than all else here.
    experts: str = Field(default="experts", max_length=60, pattern=r"^\w(?:[\w ,/&-]*\w)?$")
    reply_format: Literal["line", "json_schema"] = "line"
    identical_responses_tie: bool = True
    aggregate: Aggregate | None = None
    assignment: Literal["all", "in_turn"] = "all"
    channel: ChannelChoice = "batch"
    budget: BudgetConfig = BudgetConfig()
    prices: dict[Annotated[str, Field(min_length=1)], ConfiguredPrice] = Field(default_factory=dict)
    tests: JudgeTestsConfig = JudgeTestsConfig()

    @model_validator(mode="after")
    def _has_one_text(self) -> "JudgingConfig":
        if self.domain and self.instructions is not None:
            raise ValueError(
                f"domain is {self.domain!r} and instructions is {self.instructions!r}; expected "
                "one of them, because domain is a word of the text that instructions replaces; "
                "remove domain and say it in the file"
            )
        return self


_VERSION_LINE = re.compile(r"^#\s*version:\s*(?P<version>\S.*?)\s*$")
_DIMENSION_LINE = re.compile(r"^#\s*dimension:\s*(?P<dimension>.*?)\s*$", re.MULTILINE)


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
        """Everything that the project's files tell the judge."""
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
    for named in _DIMENSION_LINE.finditer(normalised):
        if named["dimension"] != dimension:
            line = normalised.count("\n", 0, named.start()) + 1
            raise InputError(
                f"{where}:{line}: the rubric is about {named['dimension']!r} and judges "
                f"{dimension!r}; expected a rubric of its own for each dimension; name another "
                "file in the config, or correct the line"
            )
    return Rubric(dimension=dimension, version=match["version"], text=normalised)
