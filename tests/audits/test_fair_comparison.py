from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.audits import fair_comparison
from tournament_assets.audits.fair_comparison import (
    ALL,
    COMMON,
    COMPARED,
    PLANNED,
    common_support,
    fair_comparison_rows,
    without_entrants,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    GAP,
    WIN_SHARE,
    neighbours,
    rating_rows,
)
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings
from tournament_assets.tournament.prompts import Prompt, answer_key
from tournament_assets.tournament.verdicts import Judgment, Outcome

NAMES = ("ada", "bob", "cyd", "dot")
SETTINGS = RatingSettings(n_bootstraps=200)
CHANCES = {"ada": 0.8, "bob": 0.6, "cyd": 0.4, "dot": 0.2}


def tournament(
    n_prompts: int, *, seed: int = 0, names: Sequence[str] = NAMES, unjudged: float = 0.0
) -> list[Judgment]:
    generator = np.random.default_rng(seed)
    judgments = []
    for prompt in range(n_prompts):
        for a, b in combinations(names, 2):
            draw, missing = generator.random(2)
            rate = 0.5 + (CHANCES[a] - CHANCES[b]) / 2
            outcome = Outcome.A_WINS if draw < rate else Outcome.B_WINS
            if draw > 0.9:
                outcome = Outcome.TIE
            if missing < unjudged:
                outcome = Outcome.UNJUDGED
            judgments.append(Judgment(f"p{prompt:02}", "f", a, b, outcome))
    return judgments


def compare(
    judgments: Sequence[Judgment], *, n_prompts: int, names: Sequence[str] = NAMES, **changes: Any
) -> list[RatingRow]:
    prompts = [f"p{number:02}" for number in range(n_prompts)]
    options: dict[str, Any] = {
        "dimension": "f",
        "entrants": names,
        "prompts": [planned(name) for name in prompts],
        "answered": {name: {(prompt, 1) for prompt in prompts} for name in names},
        "settings": SETTINGS,
    }
    return fair_comparison_rows(judgments, **{**options, **changes})


def planned(
    name: str, source: str = "s", category: str | None = None, tags: tuple[str, ...] = ()
) -> Prompt:
    return Prompt(prompt_id=name, text="?", source=source, category=category, tags=tags, extra="{}")


def of(
    rows: Sequence[RatingRow], basis: str, method: str = WIN_SHARE, stratum: str = "all"
) -> dict[str, RatingRow]:
    return {
        row.entrant_id: row
        for row in rows
        if (row.basis, row.method, row.stratum) == (basis, method, stratum)
    }


@given(st.randoms(use_true_random=False), st.floats(0, 0.4))
def test_the_common_support_is_that_found_prompt_by_prompt(random: Any, unjudged: float) -> None:
    judgments = tournament(8, seed=random.randrange(10**6), unjudged=unjudged)
    judgments = [each for each in judgments if random.random() > 0.05]
    random.shuffle(judgments)
    answered = {
        name: {(f"p{n:02}", 1) for n in range(8) if random.random() > 0.1} for name in NAMES
    }
    slow = []
    for prompt in sorted({each.prompt_id for each in judgments}):
        complete = all((prompt, 1) in answered[name] for name in NAMES)
        for a, b in combinations(NAMES, 2):
            complete &= any(
                each.prompt_id == prompt
                and {each.entrant_a, each.entrant_b} == {a, b}
                and each.outcome is not Outcome.UNJUDGED
                for each in judgments
            )
        if complete:
            slow.append((prompt, 1))
    assert common_support(judgments, entrants=NAMES, answered=answered) == tuple(slow)


def test_where_nothing_is_missing_all_three_denominators_agree() -> None:
    rows = compare(tournament(30), n_prompts=30)
    for method in (WIN_SHARE, BRADLEY_TERRY, GAP):
        common, everything, planned = (of(rows, basis, method) for basis in (COMMON, ALL, PLANNED))
        for name, row in common.items():
            assert row == replace(everything[name], basis=COMMON)
            assert method != WIN_SHARE or row == replace(planned[name], basis=COMMON)
    assert len(of(rows, COMMON, GAP)) == 3
    ratings = of(rows, PLANNED, BRADLEY_TERRY).values()
    assert {(row.rating, row.n) for row in ratings} == {(None, 30)}


def stopped(n_prompts: int, *, weight: float, tail: Sequence[int]) -> list[Judgment]:
    """Return what is judged where ada wins all, bob beats cyd, and ada's pairs stop after ten."""
    return [
        Judgment(f"p{n:02}", "f", a, b, Outcome.A_WINS, 1.0 if n < 10 or a != "ada" else weight)
        for n in range(n_prompts)
        for a, b in combinations(("ada", "bob", "cyd"), 2)
        if n < 10 or n in tail or a != "ada"
    ]


def test_what_is_not_needed_is_not_missing_from_planned_pairs() -> None:
    names = ("ada", "bob", "cyd")
    # Three tail prompts of weight 5 stand for 15 of the 20 that are left.
    judged = stopped(30, weight=5.0, tail=(12, 17, 25))
    planned = of(compare(judged, n_prompts=30, names=names), PLANNED)
    assert [planned[name].rating for name in names] == pytest.approx([1.0, 0.5, 0.0])
    assert [planned[name].n for name in names] == [60, 60, 60]


def test_a_failed_verdict_of_the_tail_is_missing_as_far_as_it_stands_for_others() -> None:
    names = ("ada", "bob", "cyd")
    judged = stopped(30, weight=5.0, tail=(12, 15, 17, 25))
    failed = [
        replace(each, outcome=Outcome.UNJUDGED, share=None)
        if (each.prompt_id, each.entrant_b, each.weight) == ("p12", "bob", 5.0)
        else each
        for each in judged
    ]
    planned = of(compare(failed, n_prompts=30, names=names), PLANNED)
    assert planned["ada"].rating == pytest.approx((25 + 30) / 60)


def test_a_pair_of_whom_nothing_was_needed_in_a_stratum_is_not_planned_there() -> None:
    names = ("ada", "bob", "cyd")
    prompts = [planned(f"p{n:02}", "early" if n < 10 else "late") for n in range(30)]
    judged = [each for each in stopped(30, weight=5.0, tail=()) if each.weight == 1.0]
    judged[0] = replace(judged[0], weight=2.0)
    rows = compare(judged, n_prompts=30, names=names, prompts=prompts)
    late = of(rows, PLANNED, stratum="source: late")
    assert [late[name].n for name in names] == [0, 20, 20]
    assert [late[name].rating for name in names] == [None, 1.0, 0.0]


def test_an_outage_for_one_entrant_shows_in_the_difference_of_the_denominators() -> None:
    # The judge failed on the prompts that ada would have lost.
    judgments = [
        Judgment(each.prompt_id, "f", each.entrant_a, each.entrant_b, Outcome.UNJUDGED)
        if "ada" in (each.entrant_a, each.entrant_b) and each.winner not in ("ada", None)
        else each
        for each in tournament(40)
    ]
    rows = compare(judgments, n_prompts=40)
    common, everything, planned = (of(rows, basis) for basis in (COMMON, ALL, PLANNED))
    strengths, of_all = (of(rows, basis, BRADLEY_TERRY) for basis in (COMMON, ALL))
    assert strengths["ada"].n < of_all["ada"].n == 40
    share = everything["ada"].rating or 0.0
    assert share > (planned["ada"].rating or 0)
    assert planned["ada"].n == 120
    assert planned["ada"].rating == pytest.approx(share * everything["ada"].n / 120)
    assert common["bob"].rating != everything["bob"].rating
    alike = common_support(
        judgments,
        entrants=NAMES,
        answered={name: {(f"p{n:02}", 1) for n in range(40)} for name in NAMES},
    )
    alone = [each for each in judgments if answer_key(each) in alike]
    assert len(alike) == strengths["ada"].n
    fitted = fit_bradley_terry(code_judgments(alone, entrants=NAMES))
    assert [each.value for each in fitted] == pytest.approx(
        [strengths[name].rating for name in NAMES]
    )
    assert strengths["ada"].rating != of_all["ada"].rating


def test_what_is_missing_can_change_who_leads() -> None:
    judgments = [
        *[Judgment(f"p{n:02}", "f", "ada", "bob", Outcome.B_WINS) for n in range(4)],
        *[Judgment(f"p{n:02}", "f", "ada", "bob", Outcome.A_WINS) for n in range(4, 10)],
        *[Judgment(f"p{n:02}", "f", "ada", "cyd", Outcome.A_WINS) for n in range(4)],
        *[Judgment(f"p{n:02}", "f", "bob", "cyd", Outcome.A_WINS) for n in range(4)],
        *[Judgment(f"p{n:02}", "f", "ada", "cyd", Outcome.UNJUDGED) for n in range(4, 10)],
        *[Judgment(f"p{n:02}", "f", "bob", "cyd", Outcome.UNJUDGED) for n in range(4, 10)],
    ]
    rows = compare(judgments, n_prompts=10, names=NAMES[:3])
    assert of(rows, COMMON)["bob"].rank == 1
    assert of(rows, ALL)["ada"].rank == 1
    assert of(rows, PLANNED)["ada"].rating == pytest.approx(10 / 20)
    assert of(rows, COMMON)["bob"].rating == pytest.approx(8 / 8)


def test_ratings_are_those_of_bradley_terry_on_the_pairs_of_the_basis() -> None:
    judgments = tournament(30, unjudged=0.03)
    rows = compare(judgments, n_prompts=30)
    for name, row in of(rows, ALL, BRADLEY_TERRY).items():
        (expected,) = [
            each
            for each in fit_bradley_terry(code_judgments(judgments, entrants=NAMES))
            if each.entrant == name
        ]
        assert row.rating == pytest.approx(expected.value)


@pytest.mark.parametrize("seed", range(4))
def test_the_leaderboard_and_the_fair_comparison_tell_the_same_entrants_apart(seed: int) -> None:
    judgments = tournament(12, seed=seed)
    matches = code_judgments(judgments, entrants=NAMES)
    evidence = Evidence(matches=matches, settings=SETTINGS, tells_apart=True)
    rows = rating_rows(evidence, [BRADLEY_TERRY, GAP], dimension="factuality")
    above = {row.entrant_id: row.shown_above for row in rows if row.method == BRADLEY_TERRY}
    gaps = {row.entrant_id: row for row in rows if row.method == GAP}
    ratings = {row.entrant_id: row.rating for row in rows if row.method == BRADLEY_TERRY}
    told = neighbours(rows)
    assert [name for name, _ in told] == [*gaps]
    assert len(told) == 3
    for name, below in told:
        gap = gaps[name]
        assert gap.shown_above == ((below,) if below in above[name] else ())
        assert bool(gap.shown_above) == (gap.low is not None and gap.low > 0)
        assert gap.rating == pytest.approx((ratings[name] or 0) - (ratings[below] or 0))


@pytest.mark.parametrize("unjudged", [0.0, 0.1])
def test_what_is_rated_already_is_not_rated_again(
    unjudged: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgments = tournament(12, unjudged=unjudged)
    matches = code_judgments(judgments, entrants=NAMES)
    evidence = Evidence(matches=matches, settings=SETTINGS, tells_apart=True)
    ratings = rating_rows(evidence, COMPARED, dimension="f")
    expected = compare(judgments, n_prompts=12)
    calls: list[Any] = []

    def count(*arguments: Any, **options: Any) -> list[RatingRow]:
        calls.append(arguments)
        return rating_rows(*arguments, **options)

    monkeypatch.setattr(fair_comparison, "rating_rows", count)
    assert compare(judgments, n_prompts=12, ratings=ratings) == expected
    # Where pairs are missing, the prompts that all share are rated on their own.
    assert len(calls) == (1 if unjudged else 0)


def test_leaving_somebody_out_is_a_tournament_without_it() -> None:
    judgments = tournament(20, unjudged=0.05)
    kept, left = without_entrants(judgments, entrants=NAMES, excluded=["bob"])
    assert left == ("ada", "cyd", "dot")
    without = [each for each in judgments if "bob" not in (each.entrant_a, each.entrant_b)]
    answered = {name: {(f"p{n:02}", 1) for n in range(20)} for name in NAMES}
    assert compare(kept, n_prompts=20, names=left, answered=answered) == compare(
        without, n_prompts=20, names=left
    )


def test_who_answered_nothing_leaves_no_common_prompt_until_it_is_left_out() -> None:
    judgments = tournament(10)
    answered = {name: {(f"p{n:02}", 1) for n in range(10)} for name in NAMES} | {"dot": set()}
    rows = compare(judgments, n_prompts=10, answered=answered)
    assert of(rows, COMMON, BRADLEY_TERRY)["ada"].n == 0
    assert of(rows, COMMON)["ada"].rating is None
    kept, left = without_entrants(judgments, entrants=NAMES, excluded=["dot"])
    rows = compare(kept, n_prompts=10, names=left, answered=answered)
    assert of(rows, COMMON, BRADLEY_TERRY)["ada"].n == 10


def test_strata_are_rated_as_tournaments_of_their_own_prompts() -> None:
    judgments = tournament(20)
    prompts = [
        planned(f"p{n:02}", category="odd" if n % 2 else None, tags=("x",) * (n < 5))
        for n in range(20)
    ]
    rows = compare(judgments, n_prompts=20, prompts=prompts)
    assert {row.stratum for row in rows} == {"all", "category: odd", "tag: x"}
    odd = [each for each in judgments if int(each.prompt_id[1:]) % 2]
    alone = compare(odd, n_prompts=20, prompts=prompts[1::2])
    for method in (WIN_SHARE, BRADLEY_TERRY, GAP):
        for name, row in of(rows, COMMON, method, "category: odd").items():
            assert replace(row, stratum="all") == of(alone, COMMON, method)[name]


def test_all_that_is_wrong_with_an_exclusion_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        without_entrants([], entrants=("ada", "bob"), excluded=["bob", "eve"])
    unknown, too_few = caught.value.problems
    assert "'eve'" in unknown
    assert "ada would" in too_few
