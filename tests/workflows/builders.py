"""Builds a Claude entrant behind a server with faults, and a desk at which pairs are labelled."""

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
from tournament_assets.judging.requests.pairs import PairToJudge
from tournament_assets.ledger import Ledger
from tournament_assets.ledger.labels import pair_identity
from tournament_assets.tournament.entrants import AnthropicApiEntrant
from tournament_assets.tournament.judges import Judge, Rubric
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.workflows.api_responses import complete_by_service
from tournament_assets.workflows.labelling import LabelDesk, draw_label_sample
from tournament_assets.workflows.local_responses import CompletedResponses

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
            entrant.fingerprint(entrant.content_hash), [each.fingerprint for each in PROMPTS]
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


SCOPE: dict[str, Any] = {"tournament_id": "tiny", "mode": "pilot", "dimension": "factuality"}


def pairs(n_prompts: int = 10, *, same: int = 0) -> list[PairToJudge]:
    """Three pairs a prompt; in the first `same` prompts ada and bob say the same."""
    return [
        PairToJudge(
            prompt_id=f"p{number}",
            source="recall",
            prompt_text=f"What is {number}?",
            entrant_a=first,
            entrant_b=second,
            response_a=f"{first} on {number}",
            response_b=f"{first if number < same and second == 'bob' else second} on {number}",
            gold_answer=f"gold {number}",
            expected_behavior="hedge",
        )
        for number in range(n_prompts)
        for first, second in (("ada", "bob"), ("ada", "cy"), ("bob", "cy"))
    ]


def desk(
    size: int = 20, *, overlap: float = 0.2, dimension: str | None = "factuality"
) -> LabelDesk:
    sample = draw_label_sample(
        pairs(), **{**SCOPE, "dimension": dimension}, size=size, overlap=overlap
    )
    of_id = {pair_identity(pair, "tiny", "pilot", dimension)["pair_id"]: pair for pair in pairs()}
    rubric = Rubric(dimension="factuality", version="1", text="# version: 1\n\nTruer is better.")
    drawn = {each.pair_id for each in sample.pairs}
    return LabelDesk(
        sample=sample,
        texts={name: pair for name, pair in of_id.items() if name in drawn},
        rubrics={"factuality": rubric},
        shows_gold_answer=dimension is not None,
    )


def row(of: LabelDesk, place: int, said: str = "A", *, first: str = "a", **changed: Any) -> Any:
    pair = of.sample.pairs[place]
    return {
        "id": f"{place:032x}",
        "pair": pair.pair_id,
        "first": pair.digest_a if first == "a" else pair.digest_b,
        "said": said,
        "age": 1500,
        "seconds": 4.2,
        **changed,
    }
