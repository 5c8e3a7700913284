"""The judging service with Dagster configuration around it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from tournament_assets.tournament.config import JudgeConfig
from tournament_assets.tournament.errors import InputError

if TYPE_CHECKING:
    from tournament_assets.adapters.anthropic import AnthropicBatches

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

                server = stack.enter_context(LoopbackServer(Path(self.loopback_folder)))
                base_url, api_key = server.url, _LOOPBACK_KEY
            batches = AnthropicBatches(base_url=base_url, api_key=api_key)
            stack.callback(batches.close)
            yield batches
