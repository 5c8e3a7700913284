import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.rows import table_of, table_rows
from tournament_assets.reports.battle_pages import (
    BattlePages,
    BattleTables,
    ShownBattle,
    battle_data,
    describe_responses,
    lay_out_battles,
    mark_replacements,
    read_battles,
    script_json,
)
from tournament_assets.reports.run import page as report_page
from tournament_assets.reports.run.page import DATE_MARK
from tournament_assets.tournament.asset_rows import VerdictRow

from .builders import battle_tables, page_of, render_pages

STANDINGS = {d: {"ada": 1450.0, "bob": 1350.0} for d in ("factuality", "calibration")}
PROMPTS = [f"recall-{number:02d}" for number in range(12)]
TABLES = battle_tables(
    [("ada", "bob", "a_wins")], dimensions=("factuality", "calibration"), prompts=PROMPTS
)
ONE_PROMPT = 900
"""Bytes that hold one of the prompts and not two."""
EVIL = "</script><script>alert(1)</script><!--<script>\u2028\u2029&amp;]]>"


def _battles_of(text: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(text)
    return data


@given(st.recursive(st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5))
def test_json_for_a_script_element_means_the_same_and_holds_no_sign_of_markup(value: Any) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029]", text)


def test_half_a_character_can_be_written_to_a_file() -> None:
    assert json.loads(script_json("a\ud800b").encode()) == "a\ud800b"


def test_few_battles_stand_in_the_report_itself() -> None:
    laid_out = lay_out_battles(TABLES)
    assert laid_out.inline is not None
    assert laid_out.inline.n_battles == 24
    assert (laid_out.pages, laid_out.left_out) == ({}, {})
    assert [page.name for page in laid_out.pages_of("factuality")] == [""]


def test_many_battles_get_a_page_for_each_dimension() -> None:
    laid_out = lay_out_battles(TABLES, inline_bytes=100)
    names = {dimension: [page.name for page in own] for dimension, own in laid_out.pages.items()}
    assert names == {
        "factuality": ["report_battles_factuality.html"],
        "calibration": ["report_battles_calibration.html"],
    }
    (page,) = laid_out.pages["calibration"]
    assert _battles_of(page.json)["dimensions"] == ["calibration"]
    assert (page.first, page.last, page.n_battles) == ("recall-00", "recall-11", 12)
    assert laid_out.pages_of("calibration") == [page]


def test_a_page_is_divided_between_prompts_and_nothing_is_lost() -> None:
    laid_out = lay_out_battles(TABLES, inline_bytes=100, page_bytes=4 * ONE_PROMPT)
    pages = laid_out.pages["factuality"]
    assert 1 < len(pages) < 12
    assert [page.name for page in pages][:2] == [
        "report_battles_factuality_1.html",
        "report_battles_factuality_2.html",
    ]
    prompts = [prompt["id"] for page in pages for prompt in _battles_of(page.json)["prompts"]]
    assert prompts == PROMPTS
    assert laid_out.left_out == {}


def test_what_is_on_no_page_is_counted() -> None:
    laid_out = lay_out_battles(
        TABLES, inline_bytes=100, page_bytes=ONE_PROMPT, pages_per_dimension=3
    )
    shown = sum(page.n_battles for page in laid_out.pages["factuality"])
    assert len(laid_out.pages["factuality"]) == 3
    assert laid_out.left_out["factuality"] == 12 - shown > 0


def _divided(monkeypatch: pytest.MonkeyPatch, **limits: int) -> dict[str, str]:
    def lay_out(tables: Any) -> BattlePages:
        return lay_out_battles(tables, inline_bytes=100, **limits)

    monkeypatch.setattr(report_page, "lay_out_battles", lay_out)
    return render_pages(page_of(STANDINGS, battles=TABLES))


def test_the_report_of_a_large_run_links_its_pages_and_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = _divided(monkeypatch, page_bytes=ONE_PROMPT, pages_per_dimension=3)
    assert len(pages) == 7
    report = pages["report.html"]
    assert 'id="battle-data"' not in report
    for name in pages:
        assert name == "report.html" or f'<a href="{name}">' in report
    assert "<code>verdicts/calibration.jsonl</code>" in report
    cell = "report_battles_calibration_1.html#battles?dimension=calibration&amp;entrant=ada"
    assert cell in report
    second = pages["report_battles_calibration_2.html"]
    hrefs = re.findall(r'<a href="([^"]*)"', second)
    assert {"report.html", "report_battles_calibration_3.html"} <= {*hrefs}
    assert 'id="battle-data"' in second


def test_a_first_place_that_rests_on_battles_in_several_files_links_to_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resting = ("recall-00", "recall-02")
    given = page_of(STANDINGS, battles=TABLES)
    frames: Any = given.tables
    leaders = frames["leaderboard"].assign(
        lead_rests_on=[[*resting] if rank == 1 else [] for rank in frames["leaderboard"]["rank"]]
    )

    def lay_out(tables: Any) -> BattlePages:
        return lay_out_battles(tables, inline_bytes=100, page_bytes=ONE_PROMPT)

    monkeypatch.setattr(report_page, "lay_out_battles", lay_out)
    tables = {"leaderboard": leaders}
    report = render_pages(page_of(STANDINGS, battles=TABLES, tables=tables))["report.html"]
    links = re.findall(r'<a href="([^"]*)#battles\?([^"]*)">Read the battles of ada', report)
    pages = lay_out(TABLES).pages["factuality"]
    assert [name for name, _ in links if "_factuality_" in name] == [
        page.name for page in pages if page.prompts & {*resting}
    ]
    assert len(pages) > len([name for name, _ in links if "_factuality_" in name]) == 2
    assert "prompt=recall-00+recall-02" in links[0][1]


def test_what_a_model_wrote_cannot_leave_its_script_element() -> None:
    tables = battle_tables([("ada", "bob", "a_wins")], dimensions=tuple(STANDINGS), text=EVIL)
    (page,) = render_pages(page_of(STANDINGS, battles=tables)).values()
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert "<!--" not in page.replace(DATE_MARK, "")
    assert "\u2028" not in page
    text = page.split('id="battle-data">')[1].split("</script>")[0]
    assert _battles_of(text)["responses"][0]["parts"] == [f"ada: {EVIL}"]


def test_a_report_without_battles_has_no_browser_and_no_links_to_it() -> None:
    (page,) = render_pages(page_of(STANDINGS)).values()
    body = page.split("<main>")[1].split("</main>")[0]
    assert "#battles" not in body
    assert "battle-data" not in body


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
    return battle_data(_battles(tables), describe_responses(tables.entrant_responses))


def _battles(tables: BattleTables) -> list[ShownBattle]:
    return [battle for name in tables.match_list for battle in read_battles(tables, name)]


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
            text="lens",
        )
    )
    assert [len(data[name]) for name in ("dimensions", "prompts", "responses")] == [2, 1, 3]
    battles = data["battles"]
    assert battles["dimension"] == [0, 0, 1, 1]
    assert [data["words"][place] for place in battles["outcome"]] == ["a_wins", "unjudged"] * 2
    assert data["responses"][battles["response_b"][1]]["parts"] == ["cy: lens"]
    assert data["replies"][battles["reply_ab"][0]] == "lens VERDICT: A"
    assert data["replies"][battles["reply_ba"][0]] == "lens VERDICT: B"


def test_a_reply_that_is_missing_is_none_and_has_its_reason() -> None:
    data = _data(battle_tables([("ada", "bob", "unjudged")]))
    assert data["battles"]["reply_ab"] == [None]
    assert data["words"][data["battles"]["reason_ab"][0]].endswith("declined")
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
    for frame in tables.entrant_responses.values():
        frame["response"] = "another answer"
    assert [each["p_correct"] for each in _data(tables)["responses"]] == [None, None]


def test_a_pair_beyond_the_limit_of_a_run_is_no_battle() -> None:
    tables = battle_tables([("ada", "bob", "tie"), ("ada", "cy", "tie")])
    verdicts = {
        name: table_of(VerdictRow, table_rows(VerdictRow, frame)[:1])
        for name, frame in tables.judge_verdicts.items()
    }
    shorter = BattleTables(
        tables.match_list, verdicts, tables.judge_replies, tables.entrant_responses
    )
    assert len(_battles(shorter)) == 1
