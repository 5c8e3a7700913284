from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.audits.position_bias import measure_position_bias
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Verdict

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
PAIRS = st.lists(st.tuples(st.sampled_from(Verdict), st.sampled_from(Verdict)), max_size=30)


def judge(
    n_pairs: int, prefers_first: Callable[[np.random.Generator], bool], seed: int = 0
) -> list[tuple[Verdict, Verdict]]:
    """Judge pairs of equal responses by the slot alone, reply by reply."""
    generator = np.random.default_rng(seed)
    return [
        (A if prefers_first(generator) else B, A if prefers_first(generator) else B)
        for _ in range(n_pairs)
    ]


def test_a_judge_that_always_takes_the_first_slot_flips_every_pair_to_it() -> None:
    found = measure_position_bias([(A, A)] * 40)
    assert (found.first_slot.count, found.first_slot.n) == (80, 80)
    assert (found.flips_to_first.count, found.flips_to_first.n) == (40, 40)
    assert (found.consistent.count, found.consistent.n) == (0, 40)


@pytest.mark.parametrize("bias", [0.2, 0.5, 0.8])
def test_the_rate_and_the_direction_of_flips_are_those_of_the_judge(bias: float) -> None:
    found = measure_position_bias(judge(4000, lambda generator: generator.random() < bias))
    assert found.first_slot.rate == pytest.approx(bias, abs=0.02)
    # Both replies take the first slot with b², the second with (1 - b)².
    direction = bias**2 / (bias**2 + (1 - bias) ** 2)
    assert found.flips_to_first.rate == pytest.approx(direction, abs=0.03)
    assert found.consistent.rate == pytest.approx(2 * bias * (1 - bias), abs=0.03)


def test_the_interval_holds_the_bias_of_independent_replies_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        rate = measure_position_bias(judge(50, lambda generator: generator.random() < 0.6, seed))
        assert rate.first_slot.low is not None
        assert rate.first_slot.high is not None
        held += rate.first_slot.low <= 0.6 <= rate.first_slot.high
    assert 0.92 <= held / 400 <= 0.98


def test_a_judge_that_follows_the_responses_has_one_reply_for_each_slot_a_pair() -> None:
    found = measure_position_bias([(A, B), (B, A), (TIE, TIE)])
    assert found.first_slot.rate == 0.5
    assert found.flips_to_first.n == 0
    assert found.flips_to_first.rate is None
    assert found.consistent.rate == 1.0


def test_a_tie_in_one_order_alone_is_half_a_flip_and_what_is_missing_is_none() -> None:
    found = measure_position_bias([(A, TIE), (TIE, B), (A, Verdict.REFUSED)])
    assert found.half_flips == 2
    assert (found.consistent.count, found.consistent.n) == (0, 2)
    # The reply beside a missing one stands for one order alone, so it is left out.
    assert (found.first_slot.count, found.first_slot.n) == (1, 2)


@given(PAIRS)
def test_every_readable_pair_is_consistent_flipped_or_half_flipped(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    found = measure_position_bias(pairs)
    readable = sum(first.is_decided and second.is_decided for first, second in pairs)
    assert found.consistent.n == readable
    assert found.consistent.count + found.flips_to_first.n + found.half_flips == readable


@given(PAIRS)
def test_naming_the_slots_the_other_way_round_turns_the_bias_round(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    turned = {A: B, B: A}
    found = measure_position_bias(pairs)
    other = measure_position_bias(
        [(turned.get(first, first), turned.get(second, second)) for first, second in pairs]
    )
    assert other.first_slot.n == found.first_slot.n
    assert other.first_slot.count == found.first_slot.n - found.first_slot.count
    assert other.flips_to_first.count == found.flips_to_first.n - found.flips_to_first.count
    assert other.consistent == found.consistent


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        measure_position_bias([], confidence=1.5)
