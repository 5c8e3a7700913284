import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.davidson import (
    ONLY_TIES,
    TIES_WITHOUT_BOUND,
    TieModelFit,
    fit_davidson,
)
from tournament_assets.ratings.matches import Matches, code_judgments

from .builders import ENTRANTS, code_columns, simulate_judgments, tie, win, wins

PAIR = ("ada", "bob")


def outcomes(
    table: dict[tuple[str, str], int],
    ties: dict[tuple[str, str], int],
    entrants: tuple[str, ...] = ENTRANTS,
) -> Matches:
    """Build battles from how often the first beat the second, and how often two tied."""
    tied = [tie(*pair) for pair, count in ties.items() for _ in range(count)]
    return code_judgments([*wins(table), *tied], entrants=entrants)


def any_outcomes(n_entrants: int = 4) -> st.SearchStrategy[Matches]:
    ordered = list(itertools.permutations(ENTRANTS[:n_entrants], 2))
    pairs = list(itertools.combinations(ENTRANTS[:n_entrants], 2))
    counts = st.sampled_from([0, 0, 1, 2, 7])
    return st.builds(
        outcomes,
        st.fixed_dictionaries(dict.fromkeys(ordered, counts)),
        st.fixed_dictionaries(dict.fromkeys(pairs, counts)),
        st.just(ENTRANTS[:n_entrants]),
    )


def ratings_of(fit: TieModelFit) -> list[float | None]:
    return [each.value for each in fit.ratings]


def has_unbounded_ties(preferences: Matches) -> bool:
    """Look through every closed chain for one with more wins than ties."""
    won, tied = preferences.outright_wins > 0, preferences.ties > 0
    n = len(won)
    for size in range(2, n + 1):
        for chain in itertools.permutations(range(n), size):
            steps = list(zip(chain, chain[1:] + chain[:1], strict=True))
            if all(won[step] or tied[step] for step in steps) and (
                sum(won[step] for step in steps) > sum(not won[step] for step in steps)
            ):
                return False
    return True


def test_two_entrants_have_a_closed_form() -> None:
    # The model fits two entrants exactly: shares 6/10, 1/10 and 3/10.
    fit = fit_davidson(outcomes({PAIR: 6, PAIR[::-1]: 1}, {PAIR: 3}, PAIR), initial_rating=1000.0)
    ada, bob = ratings_of(fit)
    assert ada is not None
    assert bob is not None
    assert ada - bob == pytest.approx(400 * math.log10(6))
    assert ada + bob == pytest.approx(2000)
    assert fit.tie_parameter == pytest.approx(3 / math.sqrt(6))


@given(any_outcomes())
def test_everyone_is_expected_to_score_what_they_scored(preferences: Matches) -> None:
    fit = fit_davidson(preferences)
    rated = np.flatnonzero([rating is not None for rating in ratings_of(fit)])
    if rated.size == 0:
        return
    strengths = np.exp(
        np.array([ratings_of(fit)[index] or math.nan for index in rated]) / ELO_PER_NAT
        - 1400 / ELO_PER_NAT
    )
    inside = np.ix_(rated, rated)
    won, tied = preferences.outright_wins[inside], preferences.ties[inside]
    matches = won + won.T + tied
    between = (fit.tie_parameter or 0.0) * np.sqrt(np.outer(strengths, strengths))
    scale = strengths[:, None] + strengths[None, :] + between
    score = won.sum(axis=1) + tied.sum(axis=1) / 2
    expected = (matches * (strengths[:, None] + between / 2) / scale).sum(axis=1)
    np.testing.assert_allclose(expected, score, atol=1e-6)
    assert (matches * between / scale).sum() == pytest.approx(tied.sum(), abs=1e-6)


@given(any_outcomes())
def test_ratings_are_missing_exactly_where_no_chain_has_more_wins_than_ties(
    preferences: Matches,
) -> None:
    connected = [fit.value is not None for fit in fit_bradley_terry(preferences)]
    fit = fit_davidson(preferences)
    if not all(connected):
        return
    reasons = {each.note for each in fit.ratings}
    if not preferences.outright_wins.any():
        assert reasons == {ONLY_TIES}
    elif preferences.ties.any() and has_unbounded_ties(preferences):
        assert reasons == {TIES_WITHOUT_BOUND}
    else:
        assert reasons == {None}


def test_without_ties_it_is_bradley_terry_and_the_tie_parameter_is_at_its_bound() -> None:
    preferences = outcomes({PAIR: 7, PAIR[::-1]: 3, ("bob", "cyd"): 2, ("cyd", "ada"): 1}, {})
    fit = fit_davidson(preferences)
    assert fit.tie_parameter == 0.0
    expected = [each.value for each in fit_bradley_terry(preferences)]
    np.testing.assert_allclose(ratings_of(fit)[:3], expected[:3])  # type: ignore[arg-type]
    assert ratings_of(fit)[3] is None


def test_only_ties_say_nothing_about_strength() -> None:
    fit = fit_davidson(outcomes({}, {PAIR: 5, ("bob", "cyd"): 4}, ENTRANTS[:3]))
    assert ratings_of(fit) == [None] * 3
    assert {each.note for each in fit.ratings} == {ONLY_TIES}
    assert fit.tie_parameter == math.inf


def test_a_winner_that_also_ties_and_never_loses_is_not_rated() -> None:
    # Bradley-Terry rates the two, because a tie is half a loss there.
    preferences = outcomes({PAIR: 5}, {PAIR: 2}, PAIR)
    assert all(each.value is not None for each in fit_bradley_terry(preferences))
    fit = fit_davidson(preferences)
    assert ratings_of(fit) == [None, None]
    assert {each.note for each in fit.ratings} == {TIES_WITHOUT_BOUND}
    assert fit.tie_parameter == math.inf


def test_entrants_that_are_not_connected_get_the_notes_of_bradley_terry() -> None:
    preferences = outcomes({PAIR: 3, PAIR[::-1]: 2, ("cyd", "bob"): 1}, {PAIR: 1})
    fit = fit_davidson(preferences)
    expected = [each.note for each in fit_bradley_terry(preferences)]
    assert [each.note for each in fit.ratings] == expected
    assert [note is None for note in expected] == [True, True, False, False]


def test_ties_between_unequal_entrants_say_less_than_half_wins() -> None:
    # The weaker entrant ties often. Half wins would pull the two together.
    preferences = outcomes({PAIR: 8, PAIR[::-1]: 1}, {PAIR: 11}, PAIR)
    ada, bob = (each.value or math.nan for each in fit_bradley_terry(preferences))
    davidson = ratings_of(fit_davidson(preferences))
    assert davidson[0] is not None
    assert davidson[1] is not None
    assert davidson[0] - davidson[1] > 2 * (ada - bob)


def test_the_truth_is_found_among_many_battles() -> None:
    strengths, tie_parameter = np.array([0.8, 0.2, -0.3, -0.7]), 0.9
    generator = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(4), 2)))[generator.integers(6, size=40_000)]
    gap = strengths[pairs[:, 0]] - strengths[pairs[:, 1]]
    chances = np.stack(
        [np.exp(gap / 2), np.exp(-gap / 2), np.full(gap.size, tie_parameter)], axis=1
    )
    drawn = (generator.random(gap.size)[:, None] * chances.sum(axis=1, keepdims=True)) > np.cumsum(
        chances, axis=1
    )
    preference = np.array([1.0, 0.0, 0.5])[drawn.sum(axis=1)]
    fit = fit_davidson(
        code_columns(
            [ENTRANTS[a] for a in pairs[:, 0]],
            [ENTRANTS[b] for b in pairs[:, 1]],
            [str(index) for index in range(gap.size)],
            preference.tolist(),
            entrants=ENTRANTS,
        )
    )
    np.testing.assert_allclose(
        np.array(ratings_of(fit), dtype=np.float64), 1400 + ELO_PER_NAT * strengths, atol=8
    )
    assert fit.tie_parameter == pytest.approx(tie_parameter, abs=0.03)


def test_an_uneven_ladder_is_still_rated() -> None:
    table = {}
    for above, below in itertools.pairwise(ENTRANTS):
        table[above, below], table[below, above] = 10_000, 1
    fit = fit_davidson(outcomes(table, {PAIR: 3}))
    assert all(rating is not None for rating in ratings_of(fit))


def test_order_leaves_no_trace() -> None:
    judgments = simulate_judgments([0.0, 0.5, 1.0, 1.5], n_prompts=10, seed=0)
    forwards, backwards = (
        fit_davidson(code_judgments(rows, entrants=ENTRANTS))
        for rows in (judgments, judgments[::-1])
    )
    assert forwards == backwards


def test_a_preference_between_win_and_tie_is_refused() -> None:
    soft = code_columns(["ada"], ["bob"], ["p"], [0.8], entrants=PAIR)
    with pytest.raises(InputError, match="Davidson's model"):
        fit_davidson(soft)
    assert win(*PAIR).winner == "ada"
