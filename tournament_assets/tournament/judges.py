"""Who judges: a service, how it is reached, and a model of it, as a config names them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

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
        is_own = not self.row.has_batches and is_private(self.base_url or "")
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
            f"expected {expected}, so that nobody takes one judge's replies for another's"
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
