import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from tests.battles.builders import (
    ROW,
    any_battles,
    fight,
    problems_of,
    read,
    read_all,
    write_lines,
)
from tournament_assets.battles import columnar
from tournament_assets.battles.columns import (
    battles_of,
    battles_per_model,
    encode_battle_table,
    make_battle_table,
)
from tournament_assets.battles.registry import write_battles
from tournament_assets.tournament.battles import Battle, RatingSettings

SETTINGS = RatingSettings(arena="demo/pilot", entrants=("bob", "ada", "eve"), k_factor=32.0)


@given(any_battles())
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, battles: list[Battle]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    table = make_battle_table(battles)
    assert list(battles_of(table)) == battles
    for kind in ("jsonl", "parquet"):
        path = folder / f"battles.{kind}"
        write_battles(path, table, format_name="tournament", settings=SETTINGS)
        file = read(path)
        assert (file.format, file.settings, file.left_out) == ("tournament", SETTINGS, {})
        assert list(battles_of(file.table)) == battles
        again = folder / f"again.{kind}"
        write_battles(again, file.table, format_name="tournament", settings=SETTINGS)
        assert again.read_bytes() == path.read_bytes()


@given(any_battles())
def test_columns_and_rows_are_read_alike(
    tmp_path_factory: pytest.TempPathFactory, battles: list[Battle]
) -> None:
    folder = tmp_path_factory.mktemp("alike")
    write_lines(folder / "battles.jsonl", *(battle.to_dict() for battle in battles))
    by_columns = read(folder / "battles.jsonl")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(columnar, "_doubt", _always_doubt)
        by_rows = read(folder / "battles.jsonl")
    assert by_columns.table.equals(by_rows.table)
    assert list(battles_of(by_columns.table)) == battles


@pytest.mark.parametrize("n_clear", [0, 1, 2])
def test_from_a_doubtful_part_on_rows_are_read_and_none_twice(
    tmp_path: Path, n_clear: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**ROW, "question_id": f"q{n}", "winner": None if n % 3 else "tie"} for n in range(9)]
    path = tmp_path / "b.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    by_columns = read(path, "judgearena")
    seen: list[pa.Table] = []
    monkeypatch.setattr(columnar, "_ROWS_AT_ONCE", 4)
    monkeypatch.setattr(
        columnar,
        "_doubt",
        lambda part: seen.append(part) if len(seen) < n_clear else _always_doubt(part),
    )
    by_rows = read(path, "judgearena")
    assert len(seen) == n_clear
    assert by_rows.table.equals(by_columns.table)
    assert by_rows.left_out == by_columns.left_out == {"no verdict": 6}


@pytest.mark.parametrize(
    "content",
    [
        "model_a,model_b,winner,prompt\nada,bob,tie,8\n\nbob,cyd,,9\nada,cyd,model_b,\n",
        '\ufeffnote;winner;model_b;model_a;prompt\nx;tie;bob;ada;"Why?\nSay ""so"";"\n',
        "Votes of May\t\t\t\nmodel_a\tmodel_b\twinner\tprompt\nada\tbob\ttie\t \n",
    ],
)
def test_the_cells_of_csv_are_those_of_its_rows(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.csv"
    path.write_text(content, encoding="utf-8")
    by_columns = read(path, "csv", source="human")
    monkeypatch.setattr(columnar, "_doubt", _always_doubt)
    by_rows = read(path, "csv", source="human")
    assert by_columns.table.num_rows
    assert by_columns.table.to_pylist() == by_rows.table.to_pylist()
    assert by_columns.left_out == by_rows.left_out


def _lines_of(battles: list[Battle], *, settings: RatingSettings | None) -> bytes:
    file = io.BytesIO()
    table = make_battle_table(battles)
    columnar.write_lines(file, table, names=columnar.ALL_FIELDS, settings=settings)
    return file.getvalue()


def _always_doubt(_: pa.Table) -> None:
    raise columnar._DoubtfulError


@given(any_battles())
def test_lines_are_those_of_the_standard_library(battles: list[Battle]) -> None:
    content = _lines_of(battles, settings=None)
    expected = [json.dumps(battle.to_dict(), ensure_ascii=False) for battle in battles]
    assert content.decode().split("\n") == [*expected, ""]


def test_the_first_line_keeps_the_settings_and_is_a_battle_to_everybody_else(
    tmp_path: Path,
) -> None:
    content = _lines_of([fight(), fight("tie")], settings=SETTINGS)
    first, second = (json.loads(line) for line in content.splitlines())
    assert first.pop("rating_settings") == SETTINGS.to_dict()
    assert first == fight().to_dict()
    assert second == fight("tie").to_dict()


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "b.jsonl", {**ROW, "rating_settings": {"k_factor": -1}})
    (problem,) = problems_of(lambda: read(path))
    assert str(path) in problem
    assert "k_factor is -1" in problem


def test_no_file_is_overwritten_and_the_name_says_how_to_write(tmp_path: Path) -> None:
    table = make_battle_table([fight()])
    taken = tmp_path / "b.jsonl"
    taken.write_text("mine")
    (there,) = problems_of(lambda: write_battles(taken, table, format_name="tournament"))
    assert "there already" in there
    assert taken.read_text() == "mine"
    other = tmp_path / "b.txt"
    (unknown,) = problems_of(lambda: write_battles(other, table, format_name="tournament"))
    assert ".parquet or .jsonl" in unknown
    assert [path.name for path in tmp_path.iterdir()] == ["b.jsonl"]


def test_a_table_of_the_graph_gets_the_columns_it_lacks() -> None:
    table = pa.table({name: [value] for name, value in ROW.items()} | {"note": ["dropped"]})
    (battle,) = battles_of(encode_battle_table([table]))
    assert battle == Battle.from_dict(ROW)


def test_names_are_dictionaries_in_one_piece_whatever_the_parts(tmp_path: Path) -> None:
    rows = [{**ROW, "model_a": f"model {n % 7}"} for n in range(50)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet", row_group_size=3)
    table = read(tmp_path / "b.parquet", "judgearena").table
    column = table.column("model_a")
    assert column.num_chunks == 1
    assert len(column.chunk(0).dictionary) == 7
    assert battles_per_model(table)["bob"] == 50
    assert battles_per_model(table)["model 0"] == 8


def test_judgearena_rows_of_older_and_newer_versions_load(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "battles.jsonl",
        {**ROW, "pref": 0.8, "of_next_year": {"deep": [1]}},
        {name: ROW[name] for name in ("model_a", "model_b", "winner", "source")},
        {**ROW, "winner": "tie (bothbad)", "source": "human", "judge_model": None},
    )
    file = read(path)
    assert file.format == "judgearena"
    assert list(battles_of(file.table)) == [
        Battle.from_dict({**ROW, "pref": 0.8}),
        Battle("ada", "bob", "model_b", "llm-judge"),
        Battle("ada", "bob", "tie (bothbad)", "human", "q1"),
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_judgearena_files_come_back_and_what_they_cannot_hold_is_counted(
    tmp_path: Path, kind: str
) -> None:
    battles = [
        fight(question_id="q1", judge_model="j", pref=0.25),
        fight("tie", source="human", weight=3.0, inconsistent=True, dimension="style"),
    ]
    path = tmp_path / f"b.{kind}"
    table = make_battle_table(battles).slice(0, 1)
    assert write_battles(path, table, format_name="judgearena") == {}
    assert read(path).format == "judgearena"
    assert read_all(path) == battles[:1]
    lost = write_battles(
        tmp_path / f"c.{kind}", make_battle_table(battles[1:]), format_name="judgearena"
    )
    assert lost == {"dimension": 1, "inconsistent": 1, "weight": 1}
    both = make_battle_table([*battles, fight(dimension="facts")])
    (problem,) = problems_of(
        lambda: write_battles(tmp_path / f"d.{kind}", both, format_name="judgearena")
    )
    assert "(style, facts, none)" in problem
    assert not (tmp_path / f"d.{kind}").exists()


def test_pandas_reads_what_we_write(tmp_path: Path) -> None:
    battles = [fight(question_id="q1"), fight("tie", dimension="style")]
    table = make_battle_table(battles)
    for kind, read_frame in (("parquet", pd.read_parquet), ("jsonl", _read_lines)):
        path = tmp_path / f"b.{kind}"
        write_battles(path, table, format_name="tournament", settings=SETTINGS)
        frame = read_frame(path)
        assert frame["model_a"].tolist() == ["ada", "ada"]
        assert frame["winner"].tolist() == ["model_a", "tie"]


def _read_lines(path: Path) -> Any:
    return pd.read_json(path, lines=True)


def test_replies_that_judgearena_could_not_read_are_no_ties(tmp_path: Path) -> None:
    tie: dict[str, Any] = {**ROW, "winner": "tie"}
    rows: list[dict[str, Any]] = [
        {**ROW, "winner": "model_a", "pref": 0.0},
        {**tie, "pref": 0.5},
        {**tie, "pref": None},
        {**tie, "source": "human", "pref": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "b.parquet")
    for path in (tmp_path / "b.parquet", write_lines(tmp_path / "b.jsonl", *rows)):
        file = read(path, "judgearena")
        assert file.table.column("winner").to_pylist() == ["model_a", "tie", "tie"]
        assert list(file.left_out.values()) == [1]
    unread = write_lines(tmp_path / "all.jsonl", {**tie, "pref": None})
    assert "(1 left out" in problems_of(lambda: read(unread, "judgearena"))[0]


def test_ties_of_files_without_preferences_are_ties(tmp_path: Path) -> None:
    won, tie = {**ROW, "winner": "model_a"}, {**ROW, "winner": "tie"}
    old = write_lines(tmp_path / "old.jsonl", won, tie)
    pq.write_table(
        pa.Table.from_pylist([{**each, "pref": None} for each in (won, tie)]), tmp_path / "b"
    )
    for path in (old, tmp_path / "b"):
        assert read(path, "judgearena").table.num_rows == 2


def test_our_ties_stay_ties_for_judgearena(tmp_path: Path) -> None:
    battles = [fight("model_a", pref=0.1), fight("tie"), fight("tie", source="human")]
    path = tmp_path / "b.parquet"
    write_battles(path, make_battle_table(battles), format_name="judgearena")
    assert [(each.winner, each.pref) for each in read_all(path)] == [
        ("model_a", 0.1),
        ("tie", 0.5),
        ("tie", None),
    ]
