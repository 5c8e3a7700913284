import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.adaptive import (
    FIELDS,
    apply_rule,
    bias,
    draw_shares,
    measure,
    truth_of,
    wrong_tournaments,
)
from tournament_assets.ratings.prompt_rounds import hashed_order, round_ends, tail_prompts
from tournament_assets.ratings.sequential import (
    Goal,
    Side,
    StoppingRule,
    aimed_capital,
    decide,
    evidence,
    log_capital,
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
    np.testing.assert_allclose(first.evidence.capital_first, second.evidence.capital_second)


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
            assert errs <= 1 + 1e-9


def test_what_was_judged_after_a_stop_is_not_looked_at() -> None:
    shares = [np.append(np.ones(40), np.zeros(103)), np.tile([1.0, 0.0, 0.5], 48)[:143]]
    whole, cut = (
        decide(shares, rule(n_pairs=2)),
        decide([shares[0][:58], shares[1]], rule(n_pairs=2)),
    )
    assert whole[0].judged == cut[0].judged == 33
    np.testing.assert_allclose(whole[0].evidence.capital_first, cut[0].evidence.capital_first)


@pytest.mark.parametrize("goal", ["bank", "population"])
def test_a_prompt_without_a_verdict_is_no_tie_in_the_mean(goal: str) -> None:
    shares = np.where(np.arange(143) % 3 == 0, np.nan, 1.0)
    found = evidence(shares, rule(goal=goal))
    assert found.centre[-1] == 1.0
    assert found.side == "first"


BALANCED = (
    np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0]),
    np.array([1.0, 1.0, np.nan, 0.5, np.nan, 0.5, 0.0, 0.0]),
)


@pytest.mark.parametrize("bank", BALANCED, ids=["all readable", "two unreadable"])
@pytest.mark.parametrize(("t", "draws"), [(3, 336), (5, 6720), (7, 40320)])
@pytest.mark.parametrize("side", ["first", "second"])
def test_over_all_ordered_draws_of_a_level_bank_the_capital_stays_one_on_average(
    bank: NDArray[np.float64], t: int, draws: int, side: Side
) -> None:
    shares = bank[np.array(list(permutations(range(8), t)))]
    assert len(shares) == draws
    looked_at = rule(n_prompts=8, n_pairs=1, min_prompts=1)
    capital = np.exp(aimed_capital(shares, looked_at, side=side))
    np.testing.assert_allclose(capital.mean(axis=0), 1.0, rtol=1e-9)
    # Only ties and unreadable prompts move nothing; whatever else was drawn wins or loses.
    is_level = ((shares == 0.5) | np.isnan(shares)).all(axis=1)
    np.testing.assert_array_equal(np.isclose(capital[:, -1], 1.0, rtol=1e-9), is_level)


@pytest.mark.parametrize("side", ["first", "second"])
def test_over_all_samples_of_equals_the_capital_stays_one_on_average(side: Side) -> None:
    shares = np.array(list(product([0.0, 0.5, 1.0], repeat=7)))
    chances = np.where(shares == 0.5, 0.25, 0.375).prod(axis=1)
    looked_at = rule(goal="population", n_prompts=7, n_pairs=1, min_prompts=1)
    capital = np.exp(aimed_capital(shares, looked_at, side=side))
    np.testing.assert_allclose(chances @ capital, 1.0, rtol=1e-9)


def test_what_a_bank_gives_the_weaker_side_is_never_more_than_one_on_average() -> None:
    bank = np.array([1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.0, 0.0])
    shares = bank[np.array(list(permutations(range(8), 6)))]
    looked_at = rule(n_prompts=8, n_pairs=1, min_prompts=1)
    capital = np.exp(aimed_capital(shares, looked_at, side="second"))
    assert (capital.mean(axis=0) <= 1.0).all()


GIVEN = np.array([1.0, 0.5, 0.0, 1.0, 1.0] * 8 + [1.0, 1.0, 0.0, 0.5, 1.0] * 2)
BETS: NDArray[np.float64] = 0.1 + 0.05 * (np.arange(50) % 9).astype(np.float64)


def test_the_capital_of_given_bets_is_that_of_exact_fractions() -> None:
    capital, total = Fraction(1), Fraction(0)
    for index, (share, bet) in enumerate(zip(GIVEN, BETS, strict=True)):
        expected = (Fraction(50) - total) / (100 - index)
        capital *= 1 + Fraction(bet) * (Fraction(share) - expected)
        total += Fraction(share)
        found = log_capital(GIVEN[: index + 1], BETS[: index + 1], side="first", n_prompts=100)
        assert math.exp(found[-1]) == pytest.approx(float(capital), rel=1e-9)


@pytest.mark.parametrize(
    ("side", "n_prompts", "expected"),
    [
        ("first", 100, [1.05, 1.5026863788781661, 3.0536025457869997, 29.156949862091153]),
        ("second", 100, [0.95, 0.5434612836023284, 0.1961216067955487, 0.01024759229665721]),
        ("first", None, [10.548718319554922]),
        ("second", None, [0.034854624115997254]),
    ],
)
def test_the_capital_of_given_bets_is_that_of_confseq(
    side: Side, n_prompts: int | None, expected: list[float]
) -> None:
    # confseq 0.0.11, betting_mart(x, 1/2, N=n_prompts, theta=1 or 0, trunc_scale=1), prompts 1, 10,
    # 25 and 50, and the last one where nothing is drawn without replacement.
    capital = np.exp(log_capital(GIVEN, BETS, side=side, n_prompts=n_prompts))
    at = [0, 9, 24, 49] if len(expected) == 4 else [49]
    np.testing.assert_allclose(capital[at], expected, rtol=1e-9)


@pytest.mark.parametrize("goal", ["bank", "population"])
@pytest.mark.parametrize(("field", "n_prompts"), [*product(FIELDS, (143, 500))])
def test_signs_of_a_dimension_are_wrong_together_in_five_per_cent_at_most(
    goal: Goal, field: str, n_prompts: int
) -> None:
    n_tournaments = 100 if n_prompts == 143 else 40
    shares = draw_shares(field, n_prompts=n_prompts, n_tournaments=n_tournaments, seed=5)
    found = apply_rule(f"{goal}, aimed bets, 5 rounds", shares)
    wrong = wrong_tournaments(found, truth_of(goal, field, shares))
    assert wrong <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n_tournaments)


def test_six_level_pairs_are_told_apart_in_five_per_cent_of_banks_at_most() -> None:
    generator = np.random.default_rng(3)
    level = np.repeat([0.0, 0.5, 1.0], [20, 20, 20])
    shares = generator.permuted(np.tile(level, (1000, 6, 1)), axis=-1)
    found = apply_rule("bank, aimed bets, 5 rounds", shares)
    assert 0.01 < (found.sign != 0).any(axis=1).mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 1000)


def test_many_tournaments_at_once_stop_as_each_of_them_does() -> None:
    shares = draw_shares("separated", n_prompts=143, n_tournaments=4, seed=2)
    together = apply_rule("bank, aimed bets, 5 rounds", shares)
    signs = {"first": 1, "second": -1, None: 0}
    for index, own in enumerate(shares):
        alone = decide(list(own), rule())
        assert [each.judged or 143 for each in alone] == together.judged[index].tolist()
        assert [signs[each.evidence.side] for each in alone] == together.sign[index].tolist()


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("population, asymptotic sequence, every prompt", 0.71),
        ("bank, one plain bet, 5 rounds", 0.63),
        ("bank, one plain bet, 3 rounds", 0.68),
        ("bank, aimed bets, 5 rounds", 0.545),
    ],
)
def test_rules_judge_the_share_that_was_measured(name: str, share: float) -> None:
    shares = draw_shares("separated", n_prompts=143, n_tournaments=150, seed=1)
    assert measure(name, "separated", shares).judged == pytest.approx(share, abs=0.02)


def test_ratings_of_stopped_pairs_are_biased_without_the_tail_and_not_with_it() -> None:
    shares = np.repeat(
        draw_shares("separated", n_prompts=143, n_tournaments=150, seed=1), 5, axis=0
    )
    lucky, _, _ = bias(shares, share=0)
    mended, _, _ = bias(shares, share=0.2)
    assert lucky[3] - lucky[0] > 10
    assert np.abs(mended).max() < 1
