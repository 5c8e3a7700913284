from itertools import combinations, pairwise

import numpy as np
import pytest

from tournament_assets.audits.prompt_findings import (
    PromptInfluence,
    leave_one_prompt_out,
    prompts_behind_lead,
)
from tournament_assets.ratings.bradley_terry import fit_bradley_terry
from tournament_assets.ratings.matches import code_judgments
from tournament_assets.tournament.verdicts import Judgment, Outcome

ENTRANTS = ("ada", "bob", "cyd", "dan")


def simulate(seed: int, *, prompts: int) -> list[Judgment]:
    generator = np.random.default_rng(seed)
    strengths = dict(zip(ENTRANTS, (0.5, 0.3, 0.1, -0.4), strict=True))
    judgments = []
    for prompt in range(prompts):
        for a, b in combinations(ENTRANTS, 2):
            chance = 1 / (1 + np.exp(strengths[b] - strengths[a]))
            draw = generator.random()
            outcome = Outcome.A_WINS if draw < chance else Outcome.B_WINS
            if generator.random() < 0.3:
                outcome = Outcome(generator.choice(["tie", "inconsistent", "unjudged"]))
            judgments.append(Judgment(f"p{prompt}", "factuality", a, b, outcome))
    return judgments


def slow_reference(judgments: list[Judgment]) -> list[PromptInfluence]:
    """Rate anew without each prompt, one at a time, by the fit of the tournament."""

    def ratings(kept: list[Judgment]) -> dict[str, float | None]:
        fitted = fit_bradley_terry(code_judgments(kept, entrants=ENTRANTS), initial_rating=0)
        return {each.entrant: each.rating for each in fitted}

    full = {name: rating for name, rating in ratings(judgments).items() if rating is not None}
    ranking = sorted(full, key=lambda name: -full[name])
    influences = []
    judged = {each.prompt_id for each in judgments if each.outcome is not Outcome.UNJUDGED}
    for prompt in sorted(judged):
        without = ratings([each for each in judgments if each.prompt_id != prompt])
        if any(without[name] is None for name in full):
            influences.append(PromptInfluence(prompt, None, None, (), keeps_connected=False))
            continue
        moves = {name: (without[name] or 0.0) - full[name] for name in full}
        moved = max(full, key=lambda name: abs(round(moves[name], 6)))
        swaps = tuple(
            (upper, lower)
            for upper, lower in pairwise(ranking)
            if (without[upper] or 0.0) <= (without[lower] or 0.0)
        )
        influences.append(PromptInfluence(prompt, moved, moves[moved], swaps, keeps_connected=True))
    return influences


@pytest.mark.parametrize("seed", range(6))
def test_all_prompts_at_once_say_what_one_after_the_other_says(seed: int) -> None:
    judgments = simulate(seed, prompts=9)
    expected = slow_reference(judgments)
    found = leave_one_prompt_out(code_judgments(judgments, entrants=ENTRANTS))
    assert [(each.prompt_id, each.moved, each.swaps, each.keeps_connected) for each in found] == [
        (each.prompt_id, each.moved, each.swaps, each.keeps_connected) for each in expected
    ]
    np.testing.assert_allclose(
        [each.move or 0 for each in found], [each.move or 0 for each in expected], atol=2e-6
    )


def test_the_simulations_hold_prompts_that_decide_and_others_that_do_not() -> None:
    swaps = [
        bool(each.swaps)
        for seed in range(6)
        for each in leave_one_prompt_out(
            code_judgments(simulate(seed, prompts=9), entrants=ENTRANTS)
        )
    ]
    assert 0 < sum(swaps) < len(swaps)


def judge(prompt_id: str, winner: str, loser: str) -> Judgment:
    return Judgment(prompt_id, "factuality", winner, loser, Outcome.A_WINS)


def test_a_prompt_that_alone_lets_somebody_win_holds_the_ratings_together() -> None:
    judgments = [judge("p1", "ada", "bob"), judge("p2", "ada", "bob"), judge("p3", "bob", "ada")]
    found = leave_one_prompt_out(code_judgments(judgments, entrants=("ada", "bob")))
    assert [each.keeps_connected for each in found] == [True, True, False]
    # With one win each they are level; before, ada led.
    assert [each.swaps for each in found] == [(("ada", "bob"),), (("ada", "bob"),), ()]


def test_nobody_is_rated_and_nothing_can_move() -> None:
    assert leave_one_prompt_out(code_judgments([], entrants=ENTRANTS)) == []
    unbeaten = [judge("p1", "ada", "bob")]
    assert leave_one_prompt_out(code_judgments(unbeaten, entrants=ENTRANTS)) == []


def lead(*outcomes: Outcome) -> tuple[str, ...]:
    judgments = [
        Judgment(f"p{number}", "factuality", "ada", "bob", outcome)
        for number, outcome in enumerate(outcomes)
    ]
    cells = code_judgments(judgments, entrants=("ada", "bob"))
    return prompts_behind_lead(cells, leader="ada", runner_up="bob")


def test_the_prompts_that_a_lead_rests_on_are_named() -> None:
    win, loss, tie, same = Outcome.A_WINS, Outcome.B_WINS, Outcome.TIE, Outcome.SAME_TEXT
    assert lead(tie, win, same, same) == ("p1",)
    assert lead(win, loss, win, tie) == ("p0", "p2")
    assert lead(win, win, loss, win, win) == ()
    # An entrant that won everything has no rating that could move.
    assert lead(win) == ("p0",)
    assert lead(win, win) == ()
