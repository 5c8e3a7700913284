"""Tables as people keep their answers, drawn in many forms: read rightly, or refused with help."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.recorded.answer_tables import (
    AnswerTable,
    describe_answers,
    parse_columns,
    read_answers,
)

Row = dict[str, Any]
_TEXT = "the vein of a leaf carries water where roots find it and light makes sugar"
WORDS = _TEXT.split()
N_FILES, N_RIGHT = 50, 45


def _prose(rng: Random, least: int, most: int) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(least, most))]
    return f"{' '.join(words).capitalize()}."


BESIDE: Mapping[str, Callable[[Random, int], Any]] = {
    "Score (1-5)": lambda rng, n: rng.randint(1, 5),
    "Reviewer": lambda rng, n: ("Anna", "Ben", "Chloë")[n % 3],
    "label": lambda rng, n: 1 + n % 2,
    "date": lambda rng, n: f"2026-03-{n + 1:02}",
    "approved": lambda rng, n: ("yes", "no")[n % 2],
    "cost_usd": lambda rng, n: f"${rng.random():.3f}",
    "link": lambda rng, n: f"https://example.org/{n}",
    "difficulty": lambda rng, n: ("easy", "hard")[n % 2],
    "latency": lambda rng, n: rng.randint(100, 900),
}
"""Columns that tables have besides answers, by their names."""
UNSURE: Mapping[str, Callable[[Random, int], Any]] = {
    "comments": lambda rng, n: _prose(rng, 3, 8),
    "code": lambda rng, n: f"q{n}x",
}
"""Columns that may be answers as far as their cells show."""


def draw_table(seed: int) -> tuple[list[Row], dict[str, list[str]], bool]:
    """Draw rows, every entrant's answers, and whether a column leaves room for doubt."""
    rng = Random(seed)
    entrants = rng.sample(["GPT-4", "Claude", "no", "Müller", "olmo 2", "base"], rng.randint(2, 4))
    beside = rng.sample([*BESIDE], rng.randint(0, 3))
    unsure = rng.sample([*UNSURE], 1) if rng.random() < 0.1 else []
    is_long = rng.random() < 0.3
    prompt = rng.choice(["prompt", "Question", "instruction", "text", "input"])
    rows: list[Row] = []
    answers: dict[str, list[str]] = {name: [] for name in entrants}
    for n in range(rng.randint(8, 12)):
        asked = f"{n}: {_prose(rng, 4, 9)}"
        more = {name: {**BESIDE, **UNSURE}[name](rng, n) for name in (*beside, *unsure)}
        for name in entrants:
            answers[name].append(_prose(rng, 4, 20))
        if is_long:
            rows += [
                {prompt: asked, "model": name, "response": answers[name][-1], **more}
                for name in entrants
            ]
        else:
            cells = {name: answers[name][-1] for name in entrants}
            order = [*cells.items(), *more.items()]
            rng.shuffle(order)
            rows.append({prompt: asked, **dict(order)})
    return rows, answers, bool(unsure) and not is_long


def write_table(rows: Sequence[Row], path: Path, seed: int) -> None:
    """Write rows in one of the ways in which spreadsheets and tools keep them."""
    rng = Random(f"file {seed}")
    names = list(rows[0])
    table = [names, *([str(row[name]) for name in names] for row in rows)]
    above = [["Results of March"], []] if rng.random() < 0.2 else []
    kind = rng.choice(["csv", "csv", "csv", "xlsx", "json", "jsonl", "parquet"])
    if kind == "xlsx":
        book = openpyxl.Workbook()
        for cells in [*above, names, *([row[name] for name in names] for row in rows)]:
            book.active.append(cells)
        book.save(path)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "json":
        path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    elif kind == "jsonl":
        lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        path.write_text(lines, encoding="utf-8-sig")
    else:
        text, delimiter = io.StringIO(newline=""), rng.choice(",;\t")
        begins = f"sep={delimiter}\r\n" if rng.random() < 0.2 else ""
        csv.writer(text, delimiter=delimiter).writerows([*above, *table])
        encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
        path.write_bytes((begins + text.getvalue()).encode(encoding))


def answers_of(table: AnswerTable) -> dict[str, list[str]]:
    """Return what a table was read as: every entrant's answers, in the order of the prompts."""
    return {table.names[each]: list(texts.values()) for each, texts in table.answers.items()}


def test_fifty_drawn_tables_are_read_rightly_or_refused_with_what_to_write(tmp_path: Path) -> None:
    n_right = 0
    for seed in range(N_FILES):
        rows, answers, is_unsure = draw_table(seed)
        path = tmp_path / f"table_{seed}"
        write_table(rows, path, seed)
        try:
            table = read_answers(path)
        except InputError as error:
            said = "\n".join(error.problems)
            assert "--columns" in said, (seed, said)
            wide = [f"response={name}" for name in answers]
            read = read_answers(path, columns=parse_columns(wide))
            assert answers_of(read) == answers, seed
            assert is_unsure, (seed, said)
            continue
        assert {name: sorted(texts) for name, texts in answers_of(table).items()} == {
            name: sorted(texts) for name, texts in answers.items()
        }, seed
        n_right += not is_unsure
    assert n_right >= N_RIGHT


def test_a_label_of_two_outputs_is_no_third_entrant(tmp_path: Path) -> None:
    rows = [
        {"input": f"Do {n}.", "output_1": f"So {n} is.", "output_2": f"No {n}.", "label": 1 + n % 2}
        for n in range(6)
    ]
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(rows))
    table = read_answers(path)
    assert (table.entrants, table.n_pairs) == (("output_1", "output_2"), 6)
    assert "not used: label (6 of 6 filled)" in table.notes


@pytest.mark.parametrize("extra", [{}, {"id": "x1"}])
def test_chats_of_a_question_and_an_answer_are_a_long_table(
    tmp_path: Path, extra: dict[str, str]
) -> None:
    def chat(model: str, n: int, *more: Mapping[str, str]) -> Row:
        asked = {"role": "user", "content": f"What is {n}?"}
        return {"messages": [asked, {"role": "assistant", "content": f"{model}: {n}."}, *more]}

    rows = [{**chat(model, n), "model": model} for n in range(4) for model in ("ada", "bob")]
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert answers_of(read_answers(path))["ada"] == [f"ada: {n}." for n in range(4)]
    again = {**chat("ada", 9, {"role": "user", "content": "More?"}), "model": "ada"}
    path.write_text("\n".join(map(json.dumps, [*rows, again])))
    with pytest.raises(InputError):
        read_answers(path)


def test_what_was_taken_for_granted_is_said(tmp_path: Path) -> None:
    rows = [["Results"], [], ["prompt", "Müller", "b"], ["p?", "Grün ist es.", "Blau ist es."]]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";").writerows(rows)
    path = tmp_path / "excel.csv"
    path.write_bytes(text.getvalue().encode("cp1252"))
    table = read_answers(path)
    assert answers_of(table) == {"Müller": ["Grün ist es."], "b": ["Blau ist es."]}
    said = "\n".join(describe_answers(table, title="excel.csv"))
    assert "column 'prompt' holds prompt: p?" in said
    assert "--columns prompt=prompt --columns 'response=Müller' --columns response=b" in said
    assert re.search(r"read as cp1252.*header is in line 3", table.notes[0])
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("old")
    book.save(tmp_path / "book.xlsx")
    table = read_answers(tmp_path / "book.xlsx")
    assert answers_of(table)["Müller"] == ["Grün ist es."]
    assert "'old'" in table.notes[0]
