"""The same battles through other tools: where they are sound, our numbers must be theirs."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tournament_assets.ratings.bradley_terry import ELO_PER_NAT, fit_bradley_terry
from tournament_assets.ratings.covariates import fit_controlled
from tournament_assets.ratings.davidson import fit_davidson
from tournament_assets.ratings.elo import compute_elo_permutation
from tournament_assets.ratings.matches import Matches
from tournament_assets.ratings.sandwich import sandwich_bradley_terry

from .builders import ENTRANTS, battles_apart, code_columns, matches_at

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "evalica"


def centred(log_strengths: Any) -> np.ndarray:
    values = np.asarray(log_strengths, dtype=np.float64)
    apart: np.ndarray = ELO_PER_NAT * (values - values.mean())
    return apart


def centred_ratings(ratings: list[float | None]) -> np.ndarray:
    values = np.array(ratings, dtype=np.float64)
    assert np.isfinite(values).all()
    apart: np.ndarray = values - values.mean()
    return apart


def random_battles(n_entrants: int, n: int) -> Matches:
    generator = np.random.default_rng(0)
    strengths = generator.normal(size=n_entrants)
    first = generator.integers(n_entrants, size=n)
    second = (first + generator.integers(1, n_entrants, size=n)) % n_entrants
    won = generator.random(n) < 1 / (1 + np.exp(strengths[second] - strengths[first]))
    names = [f"entrant_{index:02}" for index in range(n_entrants)]
    return code_columns(
        [names[index] for index in first],
        [names[index] for index in second],
        [str(index) for index in range(n)],
        np.where(generator.random(n) < 0.25, 0.5, won.astype(float)).tolist(),
        entrants=names,
    )


def patterned_battles() -> tuple[Matches, np.ndarray]:
    """Build 240 battles by arithmetic alone, so that their figures can be written down."""
    first, second, preference, lead = [], [], [], []
    for index in range(240):
        a = index % 4
        b = (a + 1 + (index // 4) % 3) % 4
        ahead = ((index * 37) % 41 - 20) / 10
        score = (a - b) * 0.35 + ahead * 0.5 + ((index * 53) % 29 - 14) / 7
        first.append(ENTRANTS[a])
        second.append(ENTRANTS[b])
        preference.append(0.5 if abs(score) < 0.35 else float(score > 0))
        lead.append([ahead])
    coded = code_columns(
        first, second, [str(index) for index in range(240)], preference, entrants=ENTRANTS
    )
    return coded, np.array(lead)


def evalica_columns(preferences: Matches, evalica: Any) -> tuple[list[str], list[str], list[Any]]:
    outcome = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    return (
        [preferences.entrants[index] for index in preferences.first],
        [preferences.entrants[index] for index in preferences.second],
        [outcome[value] for value in preferences.preference.tolist()],
    )


@pytest.mark.parametrize(("n_entrants", "n"), [(4, 858), (50, 5000)])
def test_evalica_gives_the_same_bradley_terry(n_entrants: int, n: int) -> None:
    evalica = pytest.importorskip("evalica")
    preferences = random_battles(n_entrants, n)
    theirs = evalica.bradley_terry(
        # Where the peer stops; both are compared to 5e-6.
        *evalica_columns(preferences, evalica),
        tolerance=1e-12,
        limit=10_000,
    ).scores[list(preferences.entrants)]
    ours = centred_ratings([each.value for each in fit_bradley_terry(preferences)])
    np.testing.assert_allclose(ours, centred(np.log(theirs)), atol=5e-6)


@pytest.mark.parametrize(("n_entrants", "n"), [(4, 858), (50, 5000)])
def test_evalica_gives_the_same_davidson(n_entrants: int, n: int) -> None:
    evalica = pytest.importorskip("evalica")
    preferences = random_battles(n_entrants, n)
    # Newman maximises the same model by an iteration, which stops at 1e-12, and writes 2 v for
    # Davidson's v.
    theirs = evalica.newman(*evalica_columns(preferences, evalica), tolerance=1e-12, limit=10_000)
    expected = centred(np.log(theirs.scores[list(preferences.entrants)]))
    fit = fit_davidson(preferences)
    ours = centred_ratings([each.value for each in fit.ratings])
    np.testing.assert_allclose(ours, expected, atol=5e-6)
    assert fit.tie_parameter == pytest.approx(2 * theirs.v, rel=1e-8)


def test_choix_gives_the_same_bradley_terry() -> None:
    choix = pytest.importorskip("choix")
    mixed = random_battles(50, 5000)
    kept = mixed.preference != 0.5
    first, second = mixed.first[kept], mixed.second[kept]
    won = mixed.preference[kept] == 1.0
    pairs = np.column_stack([np.where(won, first, second), np.where(won, second, first)])
    # Where the peer stops.
    theirs = choix.ilsr_pairwise(50, pairs.tolist(), tol=1e-12, max_iter=1000)
    decisive = fit_bradley_terry(matches_at(mixed, kept))
    ours = centred_ratings([rating.value for rating in decisive])
    np.testing.assert_allclose(ours, centred(theirs), atol=5e-8)


def test_sklearn_gives_the_same_bradley_terry() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    preferences = random_battles(4, 858)
    design = np.zeros((858, 4))
    design[np.arange(858), preferences.first] = 1
    design[np.arange(858), preferences.second] = -1
    model = linear_model.LogisticRegression(fit_intercept=False, C=np.inf, tol=1e-8, max_iter=1000)
    weights = np.concatenate([preferences.preference, 1 - preferences.preference])
    outcomes = np.repeat([1, 0], 858)
    model.fit(np.concatenate([design, design]), outcomes, sample_weight=weights)
    ours = centred_ratings([each.value for each in fit_bradley_terry(preferences)])
    np.testing.assert_allclose(ours, centred(model.coef_[0]), atol=0.012)


def test_arena_rank_has_given_the_same_ratings_and_sandwich() -> None:
    # Written down from arena-rank 0.1.1, which needs an older numpy than this project's.
    preferences, _ = patterned_battles()
    fit = sandwich_bradley_terry(battles_apart(preferences), confidence=0.95)
    ratings = [each.value for each in fit.ratings]
    expected = [-90.30345902, -48.00526509, 40.91183255, 97.39689156]
    np.testing.assert_allclose(centred_ratings(ratings), expected, atol=1e-6)
    # It leaves out the factor n / (n - 1), and adds a little to the curvature for safety.
    errors = np.array([each.standard_error for each in fit.ratings], dtype=np.float64)
    theirs = [22.22823045, 22.66632097, 22.49415343, 22.24582403]
    np.testing.assert_allclose(errors / math.sqrt(240 / 239), theirs, rtol=2e-5)


def test_arena_rank_has_given_the_same_ratings_at_equal_style() -> None:
    # From its contextual model without weights and with the covariate divided by its root mean
    # square.
    preferences, lead = patterned_battles()
    fit = fit_controlled(battles_apart(preferences), lead, names=["lead"], confidence=0.95)
    ratings = centred_ratings([each.value for each in fit.ratings])
    expected = [-103.56541848, -50.74074958, 45.48231539, 108.82385268]
    np.testing.assert_allclose(ratings, expected, atol=1e-6)
    assert fit.effects[0].value == pytest.approx(ELO_PER_NAT * 0.7339299654, abs=1e-6)
    errors = np.array([each.standard_error for each in fit.ratings], dtype=np.float64)
    theirs = [22.32631839, 23.79265629, 23.53448421, 23.60437764]
    np.testing.assert_allclose(errors / math.sqrt(240 / 239), theirs, rtol=2e-5)


def test_arena_rank_gives_the_same_today() -> None:
    models = pytest.importorskip("arena_rank.models.bradley_terry")
    data_utils = pytest.importorskip("arena_rank.utils.data_utils")
    pandas = pytest.importorskip("pandas")
    preferences, _ = patterned_battles()
    outcome = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
    frame = pandas.DataFrame(
        {
            "model_a": [ENTRANTS[index] for index in preferences.first],
            "model_b": [ENTRANTS[index] for index in preferences.second],
            "winner": [outcome[value] for value in preferences.preference.tolist()],
        }
    )
    found = models.BradleyTerry(n_competitors=4).compute_ratings_and_cis(
        data_utils.PairDataset.from_pandas(frame)
    )
    order = np.argsort(np.array(found["competitors"]))
    theirs = np.array(found["ratings"])[order]
    ours = sandwich_bradley_terry(battles_apart(preferences), confidence=0.95).ratings
    np.testing.assert_allclose(
        centred_ratings([each.value for each in ours]), theirs - theirs.mean(), atol=0.018
    )
    np.testing.assert_allclose(
        np.array([each.standard_error for each in ours], dtype=np.float64),
        np.sqrt(np.array(found["variances"])[order]),
        rtol=5e-3,
    )


def read_golden(name: str) -> tuple[Matches, dict[str, dict[str, float]]]:
    if not GOLDEN.is_dir():
        pytest.skip("evalica's sample files are not beside the checkout")
    with (GOLDEN / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores: dict[str, dict[str, float]] = {}
    with (GOLDEN / f"{name}-golden.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            scores.setdefault(row["algorithm"], {})[row["item"]] = float(row["score"])
    preference = {"left": 1.0, "right": 0.0, "tie": 0.5}
    coded = code_columns(
        [row["left"] for row in rows],
        [row["right"] for row in rows],
        [str(index) for index in range(len(rows))],
        [preference[row["winner"]] for row in rows],
        entrants=sorted({row[side] for row in rows for side in ("left", "right")}),
    )
    return coded, scores


@pytest.mark.parametrize("name", ["food", "simple"])
def test_golden_bradley_terry_and_davidson(name: str) -> None:
    preferences, scores = read_golden(name)
    names = preferences.entrants
    half_ties = centred_ratings([each.value for each in fit_bradley_terry(preferences)])
    expected = centred([math.log(scores["bradley_terry"][each]) for each in names])
    np.testing.assert_allclose(half_ties, expected, atol=1e-6)
    expected = centred([math.log(scores["newman"][each]) for each in names])
    ours = centred_ratings([each.value for each in fit_davidson(preferences).ratings])
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["food", "simple"])
def test_golden_elo(name: str) -> None:
    # evalica plays the file in its order, with K = 4 and ties as half wins, which here are a hair
    # more, since Elo leaves ties out. The battles are put where the first random ordering finds
    # them in the order of the file.
    preferences, scores = read_golden(name)
    order = np.random.default_rng(0).permutation(preferences.n_matches)
    back = np.argsort(order)
    placed = matches_at(preferences, back)
    # Nine times the last bit of a half: no tie, for the code, and worth as much.
    placed.preference[placed.preference == 0.5] += 1e-15
    traces = compute_elo_permutation(
        placed, k_factor=4, n_permutations=1, seed=0, initial_rating=1000.0
    )
    expected = [scores["elo"][each] for each in preferences.entrants]
    np.testing.assert_allclose(traces.ratings[0], expected, atol=1e-9)
