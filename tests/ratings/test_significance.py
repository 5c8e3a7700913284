import math

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.intervals import BootstrapRatings, sampling_intervals
from tournament_assets.ratings.significance import (
    SeparatedEntrants,
    separate_entrants,
)


def resamples(columns: dict[str, list[float]], n_prompts: int = 1000) -> BootstrapRatings:
    return BootstrapRatings(
        entrants=tuple(columns),
        ratings=np.array(list(columns.values())).T,
        n_prompts=n_prompts,
    )


def shifted(noise: np.ndarray, by: float) -> list[float]:
    return [float(each) for each in noise + by]


def test_entrants_that_share_their_luck_are_separated_although_intervals_overlap() -> None:
    luck = np.random.default_rng(0).normal(0, 30, size=999)
    found = resamples({"ada": shifted(luck, 1410), "bob": shifted(luck, 1400)})
    ada, bob = sampling_intervals(found, confidence=0.95)
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
    assert [each.letters for each in separated.ranks] == ["a", "a b", "b"]
    assert [each.shown_above for each in separated.ranks] == [("cyd",), (), ()]
    assert {each.entrant: (each.best, each.worst) for each in separated.ranks} == {
        "ada": (1, 2),
        "bob": (1, 3),
        "cyd": (2, 3),
    }
    assert [each.entrant for each in separated.ranks] == ["ada", "bob", "cyd"]


def test_an_interval_of_the_difference_that_touches_zero_separates_nobody() -> None:
    # The middle 95 % of evenly spaced differences are theirs less 2.5 % on each side; what Student
    # and the normal distribution differ by is nothing with so many prompts.
    differences = np.arange(1001.0) - 500.0
    noise = separated_by(differences, n_prompts=10**9)
    assert (
        noise.differences.high[0, 1] == -noise.differences.low[0, 1] == pytest.approx(475, abs=1.5)
    )
    touching = separated_by(differences + 474, n_prompts=10**9)
    assert touching.differences.low[0, 1] < 0
    assert not touching.is_above.any()
    beyond = separated_by(differences + 477, n_prompts=10**9)
    assert beyond.differences.low[0, 1] > 0
    assert beyond.is_above.tolist() == [[False, True], [False, False]]


def separated_by(differences: np.ndarray, *, n_prompts: int) -> SeparatedEntrants:
    found = resamples({"ada": differences.tolist(), "bob": [0.0] * differences.size}, n_prompts)
    return separate_entrants(found, ratings=[1.0, 0.0], confidence=0.95)


# What solving the same battles twice leaves between two of the same ratings.
@pytest.mark.parametrize("rounding", [3e-15, -3e-15])
def test_a_rounding_on_which_all_resamples_agree_separates_nobody(rounding: float) -> None:
    equal = separated_by(np.full(999, rounding), n_prompts=1000)
    assert not equal.is_above.any()
    ahead = separated_by(np.full(999, 0.01), n_prompts=1000)
    assert ahead.is_above.tolist() == [[False, True], [False, False]]


def test_the_intervals_of_independent_differences_are_those_of_sidak() -> None:
    # Nine differences to one fixed entrant are independent, and the other 36 of those that stand
    # apart anyway add little: Sidak's level for nine is 1 - 0.95 ** (1 / 9), 2.77 sds.
    noise = np.random.default_rng(0).normal(size=(20_000, 9))
    columns = {"fixed": np.zeros(20_000)} | {f"e{n}": noise[:, n] for n in range(9)}
    some = resamples({name: columns[name].tolist() for name in columns}, n_prompts=10**9)
    separated = separate_entrants(some, ratings=[0.0] * 10, confidence=0.95)
    # All 45 differences of ten normal columns of which one has no spread: between 2.77 and 3.3.
    reach = separated.differences.high[0, 1:]
    assert (reach > 2.77).all()
    assert (reach < 3.3).all()


def test_a_pair_stands_alike_wherever_its_entrants_stand_among_many() -> None:
    generator = np.random.default_rng(1)
    ratings = generator.normal(np.arange(60.0), 4.0, size=(99, 60))
    ratings[generator.random(ratings.shape) < 0.001] = np.inf
    ratings[:, 7] = ratings[:, 8] + 1.0

    def stand(order: np.ndarray) -> SeparatedEntrants:
        names = tuple(f"e{place}" for place in order)
        bootstrap = BootstrapRatings(names, ratings[:, order], n_prompts=500)
        return separate_entrants(bootstrap, ratings=order.tolist(), confidence=0.9)

    order = generator.permutation(60)
    as_drawn, turned = stand(np.arange(60)), stand(order)
    for side in ("low", "high"):
        ends, others = (getattr(each.differences, side) for each in (as_drawn, turned))
        # Sums in another order differ in their last bits.
        np.testing.assert_allclose(others, ends[np.ix_(order, order)], rtol=1e-12)
    assert (turned.is_above == as_drawn.is_above[np.ix_(order, order)]).all()
    assert np.isinf(as_drawn.differences.low).any()
    assert np.isfinite(as_drawn.differences.low).any()


def test_few_prompts_separate_less() -> None:
    differences = np.arange(1001.0) + 4.0
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


def test_the_same_pairs_separate_less_among_more_entrants() -> None:
    generator = np.random.default_rng(2)
    noise = {f"entrant_{n}": shifted(generator.normal(size=999), 0.0) for n in range(8)}
    two = {"ada": shifted(generator.normal(size=999), 3.2), "bob": noise["entrant_0"]}
    alone = separate_entrants(resamples(two), ratings=[3.2, 0.0], confidence=0.95)
    crowd = separate_entrants(resamples(two | noise), ratings=[3.2, *([0.0] * 9)], confidence=0.95)
    assert alone.is_above[0, 1]
    assert not crowd.is_above[0, 1]
    assert crowd.differences.low[0, 1] < 0 < alone.differences.low[0, 1]
    np.testing.assert_array_equal(crowd.differences.low, -crowd.differences.high.T)


def test_resamples_that_say_nothing_leave_a_pair_open_once_they_are_many() -> None:
    noise = np.random.default_rng(0).normal(100, 1, size=1000)
    for n_unknown, is_told in ((20, True), (30, False)):
        values = [math.nan] * n_unknown + noise[n_unknown:].tolist()
        found = resamples({"ada": values, "bob": [0.0] * 1000})
        separated = separate_entrants(found, ratings=[100.0, 0.0], confidence=0.95)
        assert separated.is_above[0, 1] == is_told
        assert np.isfinite(separated.differences.low[0, 1]) == is_told


def test_too_few_resamples_to_tell_the_rarest_twentieth_tell_nobody_apart() -> None:
    noise = np.random.default_rng(0).normal(100, 1, size=40)
    for n_resamples, is_told in ((18, False), (40, True)):
        found = resamples({"ada": noise[:n_resamples].tolist(), "bob": [0.0] * n_resamples})
        separated = separate_entrants(found, ratings=[100.0, 0.0], confidence=0.95)
        assert separated.is_above[0, 1] == is_told


def test_unrated_entrants_are_in_no_group_and_no_rank() -> None:
    found = resamples({"ada": [1.0, 2.0], "bob": [math.nan, math.nan], "cyd": [2.0, 1.0]})
    separated = separate_entrants(found, ratings=[1.5, None, 1.4], confidence=0.95)
    assert {each.entrant for each in separated.ranks} == {"ada", "cyd"}
    assert separated.groups == (("ada", "cyd"),)
    assert [each.worst for each in separated.ranks] == [2, 2]


@pytest.mark.parametrize(("n_prompts", "is_told"), [(0, False), (1, False), (5, False), (6, True)])
def test_prompts_that_all_agree_must_be_six(n_prompts: int, is_told: bool) -> None:
    # Six fair coins all show the same face in 2 / 64 = 3.1 % of the throws, five in 6.3 %.
    found = resamples({"ada": [9.0, 9.0], "bob": [1.0, 1.0]}, n_prompts=n_prompts)
    separated = separate_entrants(found, ratings=[9.0, 1.0], confidence=0.95)
    assert separated.is_above[0, 1] == is_told


def test_a_rating_is_needed_for_every_column() -> None:
    with pytest.raises(InputError, match=r"1 ratings; .* 2"):
        separate_entrants(resamples({"a": [1.0], "b": [2.0]}), ratings=[1.0], confidence=0.95)
