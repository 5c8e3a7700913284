import math

import numpy as np
import pytest

from tournament_assets.ratings.davidson import _iterate, fit_newman
from tournament_assets.ratings.matches import code_judgments

from .builders import ENTRANTS, simulate_judgments, tie, wins


def iterate_slowly(won: list[list[float]], tied: list[list[float]]) -> tuple[list[float], float]:
    """Write out the sums of the paper, one term at a time."""
    n = len(won)
    strengths, v = [1.0] * n, 0.5
    for _ in range(400):
        for i in range(n):
            gained = conceded = 0.0
            for j in range(n):
                p, q = strengths[i], strengths[j]
                scale = p + q + 2 * v * math.sqrt(p * q)
                gained += (won[i][j] + tied[i][j] / 2) * (q + v * math.sqrt(p * q)) / scale
                conceded += (won[j][i] + tied[j][i] / 2) * (1 + v * math.sqrt(q / p)) / scale
            strengths[i] = gained / conceded
        level = math.prod(strengths) ** (1 / n)
        strengths = [each / level for each in strengths]
        above = below = 0.0
        for i in range(n):
            for j in range(n):
                p, q = strengths[i], strengths[j]
                scale = p + q + 2 * v * math.sqrt(p * q)
                above += tied[i][j] / 2 * (p + q) / scale
                below += won[i][j] * 2 * math.sqrt(p * q) / scale
        v = above / below
    return [math.log(each) for each in strengths], v


def test_the_iteration_is_the_papers() -> None:
    preferences = code_judgments(
        simulate_judgments([0.0, 0.5, 1.0, 1.5], n_prompts=12, seed=3), entrants=ENTRANTS
    )
    slow = iterate_slowly(preferences.outright_wins.tolist(), preferences.ties.tolist())
    fast = _iterate(preferences.outright_wins, preferences.ties)
    np.testing.assert_allclose(fast[0], slow[0], atol=1e-9)
    assert fast[1] == pytest.approx(slow[1], abs=1e-9)


def test_two_entrants_settle_on_their_closed_form() -> None:
    # Updated at the same time, two entrants without ties would trade strengths for ever.
    fit = fit_newman(
        code_judgments(wins({("ada", "bob"): 7, ("bob", "ada"): 1}), entrants=("ada", "bob"))
    )
    ada, bob = (each.rating or math.nan for each in fit.ratings)
    assert ada - bob == pytest.approx(400 * math.log10(7))
    assert fit.tie_parameter == 0.0


def test_the_tie_parameter_is_written_as_davidsons() -> None:
    # Shares 1/3, 1/3, 1/3 between equals: Davidson's v is 1, and Newman's is one half.
    judgments = [*wins({("ada", "bob"): 4, ("bob", "ada"): 4}), *[tie("ada", "bob")] * 4]
    preferences = code_judgments(judgments, entrants=("ada", "bob"))
    assert fit_newman(preferences).tie_parameter == pytest.approx(1.0)
    assert _iterate(preferences.outright_wins, preferences.ties)[1] == pytest.approx(0.5)
