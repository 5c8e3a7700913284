"""Builds a Claude entrant behind a server with faults."""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.loopback.faults.servers import FaultyServer
from tournament_assets.graph.resources import JudgeResource
from tournament_assets.judging.costs.prices import BudgetTerms, load_newest_prices
from tournament_assets.ledger import Ledger
from tournament_assets.responses.api_responses import complete_by_service
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.entrants import AnthropicApiEntrant
from tournament_assets.tournament.judges import Judge
from tournament_assets.tournament.prompts import Prompt

KEY = "sk-test-8b1f2c"
NAMES = [f"p{number}" for number in range(6)]
PROMPTS = [
    Prompt(prompt_id=name, text=f"Which colour has tray {name}?", source="test") for name in NAMES
]


def claude(**changes: Any) -> AnthropicApiEntrant:
    return AnthropicApiEntrant(
        **{
            "entrant_id": "claude",
            "loader": "anthropic_api",
            "model": "claude-opus-5-5",
            "max_new_tokens": 512,
            **changes,
        }
    )


def echo(prompt: Prompt) -> str:
    """What the server says to one of the prompts."""
    return (
        "This is the loopback service, which is no language model. "
        f"The prompt is about: colour, tray, {prompt.prompt_id}."
    )


def judge_at(url: str, folder: Path = Path(), *, key: str = KEY) -> JudgeResource:
    """Lead to a service, as the environment would."""
    variables = {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": url}
    return JudgeResource(loopback_folder=str(folder), variables=variables)


def unlimited_terms() -> BudgetTerms:
    """Say that responses may cost anything, at the prices of the newest list."""
    began = datetime.now(UTC)
    return BudgetTerms(load_newest_prices(), None, "month", began, on_responses=True)


def claude_judge(asked: dict[str, Any], waits: dict[str, Any]) -> Judge:
    quick = {"poll_initial_seconds": 0.02, "poll_max_seconds": 0.1, "deadline_seconds": 20}
    waiting = {**quick, "adopt_grace_seconds": 0.3, **waits}
    values = {"service": "anthropic", "model": "claude-1", "waiting": waiting, **asked}
    return Judge.model_validate(values)


@dataclass
class BatchBench:
    """A server, a ledger, and what was said about them."""

    server: FaultyServer
    ledger: Ledger
    log: list[str] = field(default_factory=list)

    def complete(
        self,
        *,
        prompts: Sequence[Prompt] = PROMPTS,
        key: str = KEY,
        may_pay_again: bool = False,
        ledger: Any = None,
        judge: Any = None,
        asked: dict[str, Any] | None = None,
        waits: dict[str, Any] | None = None,
        terms: BudgetTerms | None = None,
        **changes: Any,
    ) -> CompletedResponses:
        return complete_by_service(
            claude(**changes),
            prompts=prompts,
            ledger=self.ledger if ledger is None else ledger,
            judge=judge or judge_at(self.server.url, key=key),
            judges=[claude_judge(asked or {}, waits or {})],
            environment={},
            may_pay_again=may_pay_again,
            log=self.log.append,
            terms=terms or unlimited_terms(),
        )

    def kept(self) -> dict[str, str]:
        """The texts that the ledger holds of the entrant, by prompt id."""
        entrant = claude()
        found = self.ledger.responses(
            entrant.fingerprint(entrant.content_hash),
            [each.fingerprint for each in PROMPTS],
            cuts_thoughts=False,
        )
        return {response.prompt_id: response.text for response in found.values()}

    def heard(self, words: str) -> bool:
        return any(words in line for line in self.log)

    @property
    def sent(self) -> dict[str, int]:
        """What the server accepted."""
        return self.server.log.to_dict()


@contextmanager
def batch_bench(
    *faults: str, processing_seconds: float = 0, ledger_url: str = "sqlite://"
) -> Iterator[BatchBench]:
    ledger = Ledger(ledger_url)
    try:
        with FaultyServer(processing_seconds=processing_seconds, faults=faults) as server:
            yield BatchBench(server, ledger)
    finally:
        ledger.close()


def file_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.sqlite'}"


def free_leases(folder: Path) -> None:
    """Do what the ledger does by itself once a process is gone: here it lives on."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection, connection:
        connection.execute("DELETE FROM judge_leases")


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
