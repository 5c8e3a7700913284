from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.judging.requests.pairs import (
    PRESENTATIONS,
    PairToJudge,
    build_match_list,
    draw_share,
    filter_pairs_for_dimension,
)
from tournament_assets.tournament.prompts import AnswerKey, Prompt, answer_key

RECALL = Prompt("r1", "Which vitamin?", "recall", gold_answer="C")
CURATED = Prompt("c1", "Is it cancer?", "curated", expected_behavior="hedge")


def answers(entrants: str, *prompts: Prompt) -> dict[tuple[str, AnswerKey], str]:
    return {
        (entrant, answer_key(prompt)): f"{entrant} on {prompt.prompt_id}"
        for entrant in entrants
        for prompt in prompts
    }


def test_every_two_entrants_meet_once_on_every_prompt_in_the_order_of_the_tables() -> None:
    matches = build_match_list(
        [CURATED, RECALL], answers("zab", RECALL, CURATED), entrants=("z", "a", "b")
    )
    assert [(pair.prompt_id, pair.entrant_a, pair.entrant_b) for pair in matches.pairs] == [
        ("c1", "z", "a"),
        ("c1", "z", "b"),
        ("c1", "a", "b"),
        ("r1", "z", "a"),
        ("r1", "z", "b"),
        ("r1", "a", "b"),
    ]
    assert matches.incomplete_prompts == {}


def test_a_pair_holds_everything_the_judge_may_be_shown() -> None:
    matches = build_match_list(
        [RECALL, CURATED], answers("ab", RECALL, CURATED), entrants=("a", "b")
    )
    assert [*matches.pairs] == [
        PairToJudge("r1", "recall", "Which vitamin?", "a", "b", "a on r1", "b on r1", "C", None),
        PairToJudge(
            "c1", "curated", "Is it cancer?", "a", "b", "a on c1", "b on c1", None, "hedge"
        ),
    ]


def test_a_prompt_that_one_entrant_did_not_answer_is_left_out_for_everyone() -> None:
    other = Prompt("r2", "Which mineral?", "recall", gold_answer="Iron")
    responses = answers("abc", RECALL) | answers("b", CURATED) | answers("ab", other)
    matches = build_match_list([CURATED, RECALL, other], responses, entrants=("a", "b", "c"))
    assert {pair.prompt_id for pair in matches.pairs} == {"r1"}
    assert matches.incomplete_prompts == {("c1", 1): ("a", "c"), ("r2", 1): ("c",)}


def test_an_empty_response_is_a_response() -> None:
    responses = answers("ab", RECALL) | {("a", ("r1", 1)): ""}
    (pair,) = build_match_list([RECALL], responses, entrants=("a", "b")).pairs
    assert pair.response_a == ""


@given(st.integers(0, 6), st.integers(0, 5))
def test_the_number_of_pairs_is_prompts_times_two_out_of_n(n_prompts: int, n_entrants: int) -> None:
    prompts = [Prompt(f"p{number}", "?", "recall") for number in range(n_prompts)]
    entrants = "abcde"[:n_entrants]
    matches = build_match_list(prompts, answers(entrants, *prompts), entrants=tuple(entrants))
    assert len(matches.pairs) == n_prompts * comb(n_entrants, 2)


@pytest.mark.parametrize(("needs_gold_answer", "expected"), [(True, ["r1"]), (False, ["r1", "c1"])])
def test_prompts_without_a_gold_answer_are_left_out_only_where_one_is_needed(
    needs_gold_answer: bool, expected: list[str]
) -> None:
    pairs = build_match_list(
        [RECALL, CURATED], answers("ab", RECALL, CURATED), entrants=("a", "b")
    ).pairs
    kept = filter_pairs_for_dimension(pairs, needs_gold_answer=needs_gold_answer)
    assert [pair.prompt_id for pair in kept] == expected


def test_presentations_are_stored_as_ab_and_ba() -> None:
    assert [presentation.value for presentation in PRESENTATIONS] == ["ab", "ba"]


def pairs(n: int) -> list[PairToJudge]:
    return [
        PairToJudge(f"p{index}", "recall", "Why?", "ada", "bob", f"one {index}", f"two {index}")
        for index in range(n)
    ]


def test_a_share_of_the_pairs_falls_to_a_judge() -> None:
    all_pairs = pairs(2000)
    drawn = draw_share(all_pairs, judge_model="judge", share=0.3)
    assert 500 < len(drawn) < 700
    assert draw_share(all_pairs, judge_model="judge", share=0.6)[: len(drawn)] != drawn
    assert set(map(id, drawn)) <= set(
        map(id, draw_share(all_pairs, judge_model="judge", share=0.6))
    )
    assert draw_share(all_pairs, judge_model="judge", share=1.0) == all_pairs
