from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tournament_assets.judging.requests.pairs import (
    PRESENTATIONS,
    PairToJudge,
    build_match_list,
    draw_share,
    filter_pairs_for_dimension,
)
from tournament_assets.tournament.judges import Judge
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
    assert matches.pairs == (
        PairToJudge("r1", "recall", "Which vitamin?", "a", "b", "a on r1", "b on r1", "C", None),
        PairToJudge(
            "c1", "curated", "Is it cancer?", "a", "b", "a on c1", "b on c1", None, "hedge"
        ),
    )


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
    drawn, more = (draw_share(all_pairs, judge("judge", share=share)) for share in (0.3, 0.6))
    assert 500 < len(drawn) < 700
    assert more[: len(drawn)] != drawn
    assert set(map(id, drawn)) <= set(map(id, more))
    assert draw_share(all_pairs, judge("judge")) == all_pairs


def judge(name: str, share: float = 1.0) -> Judge:
    return Judge(service="loopback", model=f"loopback-{name}", share=share)


def turns(all_pairs: Sequence[PairToJudge], *names: str) -> dict[tuple[str, int], str]:
    """Return who judges each pair in turn, having checked that it is exactly one."""
    judges = [judge(name) for name in names]
    models = [each.model for each in judges]
    drawn = [(each.model, draw_share(all_pairs, each.in_turn(models))) for each in judges]
    taken = {(pair.prompt_id, pair.sample): model for model, own in drawn for pair in own}
    assert sum(len(own) for _, own in drawn) == len(taken) == len(all_pairs)
    return taken


@settings(max_examples=10)
@given(st.permutations("abcd"), st.integers(1, 4), st.integers(0, 499))
def test_in_turn_each_pair_is_one_judges_whatever_else_is_judged(
    names: list[str], n_judges: int, cut: int
) -> None:
    all_pairs, judges = pairs(500), names[:n_judges]
    taken = turns(all_pairs, *judges)
    assert all(abs(n / 500 - 1 / n_judges) < 0.07 for n in Counter(taken.values()).values())
    assert turns(all_pairs, *reversed(judges)) == taken
    part = all_pairs[cut:]
    swapped = [replace(pair, entrant_a="bob", entrant_b="ada") for pair in part]
    assert (
        turns(part, *judges)
        == turns(swapped, *judges)
        == {(pair.prompt_id, 1): taken[pair.prompt_id, 1] for pair in part}
    )
    # Whoever joins takes pairs of the others, who exchange none.
    moved = {new for key, new in turns(all_pairs, *judges, "new").items() if new != taken[key]}
    assert moved == {"loopback-new"}
