import pytest

from tournament_assets.providers.anthropic import message_batches
from tournament_assets.providers.openai import judge
from tournament_assets.tournament.errors import JudgeError, JudgeFailure, JudgeWaitingError

from .runs import Run, Runner


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
    assert run.progress.heard("found it: batch msgbatch_")
    assert_settled_once(run)


def assert_sent_again_and_paid_once(run: Run) -> None:
    tally = run.settle()
    assert (tally.adopted, tally.batches, tally.submitted, tally.abandoned) == (0, 1, 4, 4)
    assert run.states == ["abandoned", "harvested"]
    assert run.naps  # it was looked for, for as long as the grace period lasts
    assert_settled_once(run)


def assert_stopped_before_anything_was_paid(run: Run, message: str) -> None:
    with pytest.raises(JudgeError, match=message) as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.FATAL
    assert run.paid == (0, 0, 0)
    assert run.states == ["refused"]
    assert run.settle().answered == 4
    assert run.states == ["refused", "harvested"]
    assert_settled_once(run)


def test_a_creation_whose_request_is_lost_is_sent_again_and_paid_once(start: Runner) -> None:
    assert_sent_again_and_paid_once(start("create_drop"))


def test_a_creation_whose_answer_is_lost_is_found_and_paid_once(start: Runner) -> None:
    assert_found_and_paid_once(start("create_drop_after"))


def test_one_look_at_the_list_finds_a_batch_that_bears_our_name(
    start: Runner, protocol: str
) -> None:
    run = start("create_drop_after", "never_ends", "foreign_batch")
    with pytest.raises(JudgeWaitingError) as caught:
        run.settle(deadline_seconds=0.0)
    is_told = protocol == "openai_batch"
    assert ("is not known yet" in str(caught.value)) is not is_told
    assert run.states == ["created" if is_told else "intent"]
    assert run.paid == (1, 4, 0)


def test_a_creation_whose_answer_takes_too_long_is_found_and_paid_once(
    start: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for adapter in (message_batches, judge):
        monkeypatch.setattr(adapter, "_CREATE_SECONDS", 0.5)
    assert_found_and_paid_once(start("create_hang:20"))


def test_a_creation_that_fails_inside_the_service_is_sent_again_and_paid_once(
    start: Runner,
) -> None:
    assert_sent_again_and_paid_once(start("create_500"))


def test_a_creation_that_fails_after_it_was_accepted_is_found_and_paid_once(start: Runner) -> None:
    assert_found_and_paid_once(start("create_500_after"))


def test_a_creation_that_times_out_is_sent_again_and_paid_once(start: Runner) -> None:
    assert_sent_again_and_paid_once(start("create_504"))


def test_a_creation_that_times_out_after_it_was_accepted_is_found_and_paid_once(
    start: Runner,
) -> None:
    assert_found_and_paid_once(start("create_504_after"))


def test_a_creation_at_an_overloaded_service_is_sent_again_and_paid_once(start: Runner) -> None:
    assert_sent_again_and_paid_once(start("create_529"))


def test_a_creation_that_an_overloaded_service_accepted_is_found_and_paid_once(
    start: Runner,
) -> None:
    assert_found_and_paid_once(start("create_529_after"))


def test_a_creation_that_a_gateway_loses_is_sent_again_and_paid_once(start: Runner) -> None:
    assert_sent_again_and_paid_once(start("create_html_502"))


def test_a_creation_whose_answer_a_gateway_loses_is_found_and_paid_once(start: Runner) -> None:
    assert_found_and_paid_once(start("create_html_502_after"))


def test_a_creation_that_is_confirmed_without_a_name_is_found_and_paid_once(
    start: Runner,
) -> None:
    assert_found_and_paid_once(start("create_no_id"))


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


def test_a_spend_limit_stops_the_run_before_anything_is_paid(start: Runner) -> None:
    run = start("create_spend_limit")
    assert_stopped_before_anything_was_paid(run, "spend limit.*: raise it")
    assert run.naps == []


def test_a_refused_key_stops_the_run_before_anything_is_paid(start: Runner) -> None:
    assert_stopped_before_anything_was_paid(
        start("create_401"), "the (API )?key was refused: check "
    )


def test_an_account_without_credit_stops_the_run_before_anything_is_paid(start: Runner) -> None:
    assert_stopped_before_anything_was_paid(start("create_402"), "check its credit")


def test_a_key_without_permission_stops_the_run_before_anything_is_paid(start: Runner) -> None:
    assert_stopped_before_anything_was_paid(start("create_403"), "key was refused for this: check")


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


def test_a_foreign_batch_beside_ours_is_told_apart_and_paid_once(start: Runner) -> None:
    assert_found_and_paid_once(start("create_drop_after", "foreign_batch"))


def test_a_foreign_batch_without_ours_is_not_taken_for_it(start: Runner) -> None:
    assert_sent_again_and_paid_once(start("create_drop", "foreign_batch"))


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


def test_a_redirected_creation_is_not_followed_and_nothing_is_paid(start: Runner) -> None:
    assert_stopped_before_anything_was_paid(
        start("create_redirect"), "answered 307, a redirect to http://localhost:.* not followed"
    )


def test_a_service_that_cannot_look_up_a_model_is_asked_with_a_warning(start: Runner) -> None:
    run = start("model_404")
    assert run.settle().answered == 4
    assert run.progress.heard("answered 404 when asked for the model 'judge-1'")
    assert_settled_once(run)
