"""Leading to the services of a tournament: the judge, and the ledger of what was paid for."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tournament_assets.tournament.config import JudgeConfig
from tournament_assets.tournament.errors import InputError

if TYPE_CHECKING:
    from tournament_assets.adapters.anthropic import AnthropicBatches
    from tournament_assets.adapters.ledger import Ledger

_LOOPBACK_KEY = "loopback"  # the loopback judge wants some key and accepts any


def judge_problems(config: JudgeConfig, *, has_api_key: bool) -> list[str]:
    """Say what keeps the judge from being asked, before anything is spent."""
    if config.service == "anthropic" and not has_api_key:
        return [
            "judge.service is 'anthropic' and the environment variable ANTHROPIC_API_KEY is not "
            "set; expected an API key in it; export one, or use judge.service: loopback to try "
            "the pipeline without a key"
        ]
    return []


class JudgeAccess(Protocol):
    """What leads to the judging service: a `JudgeConnection`, or Dagster's resource around one."""

    @property
    def api_key(self) -> str:
        """The provider's key; empty where there is none."""

    def service(self, config: JudgeConfig) -> "AbstractContextManager[AnthropicBatches]":
        """Connect to the service that a config names."""


class LedgerAccess(Protocol):
    """What leads to the ledger; Dagster's resource is one."""

    def open(self) -> "AbstractContextManager[Ledger]":
        """Open the ledger and close it again."""


@dataclass(frozen=True, slots=True)
class JudgeConnection:
    """Leads to the judging service that a tournament names.

    Attributes:
        loopback_folder: Where the loopback judge keeps the batches it was given.
        api_key: The provider's key; empty where there is none.
        base_url: Another address of the provider's API, whatever a config says; empty for none.
    """

    loopback_folder: Path
    api_key: str = field(default="", repr=False)
    base_url: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path) -> "JudgeConnection":
        """Read what the environment says.

        Args:
            environment: The environment variables.
            folder: The project's folder, in which the ledger is.
        """
        return cls(
            loopback_folder=folder / "ledger" / "loopback_judge",
            api_key=environment.get("ANTHROPIC_API_KEY", ""),
            base_url=environment.get("ANTHROPIC_BASE_URL", ""),
        )

    @contextmanager
    def service(self, config: JudgeConfig) -> "Iterator[AnthropicBatches]":
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        from tournament_assets.adapters.anthropic import AnthropicBatches

        problems = judge_problems(config, has_api_key=bool(self.api_key))
        if problems:
            raise InputError(problems)
        with ExitStack() as stack:
            base_url, api_key = self.base_url or config.base_url, self.api_key
            if config.service == "loopback":
                from tournament_assets.loopback.running import LoopbackServer

                server = stack.enter_context(LoopbackServer(self.loopback_folder))
                base_url, api_key = server.url, _LOOPBACK_KEY
            batches = AnthropicBatches(base_url=base_url, api_key=api_key)
            stack.callback(batches.close)
            yield batches
