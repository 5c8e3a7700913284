from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.rows import table_of, table_rows
from tournament_assets.reports.battle_pages import (
    Battle,
    BattleTables,
    battle_data,
    describe_responses,
    mark_replacements,
    read_battles,
)

from .builders import battle_tables

_PLACE = st.one_of(st.none(), st.integers(-3, 12))
_NOTED = st.lists(
    st.fixed_dictionaries(
        {"position": st.integers(0, 20), "draft": st.text(max_size=3), "replacement": st.just("x")},
        optional={"start": _PLACE, "end": _PLACE},
    ),
    max_size=6,
)


def _at(position: int, start: int, end: int) -> dict[str, Any]:
    return {"position": position, "draft": "y", "replacement": "x", "start": start, "end": end}


def _data(tables: BattleTables) -> dict[str, Any]:
    return battle_data(_battles(tables), describe_responses(tables.responses))


def _battles(tables: BattleTables) -> list[Battle]:
    return [battle for name in tables.match_lists for battle in read_battles(tables, name)]


def _joined(parts: list[str | dict[str, Any]]) -> str:
    return "".join(part if isinstance(part, str) else part["text"] for part in parts)


def test_a_replacement_is_cut_out_where_it_stands() -> None:
    noted = [{"position": 0, "draft": "S", "replacement": "T", "start": 0, "end": 1}]
    assert mark_replacements("The lens", noted) == (
        [{"text": "T", "draft": "S", "position": 0}, "he lens"],
        [],
    )


def test_places_are_characters_also_beyond_the_basic_plane() -> None:
    noted = [{"position": 1, "draft": "a", "replacement": "b", "start": 1, "end": 2}]
    parts, _ = mark_replacements("\N{GRINNING FACE}b", noted)
    assert parts == ["\N{GRINNING FACE}", {"text": "b", "draft": "a", "position": 1}]


@given(st.text(max_size=10), _NOTED)
@example("abcd", [_at(0, 0, 3), _at(1, 1, 4)])
@example("abcd", [_at(0, 2, 3), _at(1, 0, 1)])
def test_parts_join_to_the_text_and_every_replacement_is_kept(
    text: str, noted: list[dict[str, Any]]
) -> None:
    parts, unplaced = mark_replacements(text, noted)
    assert _joined(parts) == text
    assert parts
    placed = [part for part in parts if not isinstance(part, str)]
    assert len(placed) + len(unplaced) == len(noted)


@pytest.mark.parametrize(
    "place", [{}, {"start": 2, "end": 2}, {"start": 3, "end": 99}, {"start": None, "end": None}]
)
def test_a_replacement_without_a_place_is_listed_instead(place: dict[str, Any]) -> None:
    noted = [{"position": 4, "draft": "a", "replacement": "b", **place}]
    assert mark_replacements("text", noted) == (
        ["text"],
        [{"replacement": "b", "draft": "a", "position": 4}],
    )


def test_every_text_stands_once_and_every_battle_points_to_it() -> None:
    data = _data(
        battle_tables(
            [("ada", "bob", "a_wins"), ("ada", "cy", "unjudged")],
            dimensions=("factuality", "calibration"),
        )
    )
    assert [len(data[name]) for name in ("dimensions", "prompts", "responses")] == [2, 1, 3]
    battles = data["battles"]
    assert battles["dimension"] == [0, 0, 1, 1]
    assert [data["words"][place] for place in battles["outcome"]] == ["a_wins", "unjudged"] * 2
    assert data["responses"][battles["response_b"][1]]["parts"] == ["cy: It is the lens."]
    assert data["replies"][battles["reply_ab"][0]] == "It is the lens. VERDICT: A"
    assert data["replies"][battles["reply_ba"][0]] == "It is the lens. VERDICT: B"


def test_a_reply_that_is_missing_is_none_and_has_its_reason() -> None:
    data = _data(battle_tables([("ada", "bob", "unjudged")]))
    assert data["battles"]["reply_ab"] == [None]
    assert data["words"][data["battles"]["reason_ab"][0]] == "the judge declined"
    assert data["battles"]["reason_ba"] == [None]


def test_a_response_carries_what_its_decoder_noticed() -> None:
    noted = {"position": 0, "draft": "x", "replacement": "a", "start": 0, "end": 1}
    diagnostics = {"jury": {"resampled": [noted]}, "p_correct": 0.75}
    tables = battle_tables([("ada", "bob", "tie")], diagnostics=diagnostics)
    ada = _data(tables)["responses"][0]
    assert ada["parts"][0] == {"text": "a", "draft": "x", "position": 0}
    assert (ada["p_correct"], ada["finish"], ada["tokens"]) == (0.75, "stop", 7)


def test_diagnostics_of_another_text_are_not_lent() -> None:
    tables = battle_tables([("ada", "bob", "tie")], diagnostics={"p_correct": 0.75})
    for frame in tables.responses.values():
        frame["response"] = "another answer"
    assert [each["p_correct"] for each in _data(tables)["responses"]] == [None, None]


def test_a_pair_beyond_the_limit_of_a_run_is_no_battle() -> None:
    tables = battle_tables([("ada", "bob", "tie"), ("ada", "cy", "tie")])
    verdicts = {
        name: table_of("judge_verdicts", table_rows("judge_verdicts", frame)[:1])
        for name, frame in tables.verdicts.items()
    }
    shorter = BattleTables(tables.match_lists, verdicts, tables.replies, tables.responses)
    assert len(_battles(shorter)) == 1
