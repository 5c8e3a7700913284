"""A run that is killed, wherever that may be, is finished by the next one and paid once."""

from dataclasses import dataclass, replace
from itertools import count
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.judging.batch_service import ReplyRow, SubmittedRequest, TakesBatches
from tournament_assets.judging.settlement.account import read_account
from tournament_assets.judging.settlement.records import JudgingLedger

from .bench import Bench
from .builders import (
    SCOPE,
    failed_row,
    failure,
    failures,
    keys_of,
    reply_row,
    requests_for,
)
from .fake_judge import (
    ANSWER_LOST,
    REQUEST_LOST,
    WELL,
    Creation,
    Reading,
    cut_after,
    end_early,
    key_in,
    refused,
)
from .mortal import Killed, Life, Mortal

REQUESTS = requests_for(2)
KEYS = keys_of(2)
_MAX_RUNS = 15


@dataclass(frozen=True)
class Weather:
    """What goes wrong besides the kill.

    Attributes:
        creations: What becomes of the first creations.
        durations: Seconds that the first batches take.
        fates: How the first accepted requests end: `ok`, `unreadable`, or a kind of failure.
        readings: How the first readings of results go: rows until a break, or until a silent end
            if negative.
        failed_polls: How many looks at a batch fail.
        failed_listings: How many lists fail.
        direct: How the first direct questions fail.
        largest: The most requests of one batch.
        foreign: For each foreign batch of our size, how long it takes.
        prewarms: Whether one request is sent ahead.
        max_rounds: How often failed requests are sent as a batch.
    """

    creations: tuple[Creation, ...] = ()
    durations: tuple[float, ...] = ()
    fates: tuple[str, ...] = ()
    readings: tuple[int, ...] = ()
    failed_polls: int = 0
    failed_listings: int = 0
    direct: tuple[JudgeFailure | None, ...] = ()
    largest: float = float("inf")
    foreign: tuple[float, ...] = ()
    prewarms: bool = False
    max_rounds: int = 3


def build(weather: Weather) -> Bench:
    fates = list(weather.fates)

    def answer(request: SubmittedRequest) -> ReplyRow:
        fate = fates.pop(0) if fates else "ok"
        if fate == "ok":
            return reply_row(request.custom_id)
        if fate == "unreadable":
            return reply_row(request.custom_id, text="Hm.", stop_reason="max_tokens")
        return failed_row(request.custom_id, fate)

    bench = Bench(answer=answer, durations=weather.durations, largest=weather.largest)
    bench.judge.creations = list(weather.creations)
    bench.judge.readings = [_reading(rows) for rows in weather.readings]
    bench.judge.polls = failures(JudgeFailure.TRANSIENT, weather.failed_polls)
    bench.judge.listings = failures(JudgeFailure.TRANSIENT, weather.failed_listings)
    bench.judge.direct = [None if kind is None else failure(kind) for kind in weather.direct]
    for duration in weather.foreign:
        bench.judge.add_foreign(len(KEYS), duration=duration)
    return bench


def _reading(rows: int) -> Reading:
    return cut_after(rows) if rows >= 0 else end_early(-1 - rows)


def live(bench: Bench, weather: Weather, life: Life) -> None:
    """Let one process settle the requests until it is through, refused or killed."""
    try:
        bench.settle(
            REQUESTS,
            ledger=cast("JudgingLedger", Mortal(bench.ledger, life)),
            service=cast("TakesBatches", Mortal(bench.judge, life)),
            prewarms=weather.prewarms,
            max_rounds=weather.max_rounds,
        )
    except (JudgeError, Killed):
        # The lease of a process that is gone is anybody's.
        bench.ledger.leases.clear()


def finish(bench: Bench, weather: Weather) -> None:
    """Let one process after the other do what is left, until there is nothing."""
    for _ in range(_MAX_RUNS):
        if is_done(bench):
            return
        live(bench, weather, Life())
    raise AssertionError(f"{_MAX_RUNS} runs did not finish: {bench.ledger.states}")


def is_done(bench: Bench) -> bool:
    work = read_account(REQUESTS, scope=SCOPE, ledger=bench.ledger, reply_format="line")
    return work.is_done


def check(bench: Bench) -> None:
    """Every request has its reply, and every reply that was paid for is kept and of use."""
    ledger, judge = bench.ledger, bench.judge
    keys = set(KEYS)
    unreadable = {key for key in keys if ledger.text_of(key) == "Hm."}
    assert ledger.answered() == keys
    assert ledger.answered(attempt=2) == unreadable
    kept = {row.custom_id for _, row in ledger.replies.values()}
    paid = [row for batch in judge.ours for row in batch.rows if row.result_type == "succeeded"]
    assert {row.custom_id for row in paid} <= kept
    assert ledger.paid_twice == []
    # A direct reply has no name under which another process could ask for it.
    lost = [row for row in judge.direct_rows if row.custom_id not in kept]
    times = judge.paid
    times.subtract(key_in(row.custom_id) for row in lost if row.result_type == "succeeded")
    assert times == {key: 2 if key in unreadable else 1 for key in keys}
    assert not ledger.leases


creations = st.sampled_from(
    [
        WELL,
        ANSWER_LOST,
        replace(ANSWER_LOST, lag=12.0),
        replace(WELL, lag=29.0),
        REQUEST_LOST,
        refused(JudgeFailure.NOT_ACCEPTED),
        refused(JudgeFailure.NOT_ACCEPTED, retry_after=20.0),
        refused(JudgeFailure.FATAL),
    ]
)
fates = st.sampled_from(["ok", "unreadable", "expired", "errored:overloaded_error"])
direct = st.sampled_from([None, JudgeFailure.AMBIGUOUS, JudgeFailure.NOT_ACCEPTED])
weathers = st.builds(
    Weather,
    creations=st.lists(creations, max_size=4).map(tuple),
    durations=st.lists(st.sampled_from([0.0, 3.0, 40.0]), max_size=3).map(tuple),
    fates=st.lists(fates, max_size=8).map(tuple),
    readings=st.lists(st.integers(-5, 4), max_size=4).map(tuple),
    failed_polls=st.integers(0, 2),
    failed_listings=st.integers(0, 2),
    direct=st.lists(direct, max_size=3).map(tuple),
    largest=st.sampled_from([float("inf"), 3, 1]),
    foreign=st.lists(st.sampled_from([0.0, 15.0, 60.0]), max_size=2).map(tuple),
    prewarms=st.booleans(),
    max_rounds=st.integers(1, 3),
)


# An example is some sixty runs, one for each step at which a run can be killed.
@settings(max_examples=10)
@given(weathers, st.sampled_from([0.0, 15.0, 3600.0]))
@example(Weather(), 0.0)
@example(Weather(creations=(ANSWER_LOST,), durations=(40.0,), foreign=(15.0,)), 0.0)
@example(Weather(creations=(REQUEST_LOST, REQUEST_LOST, ANSWER_LOST), prewarms=True), 0.0)
@example(Weather(fates=("unreadable", "expired", "ok", "unreadable"), readings=(2, -2)), 0.0)
@example(Weather(fates=("expired",) * 4, max_rounds=1, direct=(JudgeFailure.AMBIGUOUS,)), 0.0)
@example(Weather(creations=(replace(ANSWER_LOST, lag=29.0),), foreign=(0.0, 60.0)), 0.0)
def test_a_run_killed_at_any_step_is_finished_by_the_next_and_every_reply_is_paid_once(
    weather: Weather, pause: float
) -> None:
    for ends_at in count(1):
        bench, life = build(weather), Life(ends_at)
        live(bench, weather, life)
        bench.clock.seconds += pause
        finish(bench, weather)
        check(bench)
        if not life.is_over:
            return


# Few weathers go badly with few kills, and an example takes three milliseconds.
@settings(max_examples=200)
@given(weathers, st.lists(st.integers(1, 90), max_size=4), st.sampled_from([0.0, 15.0, 3600.0]))
def test_however_often_runs_are_killed_the_last_one_finishes_and_every_reply_is_paid_once(
    weather: Weather, kills: list[int], pause: float
) -> None:
    bench = build(weather)
    for ends_at in kills:
        live(bench, weather, Life(ends_at))
        bench.clock.seconds += pause
    finish(bench, weather)
    check(bench)


def test_a_run_in_fair_weather_has_dozens_of_places_to_die() -> None:
    life = Life()
    live(build(Weather()), Weather(), life)
    assert life.steps >= 40
