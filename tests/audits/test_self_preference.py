from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from tournament_assets.audits.self_preference import measure_self_preference
from tournament_assets.foundation.estimates import Estimate
from tournament_assets.ratings.bradley_terry import ELO_PER_NAT
from tournament_assets.tournament.verdicts import Judgment, Outcome

NAMES = ("ada", "bob", "cyd", "dan")


def draw(
    rng: np.random.Generator, scale: float, own: float, names: Sequence[str] = NAMES
) -> list[Judgment]:
    """Draw what a judge says of ada, the strongest, and the others on 84 prompts."""
    strengths = dict(zip(NAMES, (1.0, 0.3, -0.3, -1.0), strict=True))
    judgments = []
    for prompt in range(84):
        for a, b in combinations(names, 2):
            odds = scale * (strengths[a] - strengths[b]) + own * (a == "ada")
            wins = rng.random() < 1 / (1 + np.exp(-odds))
            outcome = Outcome.A_WINS if wins else Outcome.B_WINS
            judgments.append(Judgment(f"p{prompt}", "d", a, b, outcome))
    return judgments


def measure(seed: int, scale: float, own: float, names: Sequence[str] = NAMES) -> Estimate:
    rng = np.random.default_rng(seed)
    sides = (draw(rng, scale, own, names), draw(rng, 1.0, 0.0, names))
    return measure_self_preference(*sides, "ada", entrants=names, confidence=0.95)


@pytest.mark.parametrize(("scale", "own"), [(1.0, 0.0), (0.3, 0.0), (2.0, 0.0), (1.0, 1.0)])
def test_a_judge_that_tells_more_or_less_sharply_does_not_prefer_itself(
    scale: float, own: float
) -> None:
    gains = [measure(seed, scale, own) for seed in range(40)]
    found = [each.value for each in gains if each.value is not None]
    assert len(found) == len(gains)
    assert np.median(found) == pytest.approx(own * ELO_PER_NAT, abs=40)
    covered = [(g.low or 0) <= own * ELO_PER_NAT <= (g.high or 0) for g in gains]
    assert sum(covered) >= 35


def test_two_entrants_do_not_tell_a_preference_from_a_sharper_judgment() -> None:
    assert measure(0, 1.0, 1.0, NAMES[:2]).value is None
