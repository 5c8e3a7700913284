"""What the processes that are killed are at work on, and what goes wrong besides."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tests.judging.builders import PAIR, RUBRIC, SCOPE, SETTINGS
from tests.judging.prices import OPUS, PRICES
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.judging.costs.prices import BudgetTerms
from tournament_assets.judging.requests.requests import JudgeRequest, JudgeRequests
from tournament_assets.judging.requests.verdict_parsing import parse_verdict
from tournament_assets.judging.settlement.records import verdicts_of
from tournament_assets.loopback.lexical_judge import judge_lexically
from tournament_assets.loopback.openai_door import read_chat
from tournament_assets.providers.openai.wire_format import NEW_CAP, Dialect, chat_body
from tournament_assets.tournament.judges import Judge, Waiting
from tournament_assets.tournament.verdicts import Verdict
from tournament_assets.verdicts.judge_requests import JudgeWork

BATCH_REQUESTS = 8
CHUNK_ROWS = 3
_RESPONSES = (
    "It is vitamin C, which fruit is rich in.",
    "It is the sun that is lacking.",
    "It may be vitamin C, or perhaps something else; I am not sure.",
    "Nothing is lacking at all.",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Some requests, and a judge.

    Attributes:
        name: Its name.
        n_pairs: How many pairs are judged; each is two requests.
        faults: What the judge does wrong, in the order in which it does.
        processing_seconds: How long a batch takes.
        max_rounds: How often requests that failed are sent as a batch.
        grace_seconds: How long a batch that nobody confirmed is looked for.
        ledger: The kind of database.
        pause_seconds: How long the ledger takes for a write besides.
        services: The services whose protocols are spoken; with several, a judge at each is asked
            about every pair.
        n_scopes: Among how many dimensions, all in flight at once, the requests are divided.
        deadline_seconds: How long a batch is waited for, before it is left to the next try.
        budget_usd: The most that may be spent; None sets no limit.
    """

    name: str
    n_pairs: int
    faults: tuple[str, ...] = ()
    processing_seconds: float = 0.0
    max_rounds: int = 2
    grace_seconds: float = 1.0
    ledger: str = "sqlite"
    pause_seconds: float = 0.0
    services: tuple[str, ...] = ("anthropic",)
    n_scopes: int = 1
    deadline_seconds: float = 60.0
    budget_usd: float | None = None

    @property
    def budget(self) -> BudgetTerms | None:
        """What may be spent, each judge at the price of one that is for sale."""
        if self.budget_usd is None:
            return None
        models = {each.model: OPUS for each in self.judges}
        began_at = datetime.now(UTC)
        return BudgetTerms(replace(PRICES, models=models), self.budget_usd, "month", began_at)

    @property
    def judges(self) -> list[Judge]:
        """Who judges."""
        waiting = Waiting(
            poll_initial_seconds=0.02,
            poll_max_seconds=0.2,
            deadline_seconds=self.deadline_seconds,
            max_rounds=self.max_rounds,
            direct_fallback=True,
        )
        return [
            Judge(service=service, model=f"judge-{number}", waiting=waiting)
            for number, service in enumerate(self.services, start=1)
        ]

    @property
    def requests(self) -> list[JudgeRequest]:
        """What is to be answered."""
        return [request for each in self.judges for request in self._requests_to(each)]

    @property
    def work(self) -> list[JudgeWork]:
        """What is to be answered, by the judge and the dimension that asks it."""
        judges, found = self.judges, []
        for judge in judges:
            purpose = verdicts_of(judge.model) if judges[1:] else SCOPE.purpose
            requests = self._requests_to(judge)
            for number in range(self.n_scopes):
                name = f"dimension {number}" if self.n_scopes > 1 else SCOPE.dimension
                scope = replace(SCOPE, dimension=name, purpose=purpose)
                found.append(JudgeWork(scope, requests[number :: self.n_scopes], judge))
        return found

    def _requests_to(self, judge: Judge) -> list[JudgeRequest]:
        pairs = [
            replace(
                PAIR,
                prompt_id=f"p{number}",
                prompt_text=f"Question {number}: which vitamin is lacking in scurvy?",
                response_a=_RESPONSES[number % 4],
                response_b=_RESPONSES[(number + 1 + number // 4) % 4],
            )
            for number in range(self.n_pairs)
        ]
        return list(JudgeRequests(pairs, RUBRIC, replace(SETTINGS, judge_model=judge.model)))

    def question_of(self, params: Any) -> str:
        """Return under what the judge logs a request: in its own words, whatever came in."""
        service = next(each.service for each in self.judges if each.model == params["model"])
        if service == "anthropic":
            return fingerprint(params)
        return fingerprint(read_chat(chat_body(params, Dialect(NEW_CAP))))


def true_verdict(request: JudgeRequest) -> Verdict:
    """Return what the loopback judge says about a request when nothing goes wrong."""
    return parse_verdict(judge_lexically(request.params["messages"][0]["content"], dimension=None))


FAIR = Scenario("fair weather", n_pairs=12)
SLOW = Scenario(
    "slow batches",
    n_pairs=12,
    processing_seconds=0.5,
)
# Of 24 requests, 5 have a reply without a verdict, the other 19 fail; of these, 12 fail again and
# are asked one by one.
FAILING = Scenario(
    "failing rows",
    n_pairs=12,
    faults=(
        "no_verdict:3",
        "stop_max_tokens:2",
        "row_overloaded_error:19",
        "row_expired:12",
        "direct_no_verdict:1",
    ),
)
LOSING = Scenario(
    "lost answers",
    n_pairs=8,
    faults=(
        "create_drop_after:2",
        "create_500",
        "create_429_bare",
        "foreign_batch:2",
        "list_lag:2",
        "poll_5xx",
        "poll_404",
        "results_cut_at_line_silent:2",
        "results_cut_mid_line:2",
        "results_garbage_line",
    ),
    grace_seconds=3.0,
)
TOGETHER = Scenario(
    "all dimensions in flight",
    n_pairs=12,
    faults=("no_verdict:3", "stop_max_tokens:2", "row_overloaded_error:4", "create_drop_after:2"),
    processing_seconds=0.2,
    n_scopes=3,
)
# The ledger is slow here, so that replies could pile up that nobody has written down.
DIRECT = Scenario(
    "slow ledger",
    n_pairs=6,
    faults=("row_expired:12",),
    max_rounds=1,
    pause_seconds=0.02,
)
SMALL = Scenario(
    "a little of all",
    n_pairs=6,
    faults=("no_verdict:1", "stop_max_tokens:1", "row_overloaded_error:6", "row_expired:5"),
    max_rounds=2,
)
# Here it cannot be known in time that a batch was accepted: the list shows it too late.
HIDING = replace(FAIR, name="hidden batches", faults=("list_lag:always",), grace_seconds=0.3)
# Nothing is asked directly: the service keeps no replies to direct messages.
FORGOTTEN = replace(
    FAIR,
    name="lost ledgers",
    faults=("no_verdict:3", "stop_max_tokens:2", "row_overloaded_error:4"),
)
ON_POSTGRESQL = replace(FAILING, name="failing rows, PostgreSQL", ledger="postgresql")
FAILING_OPENAI = replace(FAILING, name="failing rows, OpenAI", services=("openai_batch",))
LOSING_OPENAI = replace(LOSING, name="lost answers, OpenAI", services=("openai_batch",))
TOGETHER_OPENAI = replace(TOGETHER, name="all in flight, OpenAI", services=("openai_batch",))
SMALL_OPENAI = replace(SMALL, name="a little of all, OpenAI", services=("openai_batch",))
# A kill costs no more direct replies than one judge may have in flight, whoever else is asked.
CHAT = Scenario(
    "chat completions",
    n_pairs=6,
    faults=("direct_no_verdict:3", "direct_stop_max_tokens:2", "message_429_bare:2"),
    services=("openai_api", "openai_api"),
    n_scopes=2,
)
# No direct reply is spoiled: the second reply to that request could be the first row of a batch,
# which is spoiled too, and a request that is silent twice has no verdict to lose. The budget has no
# room for all requests at once, and waits run out before a batch has ended.
PANEL = replace(
    FAILING,
    name="a jury",
    faults=FAILING.faults[:-1],
    services=("openai_batch", "anthropic", "openai_api"),
    n_scopes=2,
    processing_seconds=0.5,
    deadline_seconds=0.3,
    budget_usd=2.0,
)
SMALL_ON_POSTGRESQL = replace(SMALL, name="a little of all, PostgreSQL", ledger="postgresql")
SCENARIOS = {
    each.name: each
    for each in (
        *(FAIR, SLOW, FAILING, LOSING, TOGETHER, DIRECT, ON_POSTGRESQL),
        *(HIDING, FORGOTTEN, SMALL, SMALL_ON_POSTGRESQL),
        *(FAILING_OPENAI, LOSING_OPENAI, TOGETHER_OPENAI, SMALL_OPENAI, CHAT, PANEL),
    )
}
