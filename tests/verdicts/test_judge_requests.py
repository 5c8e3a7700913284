"""Several scopes are asked at once: one wait, one ledger, one budget."""

import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.judging.builders import SETTINGS, most_each, reply_row, requests_for
from tests.loopback.faults.servers import FaultyServer
from tests.projects import make_project
from tests.responses.builders import wait_until
from tournament_assets.foundation.errors import (
    BudgetError,
    InterruptedWorkError,
    JudgeError,
    JudgeWaitingError,
)
from tournament_assets.judging.batch_service import AsksDirectly, ReplyRow, SubmittedRequest
from tournament_assets.judging.costs.estimates import measure_workload
from tournament_assets.judging.costs.prices import load_newest_prices
from tournament_assets.judging.requests.columns import count_requests
from tournament_assets.judging.settlement.records import JudgingScope, Lease, verdicts_of
from tournament_assets.judging.settlement.sessions import Piece, Sleep, Tally, run_together
from tournament_assets.ledger import Ledger
from tournament_assets.project.plan import TournamentPlan, load_plan
from tournament_assets.providers.openers import open_service
from tournament_assets.tournament.judge_services import ServiceConnection
from tournament_assets.tournament.judges import BudgetConfig, Waiting
from tournament_assets.tournament.judges import Judge as JudgeConfig
from tournament_assets.verdicts.judge_requests import AskingOptions, JudgeWork, ask_together

MODEL = "claude-opus-5-5"
FREE = "qwen3-32b"
PRICES = load_newest_prices()
DIMENSIONS = ("factuality", "calibration", "clinical_utility")
N_PAIRS = 4


@dataclass
class Judge:
    """Leads to one server, whatever a config names."""

    url: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def service(self, config: JudgeConfig) -> AbstractContextManager[AsksDirectly]:
        url = self.url if config.service == "anthropic" else f"{self.url}/v1"
        return open_service(config.service, ServiceConnection("any", url, Path()))


@dataclass
class Bench:
    """A tournament, its ledger and a server."""

    plan: TournamentPlan
    ledger: Ledger
    ledger_url: str
    server: FaultyServer
    notes: list[str] = field(default_factory=list)

    @property
    def judges(self) -> dict[str, JudgeConfig]:
        """Who can be asked, by model: one that costs money, and a free one on this machine."""
        paid = JudgeConfig(service="anthropic", model=MODEL)
        free = JudgeConfig(service="openai_api", model=FREE, base_url=f"{self.server.url}/v1")
        return {each.model: each for each in (paid, free)}

    def ask(
        self,
        *,
        budget_usd: float | None = None,
        wait_seconds: float = 60.0,
        mode: str = "pilot",
        allows_unbudgeted: bool = True,
        dimensions: Sequence[str] = DIMENSIONS,
        models: Sequence[str] = (MODEL,),
    ) -> list[Tally]:
        """Ask about three dimensions at once."""
        waiting = Waiting(poll_initial_seconds=0.02, poll_max_seconds=0.2)
        judges = [self.judges[model].model_copy(update={"waiting": waiting}) for model in models]
        judging = self.plan.config.judging.model_copy(
            update={"budget": BudgetConfig(usd=budget_usd)}
        )
        changed = {"judging": judging, "judges": (*self.plan.config.judges, *judges)}
        tallies = ask_together(
            [
                JudgeWork(scope_of(name, mode, each), requests_of(name, each.model), each)
                for each in judges
                for name in dimensions
            ],
            plan=replace(self.plan, config=self.plan.config.model_copy(update=changed)),
            ledger=self.ledger,
            judge=Judge(self.server.url),
            options=AskingOptions(wait_seconds=wait_seconds),
            allows_unbudgeted=allows_unbudgeted,
            log=self.notes.append,
        )
        return list(tallies.values())


SMALLEST_CAP = 460


def scope_of(dimension: str, mode: str, judge: JudgeConfig) -> JudgingScope:
    return JudgingScope("small", mode, dimension, verdicts_of(judge.model))


def requests_of(dimension: str, model: str = MODEL) -> Any:
    # The key covers the cap, so that every dimension asks something of its own.
    cap = SMALLEST_CAP + DIMENSIONS.index(dimension)
    return requests_for(N_PAIRS, settings=replace(SETTINGS, judge_model=model, max_tokens=cap))


def planned_usd() -> float:
    """What one dimension is expected to cost."""
    workload = measure_workload([count_requests(requests_of("factuality"))])
    usd = workload.dearest_usd(PRICES.models[MODEL], discount=PRICES.discount("batch"))
    assert usd is not None
    return usd


def most_of_one() -> float:
    """The most that one dimension can cost."""
    return sum(most_each(requests_of("factuality"), PRICES))


@contextmanager
def bench(folder: Path, **server: Any) -> Iterator[Bench]:
    project = make_project(folder / "project", service="anthropic")
    url = f"sqlite:///{folder / 'ledger.sqlite'}"
    with (
        FaultyServer(folder / "server", **server) as running,
        closing(Ledger(url)) as ledger,
    ):
        plan = load_plan(project.config_path, project.environment)
        yield Bench(plan, ledger, url, running)


def test_all_are_sent_before_any_has_ended_and_nothing_is_sent_again(tmp_path: Path) -> None:
    with bench(tmp_path, processing_seconds=3600) as at:
        with pytest.raises(JudgeWaitingError, match="factuality"):
            at.ask(wait_seconds=0.0)
        assert at.server.log.batches == len(DIMENSIONS)
        at.server.end_batches()
        tallies = at.ask()
        assert [tally.resumed for tally in tallies] == [1, 1, 1]
        assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 3
        assert (at.server.log.batches, at.server.log.messages) == (len(DIMENSIONS), 0)
        assert at.ledger.leased_scopes() == set()


def test_no_more_direct_replies_are_unwritten_than_one_judge_may_have_in_flight(
    tmp_path: Path,
) -> None:
    """Whoever is killed loses no more, however many dimensions and judges are asked."""
    lock, unwritten, most = threading.Lock(), 0, list[int]()

    class Counting(Ledger):
        def record_rows(self, nonce: str, final: Any, **more: Any) -> int:
            nonlocal unwritten
            added = super().record_rows(nonce, final, **more)
            with lock:
                unwritten -= len(final)
            return added

    class Instant:
        def ask_directly(self, request: SubmittedRequest) -> ReplyRow:
            nonlocal unwritten
            with lock:
                unwritten += 1
                most.append(unwritten)
            return reply_row(request.custom_id)

        def check_model(self, model: str) -> None: ...

    @dataclass
    class Anywhere:
        variables: Mapping[str, str] = field(default_factory=dict)

        def service(self, _config: JudgeConfig) -> Any:
            return nullcontext(Instant())

    judges = [
        JudgeConfig(service="openai_api", model=model, base_url=f"http://127.0.0.1:{port}/v1")
        for port, model in enumerate(("one", "two"), start=1)
    ]
    work = [
        JudgeWork(scope_of(name, "pilot", each), requests_of(name, each.model), each)
        for each in judges
        for name in DIMENSIONS
    ]
    project = make_project(tmp_path / "project")
    plan = load_plan(project.config_path, project.environment)
    with closing(Counting(f"sqlite:///{tmp_path / 'ledger.sqlite'}")) as ledger:
        tallies = ask_together(
            work,
            plan=plan,
            ledger=ledger,
            judge=Anywhere(),
            options=AskingOptions(),
            log=lambda _message: None,
        )
    assert [tally.answered for tally in tallies.values()] == [2 * N_PAIRS] * len(work)
    assert (unwritten, max(most)) == (0, judges[0].max_in_flight)


def test_the_replies_of_a_judge_that_cost_nothing_never_stand_in_the_way_of_a_paid_one(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as at:
        limit = 3 * most_of_one()
        at.ask(models=[FREE], dimensions=DIMENSIONS[:1])
        # In a month's budget the replies that a free judge gave count, at the price of then.
        at.ask(budget_usd=limit, dimensions=DIMENSIONS[:1])
        at.ask(models=[FREE, MODEL], budget_usd=limit, dimensions=DIMENSIONS[:2])
        tallies = at.ask(models=[MODEL], budget_usd=limit)
        assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 3
        spent = {each.judge_model: each.usd for each in at.ledger.spending_since()}
        assert (spent[FREE], bool(spent[MODEL])) == (0.0, True)


def test_second_questions_are_sent_together_too(tmp_path: Path) -> None:
    n_requests = len(DIMENSIONS) * 2 * N_PAIRS
    with (
        bench(tmp_path, processing_seconds=3600, faults=(f"no_verdict:{n_requests}",)) as at,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(at.ask)
        for n_batches in (3, 6):
            # None of them ends before the last one is sent.
            wait_until(lambda n=n_batches: len(at.server.store.list_newest_first()) == n)  # type: ignore[misc]
            at.server.end_batches()
        assert [tally.second_questions for tally in asked.result()] == [2 * N_PAIRS] * 3


def test_second_questions_that_the_ledger_has_forgotten_are_not_bought_again(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, faults=("no_verdict:3",)) as at:
        assert sum(tally.second_questions for tally in at.ask()) == 3
        bought = at.server.log.to_dict()
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
            for table in ("judge_batches", "judge_replies"):
                connection.execute(f"DELETE FROM {table} WHERE attempt = 2")  # noqa: S608
        with pytest.raises(JudgeError, match="the ledger does not know them"):
            at.ask()
        assert at.server.log.to_dict() == bought


def test_a_headline_is_not_paid_for_before_anybody_has_set_a_budget(tmp_path: Path) -> None:
    with bench(tmp_path) as at:
        with pytest.raises(BudgetError, match=r"judging\.budget\.usd"):
            at.ask(mode="headline", allows_unbudgeted=False)
        assert (at.server.log.requests, at.server.log.messages) == (0, 0)
        at.ask(mode="headline", allows_unbudgeted=False, budget_usd=3 * most_of_one())
        asked = at.server.log.requests + at.server.log.messages
        assert asked == len(DIMENSIONS) * 2 * N_PAIRS


def test_what_fits_one_by_one_and_not_together_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    with bench(tmp_path) as at:
        with pytest.raises(BudgetError, match="24 requests"):
            at.ask(budget_usd=2.5 * planned_usd())
        assert (at.server.log.requests, at.server.log.messages) == (0, 0)


def test_a_trial_comes_before_the_price_and_what_it_shows_to_be_too_dear_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SMALLEST_CAP", 3000)
    monkeypatch.setattr(sys.modules[__name__], "N_PAIRS", 20)
    with bench(tmp_path) as at:
        assumed = 3 * planned_usd()
        # Every reply is much shorter than assumed: half of the plan's price is ample.
        tallies = at.ask(mode="headline", budget_usd=0.5 * assumed)
        assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 3
        assert any("is expected to cost about" in note for note in at.notes)
    with bench(tmp_path / "long", faults=("direct_reply_long:always",)) as at:
        # The first replies are as long as they may be: the rest is not asked.
        with pytest.raises(BudgetError, match="asking 108 requests"):
            at.ask(mode="headline", budget_usd=1.5 * assumed)
        assert (at.server.log.messages, at.server.log.requests) == (12, 0)


def test_what_another_run_is_at_work_on_holds_up_no_other_trial_or_plan(tmp_path: Path) -> None:
    with bench(tmp_path) as at, ThreadPoolExecutor(1) as pool:
        busy = scope_of(DIMENSIONS[0], "headline", at.judges[MODEL])
        lease = at.ledger.acquire_lease(busy)
        assert isinstance(lease, Lease)
        asked = pool.submit(at.ask, mode="headline", budget_usd=6 * most_of_one())
        try:
            # The other two are tried and sent while the first one is not free.
            wait_until(lambda: len(at.server.store.list_newest_first()) == 2)
        finally:
            at.ledger.release_lease(lease)
        assert [tally.answered for tally in asked.result()] == [2 * N_PAIRS] * 3


def test_what_has_ended_on_one_dimension_is_billed_before_another_one_is_priced(
    tmp_path: Path,
) -> None:
    # Results that are cut take a while to read.
    cut = "results_cut_at_line_silent:4"
    with bench(tmp_path, processing_seconds=3600, faults=(cut,)) as at:
        limit = 1.6 * planned_usd()
        with pytest.raises(JudgeWaitingError):
            at.ask(budget_usd=3 * most_of_one(), dimensions=DIMENSIONS[1:2], wait_seconds=0.0)
        assert at.server.log.requests == 2 * N_PAIRS
        at.server.end_batches(at_once=True)
        tallies = at.ask(budget_usd=limit, dimensions=DIMENSIONS[:2])
        assert [tally.answered for tally in tallies] == [2 * N_PAIRS] * 2
        assert (at.server.log.requests, at.server.log.messages) == (4 * N_PAIRS, 0)
        assert PRICES.add_up(at.ledger.spending_since()).usd <= limit


def test_what_is_under_way_is_waited_for_before_new_work_beside_it_is_refused(
    tmp_path: Path,
) -> None:
    with bench(tmp_path, processing_seconds=3600) as at:
        limit = 1.3 * planned_usd()
        with pytest.raises(JudgeWaitingError):
            at.ask(budget_usd=limit, dimensions=DIMENSIONS[:1], wait_seconds=0.0)
        asked = at.server.log.requests
        with pytest.raises(JudgeWaitingError, match="have not ended"):
            at.ask(budget_usd=limit, wait_seconds=0.0)
        assert at.server.log.requests == asked


def test_what_is_under_way_is_collected_without_any_budget(tmp_path: Path) -> None:
    def ask(budget_usd: float | None, wait_seconds: float) -> list[Tally]:
        return at.ask(
            mode="headline",
            budget_usd=budget_usd,
            wait_seconds=wait_seconds,
            allows_unbudgeted=False,
        )

    with bench(tmp_path, processing_seconds=3600) as at:
        with pytest.raises(JudgeWaitingError):
            ask(3.3 * most_of_one(), 0.0)
        asked = at.server.log.to_dict()
        with pytest.raises(JudgeWaitingError):
            ask(None, 0.0)
        at.server.end_batches()
        assert [tally.answered for tally in ask(None, 60.0)] == [2 * N_PAIRS] * 3
        assert at.server.log.to_dict() == asked


def test_with_all_in_flight_no_more_is_sent_than_the_budget_holds_at_its_most(
    tmp_path: Path,
) -> None:
    limit = 1.5 * most_of_one()
    assert 3 * planned_usd() < limit
    with bench(tmp_path, processing_seconds=3600) as at, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(at.ask, budget_usd=limit)
        wait_until(lambda: any("max_tokens" in note for note in at.notes))
        with closing(Ledger(at.ledger_url)) as ledger:
            in_flight = sum(each.most_usd or 0.0 for each in ledger.unbilled_batches())
        assert most_of_one() < in_flight <= limit
        at.server.end_batches(at_once=True)
        assert [tally.answered for tally in asked.result()] == [2 * N_PAIRS] * 3
        assert PRICES.add_up(at.ledger.spending_since()).usd <= limit


@pytest.mark.parametrize(("share", "is_lowered"), [(1.0, False), (0.5, True)])
def test_caps_are_lowered_where_the_budget_does_not_hold_all_dimensions_at_their_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, *, is_lowered: bool
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SMALLEST_CAP", 3000)
    with bench(tmp_path) as at:
        at.ask(mode="headline", budget_usd=share * len(DIMENSIONS) * 1.01 * most_of_one())
        caps = {
            request.params["max_tokens"]
            for batch in at.server.store.list_newest_first()
            for request in batch.iterate_requests()
        }
    assert caps == {3000, 3001, 3002} if not is_lowered else max(caps) < 3000


def test_pieces_wait_for_each_other_and_come_back_in_their_order() -> None:
    together = threading.Barrier(3, timeout=30)

    def meet(name: str, _sleep: Sleep) -> str:
        together.wait()
        return name

    pieces = [Piece(name, partial(meet, name)) for name in "cab"]
    assert run_together(pieces, log=print) == ["c", "a", "b"]


def test_a_piece_that_fails_stops_no_other_and_is_told_at_once() -> None:
    heard: list[str] = []
    told = threading.Event()
    finished: list[str] = []

    def log(message: str) -> None:
        heard.append(message)
        told.set()

    def fail(_sleep: Sleep) -> str:
        raise JudgeError("away")

    def go_on(_sleep: Sleep) -> str:
        assert told.wait(30)
        finished.append("done")
        return "done"

    with pytest.raises(JudgeError, match="away"):
        run_together([Piece("factuality", fail), Piece("calibration", go_on)], log=log)
    assert heard[0].startswith("factuality: away (1 ")
    assert finished == ["done"]


def test_of_several_failures_the_first_piece_says_why() -> None:
    def fail(message: str, _sleep: Sleep) -> str:
        raise JudgeError(message)

    pieces = [Piece(name, partial(fail, name)) for name in ("first", "second")]
    with pytest.raises(JudgeError, match="first"):
        run_together(pieces, log=lambda _message: None)


def test_an_interruption_ends_every_piece_at_its_next_wait() -> None:
    ended: list[str] = []

    def wait(name: str, sleep: Sleep) -> str:
        try:
            sleep(3600)
        except InterruptedWorkError:
            ended.append(name)
            raise
        return name

    def interrupt(_message: str) -> None:
        raise KeyboardInterrupt

    def fail(_sleep: Sleep) -> str:
        raise JudgeError("it begins")

    waiting = [Piece(name, partial(wait, name)) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        run_together([Piece("c", fail), *waiting], log=interrupt)
    assert sorted(ended) == ["a", "b"]


def test_a_single_piece_runs_in_the_thread_that_asks_for_it() -> None:
    (thread,) = run_together(
        [Piece("one", lambda _sleep: threading.current_thread())], log=lambda _message: None
    )
    assert thread is threading.current_thread()
