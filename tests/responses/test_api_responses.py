from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.judging.builders import Progress, most_each
from tests.loopback.faults.servers import FaultyServer
from tests.responses.builders import (
    NAMES,
    PROMPTS,
    BatchBench,
    batch_bench,
    claude,
    echo,
    file_url,
    judge_at,
    unlimited_terms,
)
from tournament_assets.foundation.errors import BudgetError, GenerationError, InputError
from tournament_assets.judging.batch_service import takes_batches
from tournament_assets.judging.costs.prices import BudgetTerms, load_newest_prices
from tournament_assets.judging.settlement.recovery import recover_batches
from tournament_assets.ledger import Ledger
from tournament_assets.responses.api_responses import (
    build_response_requests,
    missing_key,
    planned_responses,
    service_problems,
)
from tournament_assets.responses.local_responses import CompletedResponses
from tournament_assets.tournament.entrants import AnthropicApiEntrant
from tournament_assets.tournament.judges import Judge, Waiting
from tournament_assets.tournament.prompts import Prompt

ALL = {prompt.prompt_id: echo(prompt) for prompt in PROMPTS}


def texts(completed: CompletedResponses) -> dict[str, str]:
    return {response.prompt_id: response.text for response in completed.responses}


def problems(entrant: AnthropicApiEntrant, ledger: Ledger | None) -> Sequence[str]:
    return service_problems(
        entrant, PROMPTS, ledger=ledger, environment={}, terms=unlimited_terms()
    )


def sent(batches: int, requests: int, messages: int = 0) -> dict[str, int]:
    return {"batches": batches, "requests": requests, "messages": messages}


def paid(server: FaultyServer) -> Counter[str]:
    """How often each prompt was answered in a batch, and so paid for."""
    return Counter(
        request.params["messages"][0]["content"]
        for batch in server.store.list_newest_first()
        for request in batch.iterate_requests()
        if server.store.fates.find_type(batch, request) == "succeeded"
    )


ONCE = Counter(prompt.text for prompt in PROMPTS)


def test_every_prompt_is_answered_in_one_batch_and_kept() -> None:
    with batch_bench() as bench:
        completed = bench.complete()
        assert list(texts(completed)) == NAMES
        assert texts(completed) == bench.kept() == ALL
        assert (completed.generated, dict(completed.reasons)) == (6, {})
        assert completed.device.startswith("claude-opus-5-5 ")
        first = completed.responses[0]
        assert (first.finish_reason, first.prompt_tokens, first.response_tokens) == ("stop", 7, 24)
        assert first.diagnostics == {"served_model": "claude-opus-5-5"}
        assert bench.sent == sent(1, 6)
        (batch,) = bench.server.store.list_newest_first()
        params = [request.params for request in batch.iterate_requests()]
        assert sorted(each["messages"][0]["content"] for each in params) == sorted(ONCE)
        assert {tuple(sorted(each)) for each in params} == {("max_tokens", "messages", "model")}


def test_settings_that_are_given_are_sent_and_others_are_not() -> None:
    with batch_bench() as bench:
        bench.complete(temperature=0.5, system_prompt="Be brief.")
        (batch,) = bench.server.store.list_newest_first()
        request = next(batch.iterate_requests())
        assert (request.params["temperature"], request.params["system"]) == (0.5, "Be brief.")
        assert request.params["max_tokens"] == 512


def test_a_second_run_needs_neither_the_service_nor_its_key(tmp_path: Path) -> None:
    with batch_bench(ledger_url=file_url(tmp_path)) as bench:
        bench.complete()
    with closing(Ledger(file_url(tmp_path))) as ledger:
        again = BatchBench(bench.server, ledger).complete(key="", entrant_id="renamed")
        assert problems(claude(), ledger) == ()
    assert (texts(again), again.generated) == (ALL, 0)
    assert "claude" not in again.device
    assert again.figures["requests_submitted_now"] == 0
    assert again.figures["generation_seconds"] == 0


def test_a_batch_has_seconds_and_tokens_and_no_speed() -> None:
    with batch_bench() as bench:
        figures = bench.complete().figures
    assert "generation_seconds" in figures
    assert figures["output_tokens"] == 144
    assert not {"tokens_per_second", "peak_memory_gb", "batch_size"} & figures.keys()


def test_what_responses_cost_is_counted_and_is_not_the_judges() -> None:
    with batch_bench() as bench:
        costs = bench.complete().figures
        # 6 responses of 24 tokens to prompts of 7, at $4 and $20 a million, halved in a batch
        dollars = 6 * (7 * 4 + 24 * 20) / 2 / 1e6
        assert (costs["input_tokens"], costs["output_tokens"]) == (42, 144)
        assert costs["cost_usd"] == pytest.approx(dollars, abs=5e-5)
        assert costs["all_responses_this_month_usd"] == pytest.approx(dollars, abs=5e-5)
        assert bench.ledger.spending_since() == []
        assert "cost_usd" not in bench.complete(model="claude-unheard-of").figures


def test_prompts_of_one_text_are_one_request() -> None:
    twin = Prompt(prompt_id="twin", text=PROMPTS[0].text, source="test")
    with batch_bench() as bench:
        completed = bench.complete(prompts=[*PROMPTS, twin])
        assert texts(completed)["twin"] == echo(PROMPTS[0])
        assert bench.sent == sent(1, 6)


def test_a_renamed_prompt_takes_the_response_that_was_paid_for_its_text() -> None:
    renamed = [replace(prompt, prompt_id=f"new {prompt.prompt_id}") for prompt in PROMPTS]
    with batch_bench() as bench:
        bench.complete()
        again = bench.complete(prompts=renamed, key="")
        assert texts(again) == {f"new {name}": text for name, text in ALL.items()}
        assert (again.generated, again.figures["requests_submitted_now"]) == (6, 0)


def test_what_failed_in_every_round_is_missing_with_its_reason_and_asked_by_the_next_run() -> None:
    with batch_bench("row_overloaded_error:2") as bench:
        completed = bench.complete(waits={"max_rounds": 1})
        assert len(completed.responses) == 4
        assert len(completed.reasons) == 2
        for name, reason in completed.reasons.items():
            assert f"{name!r}" in reason
            assert "(overloaded_error)" in reason
        assert texts(bench.complete()) == ALL
        assert paid(bench.server) == ONCE


def test_a_refusal_is_no_response_and_is_not_paid_for_again() -> None:
    with batch_bench("stop_refusal:2") as bench:
        completed = bench.complete()
        assert len(completed.responses) == len(bench.kept()) == 4
        assert ["a filter withheld" in reason for reason in completed.reasons.values()] == [
            True,
            True,
        ]
        again = bench.complete(key="")
        assert (again.reasons, again.generated) == (completed.reasons, 0)
        assert bench.sent == sent(1, 6)
        # What was refused was billed all the same.
        assert again.figures["output_tokens"] == 144


def test_a_response_that_the_cap_cut_off_is_kept_as_such() -> None:
    with batch_bench() as bench:
        completed = bench.complete(max_new_tokens=5)
        assert set(texts(completed).values()) == {" ".join(echo(PROMPTS[0]).split()[:4])}
        assert {response.finish_reason for response in completed.responses} == {"length"}
        assert bench.sent == sent(1, 6)


def test_a_batch_that_is_slow_is_left_and_taken_up_by_the_next_run() -> None:
    with batch_bench(processing_seconds=3600) as bench:
        with pytest.raises(GenerationError, match=r"'claude'.* kept:"):
            bench.complete(waits={"deadline_seconds": 0.2})
        assert not bench.kept()
        assert problems(claude(), bench.ledger)
        bench.server.end_batches()
        assert texts(bench.complete()) == ALL
        assert bench.heard("taking up")
        assert bench.sent == sent(1, 6)


def test_the_other_mode_takes_up_what_one_mode_has_begun() -> None:
    with batch_bench("never_ends") as bench:
        with pytest.raises(GenerationError, match="'claude'"):
            bench.complete(prompts=PROMPTS[:2], waits={"deadline_seconds": 0.1})
        bench.server.end_batches()
        assert texts(bench.complete(entrant_id="renamed")) == ALL
        assert paid(bench.server) == ONCE


def test_the_mode_that_is_complete_does_not_wait_for_the_other() -> None:
    with batch_bench("never_ends") as bench:
        with pytest.raises(GenerationError, match="'claude'"):
            bench.complete(prompts=PROMPTS[2:], waits={"deadline_seconds": 0.1})
        # Bought by another process before the first one could wait for it.
        with batch_bench() as other:
            other.complete(prompts=PROMPTS[:2])
            for name in ("p0", "p1"):
                assert other.kept()[name] == ALL[name]
            entrant = claude()
            identity = entrant.fingerprint(entrant.content_hash)
            fingerprints = [prompt.fingerprint for prompt in PROMPTS[:2]]
            others = other.ledger.responses(identity, fingerprints, cuts_thoughts=False)
            bench.ledger.keep_responses(identity, list(others.items()))
        assert list(texts(bench.complete(prompts=PROMPTS[:2], key=""))) == ["p0", "p1"]
        assert bench.sent == sent(1, 4)


def test_a_batch_refused_as_a_whole_is_not_sent_again_and_another_revision_is() -> None:
    with batch_bench("all_invalid") as bench:
        with pytest.raises(GenerationError, match="another revision"):
            bench.complete()
        with pytest.raises(GenerationError, match=r"\(invalid_request_error"):
            bench.complete()
        assert bench.sent == sent(1, 6)
        assert texts(bench.complete(revision="2")) == ALL


def test_without_a_key_a_model_is_not_asked_and_the_loopback_model_is(tmp_path: Path) -> None:
    with batch_bench() as bench:
        with pytest.raises(InputError, match="'claude-opus-5-5'"):
            bench.complete(key="")
        (problem,) = problems(claude(), None)
        assert "ANTHROPIC_API_KEY" in problem
        assert problem == missing_key(claude(), {})
        assert problems(claude(model="loopback-echo"), None) == ()
        # Whatever the environment says of the service, that name is answered on this machine.
        judge = judge_at(bench.server.url, tmp_path / "loopback")
        completed = bench.complete(judge=judge, model="loopback-echo")
        assert texts(completed) == ALL
        assert completed.device.startswith("loopback-echo ")
        assert completed.figures["cost_usd"] == 0.0
        assert bench.sent == sent(0, 0)


def test_a_lost_ledger_gets_responses_back_that_were_paid_for() -> None:
    with batch_bench() as bench, closing(Ledger("sqlite://")) as ledger:
        bench.complete()
        with pytest.raises(GenerationError, match="the ledger does not know them"):
            bench.complete(ledger=ledger)
        judge = judge_at(bench.server.url)
        with judge.service(Judge(service="anthropic", model="claude-1")) as service:
            assert takes_batches(service)
            report = recover_batches(
                planned_responses(claude(), PROMPTS),
                ledger=ledger,
                service=service,
                waiting=Waiting(poll_initial_seconds=0.1, poll_max_seconds=0.1),
                progress=Progress(),
            )
        assert report.replies == len(PROMPTS)
        assert texts(bench.complete(ledger=ledger)) == ALL
        assert bench.sent == sent(1, len(PROMPTS))


def test_a_model_is_asked_where_the_judge_is_configured_to_be_asked() -> None:
    with batch_bench() as bench:
        judge = judge_at("")
        completed = bench.complete(judge=judge, asked={"base_url": bench.server.url})
        assert texts(completed) == ALL
        assert bench.sent == sent(1, len(PROMPTS))


def test_the_environment_comes_before_the_config_in_saying_where_the_service_is() -> None:
    with batch_bench() as bench:
        completed = bench.complete(asked={"base_url": "http://127.0.0.1:9"})
        assert texts(completed) == ALL


def test_responses_have_a_budget_of_their_own_which_long_ones_do_not_exceed() -> None:
    prices = load_newest_prices()
    requests = build_response_requests(claude(max_new_tokens=4096), PROMPTS).values()
    most = sum(most_each([*requests], prices))
    terms = BudgetTerms(
        prices,
        most / 2,
        "month",
        datetime.now(UTC),
        on_responses=True,
        setting="generation.budget.usd",
    )
    with batch_bench("reply_long:always") as bench:
        with pytest.raises(BudgetError, match=r"generation\.budget\.usd"):
            bench.complete(terms=terms, max_new_tokens=4096)
        billed = prices.add_up(bench.ledger.spending_since(on_responses=True)).usd
        assert 0 < billed <= most / 2
        assert bench.ledger.spending_since() == []
        assert 0 < bench.sent["requests"] < len(PROMPTS)
    with batch_bench() as bench:
        completed = bench.complete(terms=terms, max_new_tokens=4096)
        assert len(completed.responses) == len(PROMPTS)
        assert bench.sent["batches"] > 1
