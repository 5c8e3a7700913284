"""Battles, and files of other tools, for tests."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from tournament_assets.battles.columns import battles_of
from tournament_assets.battles.files import BattleFile, FormatOptions
from tournament_assets.battles.registry import read_battles
from tournament_assets.foundation.errors import InputError
from tournament_assets.tournament.battles import Battle

MODELS = ("ada", "bob", "cyd")
ROW: dict[str, Any] = {
    "model_a": "ada",
    "model_b": "bob",
    "winner": "model_b",
    "source": "llm-judge",
    "question_id": "q1",
    "judge_model": "judge-1",
}
"""A battle as a row of a file."""
WINNERS = ("model_a", "model_b", "tie", "tie (bothbad)")


def fight(winner: Any = "model_a", **changes: Any) -> Battle:
    return Battle(
        **{"model_a": "ada", "model_b": "bob", "source": "llm-judge", **changes}, winner=winner
    )


def write_lines(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


CONTAINERS = ("jsonl", "json", "parquet", "csv", "tsv", "xlsx")


def write_container(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows in the container that the name of the path ends in."""
    cells: list[list[Any]] = [list(rows[0]), *([row.get(name) for name in rows[0]] for row in rows)]
    match path.suffix:
        case ".jsonl":
            write_lines(path, *rows)
        case ".json":
            path.write_text(json.dumps(rows), encoding="utf-8")
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(list(rows)), path)
        case ".xlsx":
            book = openpyxl.Workbook()
            for line in cells:
                book.worksheets[0].append(line)
            book.save(path)
        case suffix:
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",").writerows(cells)
    return path


def read_all(path: Path, format_name: str | None = None, **options: Any) -> list[Battle]:
    return list(battles_of(read(path, format_name, **options).table))


def read(path: Path, format_name: str | None = None, **options: Any) -> BattleFile:
    file = read_battles(path, format_name=format_name, options=FormatOptions(**options))
    _ = file.table
    return file


def problems_of(call: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.problems


texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(str.strip)


def _consistent(values: dict[str, Any]) -> Battle:
    winner, pref = values["winner"], values["pref"]
    if pref is not None and winner in ("model_a", "model_b"):
        values["pref"] = min(pref, 1 - pref) if winner == "model_a" else max(pref, 1 - pref)
    values["inconsistent"] = values["inconsistent"] and winner not in ("model_a", "model_b")
    a, b = values.pop("pair")
    return Battle(model_a=a, model_b=b, **values)


def any_battles(
    max_size: int = 12, names: Iterable[str] = MODELS
) -> st.SearchStrategy[list[Battle]]:
    battle = st.fixed_dictionaries(
        {
            "pair": st.lists(st.sampled_from(list(names)), min_size=2, max_size=2, unique=True),
            "winner": st.sampled_from(WINNERS),
            "source": st.sampled_from(["llm-judge", "human"]),
            "question_id": st.none() | texts,
            "judge_model": st.none() | texts,
            "dimension": st.none() | texts,
            "inconsistent": st.booleans(),
            "weight": st.just(1.0) | st.floats(0.25, 8.0),
            "pref": st.none() | st.floats(0.0, 1.0),
            "turn": st.none() | st.integers(1, 3),
            "presentation": st.sampled_from([None, "ab", "ba"]),
        }
    ).map(_consistent)
    return st.lists(battle, min_size=1, max_size=max_size)
