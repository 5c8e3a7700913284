"""Opens the services that judge and that models play through, by their names in a config.

A service's SDK is imported when it is opened, so that definitions load without it.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.judges import Judge

Opener = Callable[[ServiceConnection], AbstractContextManager[AsksDirectly]]


def _loopback(connection: ServiceConnection) -> AbstractContextManager[AsksDirectly]:
    from tournament_assets.providers.anthropic.message_batches import open_loopback

    return open_loopback(connection)


def _anthropic(connection: ServiceConnection) -> AbstractContextManager[AsksDirectly]:
    from tournament_assets.providers.anthropic.message_batches import open_anthropic

    return open_anthropic(connection)


def _openai_batch(connection: ServiceConnection) -> AbstractContextManager[AsksDirectly]:
    from tournament_assets.providers.openai.services import open_batches

    return open_batches(connection)


def _openai_api(connection: ServiceConnection) -> AbstractContextManager[AsksDirectly]:
    from tournament_assets.providers.openai.services import open_chat

    return open_chat(connection)


OPENERS: dict[str, Opener] = {
    "loopback": _loopback,
    "anthropic": _anthropic,
    "openai_batch": _openai_batch,
    "openai_api": _openai_api,
}
"""The function that opens each service of `tournament.judge_services.SERVICES`."""


def judge_problems(config: Judge, environment: Mapping[str, str]) -> list[str]:
    """Describe what prevents the judge from being asked, before anything is spent."""
    problem = config.key_problem(environment)
    return [] if problem is None else [problem]


@dataclass(frozen=True, slots=True)
class JudgeConnection:
    """Leads to the judging service that a tournament names.

    Attributes:
        loopback_folder: Where the loopback judge keeps the batches it was given.
        variables: The environment variables for services: their keys, and addresses that override a
            config's.
    """

    loopback_folder: Path
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], folder: Path) -> "JudgeConnection":
        """Read what the environment says.

        Args:
            folder: The project's folder, in which the ledger is.
        """
        return cls(folder / "ledger" / "loopback_judge", environment)

    def service(self, config: Judge) -> AbstractContextManager[AsksDirectly]:
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        problems = judge_problems(config, self.variables)
        if problems:
            raise InputError(problems)
        connection = ServiceConnection(
            api_key=self.variables.get(config.key_variable, ""),
            base_url=config.url(self.variables),
            folder=self.loopback_folder,
            key_variable=config.key_variable,
        )
        return OPENERS[config.row.name](connection)
