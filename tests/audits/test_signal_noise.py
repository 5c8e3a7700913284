from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway

from tournament_assets.audits.prompt_findings import SignalToNoise, measure_signal


def signal_of(groups: list[list[float]]) -> SignalToNoise:
    signal = measure_signal(groups)
    assert signal is not None
    return signal


def test_mean_squares_of_three_groups_by_hand() -> None:
    # Means 2, 5, 8 with a variance of 1 inside: MSB 27, MSW 1.
    signal = signal_of([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert (signal.between, signal.within, signal.ratio) == (27, 1, 26)
    assert (signal.between_freedom, signal.within_freedom) == (2, 6)
    # The 95th percentile of F(2, 6) is 5.143 in the printed tables.
    assert signal.chance_level == pytest.approx(4.143, abs=5e-4)
    assert signal.is_above_chance


@given(
    st.lists(
        st.lists(st.floats(0, 1).map(lambda score: round(score, 4)), min_size=1, max_size=5),
        min_size=2,
        max_size=6,
    ).filter(lambda groups: max(map(len, groups)) > 1 and len({s for g in groups for s in g}) > 2)
)
def test_the_ratio_is_f_less_one_as_scipy_has_it(groups: list[list[float]]) -> None:
    signal = signal_of(groups)
    if signal.within > 0:
        expected = max(0.0, f_oneway(*groups).statistic - 1)
        assert signal.ratio == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("score", [0.77, 0.1 + 0.2, 1 / 3, 0.7666666666666667, 1.0])
def test_scores_that_are_all_equal_have_neither_signal_nor_noise(score: float) -> None:
    other = (score + 0.1) - 0.1  # the same number, its last digit aside
    assert signal_of([[score, score, other]] * 9).ratio is None
    assert signal_of([[score, other], [other, score], [score, score]]).ratio is None


def test_groups_that_differ_by_rounding_alone_have_no_signal() -> None:
    signal = signal_of([[0.1 + 0.2, 0.1 + 0.2], [0.3, 0.3], [0.3, 0.2999]])
    assert signal.ratio == pytest.approx(0, abs=1e-6)


def test_without_noise_the_ratio_has_no_bound() -> None:
    signal = signal_of([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert signal.ratio == inf
    assert signal.is_above_chance


def test_nothing_can_be_said_of_one_group_or_of_one_score_each() -> None:
    assert measure_signal([[0.1, 0.2]]) is None
    assert measure_signal([[0.1], [0.2]]) is None
    assert measure_signal([[], [0.2, 0.3]]) is None


@pytest.mark.parametrize("kind", ["normal", "right_or_wrong"])
def test_one_ratio_in_twenty_is_above_the_chance_level_where_groups_do_not_differ(
    kind: str,
) -> None:
    generator = np.random.default_rng(8)
    scores = (
        generator.normal(0.6, 0.1, size=(2000, 9, 3))
        if kind == "normal"
        else generator.integers(0, 2, size=(2000, 9, 3)).astype(float)
    )
    above = [signal_of(groups.tolist()).is_above_chance for groups in scores]
    assert np.mean(above) == pytest.approx(0.05, abs=0.02)


def test_presentations_of_random_replies_are_rarely_above_the_chance_level() -> None:
    generator = np.random.default_rng(9)
    above = []
    for _ in range(1000):
        points: dict[int, list[tuple[float, float]]] = {entrant: [] for entrant in range(4)}
        for one, two in combinations(range(4), 2):
            first, second = (float(reply) / 2 for reply in generator.integers(0, 3, size=2))
            points[one].append((first, second))
            points[two].append((1 - first, 1 - second))
        means = [np.mean(each, axis=0).tolist() for each in points.values()]
        signal = measure_signal(means, within_freedom=3)
        assert signal is not None
        above.append(signal.is_above_chance)
    assert np.mean(above) == pytest.approx(0.05, abs=0.025)


def test_with_two_entrants_no_ratio_is_beyond_chance() -> None:
    signal = measure_signal([(1.0, 1.0), (0.0, 0.0)], within_freedom=1)
    assert signal is not None
    assert (signal.ratio, signal.is_above_chance) == (inf, False)
