import json

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.estimates import Resampling
from tournament_assets.tournament.asset_rows import LeaderboardRow
from tournament_assets.tournament.battles import (
    Battle,
    RatingSettings,
    battles_from_judgments,
    elo_report,
)
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
    with pytest.raises(InputError, match="model_b, source"):
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


def placed(rank: int | None, entrant: str, rating: float | None) -> LeaderboardRow:
    return LeaderboardRow(
        dimension="factuality",
        rank=rank,
        entrant_id=entrant,
        rating=rating,
        low=rating and rating - 10,
        elo=1400.0,
        n=5,
    )


def test_a_report_is_the_leaderboard_as_json_in_its_order() -> None:
    # Who won everything is first without a rating.
    report = elo_report(
        [placed(1, "cyd", None), placed(2, "bob", 1410.0), placed(3, "ada", 1390.0)],
        arena="demo/pilot/factuality",
        judge_model="judge-1",
        resampling=Resampling(200, 3),
    )
    entries = report.pop("ratings")
    assert report == {
        "arena": "demo/pilot/factuality",
        "model": None,
        "judge_model": "judge-1",
        "n_bootstraps": 200,
        "seed": 3,
    }
    assert [(each["model"], each["rating"], each["ci_low"]) for each in entries] == [
        ("cyd", None, None),
        ("bob", 1410.0, 1400.0),
        ("ada", 1390.0, 1380.0),
    ]
    assert {(each["n_battles"], each["ci_high"], each["source"]) for each in entries} == {
        (5, None, "evaluated")
    }


SETTINGS = RatingSettings(
    arena="demo/pilot",
    entrants=("bob", "ada"),
    dimensions=("factuality",),
    initial_rating=1500.0,
    k_factor=32.0,
    k_sweep=(1.0, 32.0),
    n_permutations=7,
    shuffle_seed=1,
    n_bootstraps=9,
    bootstrap_seed=2,
    confidence=0.9,
    equivalent_within=35.0,
)


def test_settings_come_back_from_json_and_unknown_keys_are_passed_over() -> None:
    values = json.loads(json.dumps(SETTINGS.to_dict()))
    assert RatingSettings.from_dict({**values, "of_next_year": True}) == SETTINGS
    assert RatingSettings.from_dict({}) == RatingSettings()


def test_whole_numbers_of_points_are_read_as_points() -> None:
    settings = RatingSettings.from_dict({"k_factor": 16, "k_sweep": [1, 2]})
    assert settings == RatingSettings(k_factor=16.0, k_sweep=(1.0, 2.0))
    assert type(settings.k_factor) is float


def test_everything_that_is_wrong_is_named() -> None:
    wrong = {
        "arena": 1,
        "entrants": ["ada", "ada"],
        "dimensions": "factuality",
        "initial_rating": float("nan"),
        "k_factor": 0,
        "k_sweep": [-1],
        "n_permutations": 0,
        "shuffle_seed": -1,
        "n_bootstraps": 1.5,
        "bootstrap_seed": True,
        "confidence": 1,
        "equivalent_within": "20",
    }
    with pytest.raises(InputError) as caught:
        RatingSettings.from_dict(wrong)
    named = [problem.split(" ")[3] for problem in caught.value.problems]
    assert sorted(named) == sorted(wrong)
