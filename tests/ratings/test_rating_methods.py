import numpy as np
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import DIVIDED, NO_MATCH, WON_ALL
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.rating_evidence import Evidence
from tournament_assets.ratings.rating_methods import (
    BRADLEY_TERRY,
    DAVIDSON,
    EFFECT,
    ELO,
    METHODS,
    SANDWICH,
    STYLE,
    TIES,
    rating_rows,
)
from tournament_assets.ratings.rating_tables import trace_elo
from tournament_assets.ratings.sandwich import sandwich_bradley_terry
from tournament_assets.reports.rating_method_tables import disagreement_sentences
from tournament_assets.tournament.asset_rows import RatingRow
from tournament_assets.tournament.battles import RatingSettings

from .builders import ENTRANTS, code_columns, simulate_judgments, tie, win, wins

BY_MATCHES = (ELO, BRADLEY_TERRY, SANDWICH, DAVIDSON)
SETTINGS = RatingSettings(
    n_permutations=50, n_bootstraps=40, k_factor=24, shuffle_seed=4, initial_rating=1000
)
# bob beat ada more often than not. But ada tied cyd, who beats bob, twenty times: that is half
# wins over a strong entrant to Bradley-Terry, and nothing to Elo.
DISPUTED = [
    *wins(
        {
            ("ada", "bob"): 4,
            ("bob", "ada"): 8,
            ("bob", "cyd"): 1,
            ("cyd", "ada"): 1,
            ("cyd", "bob"): 8,
        }
    ),
    *[tie("ada", "bob")] * 4,
    *[tie("ada", "cyd")] * 20,
]


def rows_by(
    matches: Matches, settings: RatingSettings = SETTINGS
) -> dict[tuple[str, str], RatingRow]:
    """Rate by every method that needs no texts, by method and entrant, in their order."""
    evidence = Evidence(matches=matches, settings=settings, traces=trace_elo(matches, settings))
    rows = rating_rows(evidence, BY_MATCHES, dimension="facts")
    return {(row.method, row.entrant_id): row for row in rows}


def test_methods_agree_on_a_clear_order_best_first() -> None:
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=60, seed=0)
    rows = rows_by(code_judgments(judgments, entrants=ENTRANTS))
    for method in BY_MATCHES:
        own = [row for row in rows.values() if row.method == method]
        assert [row.entrant_id for row in own] == [*ENTRANTS[::-1]]
        assert [row.rank for row in own] == [1, 2, 3, 4]
        assert np.mean([row.rating or 0.0 for row in own]) == pytest.approx(1000)
        assert {row.note for row in own} == {None}
    assert disagreement_sentences([*rows.values()]) == []


def test_a_tie_that_means_two_things_is_reported() -> None:
    settings = RatingSettings(n_permutations=200, n_bootstraps=40)
    rows = rows_by(code_judgments(DISPUTED, entrants=ENTRANTS[:3]), settings)
    for method, (first, second) in (
        (ELO, ("bob", "ada")),
        (BRADLEY_TERRY, ("ada", "bob")),
        (DAVIDSON, ("ada", "bob")),
    ):
        assert (rows[method, first].rank or 0) < (rows[method, second].rank or 0)
    assert rows[ELO, "bob"].shown_above[0] == "ada"
    (sentence,) = disagreement_sentences([*rows.values()]) or []
    assert "bob above ada" in sentence


def test_ratings_within_elos_order_noise_are_level() -> None:
    # ada is one win in 41 ahead. Five orderings may well put bob first, and mean nothing by it.
    table = {("ada", "bob"): 21, ("bob", "ada"): 20}
    matches = code_judgments(wins(table), entrants=("ada", "bob"))
    ranks = set()
    for seed in range(20):
        settings = RatingSettings(n_permutations=5, n_bootstraps=20, k_factor=32, shuffle_seed=seed)
        rows = rows_by(matches, settings)
        assert (rows[BRADLEY_TERRY, "ada"].rank, rows[BRADLEY_TERRY, "bob"].rank) == (1, 2)
        ranks.add(rows[ELO, "ada"].rank)
        assert rows[ELO, "bob"].shown_above == ()
        assert disagreement_sentences([*rows.values()]) == []
    assert ranks == {1, 2}


def test_equal_ratings_share_the_better_rank() -> None:
    table = {("ada", "bob"): 2, ("bob", "ada"): 2}
    rows = rows_by(code_judgments(wins(table), entrants=("ada", "bob")))
    assert [rows[BRADLEY_TERRY, name].rank for name in ("ada", "bob")] == [1, 1]


def test_davidson_says_that_it_knows_no_shares() -> None:
    soft = code_columns(
        ["ada", "ada", "bob"],
        ["bob", "bob", "ada"],
        ["p", "q", "r"],
        [0.8, 0.9, 0.4],
        entrants=("ada", "bob"),
    )
    rows = rows_by(soft)
    assert all("losses" in str(rows[DAVIDSON, name].note) for name in ("ada", "bob"))
    assert (TIES, "ties") not in rows
    assert [rows[BRADLEY_TERRY, name].rank for name in ("ada", "bob")] == [1, 2]
    assert [rows[ELO, name].rank for name in ("ada", "bob")] == [1, 2]


def test_what_a_method_cannot_rate_is_last_and_says_why() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "bob"): 4}
    rows = rows_by(code_judgments(wins(table), entrants=("dee", "cyd", "bob", "ada")))
    assert rows[ELO, "cyd"].note == WON_ALL
    assert rows[ELO, "cyd"].rating is None
    assert rows[ELO, "dee"].note == NO_MATCH
    strengths = [row for row in rows.values() if row.method == BRADLEY_TERRY]
    assert [row.entrant_id for row in strengths[2:]] == ["dee", "cyd"]
    assert "upper bound" in str(strengths[3].note)
    assert strengths[3].rank is strengths[3].low is None


def test_elo_ratings_of_separate_groups_are_not_ranked_against_each_other() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "dee"): 2, ("dee", "cyd"): 1}
    rows = rows_by(code_judgments(wins(table), entrants=ENTRANTS))
    assert {rows[ELO, name].note for name in ENTRANTS} == {DIVIDED}
    assert {rows[ELO, name].rank for name in ENTRANTS} == {None}


def test_rows_are_the_methods_numbers_under_the_settings() -> None:
    judgments = simulate_judgments([0.0, 0.3, 0.6, 1.0], n_prompts=30, seed=2)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    rows = rows_by(matches)
    traces, davidson = trace_elo(matches, SETTINGS), fit_davidson(matches, initial_rating=1000)
    sandwich = sandwich_bradley_terry(matches, confidence=0.95, initial_rating=1000)
    fitted = fit_bradley_terry(matches, initial_rating=1000)
    for index, name in enumerate(ENTRANTS):
        assert rows[ELO, name].rating == pytest.approx(traces.ratings[:, index].mean())
        assert rows[BRADLEY_TERRY, name].rating == fitted[index].value
        assert rows[DAVIDSON, name].rating == davidson.ratings[index].value
        ours, theirs = rows[SANDWICH, name], sandwich.ratings[index]
        assert (ours.rating, ours.standard_error) == (theirs.value, theirs.standard_error)
        assert (ours.low, ours.high, ours.n) == (theirs.low, theirs.high, 30)
    assert rows[TIES, "ties"].rating == davidson.tie_parameter


def test_bradley_terry_tells_apart_where_it_is_to() -> None:
    judgments = simulate_judgments([0.0, 1.0, 2.0, 3.0], n_prompts=60, seed=0)
    matches = code_judgments(judgments, entrants=ENTRANTS)
    told, untold = (
        rating_rows(
            Evidence(matches=matches, settings=SETTINGS, tells_apart=tells_apart),
            (BRADLEY_TERRY,),
            dimension="facts",
        )
        for tells_apart in (True, False)
    )
    ranked = [row.entrant_id for row in told]
    for index, row in enumerate(told):
        assert {*row.shown_above} <= {*ranked[index + 1 :]}
        assert row.rank_best == 1 + sum(row.entrant_id in each.shown_above for each in told)
        assert row.rank_worst == 4 - len(row.shown_above)
        assert row.group
    assert told[-1].entrant_id in told[0].shown_above
    assert {(row.rank_best, row.shown_above) for row in untold} == {(None, ())}


def test_a_rating_without_spread_between_prompts_says_so() -> None:
    rows = rows_by(code_judgments([win("ada", "bob"), win("bob", "ada")], entrants=ENTRANTS[:2]))
    for name in ("ada", "bob"):
        assert rows[SANDWICH, name].rating == pytest.approx(1000.0)
        assert rows[SANDWICH, name].standard_error is None
        assert "no spread" in str(rows[SANDWICH, name].note)


def test_style_comes_after_the_entrants_and_says_what_it_leaves_out() -> None:
    table = {("ada", "bob"): 3, ("bob", "ada"): 2, ("cyd", "bob"): 4}
    matches = code_judgments(wins(table), entrants=("dee", "cyd", "bob", "ada"))
    texts = {
        (e, (f"p{i}", 1)): "word " * (i + len(e) * (e > "b")) for e in ENTRANTS for i in range(9)
    }
    rows = rating_rows(
        Evidence(matches=matches, settings=SETTINGS, responses=texts), (STYLE,), dimension="facts"
    )
    assert [row.method for row in rows] == [STYLE] * 4 + [EFFECT] * 4
    assert all(row.note for row in rows if row.rating is None)
    assert "never differs" in str(rows[-1].note)


def test_a_method_without_what_it_needs_is_refused() -> None:
    matches = code_judgments([win("ada", "bob")], entrants=ENTRANTS[:2])
    evidence = Evidence(matches=matches, settings=SETTINGS)
    for method in (ELO, STYLE, *(name for name, each in METHODS.items() if each.rate is None)):
        with pytest.raises(InputError, match="expected"):
            rating_rows(evidence, (method,), dimension="facts")
