"""The judging service with Dagster configuration around it.

The GPU behind generation, with Dagster configuration around it.

The ledger with Dagster configuration around it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from tournament_assets.judging.batch_service import BatchService
from tournament_assets.tournament.judges import ServiceAccess
from tournament_assets.workflows.judge_requests import JudgeConnection

if TYPE_CHECKING:
    from tournament_assets.ledger import Ledger


class JudgeResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Gives access to the judging service a tournament names.

    Attributes:
        loopback_folder: Where the loopback judge keeps the batches it was given.
        variables: What the environment says of services: their keys, and addresses that come before
            those of a config.
    """

    loopback_folder: str
    variables: dict[str, str]

    def service(self, config: ServiceAccess) -> "AbstractContextManager[BatchService]":
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        return JudgeConnection(Path(self.loopback_folder), self.variables).service(config)


class GeneratorResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Generates responses on the GPU if there is one, else on the CPU.

    Attributes:
        device: `auto`, or a torch device such as `cuda:1` or `cpu`.
    """

    device: str = "auto"


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """The database of paid work.

    Attributes:
        url: SQLAlchemy URL of a SQLite or PostgreSQL database.
    """

    url: str

    @contextmanager
    def open(self) -> "Iterator[Ledger]":
        """Open the ledger and close it again."""
        from tournament_assets.ledger import Ledger  # SQLAlchemy: 0.2 s of every load

        ledger = Ledger(self.url)
        try:
            yield ledger
        finally:
            ledger.close()
