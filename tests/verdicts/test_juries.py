import numpy as np
import pytest

from tests.ratings.simulated_judges import SimulatedJudge, simulate_presentations
from tournament_assets.ratings.judge_aware import JudgeAwareFit, fit_judge_aware
from tournament_assets.verdicts.juries import judge_weights

STRENGTHS = (-0.8, -0.2, 0.3, 0.7)


def fitted(*discriminations: float, n_prompts: int, seed: int = 1) -> JudgeAwareFit:
    judges = [SimulatedJudge(each, 0.2) for each in discriminations]
    matches, slots = simulate_presentations(STRENGTHS, judges, n_prompts=n_prompts, seed=seed)
    return fit_judge_aware(matches, slots, confidence=0.95)


def test_weights_are_discriminations_shrunken_towards_each_other() -> None:
    fit = fitted(2.0, 1.0, 0.5, n_prompts=200)
    weights = judge_weights(fit, confidence=0.95)
    for each in fit.judges:
        assert each.discrimination is not None
        assert each.discrimination.value is not None
        own, shrunken = np.log([each.discrimination.value, weights[each.judge]])
        assert 0 < shrunken / own < 1
        assert shrunken == pytest.approx(own, rel=0.2)


def test_judges_who_differ_by_no_more_than_their_errors_weigh_alike() -> None:
    weights = judge_weights(fitted(1.0, 1.0, 1.0, n_prompts=40, seed=3), confidence=0.95)
    assert list(weights.values()) == [1.0, 1.0, 1.0]


def test_a_coin_weighs_nothing() -> None:
    fit = fitted(1.5, 1.0, 0.0, n_prompts=120)
    coin = fit.judges[2]
    assert not coin.counts
    assert judge_weights(fit, confidence=0.95)[coin.judge] == 0
