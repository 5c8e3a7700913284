import numpy as np
import pytest

from tournament_assets.ratings.sequential import (
    StoppingRule,
    evidence,
    hashed_order,
    horvitz_thompson_weights,
    round_ends,
    tail_prompts,
)

PROMPTS = tuple(f"prompt_{index}" for index in range(143))


def rule(**changes: object) -> StoppingRule:
    settings: dict[str, object] = {"goal": "bank", "confidence": 0.95, "n_pairs": 6}
    return StoppingRule(**(settings | {"n_prompts": 143} | changes))  # type: ignore[arg-type]


def test_new_prompts_move_no_other_past_another() -> None:
    longer = hashed_order([*PROMPTS, "new", "newer"])
    assert tuple(each for each in longer if each in PROMPTS) == hashed_order(PROMPTS[::-1])
    assert hashed_order(PROMPTS) != hashed_order(PROMPTS, salt="factuality")


def test_a_larger_tail_holds_a_smaller_one_for_either_order_of_the_pair() -> None:
    small = tail_prompts(PROMPTS, pair=("ada", "bob"), share=0.1)
    large = tail_prompts(PROMPTS, pair=("bob", "ada"), share=0.4)
    assert 0 < len(small) < len(large) < 143
    assert set(small) < set(large)
    assert tail_prompts(PROMPTS, pair=("ada", "cy"), share=0.4) != large
    weights = horvitz_thompson_weights(PROMPTS, n_before=40, pair=("ada", "bob"), share=0.4)
    assert set(weights[:40]) == {1.0}
    assert set(weights[40:]) == {0.0, 2.5}


def test_rounds_end_with_the_whole_bank() -> None:
    assert round_ends(143, rounds=1, min_prompts=20) == (143,)
    assert round_ends(12, rounds=5, min_prompts=20) == (12,)
    ends = round_ends(143, rounds=5, min_prompts=20)
    assert len(ends) == 5
    assert ends[0] >= 20
    assert ends[-1] == 143
    assert list(ends) == sorted(set(ends))


def test_a_pair_that_wins_everything_stops_after_the_first_round() -> None:
    first = evidence(np.ones(143), rule())
    second = evidence(np.zeros(143), rule())
    assert first.side == "first"
    assert second.side == "second"
    assert first.judged == second.judged == rule().ends[0]
    np.testing.assert_array_equal(first.capital_first, second.capital_second)


def test_equals_are_judged_to_the_end_and_nobody_wins() -> None:
    found = evidence(np.tile([1.0, 0.0], 71), rule(n_prompts=142))
    assert (found.side, found.stopped_at, found.judged) == (None, None, None)


def test_a_whole_bank_decides_what_one_prompt_decides() -> None:
    shares = np.append(np.tile([0.0, 1.0], 71), 1.0)
    found = evidence(shares, rule())
    assert (found.side, found.judged) == ("first", 143)
    assert found.capital_first[-1] == np.inf


@pytest.mark.parametrize("goal", ["bank", "population"])
def test_a_prompt_without_a_verdict_is_no_tie_in_the_mean(goal: str) -> None:
    shares = np.where(np.arange(143) % 3 == 0, np.nan, 1.0)
    found = evidence(shares, rule(goal=goal))
    assert found.centre[-1] == 1.0
    assert found.side == "first"
