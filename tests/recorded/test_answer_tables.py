"""Ten files as people have them, and what is wrong with others."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.recorded.answer_tables import (
    AnswerTable,
    describe_answers,
    frame_answers,
    parse_columns,
    read_answers,
)

PROMPTS = ("What is 2 + 2?", "Name a prime; say why.", "Who wrote Emma?")


def write(folder: Path, content: str | bytes, name: str = "answers.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: str | bytes, **columns: list[str]) -> AnswerTable:
    return read_answers(write(folder, content), columns=columns or None)  # type: ignore[arg-type]


def problems_of(folder: Path, content: str | bytes, **columns: list[str]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(folder, content, **columns)
    return list(caught.value.problems)


def texts(table: AnswerTable) -> list[str]:
    return [prompt.text for prompt in table.prompts]


def test_1_excel_with_semicolons_and_a_byte_order_mark(tmp_path: Path) -> None:
    rows = "Prompt;GPT-4, temp 0, top 1, seed 2;Claude\r\n" + "".join(
        f'"{prompt}";"Well, {n}, I think";{n}\r\n' for n, prompt in enumerate(PROMPTS, start=1)
    )
    table = read(tmp_path, b"\xef\xbb\xbf" + rows.encode())
    assert texts(table) == list(PROMPTS)
    assert table.names == {
        "GPT-4_temp_0_top_1_seed_2": "GPT-4, temp 0, top 1, seed 2",
        "Claude": "Claude",
    }
    assert table.answers["Claude"] == {"prompt-1": "1", "prompt-2": "2", "prompt-3": "3"}
    assert table.layout == "wide"


def test_2_excel_that_names_its_delimiter_in_the_first_line(tmp_path: Path) -> None:
    table = read(tmp_path, "sep=|\r\nquestion|a|b\r\nx, y|1|2\r\n")
    assert (texts(table), table.entrants) == (["x, y"], ("a", "b"))
    assert problems_of(tmp_path, "sep=|\r\nquestion|a|b\r\nx|1|2|3\r\n")[0].startswith(
        "answers.csv:3: the row has 4 cells"
    )


def test_3_unicode_text_of_excel_with_tabs(tmp_path: Path) -> None:
    content = "prompt\tÄsop\tb\nWarum?\tDarum.\tNicht, weil; doch.\n"
    table = read(tmp_path, content.encode("utf-16"))
    assert table.answers == {
        "Äsop": {"prompt-1": "Darum."},
        "b": {"prompt-1": "Nicht, weil; doch."},
    }
    assert table.names["Äsop"] == "Äsop"


def test_4_line_breaks_quotation_marks_and_delimiters_in_cells(tmp_path: Path) -> None:
    content = 'id,prompt,a,b\nq1,"Write\n\ntwo ""lines""","one,\ntwo",done\nq2,Again,x,y\n'
    table = read(tmp_path, content)
    assert texts(table) == ['Write\n\ntwo "lines"', "Again"]
    assert table.answers["a"] == {"q1": "one,\ntwo", "q2": "x"}


def test_5_a_hundred_entrants(tmp_path: Path) -> None:
    names = [f"run {n}" for n in range(100)]
    table = read(tmp_path, ",".join(["prompt", *names]) + "\nhi," + ",".join("x" * 100) + "\n")
    assert len(table.entrants) == 100
    assert table.n_pairs == 100 * 99 // 2
    assert len({name.casefold() for name in table.entrants}) == 100


def test_6_empty_cells_are_missing_and_never_a_value(tmp_path: Path) -> None:
    table = read(tmp_path, 'prompt,a,b,c\np1,x,,y\np2,"", ,y\np3,NA,null,y\n,,,\n')
    assert table.answers["a"] == {"prompt-1": "x", "prompt-3": "NA"}
    assert table.answers["b"] == {"prompt-3": "null"}
    assert table.missing == {"a": 1, "b": 2}
    assert (table.n_compared, table.n_pairs) == (1, 3)
    said = "\n".join(describe_answers(table, title="x"))
    assert "missing: 3 of 9 answers (a 1, b 2)" in said
    one = read(tmp_path, "prompt,a,b\np1,x,y\n")
    assert describe_answers(one, title="x")[2] == "entrants: 2 (a, b), 1 pair of answers to judge"
    assert "seldom filled: 'b';" in said


def test_7_duplicate_prompts(tmp_path: Path) -> None:
    table = read(tmp_path, "prompt,a,b\np,x,y z\np,x,y z\nq,xx,\nq,,y x\n")
    assert table.answers == {
        "a": {"prompt-1": "x", "prompt-2": "xx"},
        "b": {"prompt-1": "y z", "prompt-2": "y x"},
    }
    assert table.notes == ("2 answers are in the table more than once, and count once",)
    (problem,) = problems_of(tmp_path, "prompt,a,b\np,1,2\nq,1,2\np,1,3\n")
    assert problem.startswith("answers.csv:4, column 'b': 'b' has answered this prompt at ")
    assert "answers.csv:2" in problem
    twice = read(tmp_path, "prompt_id,prompt,a,b\n1,p,1,2\n2,p,1,3\n")
    assert texts(twice) == ["p", "p"]


def test_8_long_with_gold_answers_and_strata(tmp_path: Path) -> None:
    content = (
        "prompt_id,prompt,model,response,gold,category,latency\n"
        "1,2 + 2?,gpt,4,4,sums,0.1\n1,2 + 2?,olmo,five,4,sums,0.2\n2,Emma?,gpt,Austen,,names,1\n"
    )
    table = read(tmp_path, content)
    assert table.layout == "long"
    assert [prompt.gold_answer for prompt in table.prompts] == ["4", None]
    assert [prompt.source for prompt in table.prompts] == ["sums", "names"]
    assert table.answers == {"gpt": {"1": "4", "2": "Austen"}, "olmo": {"1": "five"}}
    assert table.notes == ("not used: latency (3 of 3 filled)",)


def test_9_json_lines_tell_an_empty_answer_from_none(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": "p", "entrant": "a", "response": ""},
        {"prompt": "p", "entrant": "b", "response": 4},
        {"prompt": "q", "entrant": "a", "response": None},
        {"prompt": "q", "entrant": "b", "response": "x"},
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    table = read_answers(write(tmp_path, content, "answers.jsonl"))
    assert table.answers == {"a": {"prompt-1": ""}, "b": {"prompt-1": "4", "prompt-2": "x"}}
    assert table.missing == {"a": 1}


def test_10_parquet_and_frames_and_the_index_that_pandas_writes(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"Question": ["p", "q"], "a": ["x", None], "b": ["y", "z"], "Notes": ["?", "!"]}
    )
    frame.to_parquet(tmp_path / "answers.parquet")
    expected = {"a": {"prompt-1": "x"}, "b": {"prompt-1": "y", "prompt-2": "z"}}
    assert read_answers(tmp_path / "answers.parquet").answers == expected
    assert frame_answers(frame).answers == expected
    frame.to_csv(tmp_path / "answers.csv")
    assert read_answers(tmp_path / "answers.csv").answers == expected


def test_alpaca_evals_lists_are_long_tables(tmp_path: Path) -> None:
    rows = [
        {"instruction": "p", "output": "x", "generator": "a", "dataset": "d"},
        {"instruction": "p", "output": "y", "generator": "b", "dataset": "d"},
    ]
    table = read_answers(write(tmp_path, json.dumps(rows), "outputs.json"))
    assert table.answers == {"a": {"prompt-1": "x"}, "b": {"prompt-1": "y"}}


def test_columns_can_be_named(tmp_path: Path) -> None:
    content = "Frage,Lösung,x1,x2,x3\np,g,1,2,3\n"
    named = parse_columns(["prompt=Frage", "gold_answer=Lösung", "response=x1", "response= x3"])
    table = read_answers(write(tmp_path, content), columns=named)
    assert table.answers == {"x1": {"prompt-1": "1"}, "x3": {"prompt-1": "3"}}
    assert table.prompts[0].gold_answer == "g"
    assert table.notes == ("not used: x2 (1 of 1 filled)",)
    with pytest.raises(InputError) as caught:
        parse_columns(["prompt", "reply=x", "response="])
    assert len(caught.value.problems) == 3


def test_names_that_differ_by_case_alone_or_have_no_letters_get_ids_of_their_own(
    tmp_path: Path,
) -> None:
    table = read(tmp_path, "prompt,GPT 4,gpt_4,模型\np,1,2,3\n")
    assert table.entrants == ("GPT_4", "gpt_4_2", "模型")


def test_all_problems_are_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    content = (
        'prompt_id,prompt,entrant,response\n1,p,a,"#REF!"\n1,other,b,x\n,q,a,y\n3,r,,z\n4,,a,z\n'
    )
    found = [
        problem.split(":")[0] + ":" + problem.split(":")[1]
        for problem in problems_of(tmp_path, content)
    ]
    assert found == [
        "answers.csv:2, column 'response'",
        "answers.csv:3, column 'prompt'",
        "answers.csv:4, column 'prompt_id'",
        "answers.csv:5, column 'entrant'",
        "answers.csv:6, column 'prompt'",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("prompt,a,b\np,1,2,3\nq,4\nr,5,6,7\n", ["answers.csv:2: the row has 4", "answers.csv:4:"]),
        ('prompt,a,b\np,"1,2\nq,3,4\n', ["answers.csv:2: the row that begins here"]),
        (
            "prompt,a,b\np,\u00fc ".encode() + "caf\xe9,2\n".encode("latin-1"),
            ["answers.csv:2: the text is not UTF-8"],
        ),
        ("prompt,a,a\np,1,2\n", ["'a' more than once"]),
        ("prompt,a\np,1\n", ["'a' holds responses"]),
        ("prompt,a,b\np,1,\n", ["'a' holds responses"]),
        ("prompt,a,b\n", ["holds no row"]),
        ("prompt_id,entrant,response\n1,a,x\n1,b,y\n", ["no column holds the prompts' text"]),
        ("question,answer,a,b\np,g,1,2\n", ["column 'answer' may be an entrant's"]),
        ("prompt,question,a,b\np,q,1,2\n", ["'prompt', 'question' may each hold prompt"]),
        ("prompt,,a\np,x,1\n", ["the header has no name for 1 column"]),
        ("prompt,model,response\np,a,x\nq,a,y\n", ["answers are of 'a'; expected two"]),
        ("prompt,a,b\np,1,\nq,,2\n", ["no prompt is answered by all 2 entrants ('a' lacks 1"]),
        ("prompt,source,a,b\np,curated,1,2\n", ["answers.csv:2, column 'source': 'curated'"]),
        ("", ["the file is empty"]),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, content: str | bytes, said: list[str]
) -> None:
    found = problems_of(tmp_path, content)
    assert len(found) == len(said), found
    assert all(words in problem for words, problem in zip(said, found, strict=True)), found


def test_a_frame_has_no_numbers_that_pandas_made_of_texts() -> None:
    frame = pd.DataFrame({"prompt": ["p", "q"], "a": [4, 5], "b": [4.0, np.nan]})
    with pytest.raises(InputError) as caught:
        frame_answers(frame)
    (problem,) = caught.value.problems
    assert problem.startswith("row 1, column 'b': the cell is 4.0; expected a text")
    assert "dtype=str" in problem
