from itertools import combinations, pairwise, product
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import f_oneway

from tournament_assets.audits.prompt_findings import (
    PromptInfluence,
    SignalToNoise,
    leave_one_prompt_out,
    measure_noise,
    measure_signal,
)
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.verdicts import Judgment, Outcome, Verdict

from .readings import missing, pair, said

ENTRANTS = ("ada", "bob", "cyd", "dan")


def simulate(seed: int, *, prompts: int) -> list[Judgment]:
    generator = np.random.default_rng(seed)
    strengths = dict(zip(ENTRANTS, (0.5, 0.3, 0.1, -0.4), strict=True))
    judgments = []
    for prompt in range(prompts):
        for a, b in combinations(ENTRANTS, 2):
            chance = 1 / (1 + np.exp(strengths[b] - strengths[a]))
            draw = generator.random()
            outcome = Outcome.A_WINS if draw < chance else Outcome.B_WINS
            if generator.random() < 0.3:
                outcome = Outcome(generator.choice(["tie", "inconsistent", "unjudged"]))
            judgments.append(Judgment(f"p{prompt}", "factuality", a, b, outcome))
    return judgments


def slow_reference(judgments: list[Judgment]) -> list[PromptInfluence]:
    """Rate anew without each prompt, one at a time, by the fit of the tournament."""

    def ratings(kept: list[Judgment]) -> dict[str, float | None]:
        fitted = fit_bradley_terry(code_judgments(kept, entrants=ENTRANTS), initial_rating=0)
        return {each.entrant: each.value for each in fitted}

    full = {name: rating for name, rating in ratings(judgments).items() if rating is not None}
    ranking = sorted(full, key=lambda name: -full[name])
    influences = []
    judged = {each.prompt_id for each in judgments if each.outcome is not Outcome.UNJUDGED}
    for prompt in sorted(judged):
        without = ratings([each for each in judgments if each.prompt_id != prompt])
        if any(without[name] is None for name in full):
            influences.append(PromptInfluence(prompt, None, None, (), keeps_connected=False))
            continue
        moves = {name: (without[name] or 0.0) - full[name] for name in full}
        moved = max(full, key=lambda name: abs(round(moves[name], 6)))
        swaps = tuple(
            (upper, lower)
            for upper, lower in pairwise(ranking)
            if (without[upper] or 0.0) <= (without[lower] or 0.0)
        )
        influences.append(PromptInfluence(prompt, moved, moves[moved], swaps, keeps_connected=True))
    return influences


@pytest.mark.parametrize("seed", range(6))
def test_all_prompts_at_once_say_what_one_after_the_other_says(seed: int) -> None:
    judgments = simulate(seed, prompts=9)
    expected = slow_reference(judgments)
    found = leave_one_prompt_out(code_judgments(judgments, entrants=ENTRANTS))
    assert [(each.prompt_id, each.moved, each.swaps, each.keeps_connected) for each in found] == [
        (each.prompt_id, each.moved, each.swaps, each.keeps_connected) for each in expected
    ]
    np.testing.assert_allclose(
        [each.move or 0 for each in found], [each.move or 0 for each in expected], atol=2e-6
    )


def test_the_simulations_hold_prompts_that_decide_and_others_that_do_not() -> None:
    swaps = [
        bool(each.swaps)
        for seed in range(6)
        for each in leave_one_prompt_out(
            code_judgments(simulate(seed, prompts=9), entrants=ENTRANTS)
        )
    ]
    assert 0 < sum(swaps) < len(swaps)


def judge(prompt_id: str, winner: str, loser: str) -> Judgment:
    return Judgment(prompt_id, "factuality", winner, loser, Outcome.A_WINS)


def test_a_prompt_that_alone_lets_somebody_win_holds_the_ratings_together() -> None:
    judgments = [judge("p1", "ada", "bob"), judge("p2", "ada", "bob"), judge("p3", "bob", "ada")]
    found = leave_one_prompt_out(code_judgments(judgments, entrants=("ada", "bob")))
    assert [each.keeps_connected for each in found] == [True, True, False]
    # With one win each they are level; before, ada led.
    assert [each.swaps for each in found] == [(("ada", "bob"),), (("ada", "bob"),), ()]


def test_nobody_is_rated_and_nothing_can_move() -> None:
    assert leave_one_prompt_out(code_judgments([], entrants=ENTRANTS)) == []
    unbeaten = [judge("p1", "ada", "bob")]
    assert leave_one_prompt_out(code_judgments(unbeaten, entrants=ENTRANTS)) == []


def test_mean_squares_of_three_entrants_by_hand() -> None:
    # By presentation: ada 1 and 1, bob 1/2 and 0, cyd 0 and 1/2; means 1, 1/4, 1/4 around 1/2.
    noise = measure_noise(
        "p1",
        [
            pair("ada", "bob", Outcome.A_WINS),
            pair("ada", "cyd", Outcome.A_WINS),
            pair("bob", "cyd", replies=(said(Verdict.A), said(Verdict.A))),
        ],
    )
    assert noise.signal is not None
    assert noise.signal.between == 2 * (1 / 4 + 1 / 16 + 1 / 16) / 2
    assert noise.signal.within == (0 + 1 / 4 + 1 / 4) / 2 / 2
    assert noise.ratio == (3 / 8 - 1 / 8) / (1 / 8)
    assert (noise.n_disagreements, noise.n_judged) == (1, 3)


def test_without_noise_the_ratio_has_no_bound_and_without_both_there_is_none() -> None:
    assert measure_noise("p1", [pair("ada", "bob", Outcome.B_WINS)]).ratio == inf
    assert measure_noise("p1", [pair("ada", "bob", Outcome.TIE)]).ratio is None


def test_a_judge_that_follows_the_position_makes_noise_and_no_signal() -> None:
    noise = measure_noise("p1", [pair("ada", "bob", Outcome.INCONSISTENT)])
    assert noise.signal is not None
    assert (noise.signal.between, noise.ratio) == (0, 0)
    assert noise.signal.within > 0


def test_a_pair_that_is_not_judged_is_in_neither() -> None:
    judged = [pair("ada", "bob", Outcome.A_WINS)]
    unjudged = pair("ada", "cyd", replies=(said(Verdict.B), missing(None)))
    assert measure_noise("p1", [*judged, unjudged]) == measure_noise("p1", judged)
    assert measure_noise("p1", [unjudged]).signal is None


@pytest.mark.parametrize("entrants", ["ab", "abc"])
def test_over_all_replies_there_are_the_mean_squares_are_equal(entrants: str) -> None:
    # The formula's point: with any other degrees of freedom replies at random would look like
    # signal, or like more noise than there is.
    pairs = list(combinations(entrants, 2))
    both = list(product((Verdict.A, Verdict.B, Verdict.TIE), repeat=2))
    between = within = 0.0
    for replies in product(both, repeat=len(pairs)):
        noise = measure_noise(
            "p1",
            [
                pair(a, b, replies=(said(ab), said(ba)))
                for (a, b), (ab, ba) in zip(pairs, replies, strict=True)
            ],
        )
        assert noise.signal is not None
        between += noise.signal.between
        within += noise.signal.within
    assert between == pytest.approx(within)
    assert between > 0


def test_which_of_two_is_named_first_leaves_no_trace() -> None:
    replies = (said(Verdict.A), said(Verdict.TIE))
    turned = (said(Verdict.B), said(Verdict.TIE))
    there = measure_noise("p1", [pair("ada", "bob", replies=replies)])
    back = measure_noise("p1", [pair("bob", "ada", replies=turned)])
    assert there == back


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
