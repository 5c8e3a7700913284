"""The judging service with Dagster configuration around it.

The GPU behind generation, with Dagster configuration around it.

The ledger with Dagster configuration around it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

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
    """Generates responses on the GPU if there is one, else on the CPU; satisfies `GeneratorAccess`.

    What is left out follows the tournament's config and the device.

    Attributes:
        device: `auto`, or a torch device such as `cuda:1` or `cpu`.
        dtype: The weights' precision.
        batch_size: Prompts decoded together.
        memory_share: Of the free memory that a batch may fill.
        cuda_graphs: Whether `custom_poe` entrants decode by CUDA graphs.
    """

    device: str = Field(
        default="auto",
        description="auto takes a CUDA card that no other process has leased, else the CPU; or "
        "cpu, cuda, or one card such as cuda:1.",
    )
    dtype: str = Field(
        default="auto",
        description="auto is bfloat16 on CUDA (float16 where the card has none) and float32 on the "
        "CPU; or bfloat16, float16, float32. Part of no entrant, but in every response's "
        "diagnostics.",
    )
    batch_size: int | None = Field(
        default=None,
        description="Prompts decoded together; by default generation.batch_size of the config.",
    )
    memory_share: float = Field(
        default=0.7,
        description="Of the device's free memory that a batch may fill, where the config says "
        "batch_size: auto.",
    )
    cuda_graphs: bool | None = Field(
        default=None,
        description="Whether custom_poe entrants decode by CUDA graphs; by default "
        "generation.cuda_graphs of the config.",
    )


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
