import pytest

from tournament_assets.tournament.errors import JudgeError, JudgeFailure
from tournament_assets.tournament.verdicts import Verdict

from .runs import FIRST, KEYS, Run, Runner

pytestmark = pytest.mark.e2e


def assert_asked_directly_and_answered(run: Run, *, lost: int = 0, answered: int = 1) -> None:
    tally = run.settle(max_rounds=1)
    assert (tally.direct, tally.answered, tally.batches) == (1, 4, 1)
    # A question whose reply may have got lost is paid from the budget again, under its own name.
    assert tally.failed == 1 + lost
    assert [reply.channel for reply in run.replies()] == ["direct"]
    assert run.states == ["harvested"] * (2 + lost)
    assert run.is_settled()
    assert run.paid == (1, 4, answered)
    assert run.settle().submitted == 0


@pytest.mark.parametrize(
    ("fault", "lost", "answered"),
    [
        ("message_drop", 1, 1),
        # A message has no name under which its answer could be had: here the protocol ends.
        ("message_drop_after", 1, 2),
        ("message_429_bare:3", 0, 1),
        ("message_500:2", 2, 1),
        ("message_529:3", 3, 1),
    ],
)
def test_a_direct_question_that_got_no_answer_is_asked_again(
    start: Runner, fault: str, lost: int, answered: int
) -> None:
    assert_asked_directly_and_answered(start("row_expired", fault), lost=lost, answered=answered)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("message_401", "key"),
        ("message_spend_limit", "spend limit"),
        ("message_redirect", "http://localhost:"),
    ],
)
def test_a_refusal_that_somebody_has_to_mend_stops_the_direct_questions(
    start: Runner, fault: str, what: str
) -> None:
    run = start("row_expired", fault)
    with pytest.raises(JudgeError, match=what) as caught:
        run.settle(max_rounds=1)
    assert caught.value.failure is JudgeFailure.FATAL
    assert run.states == ["harvested", "refused"]
    assert run.ledger.answered_keys(KEYS) == set(KEYS) - {FIRST}
    assert run.paid == (1, 4, 0)
    run.settle()
    assert run.is_settled()
    assert run.paid == (2, 5, 0)


def test_a_direct_question_that_is_invalid_is_final(start: Runner) -> None:
    run = start("row_expired", "message_400")
    tally = run.settle(max_rounds=1)
    assert (tally.direct, tally.answered) == (1, 4)
    assert run.verdicts() == [Verdict.PERMANENT]
    assert run.is_done
    assert run.paid == (1, 4, 0)
    assert run.settle().submitted == 0


def test_a_rate_limit_of_direct_questions_is_waited_out_as_long_as_it_says(start: Runner) -> None:
    run = start("row_expired", "message_429")
    assert_asked_directly_and_answered(run)
    assert 1.0 in run.naps


def test_a_direct_answer_whose_bill_is_beyond_64_bits_counts_without_one(start: Runner) -> None:
    run = start("row_expired", "direct_usage_huge")
    run.settle(max_rounds=1)
    assert run.is_settled()
    assert run.paid == (1, 4, 1)
    assert [reply.usage for reply in run.replies()] == [None]


def test_a_direct_question_that_fails_four_times_is_left_to_the_next_run(start: Runner) -> None:
    run = start("row_expired", "message_529:4")
    tally = run.settle(max_rounds=1)
    assert (tally.direct, tally.failed, tally.answered) == (1, 1 + 4, 3)
    assert run.states == ["harvested"] * (1 + 4)
    assert not run.is_done
    run.settle()
    assert run.is_settled()
    assert run.paid == (2, 5, 0)
