from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.battles.builders import fight, problems_of, read, write_lines
from tests.ratings.builders import simulate_judgments
from tournament_assets.battles.columns import make_battle_table
from tournament_assets.battles.rating import BattleRatings, rate_table
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import (
    ResampledWins,
    fit_bradley_terry,
    rate_resamples,
)
from tournament_assets.ratings.elo import compute_elo_permutation, summarise_elo
from tournament_assets.ratings.intervals import sampling_intervals
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.battles import Battle, RatingSettings, battles_from_judgments

QUICK = RatingSettings(n_permutations=5, n_bootstraps=20)


def rate(battles: Any, settings: RatingSettings = QUICK, **options: Any) -> list[BattleRatings]:
    return rate_table(make_battle_table(battles), settings=settings, **options)


def test_battles_alone_give_the_numbers_of_the_judgments_to_the_bit() -> None:
    judgments = simulate_judgments([0.0, 0.5, 1.0, 1.5], n_prompts=12, seed=1)
    entrants = ("dee", "ada", "cyd", "bob", "never_judged")
    settings = RatingSettings(
        entrants=entrants,
        dimensions=("factuality",),
        initial_rating=1500.0,
        k_factor=24.0,
        k_sweep=(8.0, 24.0),
        n_permutations=9,
        shuffle_seed=3,
        n_bootstraps=40,
        bootstrap_seed=4,
        confidence=0.9,
    )
    (found,) = rate(battles_from_judgments(judgments, judge_model="j"), settings)
    matches = code_judgments(judgments, entrants=entrants)
    for k_factor in (8.0, 24.0):
        traces = compute_elo_permutation(
            matches, k_factor=k_factor, n_permutations=9, seed=3, initial_rating=1500.0
        )
        rows = {row.entrant_id: row for row in found.elo if row.k_factor == k_factor}
        for result in summarise_elo(traces, confidence=0.9):
            row = rows[result.entrant]
            if result.n == 0:
                assert row.mean is row.rank is None
                continue
            assert (row.mean, row.sem) == (result.value, result.standard_error)
            assert (row.order_low, row.order_high) == (result.low, result.high)
            assert row.is_primary is (k_factor == 24.0)
    fitted = fit_bradley_terry(matches, initial_rating=1500.0)
    resampled = rate_resamples(ResampledWins.of(matches, Resampling(40, 4)), initial_rating=1500.0)
    bradley_terry = {row.entrant_id: row for row in found.ratings}
    for result_bt, bound in zip(fitted, sampling_intervals(resampled, confidence=0.9), strict=True):
        own = bradley_terry[bound.entrant]
        assert (own.rating, own.note) == (result_bt.value, result_bt.note)
        assert (own.low, own.high) == (bound.low, bound.high)
    assert bradley_terry["never_judged"].rating is None


def test_ranks_are_best_first_and_shared_by_equals() -> None:
    battles = [
        fight(winner, model_a=a, model_b=b, question_id="p")
        for a, b in (("ada", "bob"), ("ada", "cyd"))
        for winner in ("model_a", "model_a", "model_b")
    ]
    battles += [fight("tie", model_a="eve", question_id="p")]
    (found,) = rate(battles, RatingSettings(n_permutations=720, n_bootstraps=40))
    ranked = {row.entrant_id: row.rank for row in found.elo}
    assert list(ranked) == sorted(ranked, key=lambda name: ranked[name] or 9)
    assert ranked["ada"] == 1
    assert ranked["eve"] is None
    assert found.counts == {
        "battles": 7,
        "decisive": 6,
        "ties": 1,
        "inconsistent": 0,
        "prompts": 1,
    }


def test_dimensions_come_in_the_order_of_the_settings_then_of_the_battles() -> None:
    battles = [fight(dimension=name, question_id="p") for name in ("c", "a", "b")]
    found = rate(battles, RatingSettings(dimensions=("b",), n_permutations=2, n_bootstraps=2))
    assert [each.dimension for each in found] == ["b", "c", "a"]
    (only,) = rate(battles, dimensions=["a"])
    assert only.dimension == "a"
    (problem,) = problems_of(lambda: rate(battles, dimensions=["x"]))
    assert "c, a, b" in problem


def test_elo_plays_a_battle_as_often_as_it_weighs_unless_a_weight_is_below_one() -> None:
    settings = RatingSettings(n_permutations=50, n_bootstraps=40, confidence=0.9)

    def means(*battles: Battle) -> list[float | None]:
        (found,) = rate(list(battles), settings)
        return [row.mean for row in found.elo]

    lost = fight("model_b", question_id="q")
    heavy = means(fight(question_id="p", weight=3.0), lost)
    assert heavy == means(*(fight(question_id="p") for _ in range(3)), lost)
    light = means(fight(question_id="p", weight=0.25), lost)
    assert light == means(fight(question_id="p"), lost) != heavy


def test_one_method_alone_can_be_asked_for() -> None:
    (found,) = rate([fight(question_id="p")], methods=["bradley-terry"])
    assert (found.elo, len(found.ratings)) == ((), 2)


def test_what_a_reader_has_to_know_is_said() -> None:
    battles = [
        fight(),
        fight(question_id="p", weight=3.0, pref=0.25),
        fight("tie", question_id="p"),
    ]
    (hard,) = rate(battles, preferences="winner")
    for words in ("1 battles name no prompt", "1 battles have a weight"):
        assert words in " ".join(hard.notes)
    (soft,) = rate(battles)
    (finer,), (shared,) = set(hard.notes) - set(soft.notes), set(soft.notes) - set(hard.notes)
    assert "not used" in finer
    assert "shares the win" in shared


def test_shares_are_rated_as_the_soft_elo_of_judgearena(tmp_path: Path) -> None:
    pairs = list(combinations(("ada", "bob", "cyd", "dee"), 2))
    lines = []
    for n in range(60):
        (model_a, model_b), pref = pairs[n % 6], (n * 37 + 11) % 83 / 100
        people = n % 5 == 0
        winner = "tie" if pref == 0.5 else "model_a" if pref < 0.5 else "model_b"
        row = {"model_a": model_a, "model_b": model_b, "winner": winner, "question_id": f"q{n}"}
        own = {"source": "human"} if people else {"source": "llm-judge", "pref": pref}
        lines.append({**row, **own})
    file = read(write_lines(tmp_path / "battles.jsonl", *lines))
    assert file.format == "judgearena"
    (found,) = rate_table(file.table, settings=QUICK, methods=["bradley-terry"])
    # Its own `fit_bradley_terry`, the tolerance of the solver set to 1e-14, less their mean.
    frozen = {"ada": 66.5928193, "bob": -19.8606366, "cyd": 23.1208092, "dee": -69.852992}
    ratings = {row.entrant_id: (row.rating or 0.0) - 1400 for row in found.ratings}
    assert ratings == pytest.approx(frozen, abs=1e-6)
