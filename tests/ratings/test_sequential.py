import numpy as np
import pytest

from tournament_assets.ratings.sequential import (
    StoppingRule,
    decide,
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
    first, second = decide([np.ones(143), np.zeros(143)], rule())
    assert (first.evidence.side, second.evidence.side) == ("first", "second")
    assert first.judged == second.judged == rule().ends[0]
    np.testing.assert_array_equal(first.evidence.capital_first, second.evidence.capital_second)


def test_equals_are_judged_to_the_end_and_nobody_wins() -> None:
    (found,) = decide([np.tile([1.0, 0.0], 71)], rule(n_prompts=142))
    assert found.judged is None
    assert found.evidence.stopped_at is None


def test_a_whole_bank_decides_what_one_prompt_decides() -> None:
    shares = np.append(np.tile([0.0, 1.0], 71), 1.0)
    found = evidence(shares, rule())
    assert (found.side, found.stopped_at) == ("first", 143)
    assert found.capital_first[-1] == np.inf


def test_thresholds_keep_every_mixture_of_equals_and_others_within_the_promise() -> None:
    for n in (1, 2, 6, 45):
        steps = [rule(n_pairs=n).threshold(r) * 0.05 / 2 for r in range(n)]
        assert steps[0] == pytest.approx(n)
        assert steps == sorted(steps, reverse=True)
        for others in range(n + 1):
            equals = (n - others) / steps[others] if others < n else 0.0
            errs = equals + (others / (2 * steps[others - 1]) if others else 0.0)
            assert errs <= 1 + 1e-12


def test_what_was_judged_after_a_stop_is_not_looked_at() -> None:
    shares = [np.append(np.ones(40), np.zeros(103)), np.tile([1.0, 0.0, 0.5], 48)[:143]]
    whole, cut = (
        decide(shares, rule(n_pairs=2)),
        decide([shares[0][:58], shares[1]], rule(n_pairs=2)),
    )
    assert whole[0].judged == cut[0].judged == 33
    np.testing.assert_array_equal(whole[0].evidence.capital_first, cut[0].evidence.capital_first)


@pytest.mark.parametrize("goal", ["bank", "population"])
def test_a_prompt_without_a_verdict_is_no_tie_in_the_mean(goal: str) -> None:
    shares = np.where(np.arange(143) % 3 == 0, np.nan, 1.0)
    found = evidence(shares, rule(goal=goal))
    assert found.centre[-1] == 1.0
    assert found.side == "first"
