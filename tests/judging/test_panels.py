from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judging.test_reconciliation import reply
from tournament_assets.judging.requests.pairs import (
    PRESENTATIONS,
    PairToJudge,
    Presentation,
    draw_share,
    presentations_of,
)
from tournament_assets.judging.requests.requests import RequestSettings, build_requests
from tournament_assets.judging.requests.verdict_parsing import (
    reconcile_swap,
    settle_pairs,
    settle_panel,
)
from tournament_assets.tournament.asset_rows import VerdictRow
from tournament_assets.tournament.judges import parse_rubric
from tournament_assets.tournament.verdicts import Outcome, Verdict, settle_together

A, B, TIE = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE
SPLIT, MUTE, SAME = Outcome.INCONSISTENT, Outcome.UNJUDGED, Outcome.SAME_TEXT


def pairs(n: int) -> list[PairToJudge]:
    return [
        PairToJudge(f"p{index}", "recall", "Why?", "ada", "bob", f"one {index}", f"two {index}")
        for index in range(n)
    ]


@pytest.mark.parametrize(
    ("votes", "outcome"),
    [
        ([A, A, B], A),
        ([A, TIE, TIE], TIE),
        ([A, B, TIE], SPLIT),
        ([A, TIE, SPLIT], SPLIT),
        ([A, A, MUTE], A),
        ([A, MUTE, MUTE], MUTE),
        ([A, MUTE], MUTE),
        ([A, B], SPLIT),
        ([SAME, SAME], SAME),
        ([], MUTE),
    ],
)
def test_several_judges_settle_a_pair_by_plurality(votes: list[Outcome], outcome: Outcome) -> None:
    assert settle_together([(each, 1.0) for each in votes]) is outcome


def test_a_judge_that_weighs_more_than_the_others_decides() -> None:
    assert settle_together([(A, 3.0), (B, 1.0), (B, 1.0)]) is A
    assert settle_together([(A, 1.5), (B, 1.0), (B, 1.0)]) is B


@given(st.lists(st.tuples(st.sampled_from(Outcome), st.integers(1, 5)), max_size=6))
def test_the_order_of_judges_makes_no_difference(votes: list[tuple[Outcome, int]]) -> None:
    weighed = [(outcome, float(weight)) for outcome, weight in votes]
    assert settle_together(weighed) is settle_together(weighed[::-1])


def verdict(judge: str, outcome: Outcome) -> VerdictRow:
    (row,) = settle_pairs(
        [reply("p0", each, "VERDICT: TIE") for each in PRESENTATIONS], reply_format="line"
    )
    return replace(row, judge_model=judge, outcome=outcome.value)


def test_the_row_of_a_panel_shows_replies_of_a_judge_who_says_the_same() -> None:
    rows = [verdict("small", B), verdict("large", A), verdict("other", B)]
    rows = [replace(row, request_key_ab=row.judge_model) for row in rows]
    found = settle_panel(rows, {"small": 1.0, "large": 1.5, "other": 1.1}, judge_model="all three")
    assert (found.outcome, found.winner) == (B, "bob")
    assert (found.request_key_ab, found.judge_model) == ("other", "all three")


def test_a_judge_without_weight_does_not_vote() -> None:
    rows = [verdict("coin", B), verdict("good", A)]
    found = settle_panel(rows, {"coin": 0.0, "good": 1.0}, judge_model="both")
    assert (found.outcome, found.winner) == (A, "ada")


def test_one_order_alone_settles_a_pair_that_is_shown_once() -> None:
    assert reconcile_swap(Verdict.A, Verdict.NOT_SHOWN) is A
    assert reconcile_swap(Verdict.NOT_SHOWN, Verdict.A) is B
    assert reconcile_swap(Verdict.NOT_SHOWN, Verdict.TIE) is TIE
    assert reconcile_swap(Verdict.REFUSED, Verdict.NOT_SHOWN) is MUTE
    (row,) = settle_pairs([reply("p0", Presentation.BA, "VERDICT: A")], how_shown="one")
    assert (row.verdict_ab, row.verdict_ba, row.winner) == ("not_shown", "A", "bob")
    assert (row.request_key_ab, row.request_key_ba) == ("", "p0 ba")


def test_a_lost_presentation_of_two_is_no_pair_that_was_shown_once() -> None:
    with pytest.raises(KeyError):
        settle_pairs([reply("p0", Presentation.BA, "VERDICT: A")])


def test_every_judge_settles_a_pair_by_its_own_replies() -> None:
    replies = [
        replace(reply("p0", each, f"VERDICT: {said}"), judge_model=judge)
        for judge, says in (("one", "AB"), ("two", "BA"))
        for each, said in zip(PRESENTATIONS, says, strict=True)
    ]
    rows = settle_pairs(replies)
    assert [(row.judge_model, row.winner) for row in rows] == [("one", "ada"), ("two", "bob")]


def test_half_of_the_pairs_are_shown_in_each_order_and_always_in_the_same() -> None:
    shown = [presentations_of(each, judge_model="judge", how="one") for each in pairs(2000)]
    assert {len(each) for each in shown} == {1}
    assert 900 < sum(each == (Presentation.AB,) for each in shown) < 1100
    again = [presentations_of(each, judge_model="judge", how="one") for each in pairs(2000)]
    other = [presentations_of(each, judge_model="another", how="one") for each in pairs(2000)]
    assert again == shown
    assert other != shown
    assert presentations_of(pairs(1)[0], judge_model="judge", how="both") == PRESENTATIONS


def test_a_share_of_the_pairs_falls_to_a_judge() -> None:
    all_pairs = pairs(2000)
    drawn = draw_share(all_pairs, judge_model="judge", share=0.3)
    assert 500 < len(drawn) < 700
    assert draw_share(all_pairs, judge_model="judge", share=0.6)[: len(drawn)] != drawn
    assert set(map(id, drawn)) <= set(
        map(id, draw_share(all_pairs, judge_model="judge", share=0.6))
    )
    assert draw_share(all_pairs, judge_model="judge", share=1.0) == all_pairs


def test_a_pair_that_is_shown_once_is_one_of_the_two_requests() -> None:
    rubric = parse_rubric(
        "# version: 1\n# dimension: factuality\nJudge.", dimension="factuality", where="x"
    )
    both = RequestSettings("judge", 64, shows_gold_answer=False, shows_expected_behavior=False)
    once = build_requests(pairs(20), rubric, replace(both, presentations="one"))
    twice = {request.request_key: request for request in build_requests(pairs(20), rubric, both)}
    assert len(once) == 20
    assert all(twice[each.request_key].presentation is each.presentation for each in once)
    assert [once.pair_of(place).prompt_id for place in range(20)] == [
        request.prompt_id for request in once
    ]
