"""What responses behind a chat server cost stays within the budget, and is paid for once."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse

from tests.chat_server import (
    DROP,
    ChatServer,
    api_entrant,
    completion,
    prompts_named,
    refusal,
    response_terms,
)
from tests.chat_server import complete as complete_entrant
from tests.judging.builders import most_each
from tournament_assets.foundation.errors import BudgetError, GenerationError
from tournament_assets.judging.settlement.records import Lease
from tournament_assets.ledger import Ledger
from tournament_assets.responses.api_responses import (
    build_response_requests,
    response_scope,
    service_problems,
)
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.places import ServerAddress

NAMES = [f"p{number:02d}" for number in range(12)]
PROMPTS = prompts_named(*NAMES)
PRICE = 1000.0  # a million tokens: a tenth of a cent each
CAP = api_entrant().max_new_tokens
LONG = {"prompt_tokens": 30, "completion_tokens": CAP, "total_tokens": 30 + CAP}
REMOTE = "https://chat.example.org/v1"
REQUESTS = [*build_response_requests(api_entrant(), PROMPTS).values()]
MOST = most_each(REQUESTS, response_terms(price=PRICE).prices, "direct")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.sqlite'}"


def complete(
    chat: ChatServer,
    url: str,
    limit_usd: float | None,
    *,
    price: float | None = PRICE,
    **changes: Any,
) -> CompletedResponses:
    """Let an entrant answer as a run does, with connections of its own."""
    with closing(Ledger(url)) as ledger:
        return complete_entrant(
            api_entrant(changes.pop("address", chat.url), **changes),
            PROMPTS,
            ledger,
            terms=response_terms(limit_usd, price=price),
        )


def gone_usd(url: str) -> list[float]:
    """What the ledger says is spent, and what is under way or may have been billed unseen."""
    with closing(Ledger(url)) as ledger:
        budget = ledger.draw_up_budget(response_terms(1000.0, price=PRICE))
    assert budget is not None
    return [budget.spent_usd, budget.committed_usd]


def billed_usd(chat: ChatServer) -> float:
    """What the server's own books say, if every prompt took what its usual answer tells."""
    assert chat.usage is not None
    return len(chat.asked) * float(chat.usage["total_tokens"]) * PRICE / 1e6


def bill_of(completed: CompletedResponses) -> dict[str, object]:
    """What is told of tokens and costs."""
    told = ("input_tokens", "output_tokens", "cost_usd", "all_responses_this_month_usd")
    return {name: completed.figures[name] for name in told if name in completed.figures}


def test_a_budget_that_is_used_up_stops_the_run_and_a_larger_one_asks_for_the_rest_alone(
    chat: ChatServer, url: str
) -> None:
    chat.usage = LONG
    # Fits by the usual length of an answer, and not by that of these.
    with pytest.raises(BudgetError, match=r"generation\.budget\.usd"):
        complete(chat, url, 0.9, max_concurrency=2)
    n_asked = len(chat.asked)
    assert 0 < n_asked < len(NAMES)
    assert billed_usd(chat) <= 0.9
    completed = complete(chat, url, 100.0)
    assert [each.prompt_id for each in completed.responses] == NAMES
    assert completed.generated == len(NAMES) - n_asked
    assert sorted(asked.prompt for asked in chat.asked) == sorted(each.text for each in PROMPTS)
    assert bill_of(completed) == {
        "input_tokens": 30 * len(NAMES),
        "output_tokens": CAP * len(NAMES),
        "cost_usd": pytest.approx(billed_usd(chat)),
        "all_responses_this_month_usd": pytest.approx(billed_usd(chat)),
    }


def test_what_cannot_be_paid_as_a_whole_is_refused_before_anything_is_asked(
    chat: ChatServer, url: str
) -> None:
    with pytest.raises(BudgetError, match="12 requests"):
        complete(chat, url, 0.2)
    assert (chat.asked, chat.looks) == ([], 0)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 7},
        {"prompt_tokens": 7, "completion_tokens": 10**30},
        {"prompt_tokens": True, "completion_tokens": 5},
    ],
)
def test_an_answer_that_does_not_say_what_it_took_counts_at_its_most(
    chat: ChatServer, url: str, usage: dict[str, Any] | None
) -> None:
    chat.usage = usage
    complete(chat, url, 100.0)
    assert gone_usd(url) == [0, pytest.approx(sum(MOST))]


def test_what_a_model_thinks_and_what_the_cache_held_is_billed_as_the_server_says(
    chat: ChatServer, url: str
) -> None:
    # 7 tokens were read and 43 written, 38 of which stand in the total alone.
    chat.usage = {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "total_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    assert complete(chat, url, 100.0).figures["output_tokens"] == 43 * len(NAMES)
    with closing(Ledger(url)) as ledger:
        (spending,) = ledger.spending_since(on_responses=True)
    assert spending.usage.input_tokens == 3 * len(NAMES)
    assert spending.usage.cache_read_input_tokens == 4 * len(NAMES)


def test_an_answer_that_got_lost_counts_at_its_most_and_a_refusal_costs_nothing(
    chat: ChatServer, url: str
) -> None:
    chat.fail("p03", DROP)
    chat.fail("p05", refusal(500, retry_after="0"))
    chat.fail("p07", refusal(429, retry_after="0"), refusal(422))
    completed = complete(chat, url, 100.0)
    assert list(completed.reasons) == ["p07"]
    spent, committed = gone_usd(url)
    assert spent == pytest.approx(11 * 12 * PRICE / 1e6)
    assert committed == pytest.approx(MOST[3] + MOST[5])


def test_an_answer_without_a_text_is_billed_once(chat: ChatServer, url: str) -> None:
    chat.fail("p03", JSONResponse(completion(None)), times=2)
    for _ in range(2):
        assert list(complete(chat, url, 100.0).reasons) == ["p03"]
    assert gone_usd(url) == [pytest.approx(12 * 12 * PRICE / 1e6), 0]


def test_a_server_of_ones_own_is_free_unless_it_has_a_price(chat: ChatServer, url: str) -> None:
    for revision, price in (("1", None), ("2", 0.0)):
        completed = complete(chat, url, 0.0, price=price, revision=revision)
        assert bill_of(completed)["cost_usd"] == 0.0
        assert bill_of(completed)["output_tokens"] == 5 * len(NAMES)
    # At today's price as well: what was free when it was bought stays so.
    assert gone_usd(url) == [0, 0]
    with pytest.raises(BudgetError):
        complete(chat, url, 0.0, price=1.0, revision="3")


def test_what_a_free_server_answered_costs_nothing_though_its_address_is_gone(
    chat: ChatServer, url: str
) -> None:
    complete(chat, url, None, price=None)
    moved = ServerAddress(env="NOT_SET")
    again = complete(chat, url, 5.0, price=PRICE, base_url=moved)
    assert (again.generated, bill_of(again)["cost_usd"]) == (0, 0.0)


def test_a_server_elsewhere_without_a_price_is_refused_if_there_is_a_budget(
    chat: ChatServer, url: str
) -> None:
    line = "judging: {prices: {tiny: {input: 4.0, output: 20.0}}}"
    with pytest.raises(BudgetError) as caught:
        complete(chat, url, 5.0, price=None, address=REMOTE)
    assert line in str(caught.value)
    entrant = api_entrant(REMOTE, api_key_env="NOT_SET")

    def problems_within(limit_usd: float | None) -> list[str]:
        terms = response_terms(limit_usd)
        return [*service_problems(entrant, PROMPTS, ledger=None, environment={}, terms=terms)]

    problems = problems_within(5.0)
    assert len(problems) == 2  # no key, and no price
    assert line in problems[1]
    assert "generation.budget.usd" in problems[1]
    assert len(problems_within(None)) == 1


def test_without_a_budget_tokens_are_kept_for_the_day_there_is_one(
    chat: ChatServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tournament_assets.responses.api_responses.costs_nothing", lambda *_: False)
    completed = complete(chat, url, None, price=None)
    assert completed.figures["output_tokens"] == 5 * len(NAMES)
    assert "cost_usd" not in completed.figures
    with pytest.raises(BudgetError, match="of tiny"):
        complete(chat, url, 5.0, price=None, revision="2")
    assert gone_usd(url)[0] == pytest.approx(12 * 12 * PRICE / 1e6)


def test_an_answer_longer_than_the_cap_is_billed_and_ends_the_run(
    chat: ChatServer, url: str
) -> None:
    chat.usage = {"prompt_tokens": 7, "completion_tokens": CAP + 1, "total_tokens": 8 + CAP}
    with pytest.raises(GenerationError, match="max_tokens_field"):
        complete(chat, url, 100.0)
    assert gone_usd(url)[0] == pytest.approx(billed_usd(chat))
    assert len(chat.asked) == 1


def test_a_run_whose_turn_does_not_come_says_who_is_at_work(chat: ChatServer, url: str) -> None:
    with closing(Ledger(url)) as ledger:
        assert isinstance(ledger.acquire_lease(response_scope(api_entrant())), Lease)
        with pytest.raises(GenerationError, match="'served'"):
            complete_entrant(
                api_entrant(chat.url),
                PROMPTS,
                ledger,
                terms=response_terms(price=PRICE),
                deadline_seconds=0.05,
            )
    assert not chat.asked
