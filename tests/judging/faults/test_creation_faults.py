import pytest

from tournament_assets.providers.anthropic import message_batches
from tournament_assets.providers.openai import services
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .runs import Run, Runner

pytestmark = pytest.mark.e2e


def assert_settled_once(run: Run, *, batches: int = 1) -> None:
    """Check that everything is answered and nothing was accepted twice, now and for good."""
    for _ in range(2):
        assert run.is_settled()
        assert run.paid == (batches, 4, 0)
        assert run.settle().submitted == 0


def assert_found_and_paid_once(run: Run) -> None:
    tally = run.settle()
    assert (tally.adopted, tally.batches, tally.submitted, tally.abandoned) == (1, 1, 4, 0)
    assert run.states == ["harvested"]
    assert run.progress.heard("msgbatch_")
    assert_settled_once(run)


@pytest.mark.parametrize(
    "faults",
    [
        ("create_drop_after",),
        ("create_500_after",),
        ("create_504_after",),
        ("create_529_after",),
        ("create_html_502_after",),
        ("create_no_id",),
        ("create_drop_after", "foreign_batch"),
    ],
    ids="+".join,
)
def test_a_creation_that_was_accepted_and_not_confirmed_is_found_and_paid_once(
    start: Runner, faults: tuple[str, ...]
) -> None:
    assert_found_and_paid_once(start(*faults))


@pytest.mark.parametrize(
    "faults",
    [
        ("create_drop",),
        ("create_500",),
        ("create_504",),
        ("create_529",),
        ("create_html_502",),
        ("create_drop", "foreign_batch"),
    ],
    ids="+".join,
)
def test_a_creation_that_was_not_accepted_is_sent_again_and_paid_once(
    start: Runner, faults: tuple[str, ...]
) -> None:
    run = start(*faults)
    tally = run.settle()
    assert (tally.adopted, tally.batches, tally.submitted, tally.abandoned) == (0, 1, 4, 4)
    assert run.states == ["abandoned", "harvested"]
    assert run.naps  # it was looked for, for as long as the grace period lasts
    assert_settled_once(run)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("create_401", "key"),
        ("create_402", "credit"),
        ("create_403", "key"),
        ("create_spend_limit", "spend limit"),
        ("create_redirect", "http://localhost:"),
    ],
)
def test_a_refusal_that_somebody_has_to_mend_stops_the_run_before_anything_is_paid(
    start: Runner, fault: str, what: str
) -> None:
    run = start(fault)
    with pytest.raises(JudgeError, match=what) as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.FATAL
    assert (run.naps, run.paid, run.states) == ([], (0, 0, 0), ["refused"])
    assert run.settle().answered == 4
    assert run.states == ["refused", "harvested"]
    assert_settled_once(run)


def test_one_look_at_the_list_finds_a_batch_that_bears_our_name(
    start: Runner, protocol: str
) -> None:
    run = start("create_drop_after", "never_ends", "foreign_batch")
    with pytest.raises(JudgeWaitingError):
        run.settle(deadline_seconds=0.0)
    is_told = protocol == "openai_batch"
    assert run.states == ["created" if is_told else "intent"]
    assert run.paid == (1, 4, 0)


def test_a_creation_whose_answer_takes_too_long_is_found_and_paid_once(
    start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for adapter in (message_batches, services):
        monkeypatch.setattr(adapter, "_CREATE_SECONDS", 0.5)
    assert_found_and_paid_once(start("create_hang:20"))


def test_a_rate_limit_that_names_a_time_is_waited_out_that_long(start: Runner) -> None:
    run = start("create_429")
    run.settle()
    assert run.naps[0] == 1.0
    assert run.states == ["refused", "harvested"]
    assert_settled_once(run)


def test_a_rate_limit_that_names_no_time_is_waited_out_with_growing_patience(
    start: Runner,
) -> None:
    run = start("create_429_bare:3")
    run.settle()
    assert run.naps[:3] == [0.02, 0.04, 0.08]
    assert run.states == ["refused"] * 3 + ["harvested"]
    assert_settled_once(run)


def test_a_batch_that_is_too_large_is_sent_in_halves(start: Runner) -> None:
    run = start("create_413")
    tally = run.settle()
    assert (tally.batches, tally.submitted) == (2, 4)
    assert run.states == ["refused", "harvested", "harvested"]
    assert_settled_once(run, batches=2)


def test_batches_are_halved_until_the_service_takes_them(start: Runner) -> None:
    run = start("create_413_above:1")
    tally = run.settle()
    assert (tally.batches, tally.submitted) == (4, 4)
    assert sorted(run.states) == ["harvested"] * 4 + ["refused"] * 3
    assert_settled_once(run, batches=4)


def test_a_batch_that_the_list_does_not_show_at_once_is_found_and_paid_once(
    start: Runner,
) -> None:
    run = start("create_drop_after", "list_lag:3")
    assert_found_and_paid_once(run)
    assert run.naps[:3] == [0.02, 0.04, 0.08]


def test_a_batch_that_the_list_never_shows_is_where_the_protocol_ends(start: Runner) -> None:
    run = start("create_drop_after", "list_lag:always")
    tally = run.settle()
    assert (tally.abandoned, tally.answered) == (4, 4)
    assert run.is_settled()
    assert run.paid == (2, 8, 0)


def test_a_service_that_loses_everything_three_times_stops_the_run(start: Runner) -> None:
    run = start("create_500:3")
    with pytest.raises(JudgeError, match="answered 500") as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.AMBIGUOUS
    assert run.states == ["abandoned"] * 3
    assert run.paid == (0, 0, 0)
    run.settle()
    assert_settled_once(run)


def test_a_batch_lost_twice_and_then_accepted_unheard_is_paid_once(start: Runner) -> None:
    run = start("create_drop:2", "create_drop_after")
    run.settle()
    assert run.states == ["abandoned", "abandoned", "harvested"]
    assert_settled_once(run)


def test_a_service_that_cannot_look_up_a_model_is_asked_with_a_warning(start: Runner) -> None:
    run = start("model_404")
    assert run.settle().answered == 4
    assert run.progress.heard("'judge-1'")
    assert_settled_once(run)
