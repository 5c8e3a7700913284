from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from tests.ratings.builders import matches_at
from tests.ratings.simulated_judges import SimulatedJudge, simulate_presentations
from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.covariates import fit_controlled
from tournament_assets.ratings.judge_aware import (
    ALL_ALIKE,
    NO_VERDICT,
    UNCONNECTED,
    JudgeAwareFit,
    fit_judge_aware,
)
from tournament_assets.ratings.matches import Matches

ARENA = Path(__file__).parents[3] / "shared" / "data" / "arena_judged" / "battles.parquet"
JURY = (SimulatedJudge(1.6, 0.2), SimulatedJudge(1.0, -0.4, 0.2), SimulatedJudge(0.6, 1.9))
STRENGTHS = (-0.8, -0.2, 0.3, 0.7)


def points(fit: JudgeAwareFit) -> list[float | None]:
    return [each.value for each in fit.ratings]


def test_the_maximum_is_that_of_a_slow_search() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=60, seed=1)
    found = fit_judge_aware(matches, slots, confidence=0.95)

    def cost(free: np.ndarray) -> float:
        strengths = np.append(free[:3], -free[:3].sum())
        slopes = np.append(free[6:8], 3 - free[6:8].sum())
        odds = (
            slopes[matches.judge_index] * (strengths[matches.first] - strengths[matches.second])
            + slots * free[3:6][matches.judge_index]
        )
        return -float((matches.preference * odds - np.logaddexp(0, odds)).sum())

    slow = minimize(cost, np.repeat([0.1, 1.0], [6, 2]), options={"gtol": 1e-6})
    assert found.log_likelihood == pytest.approx(-slow.fun, abs=1e-6)
    expected = 1400 + ELO_PER_NAT * np.append(slow.x[:3], -slow.x[:3].sum())
    assert points(found) == pytest.approx(list(expected), abs=0.01)
    slopes = [each.discrimination.value for each in found.judges if each.discrimination]
    assert slopes == pytest.approx([*slow.x[6:8], 3 - slow.x[6:8].sum()], abs=1e-4)
    betas = [each.slot_logits.value for each in found.judges if each.slot_logits]
    assert betas == pytest.approx(list(slow.x[3:6]), abs=1e-4)


def test_one_judge_is_the_fit_with_the_slot_as_a_covariate() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY[2:], n_prompts=40, seed=2)
    found = fit_judge_aware(matches, slots, confidence=0.9)
    plain = replace(matches, judges=(), judge_index=matches.judge_index[:0])
    expected = fit_controlled(plain, slots[:, None], names=("slot",), confidence=0.9)
    assert points(found) == pytest.approx([each.value for each in expected.ratings])
    assert [each.low for each in found.ratings] == pytest.approx(
        [each.low for each in expected.ratings]
    )
    (judge,) = found.judges
    assert judge.discrimination is None
    assert judge.slot_logits is not None
    assert judge.slot_logits.value is not None
    assert judge.slot_logits.value * ELO_PER_NAT == pytest.approx(expected.effects[0].value)
    assert judge.note is None


def test_errors_are_those_of_resampled_prompts() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=250, seed=3)
    found = fit_judge_aware(matches, slots, confidence=0.95)
    generator = np.random.default_rng(0)
    drawn = []
    for _ in range(120):
        counts = np.bincount(generator.integers(250, size=250), minlength=250)
        kept = np.flatnonzero(counts[matches.prompt_index])
        weight = counts[matches.prompt_index].astype(np.float64)
        resample = matches_at(replace(matches, weight=np.maximum(weight, 1)), kept)
        fit = fit_judge_aware(resample, slots[kept], confidence=0.95)
        slopes = [each.discrimination.value for each in fit.judges if each.discrimination]
        drawn.append([*(each.value or np.nan for each in fit.ratings), *slopes])
    spread = np.std(np.array(drawn), axis=0)
    errors = [each.standard_error or np.nan for each in found.ratings]
    for judge in found.judges:
        assert judge.discrimination is not None
        low, high = judge.discrimination.low, judge.discrimination.high
        assert low is not None
        assert high is not None
        errors.append((high - low) / 2 / 1.9695)
    np.testing.assert_allclose(errors, spread, rtol=0.25)


def test_which_entrant_a_row_names_first_makes_no_difference() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=30, seed=4)
    turned = np.random.default_rng(0).random(matches.n_matches) < 0.5
    other = replace(
        matches,
        first=np.where(turned, matches.second, matches.first),
        second=np.where(turned, matches.first, matches.second),
        preference=np.where(turned, 1 - matches.preference, matches.preference),
    )
    found = fit_judge_aware(matches, slots, confidence=0.95)
    again = fit_judge_aware(other, np.where(turned, -slots, slots), confidence=0.95)
    assert points(again) == pytest.approx(points(found))
    assert again.log_likelihood == pytest.approx(found.log_likelihood)


def test_a_coin_has_a_discrimination_of_about_0_and_moves_the_ratings_by_little() -> None:
    coin = SimulatedJudge(0.0, 0.5)
    matches, slots = simulate_presentations(STRENGTHS, (*JURY, coin), n_prompts=60, seed=5)
    found = fit_judge_aware(matches, slots, confidence=0.95)
    drawn = found.judges[3].discrimination
    assert drawn is not None
    assert drawn.low is not None
    assert drawn.high is not None
    assert drawn.low < 0 < drawn.high < 0.5
    kept = matches.judge_index < 3
    without = matches.of_judges(np.array([True, True, True, False]))
    alone = np.array(points(fit_judge_aware(without, slots[kept], confidence=0.95)), dtype=float)
    both = np.array(points(found), dtype=float)
    # Four judges average to 1, so the scale is another one.
    assert np.corrcoef(both, alone)[0, 1] > 0.999


def test_a_judge_who_loves_one_entrant_does_not_count_without_bound() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=30, seed=6)
    loved = (matches.judge_index == 2) & (matches.second == 3)
    matches = replace(matches, preference=np.where(loved, 0.0, matches.preference))
    found = fit_judge_aware(matches, slots, confidence=0.95)
    assert found.judges[2].note == UNCONNECTED
    assert [each.discrimination is None for each in found.judges] == [False, False, True]
    assert all(each.value is not None for each in found.ratings)


def test_judges_that_agree_on_nothing_have_no_discrimination_that_differs_from_another() -> None:
    coins = (SimulatedJudge(0.0, 0.3), SimulatedJudge(0.0, -0.3))
    matches, slots = simulate_presentations((0.0, 0.0, 0.0), coins, n_prompts=40, seed=0)
    found = fit_judge_aware(matches, slots, confidence=0.95)
    for each in found.judges:
        assert each.note in {ALL_ALIKE, None}
        reach = each.discrimination
        assert reach is None or reach.low is None or reach.low < 1 < (reach.high or 0)
    assert all(each.value is not None for each in found.ratings)


def said_by_all(matches: Matches, slots: np.ndarray, *, times: int) -> tuple[Matches, np.ndarray]:
    """Return one judge's verdicts as if so many judges had given them."""
    return replace(
        matches_at(matches, np.tile(np.arange(matches.n_matches), times)),
        judges=tuple(f"judge_{index}" for index in range(times)),
        judge_index=np.repeat(np.arange(times), matches.n_matches),
    ), np.tile(slots, times)


def test_judges_that_say_the_same_of_few_pairs_rate_as_one_of_them() -> None:
    # Rounding leaves a discrimination's variance of 0 a little above or below it.
    for seed in range(12):
        one = simulate_presentations((0.5, 0.0, -0.5), JURY[1:2], n_prompts=4, seed=seed)
        found = fit_judge_aware(*said_by_all(*one, times=3), confidence=0.95)
        known = [each.discrimination for each in found.judges if each.discrimination]
        assert [each.value for each in known] == pytest.approx([1.0] * len(known))
        assert points(found) == pytest.approx(points(fit_judge_aware(*one, confidence=0.95)))


def test_entrants_that_are_alike_leave_the_judges_alike() -> None:
    # In the seeds named, rounding lets three equal entrants through to a matrix without an inverse.
    for seed in (6, 8, 91, 130, *range(10, 20)):
        one = simulate_presentations(
            (0.0, 0.0, 0.0), (SimulatedJudge(1.0, 0.2),), n_prompts=2, seed=seed, presentations=2
        )
        found = fit_judge_aware(*said_by_all(*one, times=3), confidence=0.95)
        assert points(found) == pytest.approx(points(fit_judge_aware(*one, confidence=0.95)))


def test_a_judge_that_says_nothing_is_named() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=20, seed=7)
    silent = replace(matches, judges=(*matches.judges, "mute"))
    found = fit_judge_aware(silent, slots, confidence=0.95)
    assert (found.judges[3].note, found.judges[3].n_verdicts) == (NO_VERDICT, 0)
    assert points(found) == pytest.approx(points(fit_judge_aware(matches, slots, confidence=0.95)))


def test_a_single_presentation_costs_no_bias_when_the_judge_likes_a_slot() -> None:
    judge = SimulatedJudge(1.0, 1.9)
    ratings: list[list[float | None]] = []
    held: list[bool] = []
    for seed in range(120):
        matches, slots = simulate_presentations(STRENGTHS, (judge,), n_prompts=143, seed=seed)
        fit = fit_judge_aware(matches, slots, confidence=0.95, initial_rating=0.0)
        ratings.append(points(fit))
        truth = ELO_PER_NAT * np.array(STRENGTHS)
        held.extend(
            each.low is not None and each.high is not None and each.low <= true <= each.high
            for each, true in zip(fit.ratings, truth, strict=True)
        )
    values = np.array(ratings, dtype=np.float64)
    bias = values.mean(axis=0) - ELO_PER_NAT * np.array(STRENGTHS)
    noise = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(bias) < 2 + 2 * noise).all()
    assert 0.91 < np.mean(held) < 0.98


def test_ratings_without_the_slot_shrink_where_the_judge_likes_one() -> None:
    judge = SimulatedJudge(1.0, 1.9)
    matches, slots = simulate_presentations(STRENGTHS, (judge,), n_prompts=400, seed=0)
    plain = [each.value for each in fit_bradley_terry(matches)]
    fitted = points(fit_judge_aware(matches, slots, confidence=0.95))
    assert np.std(np.array(plain, dtype=float)) < 0.8 * np.std(np.array(fitted, dtype=float))


def test_slots_without_a_meaning_are_refused() -> None:
    matches, slots = simulate_presentations(STRENGTHS, JURY, n_prompts=5, seed=0)
    with pytest.raises(InputError, match="a 1, -1 or 0"):
        fit_judge_aware(matches, slots[1:], confidence=0.95)
    with pytest.raises(InputError, match="no judge"):
        fit_judge_aware(
            replace(matches, judges=(), judge_index=slots[:0].astype(np.int64)),
            slots,
            confidence=0.95,
        )


@pytest.mark.skipif(not ARENA.exists(), reason="the arena's verdicts are not in this checkout")
def test_arena_verdicts_give_the_figures_of_an_independent_fit() -> None:
    frame = pd.read_parquet(ARENA)
    judges = ("gpt4", "claude3", "gpt35")
    entrants = tuple(sorted({*frame.model_a, *frame.model_b}))
    place = {name: index for index, name in enumerate(entrants)}
    codes, prompts = pd.factorize(frame.question_id, sort=True)
    said = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "tie (bothbad)": 0.5}

    def presented(names: tuple[str, ...]) -> Matches:
        times = len(names)
        return Matches(
            entrants=entrants,
            prompts=tuple(prompts),
            first=np.tile(frame.model_a.map(place).to_numpy(np.int64), times),
            second=np.tile(frame.model_b.map(place).to_numpy(np.int64), times),
            prompt_index=np.tile(codes.astype(np.int64), times),
            preference=np.concatenate(
                [frame[f"winner_{name}"].map(said).to_numpy(np.float64) for name in names]
            ),
            weight=np.ones(len(frame) * times),
            judges=names,
            judge_index=np.repeat(np.arange(times), len(frame)),
        )

    matches = presented(judges)
    found = fit_judge_aware(matches, np.ones(matches.n_matches), confidence=0.95)
    assert found.log_likelihood == pytest.approx(-42_149.1, abs=0.05)
    gammas = [each.discrimination.value for each in found.judges if each.discrimination]
    betas = [each.slot_logits.value for each in found.judges if each.slot_logits]
    scale = np.exp(np.mean(np.log(np.array(gammas, dtype=float))))
    assert np.mean(np.array(gammas, dtype=float)) == pytest.approx(1)
    assert np.array(gammas) / scale == pytest.approx([1.599, 0.970, 0.645], abs=5e-4)
    assert betas == pytest.approx([0.180, -0.347, 1.914], abs=5e-4)
    people = presented(("human",))
    by_people = fit_judge_aware(people, np.ones(people.n_matches), confidence=0.95)
    slot = by_people.judges[0].slot_logits
    assert slot is not None
    assert slot.value == pytest.approx(0.0009, abs=5e-5)
    truth = np.array([each.value for each in fit_bradley_terry(people)], dtype=float) - 1400
    distances = []
    for ratings in (fit_bradley_terry(matches), found.ratings):
        values = np.array([each.value for each in ratings], dtype=float) - 1400
        scaled = values * (values @ truth) / (values @ values)
        distances.append(float(np.sqrt(np.mean((scaled - truth) ** 2))))
    assert distances == pytest.approx([19.8, 16.1], abs=0.05)
