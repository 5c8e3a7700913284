"""Input from which some number cannot be had: every engine must say so, and none may invent one.

The table of `docs/methodology.md` is this one in words.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    fit_bradley_terry,
    rate_resamples,
)
from tournament_assets.ratings.covariates import fit_controlled
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import (
    compute_elo_permutation,
    elo_standing,
    summarise_elo,
)
from tournament_assets.ratings.intervals import sampling_intervals
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    DAVIDSON,
    ELO,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import trace_elo
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.ratings.significance import separate_entrants
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.verdicts import Judgment

from .builders import ENTRANTS, battles_apart, code_columns, tie, win

TRIO = ENTRANTS[:3]


@dataclass(frozen=True, slots=True)
class Case:
    """A degenerate tournament and what each engine says of each entrant, a letter each.

    Capitals are numbers: `R` a rating, `I` an interval. `-` stands for neither number nor
    interval, and `n` for a rating with a note that qualifies it.
    """

    judgments: list[Judgment]
    entrants: tuple[str, ...]
    elo: str
    bradley_terry: str
    bradley_terry_interval: str
    ties_modelled: str


def each_way(a: str, b: str, forth: int, back: int) -> list[Judgment]:
    won = [win(a, b, f"p{index}") for index in range(forth)]
    return won + [win(b, a, f"p{forth + index}") for index in range(back)]


def ties(a: str, b: str, count: int) -> list[Judgment]:
    return [tie(a, b, f"p{index}") for index in range(count)]


CHAIN = each_way("ada", "bob", 6, 5) + each_way("bob", "cyd", 5, 6)

CASES = {
    "disconnected graph": Case(
        each_way("ada", "bob", 6, 5) + each_way("cyd", "dee", 5, 6),
        ENTRANTS,
        elo="nnnn",
        bradley_terry="----",
        bradley_terry_interval="----",
        ties_modelled="----",
    ),
    "one wins all": Case(
        CHAIN + each_way("dee", "ada", 8, 0),
        ENTRANTS,
        elo="RRRn",
        bradley_terry="RRR-",
        bradley_terry_interval="III-",
        ties_modelled="RRR-",
    ),
    "one loses all": Case(
        CHAIN + each_way("ada", "dee", 8, 0),
        ENTRANTS,
        elo="RRRn",
        bradley_terry="RRR-",
        bradley_terry_interval="III-",
        ties_modelled="RRR-",
    ),
    "all ties": Case(
        ties("ada", "bob", 8) + ties("bob", "cyd", 8),
        TRIO,
        elo="nnn",
        bradley_terry="RRR",
        bradley_terry_interval="---",
        ties_modelled="---",
    ),
    "no decisive match between two": Case(
        ties("ada", "bob", 8),
        TRIO[:2],
        elo="nn",
        bradley_terry="RR",
        bradley_terry_interval="--",
        ties_modelled="--",
    ),
    "one entrant": Case(
        [],
        TRIO[:1],
        elo="n",
        bradley_terry="-",
        bradley_terry_interval="-",
        ties_modelled="-",
    ),
    "nobody judged": Case(
        [],
        TRIO[:2],
        elo="nn",
        bradley_terry="--",
        bradley_terry_interval="--",
        ties_modelled="--",
    ),
    "an entrant never judged": Case(
        CHAIN,
        ENTRANTS,
        elo="RRRn",
        bradley_terry="RRR-",
        bradley_terry_interval="III-",
        ties_modelled="RRR-",
    ),
    "a pair never judged": Case(
        CHAIN,
        TRIO,
        elo="RRR",
        bradley_terry="RRR",
        bradley_terry_interval="III",
        ties_modelled="RRR",
    ),
    "one battle": Case(
        [win("ada", "bob")],
        TRIO[:2],
        elo="nn",
        bradley_terry="--",
        bradley_terry_interval="--",
        ties_modelled="--",
    ),
    "one prompt": Case(
        [win("ada", "bob"), win("bob", "ada"), win("ada", "bob")],
        TRIO[:2],
        elo="RR",
        bradley_terry="RR",
        bradley_terry_interval="--",
        ties_modelled="RR",
    ),
    "wins and ties without a loss": Case(
        each_way("ada", "bob", 6, 0) + ties("ada", "bob", 4),
        TRIO[:2],
        elo="nn",
        bradley_terry="RR",
        bradley_terry_interval="II",
        ties_modelled="--",
    ),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[str(request.param)]


def letters(
    ratings: list[float | None], notes: list[str | None], *, number: str = "R", noted: str = "-"
) -> str:
    """Write a letter per entrant, having checked that what is absent says why."""
    found = ""
    for rating, note in zip(ratings, notes, strict=True):
        assert rating is None or math.isfinite(rating)
        assert rating is not None or note
        found += (noted if note else number) if rating is not None else "-"
    return found


def test_elo_rates_and_says_what_the_rating_is_not(case: Case) -> None:
    matches = code_judgments(case.judgments, entrants=case.entrants)
    results = summarise_elo(
        compute_elo_permutation(matches, k_factor=16, n_permutations=20, seed=0), confidence=0.95
    )
    means: list[float | None] = [result.value for result in results]
    assert letters(means, list(elo_standing(matches).notes), noted="n") == case.elo
    for result in results:
        if result.n == 0:
            assert (result.value, result.standard_error, result.low) == (1400.0, None, None)


def test_bradley_terry_rates_only_the_connected(case: Case) -> None:
    preferences = code_judgments(case.judgments, entrants=case.entrants)
    results = fit_bradley_terry(preferences)
    found = letters([each.value for each in results], [each.note for each in results])
    assert found == case.bradley_terry
    bootstrap = rate_resamples(ResampledWins.of(preferences, Resampling(200, 0)))
    intervals = sampling_intervals(bootstrap, confidence=0.95)
    bounded = "".join("-" if each.low is None and each.high is None else "I" for each in intervals)
    assert bounded == case.bradley_terry_interval


def test_the_sandwich_has_an_error_or_a_reason(case: Case) -> None:
    preferences = code_judgments(case.judgments, entrants=case.entrants)
    found = sandwich_bradley_terry(preferences, confidence=0.95).ratings
    rated = "".join("-" if each.value is None else "R" for each in found)
    assert rated == case.bradley_terry
    for each in found:
        assert (each.standard_error is None) == (each.note is not None)
        assert each.standard_error is None or each.standard_error > 0
    spread = "".join("-" if each.standard_error is None else "I" for each in found)
    assert spread == case.bradley_terry_interval


def test_davidson_rates_or_says_why_not(case: Case) -> None:
    fit = fit_davidson(code_judgments(case.judgments, entrants=case.entrants))
    found = letters([each.value for each in fit.ratings], [each.note for each in fit.ratings])
    assert found == case.ties_modelled


def test_control_for_style_rates_whom_bradley_terry_rates(case: Case) -> None:
    preferences = code_judgments(case.judgments, entrants=case.entrants)
    x = np.zeros((preferences.n_matches, 0))
    fit = fit_controlled(preferences, x, names=[], confidence=0.95)
    rated = "".join("-" if each.value is None else "R" for each in fit.ratings)
    assert rated == case.bradley_terry
    for each in fit.ratings:
        assert (each.standard_error is None) == (each.note is not None)


def test_side_by_side_nobody_is_ranked_without_a_rating(case: Case) -> None:
    preferences = code_judgments(case.judgments, entrants=case.entrants)
    settings = RatingSettings(n_permutations=20, n_bootstraps=20)
    evidence = Evidence(
        matches=preferences, settings=settings, traces=trace_elo(preferences, settings)
    )
    methods = (ELO, BRADLEY_TERRY, DAVIDSON)
    for row in rating_rows(evidence, methods, dimension="d"):
        if row.method in methods:
            assert (row.rating is None) == (row.rank is None) == (row.note is not None)
    bootstrap = rate_resamples(ResampledWins.of(preferences, Resampling(200, 0)))
    ratings = [each.value for each in fit_bradley_terry(preferences)]
    separated = separate_entrants(bootstrap, ratings=ratings, confidence=0.95)
    unrated = {case.entrants[index] for index, rating in enumerate(ratings) if rating is None}
    assert not unrated & {each.entrant for each in separated.ranks}


def test_battles_that_are_listed_twice_count_twice_but_prompts_do_not() -> None:
    once, twice = (code_judgments(CHAIN * times, entrants=TRIO) for times in (1, 2))
    assert [each.value for each in fit_bradley_terry(twice)] == pytest.approx(
        [each.value for each in fit_bradley_terry(once)]
    )
    per_battle, per_prompt = (
        [
            [
                each.standard_error
                for each in sandwich_bradley_terry(sampled(rows), confidence=0.95).ratings
            ]
            for rows in (once, twice)
        ]
        for sampled in (battles_apart, Matches.averaged_over_samples)
    )
    assert per_prompt[1] == pytest.approx(per_prompt[0])
    assert all((more or 0) < 0.75 * (less or 0) for less, more in zip(*per_battle, strict=True))


def test_a_missing_preference_reaches_no_engine() -> None:
    with pytest.raises(InputError, match=r"match 0: .*\(nan\)"):
        code_columns(["ada"], ["bob"], ["p"], [math.nan], entrants=TRIO)
