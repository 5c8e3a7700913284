from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import oracle
from tournament_assets.judging.requests.pairs import Presentation
from tournament_assets.judging.requests.verdict_parsing import (
    reconcile_swap,
    settle_pairs,
    stored_outcome,
)
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict

verdicts = st.sampled_from([each for each in Verdict if each is not Verdict.NOT_SHOWN])
_SWAPPED_OUTCOME = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


def reply(
    prompt_id: str,
    presentation: Presentation,
    text: str | None,
    *,
    result_type: str = "succeeded",
    attempt: int = 1,
) -> JudgeReplyRow:
    return JudgeReplyRow(
        prompt_id=prompt_id,
        source="recall",
        dimension="factuality",
        entrant_a="ada",
        entrant_b="bob",
        presentation=presentation.value,
        request_key=f"{prompt_id} {presentation.value}",
        asking=attempt,
        judge_model="judge-1",
        rubric_version="1",
        rubric_hash="hash",
        result_type=result_type,
        stop_reason="end_turn",
        reply=text,
    )


@pytest.mark.parametrize(
    ("verdict_ab", "verdict_ba", "outcome"),
    [
        (Verdict.A, Verdict.B, Outcome.A_WINS),
        (Verdict.B, Verdict.A, Outcome.B_WINS),
        (Verdict.TIE, Verdict.TIE, Outcome.TIE),
        (Verdict.A, Verdict.A, Outcome.INCONSISTENT),
        (Verdict.B, Verdict.B, Outcome.INCONSISTENT),
        (Verdict.A, Verdict.TIE, Outcome.INCONSISTENT),
        (Verdict.TIE, Verdict.A, Outcome.INCONSISTENT),
        (Verdict.B, Verdict.TIE, Outcome.INCONSISTENT),
        (Verdict.TIE, Verdict.B, Outcome.INCONSISTENT),
        (Verdict.A, Verdict.REFUSED, Outcome.UNJUDGED),
        (Verdict.UNREADABLE, Verdict.TIE, Outcome.UNJUDGED),
        (Verdict.PENDING, Verdict.PENDING, Outcome.UNJUDGED),
    ],
)
def test_a_pair_is_settled_once_the_positions_are_undone(
    verdict_ab: Verdict, verdict_ba: Verdict, outcome: Outcome
) -> None:
    assert reconcile_swap(verdict_ab, verdict_ba) is outcome


@settings(deadline=None)
@given(verdicts, verdicts)
def test_exchanging_the_entrants_exchanges_the_winner(first: Verdict, second: Verdict) -> None:
    outcome = reconcile_swap(first, second)
    assert reconcile_swap(second, first) is _SWAPPED_OUTCOME.get(outcome, outcome)


@settings(deadline=None)
@given(verdicts, verdicts)
def test_nothing_is_decided_from_a_reply_that_says_nothing(first: Verdict, second: Verdict) -> None:
    unjudged = reconcile_swap(first, second) is Outcome.UNJUDGED
    assert unjudged is not (first.is_decided and second.is_decided)


def test_a_pair_is_settled_from_both_its_replies_in_whatever_order_they_come() -> None:
    ab = reply("p1", Presentation.AB, "VERDICT: A")
    ba = reply("p1", Presentation.BA, "VERDICT: B")
    expected = VerdictRow(
        prompt_id="p1",
        source="recall",
        dimension="factuality",
        entrant_a="ada",
        entrant_b="bob",
        verdict_ab="A",
        verdict_ba="B",
        outcome="a_wins",
        winner="ada",
        request_key_ab="p1 ab",
        request_key_ba="p1 ba",
        asking_ab=1,
        asking_ba=1,
        judge_model="judge-1",
    )
    assert settle_pairs([ab, ba]) == [expected]
    assert settle_pairs([ba, ab]) == [expected]


def test_a_reply_without_a_verdict_leaves_its_reason() -> None:
    (pair,) = settle_pairs(
        [
            reply("p1", Presentation.AB, "VERDICT: A"),
            reply("p1", Presentation.BA, None, result_type="pending"),
        ]
    )
    assert pair.outcome == Outcome.UNJUDGED
    assert (pair.verdict_ab, pair.verdict_ba) == (Verdict.A, Verdict.PENDING)
    assert (pair.reason_ab, pair.reason_ba) == (None, "the reply is pending")


def test_pairs_keep_their_order() -> None:
    replies = [
        reply(prompt, presentation, "VERDICT: TIE")
        for presentation in Presentation
        for prompt in ("z", "a", "m")
    ]
    assert [pair.prompt_id for pair in settle_pairs(replies)] == ["z", "a", "m"]


def test_a_presentation_that_is_missing_altogether_is_no_pending_one() -> None:
    with pytest.raises(KeyError):
        settle_pairs([reply("p1", Presentation.AB, "VERDICT: A")])


texts = st.sampled_from(
    ["VERDICT: A", "VERDICT: B", "**verdict: tie**", "VERDICT: A\nVERDICT: B", "VERDICT: t\u0131e"]
) | st.text(max_size=12)
result_types = st.sampled_from(["succeeded", "succeeded", "identical", "pending", "expired"])


@settings(deadline=None, max_examples=300)
@given(texts, texts, result_types, result_types)
def test_a_pair_is_settled_only_by_two_replies_that_a_slow_reader_reads_alike(
    text_ab: str, text_ba: str, type_ab: str, type_ba: str
) -> None:
    (pair,) = settle_pairs(
        [
            reply("p1", Presentation.AB, text_ab, result_type=type_ab),
            reply("p1", Presentation.BA, text_ba, result_type=type_ba),
        ]
    )
    said = tuple(
        oracle.verdict_of_row(
            result_type=result_type, stop_reason="end_turn", text=text, reply_format="line"
        )
        for result_type, text in ((type_ab, text_ab), (type_ba, text_ba))
    )
    agreed: dict[tuple[str | None, ...], Outcome] = {
        ("A", "B"): Outcome.A_WINS,
        ("B", "A"): Outcome.B_WINS,
        ("TIE", "TIE"): Outcome.TIE,
    }
    otherwise = Outcome.UNJUDGED if None in said else Outcome.INCONSISTENT
    if type_ab == type_ba == "identical":
        otherwise, said = Outcome.SAME_TEXT, ()
    assert pair.outcome == agreed.get(said, otherwise)


@settings(deadline=None)
@given(texts, texts, st.randoms(use_true_random=False))
def test_replies_may_come_in_any_order(text_ab: str, text_ba: str, random: Random) -> None:
    replies = [
        reply("p1", presentation, reply_text, attempt=attempt)
        for presentation, text in ((Presentation.AB, text_ab), (Presentation.BA, text_ba))
        for attempt, reply_text in ((1, text), (2, "VERDICT: TIE"), (3, None))
    ]
    shuffled = random.sample(replies, len(replies))
    assert settle_pairs(shuffled) == settle_pairs(replies)


def test_the_first_asking_with_a_verdict_counts_and_else_the_last() -> None:
    (pair,) = settle_pairs(
        [
            reply("p1", Presentation.AB, "none", attempt=1),
            reply("p1", Presentation.AB, "VERDICT: A", attempt=2),
            reply("p1", Presentation.AB, "VERDICT: B", attempt=3),
            reply("p1", Presentation.BA, "none", attempt=1),
            reply("p1", Presentation.BA, "none again", attempt=2),
        ]
    )
    assert (pair.verdict_ab, pair.asking_ab) == (Verdict.A, 2)
    assert (pair.verdict_ba, pair.asking_ba) == (Verdict.UNREADABLE, 2)
    assert "'none again'" in str(pair.reason_ba)


def test_a_pair_is_read_in_the_format_it_was_asked_in() -> None:
    replies = [
        reply("p1", Presentation.AB, '{"reasoning": "x", "verdict": "A"}'),
        reply("p1", Presentation.BA, "VERDICT: B"),
    ]
    (structured,) = settle_pairs(replies, reply_format="json_schema")
    (line,) = settle_pairs(replies)
    assert structured.outcome == Outcome.A_WINS
    assert line.outcome == Outcome.UNJUDGED


@settings(deadline=None)
@given(verdicts, verdicts)
def test_a_judge_that_goes_by_position_alone_decides_nothing(
    first: Verdict, second: Verdict
) -> None:
    if first is second and first is not Verdict.TIE:
        assert not reconcile_swap(first, second).is_decisive
        assert reconcile_swap(first, second) is not Outcome.TIE


def test_identical_responses_settle_their_pair_as_one_of_the_same_text() -> None:
    (pair,) = settle_pairs(
        [reply("p1", presentation, None, result_type="identical") for presentation in Presentation]
    )
    assert pair.outcome == Outcome.SAME_TEXT
    assert pair.reason_ab == pair.reason_ba
    # Earlier versions wrote such a pair down as a tie with the same reason.
    assert stored_outcome("tie", pair.reason_ab) is Outcome.SAME_TEXT
    assert stored_outcome("tie", None) is Outcome.TIE
    assert "was not asked" in str(pair.reason_ab)
