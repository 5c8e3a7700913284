"""A budget never keeps anybody from collecting what was paid, however often a wait runs out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.projects import modules_of_extras
from tournament_assets.foundation.errors import WorkError
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.judging.settlement.records import BatchIntent, JudgingScope, Lease
from tournament_assets.tournament.judges import ConfiguredPrice

from .paid_projects import UNTIL_ENDED, PaidProject, paid_project

BOTH = ("factuality", "calibration")
PRICE = {"input": 4.0, "output": 20.0}
MODELS = ("claude-pilot", "gpt-pilot", "local")


def claude(_paid: PaidProject) -> dict[str, Any]:
    return {"model": "claude-pilot", "service": "anthropic"}


def openai(paid: PaidProject) -> dict[str, Any]:
    return {"model": "gpt-pilot", "service": "openai_batch", "base_url": f"{paid.server.url}/v1"}


def local(paid: PaidProject) -> dict[str, Any]:
    return {"model": "local", "service": "openai_api", "base_url": f"{paid.server.url}/v1"}


TRIALS: dict[str, tuple[list[Callable[[PaidProject], Any]], tuple[str, ...], Any]] = {
    "two dimensions": ([claude], BOTH, {}),
    "two dimensions by OpenAI": ([openai], BOTH, {}),
    "three dimensions": ([claude], (*BOTH, "clinical_utility"), {}),
    "a jury": ([claude, openai], BOTH[:1], {}),
    "a jury with a direct member": ([claude, local], BOTH[:1], {}),
    "a trial first": ([claude], BOTH, {"prewarm": True}),
    "a trial first by OpenAI": ([openai], BOTH, {"prewarm": True}),
    **{
        name: ([claude], BOTH, {name: keys})
        for extra in modules_of_extras("additions")
        for name, keys in extra.MODE_KEYS.items()
    },
}


@contextmanager
def budget_trial(
    folder: Path, name: str, share: float, *faults: str
) -> Iterator[tuple[PaidProject, float]]:
    """A project with a budget, a share of what its judging is expected to cost."""
    judges, dimensions, mode = TRIALS[name]
    with paid_project(
        folder, *faults, dimensions=dimensions, processing_seconds=UNTIL_ENDED
    ) as paid:
        paid.project.seat(*(each(paid) for each in judges))
        paid.project.merge_config(
            judging={"prices": dict.fromkeys(MODELS[:2], PRICE)}, modes={"pilot": mode}
        )
        paid.let_length_win()
        told = paid.tables("judging_estimate").metadata["judging_estimate", ""]
        limit = share * max(told["usd_uncached"], told["usd_no_hits"])
        paid.project.merge_config(judging={"budget": {"usd": limit}})
        yield paid, limit


def launch(paid: PaidProject, seconds: float = 0.3) -> str:
    """Run until the verdicts; return what a person hears, if it does not come so far."""
    paid.project.edit_judges(waiting={"deadline_seconds": seconds})
    try:
        paid.tables("judge_verdicts")
    except WorkError as error:
        return str(error)
    return ""


def has_waited(heard: str) -> bool:
    """Whether a launch ended because its wait ran out, for batches or for what they set aside."""
    return "have not ended" in heard or "under way, and what it does not spend" in heard


def check_paid_once(paid: PaidProject, limit: float) -> None:
    """Check that every reply is kept, that none was bought twice, and what they cost."""
    with paid.ledger() as ledger:
        spendings = ledger.spending_since()
        assert ledger.open_scopes("small") == {}
        assert ledger.waste_of("small", "pilot").replies_paid_twice == 0
    assert sum(each.n_replies for each in spendings) == paid.n_asked
    configured = {**dict.fromkeys(MODELS, PRICE), "local": {"input": 0.0, "output": 0.0}}
    prices = load_newest_prices(
        {name: ConfiguredPrice.model_validate(each) for name, each in configured.items()}
    )
    assert prices.add_up(spendings).usd <= limit


@pytest.mark.parametrize("share", [1.09, 1.5])
@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_of_a_budget_is_finished_by_later_launches_after_its_wait_ran_out(
    tmp_path: Path, name: str, share: float
) -> None:
    with budget_trial(tmp_path, name, share) as (paid, limit):
        assert has_waited(launch(paid))
        asked = paid.server.log.requests
        # The service is not done yet: the second launch waits as the first one did.
        assert has_waited(launch(paid))
        assert paid.server.log.requests == asked > 0
        for _ in range(8):
            paid.server.end_batches()
            heard = launch(paid)
            assert not heard or has_waited(heard)
            if not heard:
                break
        assert not heard
        check_paid_once(paid, limit)


@pytest.mark.parametrize("name", ["two dimensions", "a trial first"])
def test_what_processes_that_died_may_have_asked_directly_keeps_no_plan_from_being_finished(
    tmp_path: Path, name: str
) -> None:
    with budget_trial(tmp_path, name, 1.02) as (paid, limit):
        for dimension in BOTH:
            with paid.ledger() as ledger:
                lease = ledger.acquire_lease(JudgingScope("small", "pilot", dimension))
                assert isinstance(lease, Lease)
                keys = [f"{dimension}-{number}" for number in range(3)]
                dead = BatchIntent(
                    dimension,
                    "claude-pilot",
                    1,
                    "direct",
                    datetime.now(UTC),
                    keys,
                    most_usd=[limit / 40] * 3,
                )
                ledger.record_intent(lease, dead)
                ledger.release_lease(lease)
        assert has_waited(launch(paid))
        paid.end_batches()
        assert launch(paid, 30.0) == ""
        check_paid_once(paid, limit)


def test_what_was_paid_is_collected_before_new_work_is_refused(tmp_path: Path) -> None:
    with budget_trial(tmp_path, "two dimensions", 1.5) as (paid, limit):
        rubric = paid.project.folder / "rubrics" / "factuality.txt"
        assert has_waited(launch(paid))
        asked = paid.n_asked
        paid.server.end_batches()
        rubric.write_text(rubric.read_text() + "Be strict.\n" * 50)
        paid.project.merge_config(judging={"budget": {"usd": limit / 20}})
        assert "judging.budget.usd" in launch(paid)
        check_paid_once(paid, limit)
        assert paid.n_asked == asked


@pytest.mark.parametrize("name", ["two dimensions", "two dimensions by OpenAI"])
def test_a_batch_that_a_person_cancels_is_not_bought_again_by_the_launch_that_learns_of_it(
    tmp_path: Path, name: str
) -> None:
    with budget_trial(tmp_path, name, 3.0, "batch_canceled:2") as (paid, _):
        assert has_waited(launch(paid))
        asked = paid.n_asked
        paid.end_batches()
        heard = launch(paid, 30.0)
        assert "somebody cancelled" in heard
        assert "run again" in heard
        assert paid.n_asked == asked
        with paid.ledger() as ledger:
            assert sum(each.n_replies for each in ledger.spending_since()) == asked / 2
        assert launch(paid, 30.0) == ""
        assert paid.n_asked == asked * 3 / 2
        assert paid.server.log.messages == 0
