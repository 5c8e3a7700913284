"""Opens the services that judge and that models play through, by their names in a config.

A service's SDK is imported when it is opened, so that definitions load without it.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from tournament_assets.judging.batch_service import AsksDirectly
from tournament_assets.tournament.judge_services import ServiceConnection

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
"""What opens each service of `tournament.judge_services.SERVICES`."""
