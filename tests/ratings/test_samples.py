"""Several samples of a prompt are one prompt to ratings and intervals; luck stands apart."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tournament_assets.audits.agreement import share_by_prompt
from tournament_assets.audits.non_inferiority import prompt_scores
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    rate_resamples,
)
from tournament_assets.ratings.matches import code_judgments, code_samples, pairwise_winrates
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    DAVIDSON,
    EFFECT,
    ELO,
    SANDWICH,
    STYLE,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import elo_rows, trace_elo
from tournament_assets.ratings.sandwich import (
    sampling_luck,
    sandwich_bradley_terry,
)
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome

from .builders import ENTRANTS, simulate_judgments, tie, win

PAIR = ENTRANTS[:2]
SETTINGS = RatingSettings(n_permutations=40, n_bootstraps=200)


def sampled(judgment: Judgment, number: int) -> Judgment:
    return replace(judgment, sample=number)


def repeated(judgments: Sequence[Judgment], k: int) -> list[Judgment]:
    """Settle every pair k times alike, as k samples of its prompt."""
    return [sampled(each, number) for each in judgments for number in range(1, k + 1)]


JUDGMENTS = simulate_judgments([0.0, 0.4, 0.8, 1.2], n_prompts=20, seed=3)


def test_samples_of_a_jury_that_balance_are_a_tie_and_no_win_by_rounding() -> None:
    # 1/98, 57/98 and 89/98, and so on: a half on average, which some means miss by the last bit.
    judgments = [
        Judgment(f"p{first}", "tone", *PAIR[::-1], outcome, share=part / 98, sample=number)
        for first in range(1, 42)
        for number, part in enumerate((first, 57, 90 - first), start=1)
        for outcome in (Outcome.A_WINS if part > 49 else Outcome.B_WINS,)
    ]
    assert code_judgments(judgments, entrants=PAIR).decisive().n_matches == 0


@pytest.mark.parametrize("k", [2, 3, 7])
def test_identical_samples_give_what_one_gives(k: int) -> None:
    once, many = (
        code_judgments(rows, entrants=ENTRANTS) for rows in (JUDGMENTS, repeated(JUDGMENTS, k))
    )
    for name in ("prompts", "entrants"):
        assert getattr(once, name) == getattr(many, name)
    for name in ("first", "second", "prompt_index", "preference", "weight"):
        np.testing.assert_array_equal(getattr(once, name), getattr(many, name))
    tables = [
        [
            *elo_rows(matches, trace_elo(matches, SETTINGS), dimension="d", settings=SETTINGS),
            *rating_rows(
                Evidence(matches=matches, settings=SETTINGS, traces=trace_elo(matches, SETTINGS)),
                (BRADLEY_TERRY, SANDWICH, ELO, DAVIDSON),
                dimension="d",
            ),
        ]
        for matches in (once, many)
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("tail", [1.0, 5.0], ids=["every pair", "pairs that stopped early"])
def test_win_rates_and_style_are_those_of_prompts_too(tail: float) -> None:
    judged = [
        replace(each, weight=tail if number % 5 == 0 else 1.0)
        for number, each in enumerate(JUDGMENTS)
    ]
    many = repeated(judged, 3)
    for one, three in zip(pairwise_winrates(judged), pairwise_winrates(many), strict=True):
        assert three.win_rate_a == pytest.approx(one.win_rate_a, abs=1e-9)
        assert three.wins_a == 3 * one.wins_a
    rows = []
    for judgments in (judged, many):
        texts = {
            (name, answer_key(each)): "word " * (3 + len(name) * ENTRANTS.index(name) + number % 7)
            for number, each in enumerate(JUDGMENTS)
            for name in (each.entrant_a, each.entrant_b)
        }
        texts |= {
            (name, (prompt, n)): text for (name, (prompt, _)), text in texts.items() for n in (2, 3)
        }
        matches = code_samples(judgments, entrants=ENTRANTS)
        evidence = Evidence(
            matches=matches,
            settings=SETTINGS,
            responses=texts,
            outcomes=matches.weighed_by_sample(),
        )
        rows.append(rating_rows(evidence, (STYLE, DAVIDSON), dimension="d"))
    for one, three in zip(*rows, strict=True):
        assert one.entrant_id == three.entrant_id
        for name in ("rating", "standard_error", "low", "high"):
            assert getattr(three, name) == pytest.approx(getattr(one, name), abs=1e-6)
    assert any(row.rating is not None and row.method == EFFECT for row in rows[0])


def test_a_prompt_counts_once_however_many_of_its_samples_are_judged() -> None:
    judgments = [
        win("ada", "bob", "p0"),
        sampled(win("bob", "ada", "p1"), 2),
        tie("ada", "bob", "p2"),
    ]
    judgments += [sampled(win("ada", "bob", "p3"), n) for n in (1, 2, 3)]
    judgments += [replace(win("bob", "ada", "p3"), sample=4, outcome=Outcome.UNJUDGED, share=None)]
    judgments += [win("bob", "ada", "p4"), sampled(win("ada", "bob", "p4"), 2)]
    matches = code_judgments(judgments, entrants=PAIR)
    assert matches.prompts == ("p0", "p1", "p2", "p3", "p4")
    shares = np.where(matches.first == 0, matches.preference, 1 - matches.preference)
    assert shares.tolist() == [1.0, 0.0, 0.5, 1.0, 0.5]
    weighed = code_samples(judgments, entrants=PAIR).weighed_by_sample()
    assert weighed.n_matches == 8
    np.testing.assert_allclose(np.bincount(weighed.prompt_index, weighed.weight), np.ones(5))
    (counts,) = pairwise_winrates(judgments)
    assert counts.win_rate_a == pytest.approx(3 / 5)
    assert prompt_scores(
        [each for each in judgments if each.outcome is not Outcome.UNJUDGED], candidate="ada"
    ) == {"p0": 1.0, "p1": 0.0, "p2": 0.5, "p3": 1.0, "p4": 0.5}


def test_matches_without_samples_are_the_very_same_object() -> None:
    matches = code_samples(JUDGMENTS, entrants=ENTRANTS)
    assert matches.averaged_over_samples() is matches
    assert matches.weighed_by_sample() is matches


def test_samples_that_are_weighed_count_by_their_weights_and_stand_for_their_mean() -> None:
    judgments = [replace(win("ada", "bob", "p"), sample=2, weight=3.0), win("bob", "ada", "p")]
    matches = code_judgments(judgments, entrants=PAIR)
    assert (matches.preference.tolist(), matches.weight.tolist()) == ([0.75], [2.0])
    assert matches.first.tolist() == [0]


def draw(
    generator: np.random.Generator, *, n_prompts: int, k: int, spread: float
) -> list[Judgment]:
    """Judge two level entrants; how much better one is on a prompt varies by `spread` logits."""
    return [
        sampled(win(*(PAIR if generator.random() < chance else PAIR[::-1]), f"p{prompt}"), number)
        for prompt in range(n_prompts)
        for chance in [1 / (1 + np.exp(-generator.normal(scale=spread)))]
        for number in range(1, k + 1)
    ]


def test_intervals_by_prompt_cover_and_those_by_sample_do_not() -> None:
    generator = np.random.default_rng(5)
    covered = {"prompt": 0, "sample": 0, "bootstrap": 0}
    n_draws, resampled = 400, 0
    for number in range(n_draws):
        judgments = draw(generator, n_prompts=40, k=4, spread=2.0)
        apart = [replace(each, prompt_id=f"{i}") for i, each in enumerate(judgments)]
        for name, rows in (("prompt", judgments), ("sample", apart)):
            fit = sandwich_bradley_terry(code_judgments(rows, entrants=PAIR), confidence=0.95)
            low, high = fit.ratings[0].low, fit.ratings[0].high
            assert low is not None
            assert high is not None
            covered[name] += low < 1400 < high
        if number % 4 == 0:
            drawn = rate_resamples(
                ResampledWins.of(code_judgments(judgments, entrants=PAIR), Resampling(200, number))
            ).ratings[:, 0]
            low, high = np.quantile(drawn, [0.025, 0.975])
            covered["bootstrap"] += low < 1400 < high
            resampled += 1
    assert covered["prompt"] / n_draws > 0.925
    assert covered["bootstrap"] / resampled > 0.88
    assert covered["sample"] / n_draws < 0.85


def test_luck_is_how_far_ratings_vary_over_answers_to_the_same_prompts() -> None:
    generator = np.random.default_rng(8)
    n_prompts, k = 120, 3
    chances = 1 / (1 + np.exp(-generator.normal(scale=1.5, size=n_prompts)))
    ratings, lucks, errors = [], [], []
    for _ in range(300):
        judgments = [
            sampled(win(*(PAIR if generator.random() < chance else PAIR[::-1]), f"p{prompt}"), n)
            for prompt, chance in enumerate(chances)
            for n in range(1, k + 1)
        ]
        found = sampling_luck(code_samples(judgments, entrants=PAIR))[0]
        fit = sandwich_bradley_terry(code_judgments(judgments, entrants=PAIR), confidence=0.95)
        ratings.append(fit.ratings[0].value or 0.0)
        lucks.append(found.luck or 0.0)
        errors.append(found.standard_error or 0.0)
        assert (found.n_prompts, found.n_samples) == (n_prompts, n_prompts * k)
    assert np.mean(lucks) == pytest.approx(np.std(ratings, ddof=1), rel=0.1)
    # Prompts differ, so luck is only a part of what other prompts and other answers would change.
    assert np.mean(lucks) < 0.85 * np.mean(errors)


def test_samples_that_say_the_same_have_no_luck_and_single_ones_are_not_measured() -> None:
    for each in sampling_luck(code_samples(repeated(JUDGMENTS, 3), entrants=ENTRANTS)):
        assert each.luck == pytest.approx(0.0, abs=1e-9)
        assert each.standard_error
    for each in sampling_luck(code_samples(JUDGMENTS, entrants=ENTRANTS)):
        assert each.luck is None


def test_shares_of_replies_take_the_samples_of_a_prompt_together() -> None:
    units = [(f"p{n}", n % 3 == 0) for n in range(12) for _ in range(4)]
    many, once = share_by_prompt(units), share_by_prompt(units[::4])
    assert (many.n, many.n_prompts) == (48, 12)
    assert many.n_effective == pytest.approx(once.n_effective)
