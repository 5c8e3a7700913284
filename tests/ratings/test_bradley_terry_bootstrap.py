from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings import bradley_terry
from tournament_assets.ratings.bradley_terry import (
    FITTED,
    UNCONNECTED,
    UNSETTLED,
    PromptResamples,
    ResampledWins,
    SimplifiedNewton,
    are_strongly_connected,
    fit_bradley_terry,
    log_strengths,
    rate_resamples,
)
from tournament_assets.ratings.intervals import draw_prompts
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, any_judgments, simulate_judgments


def resample_naively(
    judgments: list[Judgment], matches: Matches, *, n_resamples: int, seed: int
) -> list[list[Judgment]]:
    """Draw prompt after prompt, and copy every judgment of each."""
    generator = np.random.default_rng(seed)
    resamples = []
    for _ in range(n_resamples):
        drawn = generator.integers(len(matches.prompts), size=len(matches.prompts)).tolist()
        resamples.append(
            [
                judgment
                for index in drawn
                for judgment in judgments
                if judgment.prompt_id == matches.prompts[index]
            ]
        )
    return resamples


@given(any_judgments(), st.integers(0, 2**32))
def test_the_tables_are_those_of_copying_whole_prompts(
    judgments: list[Judgment], seed: int
) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    drawn = PromptResamples(matches, seed=seed)
    if matches.prompts:
        for sample in resample_naively(judgments, matches, n_resamples=3, seed=seed):
            expected = code_judgments(sample, entrants=ENTRANTS).wins
            np.testing.assert_array_equal(drawn.draw(1)[0], expected)
    else:
        np.testing.assert_array_equal(drawn.draw(1)[0], np.zeros((4, 4)))


def test_the_order_of_the_matches_leaves_no_trace() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=12, seed=4)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    mixed = np.random.default_rng(0).permutation(matches.n_matches)
    columns = ("first", "second", "prompt_index", "preference", "weight")
    shuffled = replace(matches, **{name: getattr(matches, name)[mixed] for name in columns})
    one, other = PromptResamples(matches, seed=1), PromptResamples(shuffled, seed=1)
    for _ in range(5):
        np.testing.assert_array_equal(one.draw(1), other.draw(1))


@given(any_judgments(max_size=60), st.integers(0, 99))
def test_every_row_of_the_bootstrap_is_the_fit_of_its_copied_prompts(
    judgments: list[Judgment], seed: int
) -> None:
    matches = code_judgments(judgments, entrants=ENTRANTS)
    bootstrap = rate_resamples(ResampledWins.of(matches, Resampling(4, seed)))
    everything = fit_bradley_terry(matches)
    rated = [each.value is not None for each in everything]
    assert np.isnan(bootstrap.ratings[:, ~np.array(rated)]).all()
    if not any(rated):
        return
    members = [each.entrant for each in everything if each.value is not None]
    for row, sample in zip(
        bootstrap.ratings,
        resample_naively(judgments, matches, n_resamples=4, seed=seed),
        strict=True,
    ):
        inside = [
            judgment
            for judgment in sample
            if {judgment.entrant_a, judgment.entrant_b} <= {*members}
            and judgment.outcome is not Outcome.UNJUDGED
        ]
        fits = fit_bradley_terry(code_judgments(inside, entrants=members))
        if all(each.value is not None for each in fits):
            np.testing.assert_allclose(
                row[rated], [each.value or 0.0 for each in fits], rtol=0, atol=1e-8
            )
        else:
            unrated = np.array([each.value is None for each in fits])
            assert not np.isfinite(row[rated][unrated]).any()
            assert np.isfinite(row[rated][~unrated]).all()


def test_equal_resamples_are_rated_once_and_as_each_would_be_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So few prompts that resamples lie far from the whole or fall apart, and many are equal.
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=4, seed=2)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    draw = PromptResamples(matches, seed=3).draw
    single = replace(ResampledWins.of(matches, Resampling(1, 3)), start=lambda: draw)
    alone = [rate_resamples(single).ratings[0] for _ in range(400)]
    rated: list[bytes] = []
    rate = bradley_terry.log_strengths

    def count(wins: NDArray[np.float64]) -> NDArray[np.float64]:
        rated.append(wins.tobytes())
        return rate(wins)

    monkeypatch.setattr(bradley_terry, "log_strengths", count)
    together = rate_resamples(ResampledWins.of(matches, Resampling(400, 3)))
    np.testing.assert_allclose(together.ratings, alone, rtol=1e-9)
    # Of four prompts there are 35 resamples, and few of them leave anything unconnected.
    is_open = ~np.isfinite(together.ratings).all(axis=1)
    assert 0 < len(rated) < is_open.sum() / 2


@pytest.mark.parametrize("n_prompts", [0, 1, 7, 143, 70_000])
def test_draws_made_many_at_once_are_those_made_one_by_one(n_prompts: int) -> None:
    generator = np.random.default_rng(5)
    matches = Matches(
        entrants=("ada", "bob"),
        prompts=tuple(f"p{index}" for index in range(n_prompts)),
        first=np.zeros(n_prompts, dtype=np.int64),
        second=np.ones(n_prompts, dtype=np.int64),
        prompt_index=np.arange(n_prompts),
        preference=np.ones(n_prompts),
        weight=np.arange(1.0, n_prompts + 1.0, dtype=np.float64),
    )
    together, apart = PromptResamples(matches, seed=5), PromptResamples(matches, seed=5)
    for table in together.draw(30):
        counts = draw_prompts(generator, n_prompts=n_prompts) if n_prompts else np.zeros(0)
        assert table[0, 1] == (counts * matches.weight).sum()
        np.testing.assert_array_equal(table, apart.draw(1)[0])


def newton_at(wins: NDArray[np.float64]) -> SimplifiedNewton:
    return SimplifiedNewton.at(log_strengths(wins), wins)


def draw_table(n_entrants: int, *, seed: int, mean: float = 20.0) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    strengths = generator.normal(size=n_entrants)
    shares = 1 / (1 + np.exp(strengths - strengths[:, None]))
    wins = generator.poisson(mean * shares).astype(np.float64) / 2 + 0.5
    np.fill_diagonal(wins, 0)
    return wins


@pytest.mark.parametrize("n_entrants", [2, 3, 9, 40])
def test_a_resample_ends_where_newton_ends(n_entrants: int) -> None:
    wins = draw_table(n_entrants, seed=0)
    newton = newton_at(wins)
    generator = np.random.default_rng(1)
    for _ in range(20):
        other = generator.poisson(wins * 4) / 4 + 0.25 * (wins > 0)
        (strengths,), outcomes = newton.fit(other[None])
        assert outcomes == [FITTED]
        np.testing.assert_allclose(strengths, log_strengths(other), rtol=0, atol=1e-9)
        assert strengths.mean() == pytest.approx(0, abs=1e-9)


@given(arrays(np.float64, (4, 4), elements=st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0, 40.0])))
def test_any_table_is_fitted_or_said_not_to_be(wins: NDArray[np.float64]) -> None:
    np.fill_diagonal(wins, 0)
    newton = newton_at(draw_table(4, seed=2))
    (strengths,), (outcome,) = newton.fit(wins[None])
    assert (outcome == UNCONNECTED) == (not are_strongly_connected(wins[None])[0])
    if outcome == FITTED:
        np.testing.assert_allclose(strengths, log_strengths(wins), rtol=0, atol=1e-9)


def test_a_table_far_from_the_known_one_is_not_taken_for_fitted() -> None:
    even = np.full((3, 3), 10.0) * (1 - np.eye(3))
    ladder = np.array([[0, 1e6, 0], [1, 0, 1e6], [0, 1, 0]])
    assert newton_at(even).fit(ladder[None])[1] == [UNSETTLED]


def test_strengths_beyond_the_range_of_numbers_are_unsettled() -> None:
    even = np.full((3, 3), 1e-3) * (1 - np.eye(3))
    with np.errstate(all="ignore"):
        beyond = even * 1e9 + np.diag([1e9, 1e9], 1)
        assert newton_at(even).fit(beyond[None])[1] == [UNSETTLED]


def test_the_known_table_is_fitted_where_it_is() -> None:
    wins = draw_table(6, seed=3)
    newton = newton_at(wins)
    (strengths,), outcomes = newton.fit(wins[None])
    assert outcomes == [FITTED]
    np.testing.assert_allclose(strengths, newton.strengths, rtol=0, atol=1e-9)


def test_many_tables_at_once_are_fitted_as_each_alone() -> None:
    wins = draw_table(9, seed=0)
    newton = newton_at(wins)
    generator = np.random.default_rng(4)
    tables = np.array([generator.poisson(wins / scale) for scale in (1.0, 2.0, 40.0, 4.0)] * 5)
    strengths, outcomes = newton.fit(tables.astype(np.float64))
    assert {*outcomes.tolist()} >= {FITTED, UNCONNECTED}
    for table, row, outcome in zip(tables, strengths, outcomes, strict=True):
        alone, said = newton.fit(table[None].astype(np.float64))
        assert said == [outcome]
        if outcome == FITTED:
            np.testing.assert_allclose(alone[0], row, rtol=0, atol=1e-9)
