import pytest

from tournament_assets.tournament.verdicts import Verdict

from .runs import FIRST, Runner, true_verdict

pytestmark = pytest.mark.e2e

WITHOUT_A_VERDICT = [
    "stop_sequence",
    "stop_tool_use",
    "stop_max_tokens",
    "stop_pause_turn",
    "stop_unknown",
    "text_empty",
    "content_empty",
    "no_verdict",
    "two_verdicts",
    "verdict_abstain",
]
DIRECT_WITHOUT_A_VERDICT = [
    "direct_stop_sequence",
    "direct_stop_tool_use",
    "direct_stop_max_tokens",
    "direct_stop_pause_turn",
    "direct_stop_unknown",
    "direct_text_empty",
    "direct_content_empty",
    "direct_no_verdict",
    "direct_two_verdicts",
    "direct_verdict_abstain",
]


@pytest.mark.parametrize("fault", WITHOUT_A_VERDICT)
def test_a_reply_without_a_verdict_is_asked_for_once_more(start: Runner, fault: str) -> None:
    run = start(fault)
    tally = run.settle()
    assert (tally.second_questions, tally.batches, tally.submitted) == (1, 2, 5)
    assert run.verdicts() == [Verdict.UNREADABLE, true_verdict(FIRST)]
    assert run.is_settled()
    assert run.paid == (2, 5, 0)
    assert run.settle().submitted == 0


@pytest.mark.parametrize("fault", DIRECT_WITHOUT_A_VERDICT)
def test_a_direct_reply_without_a_verdict_is_asked_for_once_more(start: Runner, fault: str) -> None:
    run = start("row_expired", fault)
    tally = run.settle(max_rounds=1)
    assert (tally.direct, tally.second_questions, tally.batches) == (1, 1, 2)
    assert run.verdicts() == [Verdict.UNREADABLE, true_verdict(FIRST)]
    assert [reply.channel for reply in run.replies()] == ["direct", "batch"]
    assert run.is_settled()
    assert run.paid == (2, 5, 1)
    assert run.settle().submitted == 0


@pytest.mark.parametrize("fault", ["no_verdict:5", "verdict_abstain:5", "stop_max_tokens:5"])
def test_a_reply_that_is_unreadable_twice_is_left_at_that(start: Runner, fault: str) -> None:
    run = start(fault)
    assert run.settle().second_questions == 4
    assert run.verdicts() == [Verdict.UNREADABLE, Verdict.UNREADABLE]
    assert run.is_done
    assert run.paid == (2, 8, 0)
    assert run.settle().submitted == 0


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [("stop_refusal", Verdict.REFUSED), ("stop_context_window", Verdict.PERMANENT)],
)
def test_a_reply_that_asking_again_cannot_mend_is_final(
    start: Runner, fault: str, verdict: Verdict
) -> None:
    run = start(fault)
    assert run.settle().second_questions == 0
    assert run.verdicts() == [verdict]
    assert run.is_done
    assert run.paid == (1, 4, 0)
    assert run.settle().submitted == 0


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [("direct_stop_refusal", Verdict.REFUSED), ("direct_stop_context_window", Verdict.PERMANENT)],
)
def test_a_direct_reply_that_asking_again_cannot_mend_is_final(
    start: Runner, fault: str, verdict: Verdict
) -> None:
    run = start("row_expired", fault)
    assert run.settle(max_rounds=1).second_questions == 0
    assert run.verdicts() == [verdict]
    assert run.is_done
    assert run.paid == (1, 4, 1)


@pytest.mark.parametrize(
    "fault", ["schema_ignored", "thinking_first", "verdict_markdown", "verdict_quoted"]
)
def test_a_verdict_in_an_unusual_reply_is_read_as_the_judge_meant_it(
    start: Runner, fault: str
) -> None:
    run = start(fault)
    assert run.settle().second_questions == 0
    assert run.verdicts() == [true_verdict(FIRST)]
    assert run.is_settled()
    assert run.paid == (1, 4, 0)


@pytest.mark.parametrize(
    "fault",
    [
        "direct_schema_ignored",
        "direct_thinking_first",
        "direct_verdict_markdown",
        "direct_verdict_quoted",
    ],
)
def test_a_verdict_in_an_unusual_direct_reply_is_read_as_the_judge_meant_it(
    start: Runner, fault: str
) -> None:
    run = start("row_expired", fault)
    assert run.settle(max_rounds=1).second_questions == 0
    assert run.verdicts() == [true_verdict(FIRST)]
    assert run.is_settled()
    assert run.paid == (1, 4, 1)
