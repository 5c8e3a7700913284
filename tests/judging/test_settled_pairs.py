from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import oracle
from tests.rows import judge_reply_row
from tournament_assets.judging.requests.pairs import (
    PRESENTATIONS,
    Presentation,
)
from tournament_assets.judging.requests.verdict_parsing import (
    reconcile_swap,
    settle_pairs,
    settle_panel,
)
from tournament_assets.tournament.asset_rows import JudgeReplyRow, VerdictRow
from tournament_assets.tournament.verdicts import Outcome, Verdict

verdicts = st.sampled_from(Verdict)
_SWAPPED_OUTCOME = {Outcome.A_WINS: Outcome.B_WINS, Outcome.B_WINS: Outcome.A_WINS}


def reply(
    prompt_id: str, presentation: Presentation, text: str | None, **changes: Any
) -> JudgeReplyRow:
    return judge_reply_row(prompt_id, presentation.value, text, **changes)


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


@given(verdicts, verdicts)
def test_exchanging_the_entrants_exchanges_the_winner(first: Verdict, second: Verdict) -> None:
    outcome = reconcile_swap(first, second)
    assert reconcile_swap(second, first) is _SWAPPED_OUTCOME.get(outcome, outcome)


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
        verdict_ab=Verdict.A,
        verdict_ba=Verdict.B,
        outcome=Outcome.A_WINS,
        share=1.0,
        winner="ada",
        request_key_ab="p1 ab",
        request_key_ba="p1 ba",
        attempt_ab=1,
        attempt_ba=1,
        settled_by="judge-1",
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
    assert (pair.reason_ab, str(pair.reason_ba)[-7:]) == (None, "pending")


def test_pairs_keep_their_order() -> None:
    replies = [
        reply(prompt, presentation, "VERDICT: TIE")
        for presentation in Presentation
        for prompt in ("z", "a", "m")
    ]
    assert [pair.prompt_id for pair in settle_pairs(replies)] == ["z", "a", "m"]


@pytest.mark.parametrize("presentation", PRESENTATIONS)
def test_a_presentation_that_is_missing_altogether_is_an_error_and_not_a_pending_one(
    presentation: Presentation,
) -> None:
    with pytest.raises(KeyError):
        settle_pairs([reply("p1", presentation, "VERDICT: A")])


texts = st.sampled_from(
    ["VERDICT: A", "VERDICT: B", "**verdict: tie**", "VERDICT: A\nVERDICT: B", "VERDICT: t\u0131e"]
) | st.text(max_size=12)
result_types = st.sampled_from(["succeeded", "succeeded", "identical", "pending", "expired"])


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
    assert (pair.verdict_ab, pair.attempt_ab) == (Verdict.A, 2)
    assert (pair.verdict_ba, pair.attempt_ba) == (Verdict.UNREADABLE, 2)
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


A, B, TIE = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE
SPLIT, MUTE, SAME = Outcome.INCONSISTENT, Outcome.UNJUDGED, Outcome.SAME_TEXT


@pytest.mark.parametrize(
    ("votes", "outcome"),
    [
        ([A, A, B], A),
        ([A, TIE, TIE], A),
        ([A, B, TIE], SPLIT),
        ([A, TIE, SPLIT], A),
        ([A, SPLIT, SPLIT, SPLIT, SPLIT], A),
        ([TIE, TIE, SPLIT], TIE),
        ([A, A, MUTE], A),
        ([A, MUTE, MUTE], MUTE),
        ([A, MUTE], MUTE),
        ([A, B], SPLIT),
        ([SAME, SAME], SAME),
    ],
)
def test_several_judges_settle_a_pair_by_their_shares(
    votes: list[Outcome], outcome: Outcome
) -> None:
    assert together([(each, 1.0) for each in votes]).outcome is outcome


def test_the_share_of_a_jury_is_the_weighted_mean_of_its_judges_shares() -> None:
    assert together([(A, 2.0), (TIE, 1.0), (B, 1.0)]).share == 0.625
    assert together([(A, 3.0), (MUTE, 1.0), (B, 2.0)]).share == pytest.approx(0.6)
    assert together([(A, 1.0), (MUTE, 1.0)]).share is None


def test_a_judge_that_weighs_more_than_the_others_decides() -> None:
    assert together([(A, 3.0), (B, 1.0), (B, 1.0)]).outcome is A
    assert together([(A, 1.5), (B, 1.0), (B, 1.0)]).outcome is B


votes_of_a_jury = st.lists(
    st.tuples(st.sampled_from(Outcome), st.integers(1, 5)), min_size=1, max_size=6
)


@given(votes_of_a_jury)
def test_the_order_of_judges_makes_no_difference(votes: list[tuple[Outcome, int]]) -> None:
    weighed = [(outcome, float(weight)) for outcome, weight in votes]
    one, other = together(weighed), together(weighed[::-1])
    assert (one.outcome, one.share) == (other.outcome, other.share)
    if one.share is not None:
        assert 1 - (1 - one.share) == one.share


@given(votes_of_a_jury, st.sampled_from([A, B]), st.integers(1, 5))
def test_a_judge_more_who_agrees_leaves_no_pair_undecided(
    votes: list[tuple[Outcome, int]], outcome: Outcome, weight: int
) -> None:
    weighed = [(each, float(own)) for each, own in votes]
    if together(weighed).outcome is outcome:
        assert together([*weighed, (outcome, float(weight))]).outcome is outcome


def test_a_judge_whose_reply_is_still_to_come_silences_nobody_and_a_silent_one_does() -> None:
    def settled(*verdicts: Verdict) -> Outcome:
        late = replace(verdict("late", MUTE), verdict_ab=verdicts[0], verdict_ba=verdicts[1])
        weights = {"one": 1.0, "late": 1.0}
        return settle_panel([verdict("one", A), late], weights, settled_by="all").outcome

    assert settled(Verdict.PENDING, Verdict.PENDING) is A
    assert settled(Verdict.PENDING, Verdict.B) is A
    assert settled(Verdict.PENDING, Verdict.REFUSED) is MUTE
    assert settled(Verdict.A, Verdict.UNREADABLE) is MUTE


def test_a_heavy_judge_that_says_nothing_does_not_silence_two_and_does_not_decide_alone() -> None:
    assert together([(A, 1.0), (A, 1.0), (MUTE, 9.0)]).outcome is A
    assert together([(A, 9.0), (MUTE, 1.0), (MUTE, 1.0)]).outcome is MUTE


def test_a_pair_that_every_judge_is_still_to_be_heard_on_is_unjudged() -> None:
    late = replace(verdict("late", MUTE), verdict_ab=Verdict.PENDING, verdict_ba=Verdict.PENDING)
    found = settle_panel([late], {"late": 1.0}, settled_by="all")
    assert (found.outcome, found.share) == (MUTE, None)


def together(votes: Sequence[tuple[Outcome, float]]) -> VerdictRow:
    rows = [verdict(f"j{place}", outcome) for place, (outcome, _) in enumerate(votes)]
    weights = {f"j{place}": weight for place, (_, weight) in enumerate(votes)}
    return settle_panel(rows, weights, settled_by="all")


def verdict(judge: str, outcome: Outcome) -> VerdictRow:
    (row,) = settle_pairs(
        [reply("p0", each, "VERDICT: TIE") for each in PRESENTATIONS], reply_format="line"
    )
    return replace(row, settled_by=judge, outcome=outcome, share=outcome.share)


def test_the_row_of_a_panel_shows_replies_of_a_judge_who_says_the_same() -> None:
    rows = [verdict("small", B), verdict("large", A), verdict("other", B)]
    rows = [replace(row, request_key_ab=row.settled_by) for row in rows]
    found = settle_panel(rows, {"small": 1.0, "large": 1.5, "other": 1.1}, settled_by="all three")
    assert (found.outcome, found.winner) == (B, "bob")
    assert (found.request_key_ab, found.settled_by) == ("other", "all three")


def test_a_judge_without_weight_does_not_vote() -> None:
    rows = [verdict("coin", B), verdict("good", A)]
    found = settle_panel(rows, {"coin": 0.0, "good": 1.0}, settled_by="both")
    assert (found.outcome, found.winner) == (A, "ada")


def test_every_judge_settles_a_pair_by_its_own_replies() -> None:
    replies = [
        replace(reply("p0", each, f"VERDICT: {said}"), judge_model=judge)
        for judge, says in (("one", "AB"), ("two", "BA"))
        for each, said in zip(PRESENTATIONS, says, strict=True)
    ]
    rows = settle_pairs(replies)
    assert [(row.settled_by, row.winner) for row in rows] == [("one", "ada"), ("two", "bob")]
