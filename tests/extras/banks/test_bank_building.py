import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extras.banks.builders import write_rows
from tournament_assets.extras.banks.bank_building import (
    NO_TEXT,
    SAME_PROMPT,
    SHARED_SYSTEM,
    ImportedBank,
    ImportRecipe,
    build_bank_rows,
    import_bank_file,
)
from tournament_assets.extras.banks.multiple_choice import MultipleChoiceQuestion
from tournament_assets.extras.banks.recasting import WhyLeftOut
from tournament_assets.foundation.errors import InputError
from tournament_assets.project.project_files import load_prompt_bank
from tournament_assets.recorded.recorded_responses import load_recorded_responses
from tournament_assets.recorded.sample_formats import LATER_TURN, NOT_TEXT
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.places import ResponsesPlace
from tournament_assets.tournament.prompts import Prompt, parse_prompt_bank

from .builders import at_lines, mcq


def test_the_built_rows_are_a_valid_bank() -> None:
    questions = [
        mcq("Which crystals cause gout?", source_id="q-1", subject="Medicine"),
        mcq("Most common cause of stroke is", "Infarction", source="medqa"),
    ]
    build = build_bank_rows(questions, counts={"medmcqa": 1, "medqa": 1}, seed=0)
    medmcqa, medqa = parse_prompt_bank(at_lines(*build.rows))
    assert (medmcqa.text, medmcqa.subject) == (questions[0].stem, "Medicine")
    assert medmcqa.extra == '{"source_id": "q-1"}'
    assert (medqa.text, medqa.tags) == ("What is the most common cause of stroke?", ("rewritten",))
    assert medqa.prompt_id.startswith("medqa-")
    assert len(medqa.prompt_id) == len("medqa-") + 8


def test_every_question_read_is_counted_once() -> None:
    questions = [
        mcq("Which crystals cause gout?"),
        mcq("which crystals cause GOUT", source_id="again"),
        mcq("Which bone breaks most often?", "Radius"),
        mcq("Which bone breaks most often?", "Clavicle"),
        mcq("True about gout is"),
        mcq("Which nerve moves the diaphragm?", "Phrenic nerve"),
    ]
    counts = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0).counts["medmcqa"]
    assert counts.left_out == {
        WhyLeftOut.TRUE_OR_FALSE: 1,
        WhyLeftOut.CONFLICTING_ANSWERS: 2,
        WhyLeftOut.DUPLICATE: 1,
    }
    assert (counts.read, counts.eligible, counts.drawn) == (6, 2, 1)


def test_the_same_text_in_both_sets_is_asked_once() -> None:
    questions = [mcq("Which crystals cause gout?", source=name) for name in ("medqa", "medmcqa")]
    build = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0)
    assert [row["source"] for row in build.rows] == ["medmcqa"]
    assert build.counts["medqa"].left_out == {WhyLeftOut.DUPLICATE: 1}


def test_two_questions_that_would_share_an_identifier_are_not_both_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tournament_assets.extras.banks.recasting._ID_LENGTH", 0)
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(3)]
    counts = build_bank_rows(questions, counts={"medmcqa": 1}, seed=0).counts["medmcqa"]
    assert (counts.eligible, counts.left_out) == (1, {WhyLeftOut.DUPLICATE: 2})


def test_asking_for_more_than_there_is_names_every_source() -> None:
    questions = [mcq("Which crystals cause gout?"), mcq("True about gout is")]
    with pytest.raises(InputError) as caught:
        build_bank_rows(questions, counts={"medmcqa": 2, "medqa": 1}, seed=0)
    found = [re.findall(r"med\w+|\d+", problem) for problem in caught.value.problems]
    assert found == [
        ["medmcqa", "2", "1", "2"],  # asked for, to be had, read
        ["medqa", "1", "0", "0"],
    ]


# Few stems and answers, so that duplicates and conflicts are drawn too.
questions_of_both_sets = st.lists(
    st.builds(
        mcq,
        st.sampled_from(
            [f"Which crystals cause disease {number}?" for number in range(8)]
            + ["which crystals cause disease 1", "True about gout is", "Most common site is:"]
        ),
        st.sampled_from(["Uric acid", "uric acid", "Oxalate", "All of the above", None]),
        source=st.sampled_from(["medmcqa", "medqa"]),
        source_id=st.sampled_from([None, "q-1", "q-2"]),
        subject=st.sampled_from([None, "Medicine", "Surgery"]),
    ),
    max_size=30,
)


def drawable(questions: list[MultipleChoiceQuestion]) -> dict[str, int]:
    counts = build_bank_rows(questions, counts={}, seed=0).counts
    return {source: count.eligible for source, count in counts.items()}


@given(questions=questions_of_both_sets, seed=st.integers(0, 2**32), data=st.data())
def test_the_order_of_the_questions_does_not_change_the_build(
    questions: list[MultipleChoiceQuestion], seed: int, data: st.DataObject
) -> None:
    counts = {
        source: data.draw(st.integers(0, eligible))
        for source, eligible in drawable(questions).items()
    }
    shuffled = data.draw(st.permutations(questions))
    build = build_bank_rows(questions, counts=counts, seed=seed)
    assert build == build_bank_rows(shuffled, counts=counts, seed=seed)
    assert len(build.rows) == sum(counts.values())


@given(questions=questions_of_both_sets, seed=st.integers(0, 2**32))
def test_texts_and_identifiers_are_unique_and_all_questions_accounted_for(
    questions: list[MultipleChoiceQuestion], seed: int
) -> None:
    build = build_bank_rows(questions, counts=drawable(questions), seed=seed)
    texts = [str(row["text"]).casefold() for row in build.rows]
    assert len(set(texts)) == len(texts)
    assert len({row["prompt_id"] for row in build.rows}) == len(texts)
    for counts in build.counts.values():
        assert counts.read == sum(counts.left_out.values()) + counts.eligible


@given(seed=st.integers(0, 2**32), smaller=st.integers(0, 20), larger=st.integers(0, 20))
def test_a_larger_count_keeps_what_a_smaller_one_drew(seed: int, smaller: int, larger: int) -> None:
    smaller, larger = sorted((smaller, larger))
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(20)]
    few = build_bank_rows(questions, counts={"medmcqa": smaller}, seed=seed)
    many = build_bank_rows(questions, counts={"medmcqa": larger}, seed=seed)
    assert {row["prompt_id"] for row in few.rows} <= {row["prompt_id"] for row in many.rows}


def test_another_seed_draws_other_questions() -> None:
    questions = [mcq(f"Which crystals cause disease {number}?") for number in range(100)]
    one = build_bank_rows(questions, counts={"medmcqa": 10}, seed=1)
    two = build_bank_rows(questions, counts={"medmcqa": 10}, seed=2)
    assert one.rows != two.rows


def test_the_draw_of_one_set_does_not_depend_on_the_other() -> None:
    ours = [mcq(f"Which crystals cause disease {number}?") for number in range(20)]
    theirs = [mcq(f"Which virus causes disease {number}?", source="medqa") for number in range(20)]
    alone = build_bank_rows(theirs, counts={"medqa": 5}, seed=3)
    both = build_bank_rows(ours + theirs, counts={"medmcqa": 7, "medqa": 5}, seed=3)
    assert alone.rows == both.rows[7:]


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
    path = write_rows(tmp_path / "file.jsonl", row)
    left_out = {SHARED_SYSTEM: 1} if row is BATCH_REQUEST else {}
    left_out |= {LATER_TURN: 1} if row is MT_BENCH_QUESTION else {}
    assert imported(path) == (ImportedBank(1, found, left_out), [prompt])


@pytest.mark.parametrize("key", ["input", "context"])
@pytest.mark.parametrize("as_lines", [True, False])
def test_inputs_under_one_instruction_are_prompts_of_their_own(
    tmp_path: Path, key: str, *, as_lines: bool
) -> None:
    rows = [
        {"instruction": "Do it.", key: f"Text {n}" if n else "", "output": "x", "generator": "m"}
        for n in range(6)
    ]
    path = tmp_path / "file.json"
    path.write_text("\n".join(map(json.dumps, rows)) if as_lines else json.dumps(rows))
    _, prompts = imported(path)
    assert [prompt.text for prompt in prompts] == [
        "Do it.",
        *(f"Do it.\n\nText {n}" for n in range(1, 6)),
    ]


def test_an_input_and_a_context_are_both_part_of_the_prompt(tmp_path: Path) -> None:
    row = {"instruction": "Do it.", "output": "x"}
    rows: list[dict[str, Any]] = [
        {**row, "input": "", "context": "one"},
        {**row, "input": "two", "context": "three"},
        {**row, "input": ["a", "list"]},
    ]
    report, prompts = imported(write_rows(tmp_path / "file.jsonl", *rows))
    texts = ["Do it.\n\none", "Do it.\n\ntwo\n\nthree"]
    assert [prompt.text for prompt in prompts] == texts
    assert report.left_out == {NOT_TEXT: 1}


@pytest.mark.parametrize(
    "more",
    [
        {"suffix": "so."},
        {"prompt": {"id": "stored"}},
        {"modalities": ["text", "audio"]},
        {"function_call": "auto"},
        {"tools": [{"type": "function"}]},
        {"functions": [{"name": "f"}]},
        {"previous_response_id": "r1"},
        {"response_format": {"type": "json_object"}},
        {"text": {"format": {"type": "json_schema"}}},
    ],
)
def test_a_request_that_asks_for_more_than_an_answer_is_left_out(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    whole = {"custom_id": "c2", "body": {"input": "Why?", "text": {"format": {"type": "text"}}}}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Sort it."}], **more}
    part = {"custom_id": "c1", "body": body}
    report, prompts = imported(write_rows(tmp_path / "file.jsonl", whole, part))
    assert ([prompt.text for prompt in prompts], sum(report.left_out.values())) == (["Why?"], 1)


def test_a_request_of_anthropics_batches_is_a_prompt_with_its_system_text(tmp_path: Path) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Why?"}]}
    params = {"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [message]}
    report, prompts = imported(
        write_rows(tmp_path / "f.jsonl", {"custom_id": "c", "params": params})
    )
    assert (report.format, report.left_out) == ("anthropic-batch-input", {SHARED_SYSTEM: 1})
    assert [prompt.text for prompt in prompts] == ["Why?"]


def test_a_filled_column_that_nobody_knows_is_named(tmp_path: Path) -> None:
    rows = [
        {"instruction": f"Do {n}.", "output": "x", "hint": f"h{n}" if n else None, "same": 1}
        for n in range(5)
    ]
    path = tmp_path / "file.json"
    path.write_text(json.dumps(rows))
    report, _ = imported(path)
    assert report.notes == ("not used: hint (4 of 5 filled)",)
    assert imported(path, columns={"author": "hint"})[0].notes == ()


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
    assert problem_of(folder, columns=columns).endswith(" test, train")
    problem = problem_of(folder, columns=columns, split="dev")
    assert "'dev'" in problem
    assert problem.endswith(" test, train")
    report, prompts = imported(folder, columns=columns, split="test")
    assert report == ImportedBank(2, "columns", {})
    assert [(p.text, p.gold_answer, p.source, p.extra) for p in prompts] == [
        ("How many 1?", "seven", "gsm8k", '{"level": 1}'),
        ("How many 2?", "seven", "gsm8k", '{"level": 2}'),
    ]


def test_a_split_in_several_configurations_asks_which(tmp_path: Path) -> None:
    for name in ("main", "socratic"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"q": ["x"]}), tmp_path / name / "test-00000-of-00001.parquet")
    problem = problem_of(tmp_path, columns={"text": "q"}, split="test")
    assert "'test'" in problem
    assert " main, socratic;" in problem
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
    path = write_rows(tmp_path / "x.jsonl", {"q": "Why?"}, {"q": None})
    report, _ = imported(path, columns={"text": "q"})
    assert report.left_out == {NO_TEXT: 1}
    answers = write_rows(tmp_path / "y.jsonl", {"question_id": 1, "choices": [{"turns": ["a"]}]})
    assert re.search(r"\bmt-bench .*\(1 ", problem_of(answers))


def test_one_id_for_two_texts_is_refused_with_both_places(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "x.jsonl", {"i": 1, "q": "Why?"}, {"i": 1, "q": "How?"})
    problem = problem_of(path, columns={"text": "q", "prompt_id": "i"})
    assert re.findall(r"x\.jsonl:\d|'.*?'", problem) == ["x.jsonl:2", "'1'", "x.jsonl:1"]
