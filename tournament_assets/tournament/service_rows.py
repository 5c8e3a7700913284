"""What a service that judges and plays is, as a row; the table of them is `judge_services`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class ServiceConnection:
    """What a service is opened with.

    Attributes:
        api_key: The key to it; empty if it needs none.
        base_url: An address to use instead of its own; empty for its own.
        key_variable: The environment variable that held the key, for messages.
        folder: Where a service that runs on this machine keeps its data.
        cap: Its name for the limit on the tokens of a reply; empty if it is to be detected.
        timeout_seconds: The longest wait for the reply to one request.
        unasked: Fields of requests that the config did not ask for: they are left out where the
            service refuses them.
        headers: Headers of every request that are no secret.
        secret_headers: Those that are; they are removed from whatever the service says.
        query: The query of every address.
    """

    api_key: str = field(repr=False)
    base_url: str
    folder: Path = Path()
    key_variable: str = ""
    cap: str = ""
    timeout_seconds: float = 600.0
    unasked: frozenset[str] = frozenset()
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeService:
    """A service that answers requests in batches, and what is known of it without asking it.

    Attributes:
        name: What a config calls it.
        label: What every artifact says about who judged.
        opener: The module and function that open it, given a `ServiceConnection`; imported then,
            so that definitions load without its SDK.
        source: Where a model's own responses come from, after the model's name.
        key_variable: The environment variable with the key; empty if it needs none.
        keeps_key_to_itself: Whether that key is for its own address alone: at a `base_url` the
            config names another variable, or no key is sent.
        url_variable: The one with another address; empty if none is read.
        may_be_elsewhere: Whether a config may give it another address although none is read from
            the environment.
        model_prefix: How the names of its models begin, which then belong to no other service;
            empty if it serves models of any name.
        usual_models: How names of models begin for which this service is meant where none is named.
        is_free: Whether it costs nothing; its models need a prefix then, by which bills know them.
        needs_price: Whether a model without a price is refused before anything is spent, because
            the service serves models that no list of prices names.
        is_language_model: Whether its verdicts say anything about quality.
        channel: How it is asked: in batches, or request by request where it takes none.
        max_batch_requests: The most requests of a batch; None for as many as usual.
        max_batch_bytes: The most bytes of a batch; None for as many as usual.
        is_in_keys: Whether its name is part of request keys, because another service would reply
            differently to the same request.
        takes: Settings of a judge that it takes and that other services do not.
        may_route: Whether a reply may name its model with a vendor, a tag or a file's path.
        reads_marks: Whether its servers may take the marks of chat templates in a text for tokens.
        grace_seconds: How long a batch may be missing from its list after an unconfirmed creation.
        poll_seconds: The first and the longest wait between two polls of a batch, for entrants of
            this service while another service judges.
    """

    name: str
    label: str
    opener: str
    source: str
    key_variable: str = ""
    keeps_key_to_itself: bool = False
    url_variable: str = ""
    may_be_elsewhere: bool = False
    model_prefix: str = ""
    usual_models: tuple[str, ...] = ()
    is_free: bool = False
    needs_price: bool = False
    is_language_model: bool = True
    channel: Literal["batch", "direct"] = "batch"
    max_batch_requests: int | None = None
    max_batch_bytes: int | None = None
    is_in_keys: bool = True
    takes: tuple[str, ...] = ()
    may_route: bool = False
    reads_marks: bool = False
    grace_seconds: float = 600.0
    poll_seconds: tuple[float, float] = (30.0, 300.0)

    def __post_init__(self) -> None:
        if self.is_free and not self.model_prefix:
            raise ValueError(
                f"the service {self.name!r} is free and its models have no prefix; expected one, "
                "so that their bills are told from others"
            )

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings of a judge that it takes: the last two if it may be at another address."""
        is_remote = bool(self.url_variable) or self.may_be_elsewhere
        return (*self.takes, *(("base_url", "api_key_env") if is_remote else ()))

    def key_problem(
        self,
        environment: Mapping[str, str],
        *,
        what: str,
        instead: str,
        variable: str | None = None,
    ) -> str | None:
        """Explain that the key is missing, or return None.

        Args:
            variable: The one that holds the key; the service's own by default.
            what: What needs it, as the beginning of a sentence.
            instead: What works without it.
        """
        name = self.key_variable if variable is None else variable
        if not name or environment.get(name):
            return None
        return (
            f"{what} and the environment variable {name} is not set; expected an API "
            f"key in it; export one, or {instead} to try the pipeline without a key"
        )
