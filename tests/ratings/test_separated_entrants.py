import math

import numpy as np
import pytest

from tournament_assets.ratings.bradley_terry import bootstrap_bradley_terry, fit_bradley_terry
from tournament_assets.ratings.intervals import BootstrapRatings, bootstrap_intervals
from tournament_assets.ratings.pair_cells import code_cells
from tournament_assets.ratings.separated_entrants import pairwise_order, separate_entrants
from tournament_assets.tournament.errors import InputError

from .builders import ENTRANTS, simulate_judgments


def resamples(columns: dict[str, list[float]], n_prompts: int = 1000) -> BootstrapRatings:
    return BootstrapRatings(
        entrants=tuple(columns),
        ratings=np.array(list(columns.values())).T,
        n_prompts=n_prompts,
        n_degenerate=0,
        seed=0,
    )


def shifted(noise: np.ndarray, by: float) -> list[float]:
    return [float(each) for each in noise + by]


def test_shares_are_counted_with_ties_as_halves() -> None:
    order = pairwise_order(resamples({"ada": [1.0, 2.0, 3.0, 4.0], "bob": [0.0, 2.0, 4.0, 3.0]}))
    assert order.above[0, 1] == 0.625
    assert order.above[1, 0] == 0.375
    assert math.isnan(order.above[0, 0])


def test_infinite_resamples_count_and_unknown_ones_are_counted_apart() -> None:
    order = pairwise_order(
        resamples(
            {
                "ada": [math.inf, math.inf, math.nan, 1.0],
                "bob": [0.0, math.inf, 0.0, 2.0],
                "cyd": [math.nan] * 4,
            }
        )
    )
    assert order.above[0, 1] == 0.5
    assert order.n_undetermined[0, 1] == 2
    assert math.isnan(order.above[0, 2])
    assert order.n_undetermined[0, 2] == 4


def test_entrants_that_share_their_luck_are_separated_although_intervals_overlap() -> None:
    luck = np.random.default_rng(0).normal(0, 30, size=999)
    found = resamples({"ada": shifted(luck, 1410), "bob": shifted(luck, 1400)})
    ada, bob = bootstrap_intervals(found, confidence=0.95)
    assert ada.low is not None
    assert bob.high is not None
    assert ada.low < bob.high
    separated = separate_entrants(found, ratings=[1410.0, 1400.0], confidence=0.95)
    assert separated.is_above.tolist() == [[False, True], [False, False]]
    assert [(each.best, each.worst) for each in separated.ranks] == [(1, 1), (2, 2)]
    assert separated.groups == (("ada",), ("bob",))


def test_groups_overlap_where_neighbours_cannot_be_told_apart() -> None:
    generator = np.random.default_rng(1)
    found = resamples(
        {
            name: shifted(generator.normal(0, 10, size=999), level)
            for name, level in [("cyd", 1380.0), ("ada", 1420.0), ("bob", 1400.0)]
        }
    )
    separated = separate_entrants(found, ratings=[1380.0, 1420.0, 1400.0], confidence=0.95)
    assert separated.groups == (("ada", "bob"), ("bob", "cyd"))
    assert {each.entrant: (each.best, each.worst) for each in separated.ranks} == {
        "ada": (1, 2),
        "bob": (1, 3),
        "cyd": (2, 3),
    }
    assert [each.entrant for each in separated.ranks] == ["ada", "bob", "cyd"]


def test_an_interval_of_the_difference_that_touches_zero_separates_nobody() -> None:
    # 1,001 differences from -24 up: the 25th from below is 0, just under 2.5 % of the way.
    differences = np.arange(1001.0) - 24.0
    found = resamples({"ada": differences.tolist(), "bob": [0.0] * 1001}, n_prompts=10**9)
    assert not separate_entrants(found, ratings=[1.0, 0.0], confidence=0.95).is_above.any()
    found = resamples({"ada": (differences + 1).tolist(), "bob": [0.0] * 1001}, n_prompts=10**9)
    assert separate_entrants(found, ratings=[1.0, 0.0], confidence=0.95).is_above[0, 1]


def test_few_prompts_separate_less() -> None:
    differences = np.arange(1001.0) - 23.0
    many, few = (
        resamples({"ada": differences.tolist(), "bob": [0.0] * 1001}, n_prompts=n)
        for n in (10**9, 10)
    )
    assert separate_entrants(many, ratings=[1.0, 0.0], confidence=0.95).is_above.any()
    assert not separate_entrants(few, ratings=[1.0, 0.0], confidence=0.95).is_above.any()


def test_every_two_of_a_group_are_alike_and_every_alike_two_share_a_group() -> None:
    generator = np.random.default_rng(3)
    levels = np.sort(generator.uniform(1300, 1500, size=12))[::-1]
    names = [f"entrant_{index}" for index in range(12)]
    found = resamples(
        {
            name: shifted(generator.normal(0, generator.uniform(5, 40), size=399), level)
            for name, level in zip(names, levels, strict=True)
        }
    )
    separated = separate_entrants(found, ratings=levels.tolist(), confidence=0.95)
    apart = separated.is_above | separated.is_above.T
    for a in range(12):
        for b in range(a):
            together = any(names[a] in group and names[b] in group for group in separated.groups)
            assert together != apart[a, b]
    sets = [set(group) for group in separated.groups]
    assert not any(one < other for one in sets for other in sets)


def test_unrated_entrants_are_in_no_group_and_no_rank() -> None:
    found = resamples({"ada": [1.0, 2.0], "bob": [math.nan, math.nan], "cyd": [2.0, 1.0]})
    separated = separate_entrants(found, ratings=[1.5, None, 1.4], confidence=0.95)
    assert separated.unranked == ("bob",)
    assert separated.groups == (("ada", "cyd"),)
    assert [each.worst for each in separated.ranks] == [2, 2]


@pytest.mark.parametrize(("n_prompts", "is_told"), [(0, False), (1, False), (5, False), (6, True)])
def test_prompts_that_all_agree_must_be_six(n_prompts: int, is_told: bool) -> None:
    # Six fair coins all show the same face in 2 / 64 = 3.1 % of the throws, five in 6.3 %.
    found = resamples({"ada": [9.0, 9.0], "bob": [1.0, 1.0]}, n_prompts=n_prompts)
    separated = separate_entrants(found, ratings=[9.0, 1.0], confidence=0.95)
    assert separated.is_above[0, 1] == is_told


def test_resamples_of_one_prompt_order_nobody() -> None:
    order = pairwise_order(resamples({"ada": [9.0, 9.0], "bob": [1.0, 1.0]}, n_prompts=1))
    assert math.isnan(order.above[0, 1])
    assert order.n_undetermined[0, 1] == 2


def test_a_tournament_separates_the_best_from_the_worst() -> None:
    cells = code_cells(
        simulate_judgments([0.0, 0.1, 0.2, 1.5], n_prompts=80, seed=1), entrants=ENTRANTS
    )
    separated = separate_entrants(
        bootstrap_bradley_terry(cells, n_bootstraps=500, seed=0),
        ratings=[each.rating for each in fit_bradley_terry(cells)],
        confidence=0.95,
    )
    assert separated.ranks[0].entrant == "dee"
    assert separated.ranks[0].worst == 1
    assert separated.groups[0] == ("dee",)


def test_a_rating_is_needed_for_every_column() -> None:
    with pytest.raises(InputError, match="there are 1 ratings; expected one for each of 2"):
        separate_entrants(resamples({"a": [1.0], "b": [2.0]}), ratings=[1.0], confidence=0.95)
