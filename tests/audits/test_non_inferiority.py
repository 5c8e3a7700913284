import math
from itertools import product

import numpy as np
import pytest

from benchmarks.gate import ENTRANTS, measure, simulate
from tournament_assets.audits.non_inferiority import (
    DifferenceTest,
    bet,
    compare_with_margin,
    holm,
    prompt_scores,
)
from tournament_assets.foundation.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome


def judgment(prompt: int, first: str, second: str, outcome: Outcome) -> Judgment:
    return Judgment(f"p{prompt}", "facts", first, second, outcome)


def compare(judgments: list[Judgment], *, margin: float = 20.0) -> DifferenceTest:
    return compare_with_margin(
        judgments,
        dimension="facts",
        entrants=ENTRANTS,
        candidate="new",
        baseline="old",
        margin=margin,
        confidence=0.95,
    )


def test_size_and_power_are_what_was_promised() -> None:
    """`python -m benchmarks.gate` does the same at 50 and 143 prompts a thousand times each."""
    at_the_margin, ahead = measure(prompts=50, lead=-20, n=200), measure(prompts=50, lead=60, n=200)
    assert at_the_margin.passed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)
    assert abs(ahead.passed - ahead.formula) <= 0.08


def test_a_bound_excludes_the_margin_exactly_where_the_test_rejects() -> None:
    generator = np.random.default_rng(22)
    for lead in (-150, -50, 0, 50, 150):
        found = compare(simulate(generator, prompts=60, lead=lead))
        assert found.difference.low is not None
        assert found.difference.high is not None
        assert (found.difference.low > -20) == (found.p_not_worse < 0.05)
        assert (found.difference.high < -20) == (found.p_worse < 0.05)


def test_who_wins_everything_has_no_rating_and_passes_all_the_same() -> None:
    judgments = [judgment(n, "new", "old", Outcome.A_WINS) for n in range(30)]
    found = compare(judgments)
    assert found.difference.value is None
    assert found.p_not_worse < 0.001
    assert found.p_worse == 1
    lost = compare([judgment(n, "new", "old", Outcome.B_WINS) for n in range(30)])
    assert lost.p_worse < 0.001
    assert lost.p_not_worse == 1


def test_texts_that_are_all_the_same_show_nothing_yet() -> None:
    found = compare([judgment(n, "new", "old", Outcome.SAME_TEXT) for n in range(30)])
    assert found.settled == 30
    assert found.p_not_worse > 0.05


def test_wealth_does_not_grow_in_expectation_at_the_margin() -> None:
    """All 2^8 ways that eight prompts can go, by their chances: the mean wealth is exactly 1."""
    level = 1 / (1 + 10 ** (20 / 400))
    mean = {"not_worse": 0.0, "worse": 0.0}
    for scores in product((0.0, 1.0), repeat=8):
        chance = math.prod(level if score else 1 - level for score in scores)
        wealth = bet(scores, margin=20)
        mean["not_worse"] += chance * wealth.not_worse
        mean["worse"] += chance * wealth.worse
    assert mean == pytest.approx({"not_worse": 1, "worse": 1}, abs=1e-9)


def test_peeking_after_every_prompt_lets_one_in_twenty_pass_at_most() -> None:
    generator = np.random.default_rng(23)
    level = 1 / (1 + 10 ** (20 / 400))
    n, passed = 200, 0
    for _ in range(n):
        scores = (generator.random(80) < level).astype(float)
        passed += any(bet(scores[:k], margin=20).not_worse >= 20 for k in range(1, 81, 8))
    assert passed / n <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / n)


def test_holm_compares_the_smallest_with_all_and_the_largest_with_itself() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )


def test_points_of_a_prompt_are_those_of_the_candidate() -> None:
    pairs = [
        judgment(1, "new", "old", Outcome.A_WINS),
        judgment(2, "old", "new", Outcome.A_WINS),
        judgment(3, "new", "old", Outcome.INCONSISTENT),
    ]
    assert prompt_scores(pairs, candidate="new") == {"p1": 1.0, "p2": 0.0, "p3": 0.5}
    with pytest.raises(InputError, match="settled"):
        prompt_scores([judgment(1, "new", "old", Outcome.UNJUDGED)], candidate="new")


def test_all_that_is_wrong_with_the_question_is_said_at_once() -> None:
    with pytest.raises(InputError) as refused:
        compare_with_margin(
            [],
            dimension="facts",
            entrants=ENTRANTS,
            candidate="nobody",
            baseline="nobody",
            margin=-1,
            confidence=0.95,
        )
    assert len(refused.value.problems) == 3
