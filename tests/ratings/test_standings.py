"""One quantity orders the entrants and decides what is claimed of every two."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.coverage import measure_claims
from benchmarks.simulated_tournaments import Design, limit_of_bradley_terry
from tournament_assets.foundation.estimates import Estimate, Resampling
from tournament_assets.ratings.bradley_terry import ResampledWins
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.standings import (
    Claim,
    PairClaim,
    Standings,
    stand_entrants,
)
from tournament_assets.tournament.verdicts import Judgment

from .builders import (
    ENTRANTS,
    PUBLISHED_STRENGTHS,
    PUBLISHED_WINS,
    code_columns,
    simulate_judgments,
    tie,
    win,
    wins,
)
from .drawn_tournaments import KINDS, Drawn, draw_standing, find_falsehoods

N_DRAWS = 100_000 if "FUZZ" in os.environ else 10_000
"""Tournaments that the longer test looks at, in parts of `PART` (`make fuzz`: all); the
usual one looks at a few."""
PART = 5_000
WITHIN = 150.0
"""Elo points. So much that some pairs of a small tournament are equivalent."""
QUICK = Resampling(199, 0, 0.95)


def count_falsehoods(n_draws: int, *, seed: int) -> Counter[str]:
    """Draw tournaments and require that nothing false is claimed of any.

    Returns:
        How many there were of each kind, decided ones apart, and of each claim.
    """
    generator = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for number in range(n_draws):
        drawn = draw_standing(generator)
        found = stand_drawn(drawn, seed=number)
        falsehoods = list(find_falsehoods(drawn, found, within=WITHIN))
        assert falsehoods == [], (seed, number, drawn)
        seen.update([drawn.kind, f"decided: {drawn.decided is not None}"])
        seen.update(claim.claim for claim in found.claims)
        seen["circles"] += all(each.rank != 1 for each in found.entrants)
    return seen


def stand_drawn(drawn: Drawn, *, seed: int) -> Standings:
    return stand_entrants(
        ResampledWins.of(drawn.matches, Resampling(39, seed, 0.95)),
        equivalent_within=WITHIN,
        decided=drawn.decided,
    )


def test_nothing_that_is_claimed_contradicts_anything_else() -> None:
    seen = count_falsehoods(1_000, seed=0)
    # Otherwise there was nothing to contradict.
    for what in (*KINDS, *Claim, "circles", "decided: True"):
        assert seen[what] > 25, what


@pytest.mark.e2e
@pytest.mark.parametrize("part", range(1, 1 + N_DRAWS // PART))
def test_nothing_is_contradicted_in_a_hundred_thousand_tournaments(part: int) -> None:
    count_falsehoods(PART, seed=part)


def renamed(drawn: Drawn, order: Sequence[int]) -> Drawn:
    """Give everyone another name, and another place in the tables."""
    name = {old: f"{old} anew" for old in drawn.matches.entrants}
    place = np.argsort(order)
    matches = replace(
        drawn.matches,
        entrants=tuple(name[drawn.matches.entrants[index]] for index in order),
        first=place[drawn.matches.first],
        second=place[drawn.matches.second],
    )
    decided = drawn.decided
    if decided is not None:
        decided = tuple((name[first], name[second]) for first, second in decided)
    return Drawn(drawn.kind, matches, decided)


def numbers(estimate: Estimate) -> list[float]:
    """Return the value and both ends, infinite where there is none, to compare with others."""
    ends = (estimate.value, estimate.low, estimate.high)
    return [math.inf if each is None else each for each in ends]


def test_neither_names_nor_the_order_of_the_tables_change_anything() -> None:
    generator = np.random.default_rng(1)
    for seed in range(80):
        drawn = draw_standing(generator)
        again = renamed(drawn, generator.permutation(len(drawn.matches.entrants)).tolist())
        found, other = stand_drawn(drawn, seed=seed), stand_drawn(again, seed=seed)
        theirs = {each.entrant: each for each in other.entrants}
        for mine in found.entrants:
            its = theirs[f"{mine.entrant} anew"]
            assert (mine.rank, mine.best, mine.worst) == (its.rank, its.best, its.worst)
            assert numbers(mine) == pytest.approx(numbers(its), abs=1e-4)
        claims = {
            (each.first, each.second): each
            for claim in other.claims
            for each in (claim, claim.turned)
        }
        for claim in found.claims:
            same = claims[f"{claim.first} anew", f"{claim.second} anew"]
            assert claim.claim == same.claim
            assert numbers(claim.difference) == pytest.approx(numbers(same.difference), abs=1e-4)


def test_a_tournament_in_which_everybody_who_won_had_lost_claims_the_opposite() -> None:
    generator = np.random.default_rng(2)
    for seed in range(60):
        drawn = replace(draw_standing(generator), decided=None)
        turned = replace(drawn.matches, preference=1 - drawn.matches.preference)
        claims = stand_drawn(drawn, seed=seed).claims
        opposite = stand_drawn(replace(drawn, matches=turned), seed=seed).claims
        assert [each.claim for each in claims] == [each.turned.claim for each in opposite]


@pytest.mark.parametrize("share", [0.5, 0.6, 0.75, 0.9])
def test_the_difference_of_two_is_the_share_that_the_first_won(share: float) -> None:
    n_won = round(40 * share)
    judgments = wins({("ada", "bob"): n_won, ("bob", "ada"): 40 - n_won})
    (claim,) = stand(judgments, ENTRANTS[:2]).claims
    value = claim.difference.value
    assert value == pytest.approx(400 * math.log10(share / (1 - share)), abs=1e-6)
    assert 1 / (1 + 10 ** (-(value or 0.0) / 400)) == pytest.approx(share)


def stand(judgments: list[Judgment], entrants: Sequence[str], **options: Any) -> Standings:
    matches = code_judgments(judgments, entrants=entrants)
    return stand_entrants(ResampledWins.of(matches, QUICK), **options)


def test_four_of_a_published_table_are_rated_as_published() -> None:
    found = stand(wins(PUBLISHED_WINS), ENTRANTS)
    assert [each.rank for each in found.entrants] == [4, 2, 3, 1]
    for each, strength in zip(found.entrants, PUBLISHED_STRENGTHS, strict=True):
        assert each.value == pytest.approx(1400 + 400 * math.log10(strength), abs=0.4)


def test_a_copy_of_an_entrant_moves_nobody_whom_the_ratings_fit() -> None:
    strengths = {"ada": 0.4, "bob": 0.0, "cyd": -0.7}

    def play(names: Sequence[str]) -> dict[tuple[str, str], float]:
        pairs = [(a, b) for a in names for b in names if a < b]
        share = [1 / (1 + math.exp(strengths[b[:3]] - strengths[a[:3]])) for a, b in pairs]
        first, second = zip(*pairs, strict=True)
        matches = code_columns(first, second, ["p"] * len(pairs), share, entrants=names)
        found = stand_entrants(ResampledWins.of(matches, QUICK))
        return {(c.first, c.second): c.difference.value or 0.0 for c in found.claims}

    without, copied = play(("ada", "bob", "cyd")), play(("ada", "bob", "cyd", "cyd again"))
    assert copied["cyd", "cyd again"] == pytest.approx(0, abs=1e-6)
    for pair, difference in without.items():
        assert copied[pair] == pytest.approx(difference, abs=1e-6)
    assert without["ada", "bob"] == pytest.approx(400 * 0.4 / math.log(10))


def test_whoever_won_everything_is_first_and_its_lead_is_open_above() -> None:
    judgments = wins({("ada", "bob"): 20, ("bob", "cyd"): 10, ("cyd", "bob"): 10})
    found = stand(judgments, ENTRANTS[:3])
    ada, bob, cyd = found.entrants
    assert (ada.value, ada.rank, ada.best, ada.worst) == (None, 1, 1, 1)
    assert (bob.rank, cyd.rank) == (2, 2)
    claim = found.claims[0]
    assert claim.claim is Claim.FIRST_BETTER
    assert (claim.difference.value, claim.difference.high) == (None, None)
    assert claim.difference.low is not None
    assert claim.difference.low > 0


def test_nobody_is_placed_against_those_that_it_never_met() -> None:
    judgments = [
        *(win("ada", "bob", f"p{n}") for n in range(20)),
        *(tie("ada", "cyd", f"p{n}") for n in range(20)),
        *(win("dee", "eve", f"p{n}") for n in range(20)),
    ]
    found = stand(judgments, (*ENTRANTS, "eve"))
    assert [each.rank is None for each in found.entrants] == [False] * 3 + [True] * 2
    assert {name for claim in found.claims for name in (claim.first, claim.second)} == {
        *ENTRANTS[:3]
    }


def test_whoever_is_rated_has_a_rank_although_more_met_among_themselves() -> None:
    # Five met in a row and none can be rated, two met both ways: these are rated and have ranks.
    row = ("cyd", "dee", "eve", "fay", "gus")
    judgments = [win(a, b, f"p{n}") for a, b in pairwise(row) for n in range(20)]
    judgments += [win(*(("ada", "bob") if n % 10 else ("bob", "ada")), f"p{n}") for n in range(40)]
    found = stand(judgments, ("ada", "bob", *row))
    assert [each.rank for each in found.entrants] == [1, 2, *[None] * 5]
    (claim,) = found.claims
    assert (claim.claim, claim.difference.low is None) == (Claim.FIRST_BETTER, False)


def test_a_tournament_tells_the_best_from_the_worst() -> None:
    judgments = simulate_judgments([0.0, 0.1, 0.2, 1.5], n_prompts=80, seed=1)
    dee = stand(judgments, ENTRANTS).entrants[3]
    assert (dee.rank, dee.worst, dee.group, dee.shown_above) == (1, 1, "a", ENTRANTS[:3])


def test_many_ties_show_that_two_are_equivalent_and_few_do_not() -> None:
    for n_prompts, claim in ((40, Claim.UNDECIDED), (4000, Claim.EQUIVALENT)):
        judgments = [tie("ada", "bob", f"p{n:04}") for n in range(n_prompts)]
        judgments[::10] = [
            win(*(("ada", "bob") if n % 20 else ("bob", "ada")), f"p{n:04}")
            for n in range(0, n_prompts, 10)
        ]
        (found,) = stand(judgments, ENTRANTS[:2]).claims
        assert found.claim is claim


def test_decisions_order_and_say_nothing_of_who_is_two_steps_away() -> None:
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=40, seed=0)
    decided = [("ada", "dee"), ("bob", "ada")]
    found = stand(judgments, ENTRANTS, decided=decided)
    # bob is not best: dee, whom ada beats, is undecided with it, and so is cyd.
    assert {
        each.entrant: (each.rank, each.best, each.worst, each.group) for each in found.entrants
    } == {
        "cyd": (1, 1, 4, "a b"),
        "bob": (2, 1, 3, "a"),
        "ada": (3, 2, 3, "b"),
        "dee": (4, 2, 4, "a"),
    }
    claims = {(each.first, each.second): each.claim for each in found.claims}
    assert claims["ada", "bob"] is Claim.SECOND_BETTER
    assert claims["ada", "dee"] is Claim.FIRST_BETTER
    assert claims["bob", "cyd"] is Claim.UNDECIDED


def test_whoever_may_be_first_stands_before_a_circle_in_which_nobody_may() -> None:
    # ada is rated lowest, and no decision is about it; of the others each is beaten by one.
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=40, seed=0)
    circle = [("bob", "dee"), ("dee", "cyd"), ("cyd", "bob")]
    for decided, places in (
        (circle, {"ada": (1, 1, 4)} | dict.fromkeys(("bob", "cyd", "dee"), (2, 2, 3))),
        (
            [*circle, ("bob", "ada")],
            {"bob": (2, 2, 2), "ada": (4, 2, 4)} | dict.fromkeys(("cyd", "dee"), (2, 2, 3)),
        ),
    ):
        found = stand(judgments, ENTRANTS, decided=decided)
        assert {
            each.entrant: (each.rank, each.best, each.worst) for each in found.entrants
        } == places


def test_letters_come_in_the_order_of_the_ratings_within_a_circle() -> None:
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=40, seed=0)
    circle = [("ada", "dee"), ("dee", "cyd"), ("cyd", "ada")]
    first = [("bob", other) for other in ("ada", "cyd", "dee")]
    found = stand(judgments, ENTRANTS, decided=[*circle, *first])
    assert {each.entrant: (each.rank, each.group) for each in found.entrants} == {
        "bob": (1, "a"),
        "dee": (3, "b"),
        "cyd": (3, "c"),
        "ada": (3, "d"),
    }


def test_without_a_decision_the_order_is_that_of_the_ratings_and_nobody_is_better() -> None:
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=40, seed=0)
    found = stand(judgments, ENTRANTS, decided=())
    assert [each.rank for each in found.entrants] == [4, 3, 2, 1]
    assert {(each.best, each.worst, each.group) for each in found.entrants} == {(1, 4, "a")}


def test_a_claim_turned_twice_is_the_same() -> None:
    claim = PairClaim("a", "b", Claim.FIRST_BETTER, Estimate(12.0, 0.0, None, 9))
    assert claim.turned.claim is Claim.SECOND_BETTER
    assert numbers(claim.turned.difference) == [-12.0, math.inf, 0.0]
    assert math.copysign(1, claim.turned.difference.high or 0.0) == 1
    assert claim.turned.turned == claim


@pytest.mark.parametrize("undecided", [0.0, 0.85])
@pytest.mark.parametrize(
    "strengths", [(0.0,) * 4, (0.0,) * 10, (0.0, 0.0, 1.5, 1.5)], ids=["four", "ten", "two twos"]
)
def test_something_false_is_claimed_in_one_tournament_of_twenty(
    strengths: tuple[float, ...], undecided: float
) -> None:
    n = 60
    design = Design(50, 1.0, strengths=strengths, undecided=undecided)
    claims = measure_claims(design, n_tournaments=n, n_bootstraps=299, seed=5)
    error = math.sqrt(0.05 * 0.95 / n)
    assert claims.together <= 0.05 + 2 * error
    assert claims.places >= 0.95 - 2 * error
    assert claims.one_at_a_time >= claims.together
    if len(strengths) == 10:
        assert claims.one_at_a_time > 0.4


@pytest.mark.parametrize("strengths", [(0.0, 0.25), (0.0, 0.0, 0.25, 0.25)], ids=["two", "four"])
def test_two_whose_difference_matters_are_called_equivalent_in_one_of_twenty(
    strengths: tuple[float, ...],
) -> None:
    n = 200
    design = Design(300, 1.0, strengths=strengths)
    ratings = limit_of_bradley_terry(design)
    claims = measure_claims(
        design,
        n_tournaments=n,
        n_bootstraps=199,
        seed=3,
        equivalent_within=float(np.ptp(ratings)) - 0.01,
    )
    assert claims.equivalent <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n)
