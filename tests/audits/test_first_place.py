"""The smallest set of prompts that the first place rests on, against every set there is."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from benchmarks.simulated_tournaments import Design, draw_tournament
from tests.ratings.builders import matches_at
from tournament_assets.audits.first_place import FirstPlaceSupport, support_first_place
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.ratings.bradley_terry import ResampledWins
from tournament_assets.ratings.matches import Matches, code_judgments
from tournament_assets.ratings.standings import stand_entrants
from tournament_assets.tournament.verdicts import Judgment, Outcome

QUICK = Resampling(9, 0, 0.95)
GAPS = (0.6, 0.3, 0.0, -0.2)


def lead(*outcomes: Outcome) -> FirstPlaceSupport:
    judgments = [
        Judgment(f"p{number}", "factuality", "ada", "bob", outcome)
        for number, outcome in enumerate(outcomes)
    ]
    return support_first_place(code_judgments(judgments, entrants=("ada", "bob")), "ada")


def test_a_first_place_by_hand() -> None:
    win, loss, tie, same = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE, Outcome.SAME_TEXT
    assert lead(tie, win, same, same) == FirstPlaceSupport(("p1",), 1)
    # Without one of the two wins they are level.
    assert lead(win, loss, win, tie) == FirstPlaceSupport(("p0",), 1)
    assert lead(win, win, loss, win, win) == FirstPlaceSupport(("p0", "p1", "p3"), 3)
    # Whoever won everything is first while one win is left.
    assert lead(win, win) == FirstPlaceSupport(("p0", "p1"), 2)
    assert lead(win, loss) == lead(loss) == lead(tie) == FirstPlaceSupport()


def is_first(matches: Matches, leader: str, dropped: Sequence[int]) -> bool:
    """Say by the leaderboard's own rule who is first of what is left."""
    kept = ~np.isin(matches.prompt_index, dropped)
    standings = stand_entrants(ResampledWins.of(matches_at(matches, kept), QUICK)).entrants
    return [each.entrant for each in standings if each.rank == 1] == [leader]


def brute_force(matches: Matches, leader: str) -> int:
    """Return the size of the smallest set without which the leader is not first alone."""
    everything = range(len(matches.prompts))
    return next(
        size
        for size in range(1, len(matches.prompts) + 1)
        for dropped in combinations(everything, size)
        if not is_first(matches, leader, dropped)
    )


def drawn(seed: int, *, missing: float) -> tuple[Matches, str] | None:
    n = (2, 3, 4)[seed % 3]
    design = Design(4 + seed % 4, 1.0, strengths=GAPS[:n], missing=missing)
    matches = draw_tournament(design, np.random.default_rng(seed))
    first = [
        each.entrant
        for each in stand_entrants(ResampledWins.of(matches, QUICK)).entrants
        if each.rank == 1
    ]
    return (matches, first[0]) if len(first) == 1 else None


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_smallest_set_is_the_one_that_trying_all_finds(missing: float) -> None:
    sizes = []
    for seed in range(30):
        if (found := drawn(seed, missing=missing)) is None:
            continue
        matches, leader = found
        support = support_first_place(matches, leader)
        places = [matches.prompts.index(each) for each in support.prompts]
        assert not is_first(matches, leader, places)
        # So few prompts can all be tried, where the bound does not already reach the set.
        assert support.at_least == len(support.prompts) == brute_force(matches, leader)
        sizes.append(len(places))
    assert {1, 2, 3} <= {*sizes}


def test_a_bound_is_never_above_the_truth_and_a_set_is_always_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tournament_assets.audits.first_place._MOST_FITS", 0)
    exact = seen = 0
    for seed in range(60):
        if (found := drawn(seed, missing=0.3 * (seed % 2))) is None:
            continue
        matches, leader = found
        support = support_first_place(matches, leader)
        truth = brute_force(matches, leader)
        assert support.at_least <= truth <= len(support.prompts)
        places = [matches.prompts.index(each) for each in support.prompts]
        assert not is_first(matches, leader, places)
        if seed % 2 == 0:
            # All pairs are judged on all prompts.
            assert support.at_least == len(support.prompts)
        exact += len(support.prompts) == truth
        seen += 1
    assert exact > 0.95 * seen


def test_a_large_tournament_takes_few_fits() -> None:
    design = Design(400, 1.0, strengths=tuple(np.linspace(1.0, 0.0, 12).tolist()), missing=0.05)
    matches = draw_tournament(design, np.random.default_rng(0))
    support = support_first_place(matches, "entrant_0")
    assert 1 <= support.at_least <= len(support.prompts) < 100
