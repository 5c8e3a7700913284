import pytest

from tournament_assets.tournament.errors import JudgeError, JudgeFailure
from tournament_assets.tournament.verdicts import Verdict

from .runs import FIRST, KEYS, Runner

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "fault",
    [
        "row_rate_limit_error",
        "row_api_error",
        "row_overloaded_error",
        "row_timeout_error",
        "row_unknown_error_type",
        "row_expired",
        "row_canceled",
    ],
)
def test_a_request_that_failed_in_passing_is_asked_again_by_itself(
    start: Runner, fault: str
) -> None:
    run = start(fault)
    tally = run.settle()
    assert (tally.failed, tally.batches, tally.submitted, tally.answered) == (1, 2, 5, 4)
    assert run.ledger.failed_keys(KEYS) == {FIRST: fault.removeprefix("row_")}
    assert run.states == ["harvested", "harvested"]
    assert run.is_settled()
    assert run.paid == (2, 5, 0)
    assert run.settle().submitted == 0


@pytest.mark.parametrize("fault", ["row_invalid_request_error", "row_request_too_large"])
def test_a_request_that_can_never_succeed_is_not_asked_again(start: Runner, fault: str) -> None:
    run = start(fault)
    tally = run.settle()
    assert (tally.failed, tally.batches, tally.answered) == (0, 1, 4)
    assert [reply.error_type for reply in run.replies()] == [fault.removeprefix("row_")]
    assert run.verdicts() == [Verdict.PERMANENT]
    assert run.is_done
    assert run.settle().submitted == 0
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize(
    "fault",
    [
        "row_authentication_error",
        "row_billing_error",
        "row_permission_error",
        "row_not_found_error",
    ],
)
def test_a_request_that_nobody_can_answer_stops_the_run_and_is_asked_by_the_next(
    start: Runner, fault: str
) -> None:
    run = start(fault)
    name = fault.removeprefix("row_")
    with pytest.raises(JudgeError, match=rf"^1 .*{name}: ") as caught:
        run.settle()
    assert caught.value.failure is JudgeFailure.FATAL
    assert run.ledger.answered_keys(KEYS) == set(KEYS) - {FIRST}
    assert run.states == ["harvested"]
    assert run.paid == (1, 4, 0)
    assert run.settle().submitted == 1
    assert run.is_settled()
    assert run.paid == (2, 5, 0)


def test_requests_that_fail_in_every_round_are_asked_one_by_one(start: Runner) -> None:
    run = start("row_expired:9")
    tally = run.settle()
    # All four, four and one of them, and what was left over.
    assert (tally.batches, tally.direct, tally.answered) == (3, 1, 4)
    assert run.is_settled()
    assert run.paid == (3, 12, 1)


def test_more_failed_requests_than_may_be_asked_one_by_one_wait_for_the_next_run(
    start: Runner,
) -> None:
    run = start("row_overloaded_error:4")
    assert run.settle(max_rounds=1, max_direct=3).answered == 0
    assert not run.is_done
    assert run.settle().answered == 4
    assert run.is_settled()
