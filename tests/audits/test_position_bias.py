from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.audits.judge_consistency import (
    JudgedPair,
    PositionBias,
    distinct_requests,
    measure_longer_wins,
    measure_position_bias,
)
from tournament_assets.judging.requests.verdict_parsing import reconcile_swap
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

A, B, TIE = Verdict.A, Verdict.B, Verdict.TIE
PAIRS = st.lists(st.tuples(st.sampled_from(Verdict), st.sampled_from(Verdict)), max_size=30)


def asked(prompt: str, *verdicts: Verdict, requests: tuple[str, str] | None = None) -> JudgedPair:
    first, second = verdicts
    judgment = Judgment(prompt, "f", "ada", "bob", reconcile_swap(first, second))
    return JudgedPair(judgment, (first, second), requests or (f"{prompt} ab", f"{prompt} ba"))


def measure(pairs: list[tuple[Verdict, Verdict]], *, confidence: float = 0.95) -> PositionBias:
    """Measure pairs that are on a prompt of their own each."""
    return measure_position_bias(
        [asked(f"p{number}", *pair) for number, pair in enumerate(pairs)], confidence=confidence
    )


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
    found = measure([(A, A)] * 40)
    assert (found.first_slot.count, found.first_slot.n) == (80, 80)
    assert (found.flips_to_first.count, found.flips_to_first.n) == (40, 40)
    assert (found.consistent.count, found.consistent.n) == (0, 40)


@pytest.mark.parametrize("bias", [0.2, 0.5, 0.8])
def test_the_rate_and_the_direction_of_flips_are_those_of_the_judge(bias: float) -> None:
    found = measure(judge(4000, lambda generator: generator.random() < bias))
    assert found.first_slot.rate == pytest.approx(bias, abs=0.02)
    # Both replies take the first slot with b², the second with (1 - b)².
    direction = bias**2 / (bias**2 + (1 - bias) ** 2)
    assert found.flips_to_first.rate == pytest.approx(direction, abs=0.03)
    assert found.consistent.rate == pytest.approx(2 * bias * (1 - bias), abs=0.03)


def test_the_interval_holds_the_bias_of_independent_replies_as_often_as_it_says() -> None:
    held = 0
    for seed in range(400):
        rate = measure(judge(50, lambda generator: generator.random() < 0.6, seed))
        assert rate.first_slot.low is not None
        assert rate.first_slot.high is not None
        held += rate.first_slot.low <= 0.6 <= rate.first_slot.high
    assert 0.92 <= held / 400 <= 0.98


def test_a_judge_that_follows_the_responses_has_one_reply_for_each_slot_a_pair() -> None:
    found = measure([(A, B), (B, A), (TIE, TIE)])
    assert found.first_slot.rate == 0.5
    assert found.flips_to_first.n == 0
    assert found.flips_to_first.rate is None
    assert found.consistent.rate == 1.0


def test_a_tie_in_one_order_alone_is_half_a_flip_and_what_is_missing_is_none() -> None:
    found = measure([(A, TIE), (TIE, B), (A, Verdict.REFUSED)])
    assert found.half_flips == 2
    assert (found.consistent.count, found.consistent.n) == (0, 2)
    # The reply beside a missing one stands for one order alone, so it is left out.
    assert (found.first_slot.count, found.first_slot.n) == (1, 2)


@given(PAIRS)
def test_every_readable_pair_is_consistent_flipped_or_half_flipped(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    found = measure(pairs)
    readable = sum(first.is_decided and second.is_decided for first, second in pairs)
    assert found.consistent.n == readable
    assert found.consistent.count + found.flips_to_first.n + found.half_flips == readable


@given(PAIRS)
def test_naming_the_slots_the_other_way_round_turns_the_bias_round(
    pairs: list[tuple[Verdict, Verdict]],
) -> None:
    turned = {A: B, B: A}
    found = measure(pairs)
    other = measure(
        [(turned.get(first, first), turned.get(second, second)) for first, second in pairs]
    )
    assert other.first_slot.n == found.first_slot.n
    assert other.first_slot.count == found.first_slot.n - found.first_slot.count
    assert other.flips_to_first.count == found.flips_to_first.n - found.flips_to_first.count
    assert other.consistent == found.consistent


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        measure([], confidence=1.5)


def test_a_pair_that_was_asked_about_once_counts_once_and_copies_count_nothing() -> None:
    same = ("first", "second")
    copy = JudgedPair(
        Judgment("p2", "f", "ada", "bob", Outcome.SAME_TEXT), (TIE, TIE), ("both", "both")
    )
    pairs = [
        asked("p1", A, A, requests=same),
        asked("p1", A, A, requests=same[::-1]),
        asked("p3", A, B),
        copy,
    ]
    distinct = distinct_requests(pairs)
    assert distinct == [pairs[0], pairs[2]]
    found = measure_position_bias(distinct)
    assert (found.consistent.count, found.consistent.n) == (1, 2)
    assert (found.first_slot.count, found.first_slot.n) == (3, 4)


def test_pairs_on_one_prompt_do_not_make_the_interval_narrower() -> None:
    alone = measure([(A, A), (B, B)] * 10)
    together = measure_position_bias(
        asked(f"p{number}", *pair, requests=(f"{number} {copy} ab", f"{number} {copy} ba"))
        for copy in range(6)
        for number, pair in enumerate([(A, A), (B, B)] * 10)
    )
    assert (alone.flips_to_first.n, together.flips_to_first.n) == (20, 120)
    assert together.flips_to_first.low == pytest.approx(alone.flips_to_first.low)
    assert together.flips_to_first.high == pytest.approx(alone.flips_to_first.high)
    # Everything alike shows no spread: ten pairs on two prompts are no more than two.
    unanimous = measure_position_bias(
        asked(f"p{n % 2}", A, A, requests=(f"{n} ab", f"{n} ba")) for n in range(10)
    )
    assert unanimous.flips_to_first.low is not None
    assert unanimous.flips_to_first.low < 0.05


def test_the_longer_response_wins_are_counted_where_one_is_longer_and_somebody_won() -> None:
    def pair(prompt: str, outcome: Outcome, longer: Outcome) -> JudgedPair:
        return JudgedPair(
            Judgment(prompt, "f", "ada", "bob", outcome), (A, B), (prompt, f"{prompt} ba"), longer
        )

    found = measure_longer_wins(
        [
            pair("p1", Outcome.A_WINS, Outcome.A_WINS),
            pair("p2", Outcome.B_WINS, Outcome.A_WINS),
            pair("p3", Outcome.A_WINS, Outcome.TIE),
            pair("p4", Outcome.TIE, Outcome.A_WINS),
        ]
    )
    assert (found.count, found.n) == (1, 2)
