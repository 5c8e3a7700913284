"""Opens the services that judge and that models play through, by their names in a config.

A service's SDK is imported when it is opened, so that definitions load without it.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import hint_at
from tournament_assets.judging.batch_service import AsksDirectly, ListsModels
from tournament_assets.tournament.judge_services import SERVICES, ServiceConnection
from tournament_assets.tournament.judges import Judge


def open_service(name: str, connection: ServiceConnection) -> AbstractContextManager[AsksDirectly]:
    """Connect to a service by its name in a config."""
    opener: Callable[..., AbstractContextManager[AsksDirectly]]
    opener = resolve_name(SERVICES[name].opener)
    return opener(connection)


def judge_problems(config: Judge, environment: Mapping[str, str]) -> list[str]:
    """Describe what prevents the judge from being asked, before anything is spent."""
    problem = config.key_problem(environment)
    headers = [f"the judge {config.name!r}: {each}" for each in config.header_problems(environment)]
    return [*([] if problem is None else [problem]), *headers]


def unknown_model_problem(
    service: AsksDirectly, model: str, *, what: str, priced: Collection[str], is_free: bool
) -> str | None:
    """Explain that the service does not know a model, or return None.

    A free server may answer to any name: only a near miss of a listed name is a mistake.

    Args:
        what: Who has the model.
        priced: The models with a price.
        is_free: Whether the service costs nothing.

    Raises:
        JudgeError: If the key or the model is refused, or the service cannot be asked.
    """
    warning = service.check_model(model)
    if warning is None or model in priced:
        return None
    listed = service.list_models() if isinstance(service, ListsModels) else []
    models = listed if is_free else [*listed, *priced]
    hint = hint_at(model, models, cutoff=0.8 if is_free else 0.6)
    if is_free and not hint:
        return None
    return (
        f"{what} has the model {model!r}, and {warning.removeprefix('warning: ')}; no price list "
        f"has it either{hint}; expected a model that is served; correct the name, or write its "
        f"price, if only of 0: judging: {{prices: {{{model}: {{input: 2.0, output: 8.0}}}}}}"
    )


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
            headers=config.plain_headers,
            secret_headers=config.secret_headers(self.variables),
            query=config.query or {},
        )
        return open_service(config.row.name, connection)
