"""The judging service with Dagster configuration around it."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from tournament_assets.assets.judge_access import JudgeConnection
from tournament_assets.tournament.config import JudgeConfig

if TYPE_CHECKING:
    from tournament_assets.adapters.anthropic import AnthropicBatches


class JudgeResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its parameter is Any
    """Gives access to the judging service a tournament names.

    Attributes:
        api_key: The provider's key; empty where there is none.
        base_url: Another address of the provider's API, whatever a config says; empty for none.
        loopback_folder: Where the loopback judge keeps the batches it was given.
    """

    api_key: str = ""
    base_url: str = ""
    loopback_folder: str

    def service(self, config: JudgeConfig) -> "AbstractContextManager[AnthropicBatches]":
        """Connect to the service; the loopback judge is started, and stopped again.

        Raises:
            InputError: If a key is needed and there is none.
        """
        connection = JudgeConnection(
            loopback_folder=Path(self.loopback_folder),
            api_key=self.api_key,
            base_url=self.base_url,
        )
        return connection.service(config)
