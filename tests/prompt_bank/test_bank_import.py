import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.project.project_files import load_prompt_bank
from tournament_assets.project.recorded_responses import load_recorded_responses
from tournament_assets.prompt_bank.bank_building import (
    NO_TEXT,
    SAME_PROMPT,
    ImportedBank,
    ImportRecipe,
    import_bank_file,
)
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.places import ResponsesPlace
from tournament_assets.tournament.prompts import Prompt

MT_BENCH_QUESTION = {
    "question_id": 81,
    "category": "writing",
    "turns": ["Write a post.", "Rewrite it."],
    "reference": ["A post.", "Again."],
}
ARENA_HARD_QUESTION = {"uid": "u1", "category": "hard_prompt", "prompt": "Sort it."}
BATCH_REQUEST = {
    "custom_id": "c1",
    "method": "POST",
    "body": {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "Sort it."}]},
        ]
    },
}


def write_lines(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def imported(path: Path, **recipe: Any) -> tuple[ImportedBank, list[Prompt]]:
    out = path.parent / f"bank-{len(list(path.parent.glob('bank-*')))}.jsonl"
    report = import_bank_file(ImportRecipe(path, **recipe), out)
    return report, load_prompt_bank(out)


def problem_of(path: Path, **recipe: Any) -> str:
    with pytest.raises(InputError) as caught:
        imported(path, **recipe)
    return str(caught.value)


@pytest.mark.parametrize(
    ("row", "found", "prompt"),
    [
        (
            MT_BENCH_QUESTION,
            "questions",
            Prompt("81", "Write a post.", "file", gold_answer="A post.", category="writing"),
        ),
        (
            ARENA_HARD_QUESTION,
            "questions",
            Prompt("u1", "Sort it.", "file", category="hard_prompt"),
        ),
        (BATCH_REQUEST, "openai-batch-input", Prompt("c1", "Sort it.", "file")),
    ],
)
def test_questions_of_other_tools_become_a_bank(
    tmp_path: Path, row: Mapping[str, Any], found: str, prompt: Prompt
) -> None:
    path = write_lines(tmp_path / "file.jsonl", row)
    assert imported(path) == (ImportedBank(1, found, {}), [prompt])


def test_a_bank_of_a_file_finds_the_responses_of_the_file(tmp_path: Path) -> None:
    rows = [
        {"instruction": f"What is {n}?", "output": str(n), "generator": model, "dataset": "vicuna"}
        for model in ("m", "n")
        for n in (1, 2)
    ]
    path = tmp_path / "outputs.json"
    path.write_text(json.dumps(rows))
    report, prompts = imported(path, values={"source": "wild"})
    assert report == ImportedBank(2, "alpaca-eval", {SAME_PROMPT: 2})
    assert {(prompt.source, prompt.category) for prompt in prompts} == {("wild", "vicuna")}
    assert all(prompt.prompt_id.startswith("wild-") for prompt in prompts)
    entrant = RecordedEntrant(
        entrant_id="e", loader="recorded", responses=ResponsesPlace(path="x"), model="n"
    )
    recorded = load_recorded_responses(path, entrant, prompts=prompts)
    assert [each.text for each in recorded.responses] == ["1", "2"]


def test_a_dataset_folder_is_read_by_split_with_a_map_of_its_columns(tmp_path: Path) -> None:
    folder = tmp_path / "gsm8k"
    (folder / "data").mkdir(parents=True)
    for number, split in enumerate(("train", "test", "test")):
        table = pa.Table.from_pylist(
            [{"q": f"How many {number}?", "answers": {"text": ["seven", "7"]}, "level": number}]
        )
        pq.write_table(table, folder / "data" / f"{split}-{number:05}-of-00003.parquet")
    columns = {"text": "q", "gold_answer": "answers.text", "level": "level"}
    assert "no --split is given; expected one of test, train" in problem_of(folder, columns=columns)
    assert "'dev'; expected one of test" in problem_of(folder, columns=columns, split="dev")
    report, prompts = imported(folder, columns=columns, split="test")
    assert report == ImportedBank(2, "columns", {})
    assert [(p.text, p.gold_answer, p.source, p.extra) for p in prompts] == [
        ("How many 1?", "seven", "gsm8k", {"level": 1}),
        ("How many 2?", "seven", "gsm8k", {"level": 2}),
    ]


def test_a_split_in_several_configurations_asks_which(tmp_path: Path) -> None:
    for name in ("main", "socratic"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"q": ["x"]}), tmp_path / name / "test-00000-of-00001.parquet")
    problem = problem_of(tmp_path, columns={"text": "q"}, split="test")
    assert "the split 'test' is in main, socratic" in problem
    _, prompts = imported(tmp_path / "main", columns={"text": "q"})
    assert [prompt.text for prompt in prompts] == ["x"]


def test_a_bank_as_csv_keeps_its_fields(tmp_path: Path) -> None:
    path = tmp_path / "bank.csv"
    path.write_text("prompt_id,text,source,gold_answer,tags\na,Why?,x,,long;hard\nb,How?,x,so,\n")
    _, prompts = imported(path)
    assert prompts == [
        Prompt("a", "Why?", "x", tags=("long", "hard")),
        Prompt("b", "How?", "x", gold_answer="so"),
    ]


def test_rows_without_a_prompt_are_counted_and_a_file_without_any_is_refused(
    tmp_path: Path,
) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"q": "Why?"}, {"q": None})
    report, _ = imported(path, columns={"text": "q"})
    assert report.left_out == {NO_TEXT: 1}
    answers = write_lines(tmp_path / "y.jsonl", {"question_id": 1, "choices": [{"turns": ["a"]}]})
    assert "no row of mt-bench holds the text of a prompt" in problem_of(answers)


def test_one_id_for_two_texts_is_refused_with_both_places(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.jsonl", {"i": 1, "q": "Why?"}, {"i": 1, "q": "How?"})
    problem = problem_of(path, columns={"text": "q", "prompt_id": "i"})
    assert "x.jsonl:2: prompt_id '1' is already used at x.jsonl:1" in problem
