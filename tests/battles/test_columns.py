from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.battles.builders import any_battles, fight, problems_of
from tests.ratings.builders import ENTRANTS, any_judgments
from tournament_assets.battles.columns import (
    PREFERENCES,
    code_battles,
    finer_preferences,
    make_battle_table,
    of_dimension,
)
from tournament_assets.ratings.matches import Matches, code_samples
from tournament_assets.tournament.battles import Battle, battles_from_judgments
from tournament_assets.tournament.verdicts import Judgment


def coded(battles: Sequence[Battle], **options: Any) -> Matches:
    return code_battles(make_battle_table(battles), **options)


@given(any_judgments())
def test_battles_are_coded_as_the_judgments_they_came_from(judgments: list[Judgment]) -> None:
    found = coded(battles_from_judgments(judgments, judge_model="j"), entrants=ENTRANTS)
    matches = code_samples(judgments, entrants=ENTRANTS)
    assert (found.entrants, found.prompts) == (matches.entrants, matches.prompts)
    for name in ("first", "second", "prompt_index", "preference", "weight", "sample"):
        column, expected = getattr(found, name), getattr(matches, name)
        assert column.dtype == expected.dtype
        assert column.tolist() == expected.tolist()


@given(any_battles())
def test_every_battle_brings_its_weight_whatever_its_preference(battles: list[Battle]) -> None:
    for preferences in PREFERENCES:
        found = coded(battles, preferences=preferences)
        total = sum(battle.weight for battle in battles)
        assert found.wins.sum() == pytest.approx(total)


def test_prompts_are_sorted_as_python_sorts_texts() -> None:
    names = ["b", "a", "\U0001f600", "\uffff", "é", "a", "Z", "\n"]
    found = coded([fight(question_id=name) for name in names])
    assert found.prompts == tuple(sorted(set(names)))
    assert [found.prompts[place] for place in found.prompt_index] == names


def test_a_battle_without_a_prompt_is_a_prompt_of_its_own() -> None:
    found = coded([fight(), fight(question_id="p"), fight(), fight(question_id="p")])
    assert len(found.prompts) == 3
    assert found.prompts[0] == "p"
    assert found.prompt_index.tolist() == [1, 0, 2, 0]


def test_a_preference_shares_the_win_unless_the_winner_is_asked_for() -> None:
    battles = [fight("model_a", pref=0.25, weight=2.0, question_id="p"), fight(question_id="p")]
    assert coded(battles, preferences="winner").wins.tolist() == [[0, 3], [0, 0]]
    found = coded(battles)
    assert found.wins.tolist() == [[0, 2.5], [0.5, 0]]


def test_a_preference_that_says_what_the_winner_says_is_not_soft() -> None:
    battles = [fight("model_a", pref=0.0), fight("model_b", pref=1.0), fight("tie", pref=0.5)]
    assert not finer_preferences(make_battle_table(battles)).any()


def test_a_model_that_is_no_entrant_is_named() -> None:
    problems = problems_of(lambda: coded([fight(model_b="eve"), fight()], entrants=("ada",)))
    assert [problem.split("'")[1] for problem in problems] == ["bob", "eve"]


def test_everyone_named_is_an_entrant_in_the_order_given_and_otherwise_sorted() -> None:
    assert coded([fight()], entrants=("eve", "bob", "ada")).entrants == (
        "eve",
        "bob",
        "ada",
    )
    assert coded([fight(model_a="zoe")]).entrants == ("bob", "zoe")


def test_dimensions_are_taken_apart_and_no_dimension_is_one() -> None:
    battles = [fight(dimension="x"), fight("tie"), fight("model_b", dimension="x")]
    table = make_battle_table(battles)
    assert of_dimension(table, "x").column("winner").to_pylist() == ["model_a", "model_b"]
    assert of_dimension(table, None).column("winner").to_pylist() == ["tie"]
    filtered = code_battles(of_dimension(table, "x"))
    assert filtered.n_matches == 2


def test_no_battle_at_all_is_coded_as_no_judgment_is() -> None:
    found = coded([], entrants=("ada", "bob"))
    assert found.n_matches == 0
    np.testing.assert_array_equal(found.wins, np.zeros((2, 2)))
