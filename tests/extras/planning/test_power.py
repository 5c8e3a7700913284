import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.power import design_of, predicted_power, realised_power
from benchmarks.simulated_tournaments import Design, draw_tournament, limit_of_bradley_terry
from tournament_assets.extras.planning.power import (
    JudgingNoise,
    PowerCurve,
    adaptive_prompts,
    adaptive_share,
    learn_noise,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.foundation.formatting import expected_share
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, ResampledWins, log_strengths
from tournament_assets.ratings.sequential import StoppingRule, decide
from tournament_assets.ratings.standings import Claim, stand_entrants

NOISE = JudgingNoise(4, tied=0.15, split=0.1, prompt_sd=1.0)
SAMPLED = replace(NOISE, spread=0.3, together=0.07)


@pytest.mark.parametrize("sigma", [0.0, 1.0, 2.0])
def test_a_pilot_tells_how_much_prompts_differ_and_how_many_pairs_are_undecided(
    sigma: float,
) -> None:
    drawn = draw_tournament(
        Design(n_prompts=3000, sigma=sigma, strengths=(0.0, 0.1, 0.2, 0.3)),
        np.random.default_rng(1),
    )
    learnt = learn_noise(drawn, split=0.1)
    assert learnt.prompt_sd == pytest.approx(sigma, abs=0.15)
    assert learnt.tied == pytest.approx(0.15, abs=0.02)
    assert (learnt.split, learnt.n_prompts) == (0.1, 3000)
    # The first of the pairs is the worse one in all of them.
    assert max(learnt.gaps) < 0.03


def test_a_pilot_of_few_prompts_teaches_nothing() -> None:
    drawn = draw_tournament(Design(n_prompts=9, sigma=1.0), np.random.default_rng(1))
    with pytest.raises(InputError, match="9 prompts"):
        learn_noise(drawn, split=0.0)


def test_the_predicted_power_is_the_leaderboards() -> None:
    design = design_of(143)
    _, simulated, formula = predicted_power(design, pilot_prompts=100, seed=0)
    realised = realised_power(design, n_tournaments=120, n_bootstraps=149, seed=0)
    # Two standard errors of 120 tournaments more than the five points that are promised.
    assert simulated == pytest.approx(realised, abs=0.05 + 2 * math.sqrt(0.25 / 120))
    assert formula == pytest.approx(simulated, abs=0.05)


@pytest.mark.parametrize("noise", [NOISE, SAMPLED])
@pytest.mark.parametrize("n_entrants", [2, 4, 8])
def test_simulation_and_formula_ask_for_about_as_many_prompts(
    n_entrants: int, noise: JudgingNoise
) -> None:
    curve = PowerCurve(replace(noise, n_entrants=n_entrants), 40)
    found = curve.prompts()
    assert found == pytest.approx(curve.formula_prompts(), rel=0.15)
    assert curve.formula_power(curve.formula_prompts()) == pytest.approx(0.8, abs=0.01)


def test_half_the_gap_takes_four_times_the_prompts() -> None:
    near, far = PowerCurve(NOISE, 10).formula_prompts(), PowerCurve(NOISE, 20).formula_prompts()
    assert near / far == pytest.approx(4, rel=0.02)


def test_where_ties_allow_no_such_gap_no_number_of_prompts_shows_it() -> None:
    tied = replace(NOISE, tied=0.85)
    assert expected_share(50) - 0.5 > (1 - tied.tied - tied.split) / 2
    assert PowerCurve(tied, 50).prompts() is None
    assert adaptive_prompts(tied, 50, StoppingRule("population", 0.95, 6, 1)) is None


def test_what_adaptive_judging_needs_to_decide_it_decides() -> None:
    rule = StoppingRule("population", 0.95, 6, 1)
    prompts = adaptive_prompts(NOISE, 60, rule)
    whole = PowerCurve(NOISE, 60).prompts()
    assert prompts is not None
    assert whole is not None
    assert whole < prompts < 3 * whole


def test_a_spread_field_saves_adaptive_judging_and_a_level_one_does_not() -> None:
    rule = StoppingRule("bank", 0.95, 6, 143)
    spread = replace(NOISE, gaps=(0.1, 0.15, 0.25, 0.07, 0.2, 0.14))
    level = adaptive_share(NOISE, rule, tail=0.2)
    assert adaptive_share(spread, rule, tail=0.2) < 0.75 < 0.93 < level <= 1
    # A bank four times as large with gaps half as wide says as much.
    larger, half = replace(rule, n_prompts=572), tuple(gap / 2 for gap in spread.gaps)
    assert adaptive_share(replace(spread, gaps=half), larger, tail=0.2) == pytest.approx(
        adaptive_share(spread, rule, tail=0.2), abs=0.06
    )


@pytest.mark.parametrize(("n_samples", "sigma"), [(2, 1.0), (4, 0.0), (4, 2.0), (8, 1.0)])
def test_from_samples_of_prompts_a_plan_knows_how_far_tournaments_of_such_samples_spread(
    n_samples: int, sigma: float
) -> None:
    design = Design(100, sigma, strengths=(0.2, -0.2, 0.0, 0.0), n_samples=n_samples)
    ratings = limit_of_bradley_terry(design)
    pilot = draw_tournament(replace(design, n_prompts=400), np.random.default_rng(1))
    curve = PowerCurve(learn_noise(pilot, split=0.0), ratings[0] - ratings[1])
    generator = np.random.default_rng(2)
    wins = [
        draw_tournament(design, generator).averaged_over_samples().wins + 0.5 * (1 - np.eye(4))
        for _ in range(400)
    ]
    strengths = log_strengths(np.array(wins))
    realised = ELO_PER_NAT * (strengths[:, 0] - strengths[:, 1])
    # A standard deviation of 400 has an error of 3.5 %.
    assert realised.std() == pytest.approx(curve.formula_error / 10, rel=0.11)
    drawn = curve.draw(100, 400, np.random.default_rng(3))
    shares = np.array(wins)[:, 0, 1] / 101
    assert drawn[..., 0].mean(axis=1).std() == pytest.approx(shares.std(), rel=0.15)
    assert drawn[..., 0].mean() == pytest.approx(shares.mean(), abs=0.01)


def test_samples_that_repeat_one_another_need_as_many_prompts_as_one() -> None:
    once = draw_tournament(Design(400, 1.0, strengths=(0.0,) * 4), np.random.default_rng(1))
    rows = np.repeat(np.arange(once.n_matches), 2)
    columns = ("first", "second", "prompt_index", "preference", "weight")
    twice = replace(
        once,
        **{name: getattr(once, name)[rows] for name in columns},
        sample=np.tile([1, 2], once.n_matches),
    )
    one, two = (PowerCurve(learn_noise(each, split=0.0), 40) for each in (once, twice))
    assert two.noise.spread is not None
    assert two.formula_prompts() == pytest.approx(one.formula_prompts(), rel=0.1)


def test_adaptive_judging_of_samples_decides_as_often_as_planned() -> None:
    design = Design(400, 1.0, strengths=(0.35, 0.0), n_samples=4)
    ratings = limit_of_bradley_terry(design)
    noise = learn_noise(draw_tournament(design, np.random.default_rng(1)), split=0.0)
    rule = StoppingRule("population", 0.95, 1, 1)
    prompts = adaptive_prompts(noise, ratings[0] - ratings[1], rule)
    assert prompts is not None
    generator = np.random.default_rng(2)
    decided = [
        decide(
            [
                draw_tournament(replace(design, n_prompts=prompts), generator)
                .averaged_over_samples()
                .preference
            ],
            replace(rule, n_prompts=prompts, min_prompts=1),
        )[0].evidence.side
        == "first"
        for _ in range(300)
    ]
    # Three standard errors of the share, and what a pilot leaves open.
    assert np.mean(decided) == pytest.approx(0.8, abs=0.1)


def test_as_many_prompts_as_are_named_show_two_equals_to_be_equivalent() -> None:
    margin, design = 60.0, Design(100, 0.5, (0.0, 0.0, 0.0))
    noise = learn_noise(draw_tournament(design, np.random.default_rng(3)), split=0.0)
    needed = PowerCurve(noise, 1e-6).equal_prompts(margin)
    assert PowerCurve(noise, 1e-6).equal_prompts(margin / 2) == pytest.approx(4 * needed, rel=0.05)
    generator = np.random.default_rng(4)
    equal = [
        stand_entrants(
            ResampledWins.of(
                draw_tournament(replace(design, n_prompts=needed), generator),
                Resampling(199, 0, 0.95),
            ),
            equivalent_within=margin,
        )
        .claims[0]
        .claim
        is Claim.EQUIVALENT
        for _ in range(60)
    ]
    assert 0.7 <= np.mean(equal) <= 0.92
