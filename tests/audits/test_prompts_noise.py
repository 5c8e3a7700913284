from itertools import combinations, product
from math import inf

import pytest

from tournament_assets.audits.prompt_findings import measure_noise
from tournament_assets.tournament.verdicts import Outcome, Verdict

from .readings import missing, pair, said


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
