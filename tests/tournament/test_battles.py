import json

import pytest

from tournament_assets.tournament.battles import (
    Battle,
    EloReport,
    RatingEntry,
    battles_from_judgments,
)
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.verdicts import Judgment, Outcome

ROW = {"model_a": "ada", "model_b": "bob", "winner": "tie", "source": "human"}


def judged(prompt_id: str, outcome: Outcome) -> Judgment:
    return Judgment(prompt_id, "factuality", "ada", "bob", outcome)


def test_a_battle_keeps_who_what_and_by_whom() -> None:
    (battle,) = battles_from_judgments([judged("p1", Outcome.B_WINS)], judge_model="judge-1")
    assert battle == Battle(
        model_a="ada",
        model_b="bob",
        winner="model_b",
        source="llm-judge",
        question_id="p1",
        judge_model="judge-1",
        dimension="factuality",
        inconsistent=False,
    )


def test_an_unjudged_pair_is_no_battle_and_an_inconsistent_one_is_a_marked_tie() -> None:
    judgments = [
        judged("p1", Outcome.A_WINS),
        judged("p2", Outcome.UNJUDGED),
        judged("p3", Outcome.INCONSISTENT),
        judged("p4", Outcome.TIE),
    ]
    battles = battles_from_judgments(judgments, judge_model="judge-1")
    assert [(battle.question_id, battle.winner, battle.inconsistent) for battle in battles] == [
        ("p1", "model_a", False),
        ("p3", "tie", True),
        ("p4", "tie", False),
    ]


def test_keys_of_other_tools_are_passed_over() -> None:
    assert Battle.from_dict({**ROW, "language": "English", "tstamp": 0.5}) == Battle(
        model_a="ada", model_b="bob", winner="tie", source="human"
    )


def test_everything_a_battle_lacks_is_named() -> None:
    with pytest.raises(InputError, match="has no model_b, source"):
        Battle.from_dict({"model_a": "ada", "model_b": None, "winner": "tie"})


def test_everything_that_is_wrong_with_a_battle_is_named() -> None:
    row = {
        **ROW,
        "model_b": "ada",
        "winner": "A",
        "source": "people",
        "question_id": " ",
        "inconsistent": "no",
        "weight": 0,
        "turn": 0,
        "pref": 1.5,
        "presentation": "aa",
    }
    with pytest.raises(InputError) as caught:
        Battle.from_dict(row)
    named = {problem.split(" ")[0] for problem in caught.value.problems}
    assert named == row.keys() - {"model_a"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"winner": "model_a", "pref": 0.7}, "pref"),
        ({"winner": "model_b", "pref": 0.3}, "pref"),
        ({"winner": "model_a", "inconsistent": True}, "inconsistent"),
        ({"pref": float("nan")}, "pref"),
        ({"weight": float("inf")}, "weight"),
        ({"model_a": "a\ud800"}, "model_a"),
        ({"question_id": 1.0}, "question_id"),
        ({"turn": True}, "turn"),
    ],
)
def test_values_that_contradict_one_another_or_say_nothing_are_refused(
    changes: dict[str, object], named: str
) -> None:
    with pytest.raises(InputError) as caught:
        Battle.from_dict({**ROW, **changes})
    assert [problem.split(" ")[0] for problem in caught.value.problems] == [named]


def test_a_question_id_may_be_a_number() -> None:
    assert Battle.from_dict({**ROW, "question_id": 81}).question_id == "81"


def test_a_battle_is_json_without_what_it_does_not_have() -> None:
    plain = Battle.from_dict(ROW).to_dict()
    assert list(plain) == [*ROW, "question_id", "judge_model", "inconsistent"]
    rich = Battle("ada", "bob", "tie", "human", weight=3.0, pref=0.5, turn=2, presentation="ba")
    assert Battle.from_dict(json.loads(json.dumps(rich.to_dict()))) == rich


def test_a_report_is_json_with_the_best_first() -> None:
    report = EloReport(
        arena="demo/pilot/factuality",
        judge_model="judge-1",
        n_bootstraps=1000,
        seed=0,
        ratings=(
            RatingEntry("ada", 1408.0, 1400.0, None, 1),
            RatingEntry("bob", 1392.0, None, 1400.0, 1, "human"),
        ),
    )
    values = json.loads(json.dumps(report.to_dict()))
    assert list(values) == ["arena", "model", "judge_model", "n_bootstraps", "seed", "ratings"]
    assert values["ratings"] == [
        {
            "model": "ada",
            "rating": 1408.0,
            "ci_low": 1400.0,
            "ci_high": None,
            "n_battles": 1,
            "source": "evaluated",
        },
        {
            "model": "bob",
            "rating": 1392.0,
            "ci_low": None,
            "ci_high": 1400.0,
            "n_battles": 1,
            "source": "human",
        },
    ]
