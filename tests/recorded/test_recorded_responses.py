import csv
import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint
from tournament_assets.recorded.recorded_responses import (
    OTHER_MODEL,
    OTHER_TEXT,
    OUTSIDE,
    SAME_AGAIN,
    RecordedResponses,
    load_recorded_responses,
)
from tournament_assets.recorded.sample_formats import (
    CONVERSATION,
    FAILED,
    FURTHER_SAMPLE,
    LATER_TURN,
    NO_TEXT,
    NOT_TEXT,
    SYSTEM,
    TOOLS,
)
from tournament_assets.tournament.completions import CALLS_TOOLS, FILTERED
from tournament_assets.tournament.entrants import RecordedEntrant
from tournament_assets.tournament.places import ResponsesPlace
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

PROMPTS = [
    Prompt(f"p{number}", f"What is {number}?", "recall", gold_answer="!") for number in (1, 2, 3)
]


def jsonl(path: Path, *rows: Mapping[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def load(path: Path, **settings: Any) -> RecordedResponses:
    entrant = RecordedEntrant.model_validate(
        {
            "entrant_id": "ada",
            "loader": "recorded",
            "responses": ResponsesPlace(path=path.name),
            **settings,
        }
    )
    return load_recorded_responses(path, entrant, prompts=PROMPTS)


def problems_of(path: Path, **settings: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load(path, **settings)
    return caught.value.problems


def texts_of(recorded: RecordedResponses) -> dict[str, str]:
    return {each.prompt_id: each.text for each in recorded.responses}


def test_responses_come_in_bank_order_and_may_leave_prompts_out(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "ada.jsonl",
        {"prompt_id": "p3", "response": "three"},
        {"prompt_id": "p1", "response": "", "entrant_id": "ada"},
    )
    assert load(path).responses == [
        GeneratedResponse("p1", "", "recorded"),
        GeneratedResponse("p3", "three", "recorded"),
    ]
    assert load(path).warnings == ()


@pytest.mark.parametrize("key", ["response", "response_text", "text"])
def test_the_text_may_stand_under_three_names(tmp_path: Path, key: str) -> None:
    row = {"prompt_id": "p1", "response": None} | {key: "said"}
    assert texts_of(load(jsonl(tmp_path / "ada.jsonl", row))) == {"p1": "said"}


def test_rows_outside_the_bank_are_left_out_and_counted(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "ada.jsonl",
        {"prompt_id": "p9", "response": "nine"},
        {"prompt_id": "p1", "response": "one"},
        {"prompt_id": "p8", "response": "eight"},
    )
    recorded = load(path)
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.left_out == {OUTSIDE: 2}
    assert len(recorded.warnings) == 1
    assert f"2 × {OUTSIDE}" in recorded.warnings[0]


def test_a_file_without_any_response_to_the_bank_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "ada.jsonl", {"prompt_id": "p9", "response": "nine"})
    (problem,) = problems_of(path)
    assert re.search(r" 1 rows .*ada\.jsonl:1, .*'p9'", problem)


def test_every_response_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "ada.jsonl",
        {"prompt_id": "p1", "response": "one"},
        {"response": "nobody's"},
        {"prompt_id": "p1", "response": "one again"},
        {"prompt_id": "p2", "response": "two", "entrant_id": "bob"},
    )
    found = [re.findall(r":\d+|'\w+'", problem.split(";")[0]) for problem in problems_of(path)]
    assert sorted(found) == [[":2"], [":3", "'p1'", ":1"], [":4", "'bob'"]]


def test_a_response_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "ada.jsonl", {"prompt_id": "p1", "response": 7})
    (problem,) = problems_of(path)
    assert re.match(r"ada\.jsonl:1: .*\b7; ", problem)


def test_a_row_without_a_response_is_a_response_that_is_missing(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "ada.jsonl", {"prompt_id": "p1", "response": "one"}, {"prompt_id": "p2"}
    )
    recorded = load(path)
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.missing == {"p2": NO_TEXT}
    assert recorded.left_out == {NO_TEXT: 1}


def test_the_same_response_twice_is_one(tmp_path: Path) -> None:
    row = {"prompt_id": "p1", "response": "one"}
    recorded = load(jsonl(tmp_path / "ada.jsonl", row, row))
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.left_out == {SAME_AGAIN: 1}


def test_finish_reasons_and_token_counts_are_kept(tmp_path: Path) -> None:
    row = {"prompt_id": "p1", "response": "one", "finish_reason": "length"}
    path = jsonl(tmp_path / "ada.jsonl", {**row, "prompt_tokens": 5, "response_tokens": 8})
    assert load(path).responses == [GeneratedResponse("p1", "one", "length", 5, 8)]


def test_csv_json_list_and_parquet_say_the_same_as_json_lines(tmp_path: Path) -> None:
    rows = [
        {"prompt_id": "p2", "response": "two, \n2", "finish_reason": "stop"},
        {"prompt_id": "p1", "response": "one", "finish_reason": "length"},
    ]
    expected = load(jsonl(tmp_path / "ada.jsonl", *rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "ada.parquet")
    (tmp_path / "ada.json").write_text(json.dumps(rows, indent=1))
    with (tmp_path / "ada.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for name in ("ada.parquet", "ada.json", "ada.csv"):
        assert load(tmp_path / name) == expected


def test_columns_of_any_name_can_be_named(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "x.jsonl", {"q": "What is 2?", "out": {"text": "two", "n": 3}})
    columns = {"prompt": "q", "response": "out.text", "response_tokens": "out.n"}
    assert load(path, columns=columns).responses == [
        GeneratedResponse("p2", "two", "recorded", None, 3)
    ]
    (problem,) = problems_of(path, columns={**columns, "model": "who"})
    assert re.search(r"'who' .* out, q\b", problem)


def test_how_a_file_is_read_is_in_the_fingerprint() -> None:
    place = ResponsesPlace(path="x")
    plain = RecordedEntrant(entrant_id="a", loader="recorded", responses=place)
    chosen = RecordedEntrant(entrant_id="a", loader="recorded", responses=place, model="m")
    assert plain.fingerprint("c") != chosen.fingerprint("c")
    assert plain.fingerprint("c") == fingerprint({"loader": "recorded", "content": "c"})


DOLLY = {"instruction": "What is 1?", "context": "", "response": "one", "category": "sums"}
ALPACA = {"dataset": "helpful_base", "instruction": "What is 1?", "output": "one", "generator": "m"}
MT_BENCH = {
    "question_id": 1,
    "answer_id": "x",
    "model_id": "m",
    "choices": [{"index": 0, "turns": ["one", "more"]}],
    "tstamp": 1.5,
}
ARENA_HARD_1 = {
    **MT_BENCH,
    "choices": [{"index": 0, "turns": [{"content": "one", "token_len": 7}]}],
}
ARENA_HARD_2 = {
    "uid": "p1",
    "ans_id": "x",
    "model": "m",
    "messages": [
        {"role": "user", "content": "What is 1?"},
        {"role": "assistant", "content": {"answer": "one"}},
    ],
    "metadata": {"token_len": 7},
}
LM_EVAL = {
    "doc_id": 0,
    "doc": {"question": "What is 1?"},
    "target": "1",
    "arguments": {"gen_args_0": {"arg_0": "Q: What is 1?\nA:", "arg_1": {"until": ["\n"]}}},
    "resps": [["one"]],
    "filtered_resps": ["one"],
    "filter": "none",
    "exact_match": float("nan"),
}
INSPECT = {
    "version": 2,
    "status": "success",
    "eval": {"task": "t", "model": "m"},
    "samples": [
        {
            "id": 1,
            "epoch": epoch,
            "input": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "What is 1?"},
            ],
            "target": "1",
            "output": {
                "model": "m",
                "choices": [
                    {
                        "message": {
                            "role": "assistant",
                            "content": [
                                {"type": "reasoning", "reasoning": "hm"},
                                {"type": "text", "text": "one" * epoch},
                            ],
                        },
                        "stop_reason": "max_tokens",
                    }
                ],
                "usage": {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
            },
        }
        for epoch in (1, 2)
    ],
}
BATCH = {
    "id": "batch_req_1",
    "custom_id": "p1",
    "response": {
        "status_code": 200,
        "body": {
            "model": "m",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "one"},
                    "finish_reason": "length",
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 7},
        },
    },
    "error": None,
}
CLAUDE_BATCH: dict[str, Any] = {
    "custom_id": "p1",
    "result": {
        "type": "succeeded",
        "message": {
            "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "one"}],
            "stop_reason": "max_tokens",
            "usage": {"input_tokens": 5, "output_tokens": 7},
        },
    },
}
RESPONSES_BATCH = {
    "custom_id": "p1",
    "response": {
        "status_code": 200,
        "body": {
            "model": "m",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "message", "content": [{"type": "output_text", "text": "one"}]},
            ],
            "usage": {"input_tokens": 5, "output_tokens": 7},
        },
    },
}


@pytest.mark.parametrize(
    ("content", "found", "response", "left_out"),
    [
        ([ALPACA], "alpaca-eval", GeneratedResponse("p1", "one", "recorded"), {}),
        ([DOLLY], "alpaca-eval", GeneratedResponse("p1", "one", "recorded"), {}),
        (
            MT_BENCH,
            "mt-bench",
            GeneratedResponse("1", "one", "recorded"),
            {LATER_TURN: 1},
        ),
        (ARENA_HARD_1, "arena-hard-v0.1", GeneratedResponse("1", "one", "recorded", None, 7), {}),
        (ARENA_HARD_2, "arena-hard", GeneratedResponse("p1", "one", "recorded", None, 7), {}),
        (LM_EVAL, "lm-eval", GeneratedResponse("p1", "one", "recorded"), {}),
        (INSPECT, "inspect", GeneratedResponse("p1", "one", "length", 5, 7), {FURTHER_SAMPLE: 1}),
        ([INSPECT], "inspect", GeneratedResponse("p1", "one", "length", 5, 7), {FURTHER_SAMPLE: 1}),
        (BATCH, "openai-batch", GeneratedResponse("p1", "one", "length", 5, 7), {}),
        (RESPONSES_BATCH, "openai-batch", GeneratedResponse("p1", "one", "length", 5, 7), {}),
        (CLAUDE_BATCH, "anthropic-batch", GeneratedResponse("p1", "one", "length", 5, 7), {}),
    ],
)
def test_files_of_other_tools_are_known_by_their_content(
    tmp_path: Path, content: Any, found: str, response: GeneratedResponse, left_out: dict[str, int]
) -> None:
    path = tmp_path / "file"
    is_whole = isinstance(content, list) or "samples" in content
    path.write_text(json.dumps(content, indent=2 if is_whole else None))
    entrant = RecordedEntrant(
        entrant_id="ada", loader="recorded", responses=ResponsesPlace(path="file")
    )
    prompts = [*PROMPTS, Prompt("1", "Who are you?", "recall")]
    recorded = load_recorded_responses(path, entrant, prompts=prompts)
    system = "s" if found == "inspect" else None
    assert recorded == RecordedResponses([response], found, {}, left_out, system)
    named = entrant.model_copy(update={"format": found})
    assert load_recorded_responses(path, named, prompts=prompts) == recorded


USER = {"role": "user", "content": "What is 1?"}
ASSISTANT = {"role": "assistant", "content": "one"}
CALL = {**ASSISTANT, "tool_calls": [{"id": "c", "function": "bash", "arguments": {}}]}
IMAGE = {"type": "image", "image": "attachment://734b3dc396aa9924b5f2a48de42561d2"}


def inspect_log(
    *samples: tuple[Any, Sequence[Mapping[str, Any]] | None, Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a log with a sample for each input, the messages of it, and the answer."""
    rows = [
        {
            "id": f"p{number}",
            "epoch": 1,
            "input": asked,
            **({} if messages is None else {"messages": messages}),
            "output": {"model": "m", "choices": [{"message": answer, "stop_reason": "stop"}]},
        }
        for number, (asked, messages, answer) in enumerate(samples, start=1)
    ]
    return {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": rows}


def write_log(path: Path, *samples: Any) -> Path:
    path.write_text(json.dumps(inspect_log(*samples)))
    return path


@pytest.mark.parametrize(
    ("asked", "messages", "answer", "reason"),
    [
        # The response answers the second question, which only `messages` may show.
        ([USER, ASSISTANT, {**USER, "content": "Sure?"}], None, ASSISTANT, CONVERSATION),
        ("What is 1?", [USER, ASSISTANT, {**USER, "content": "Sure?"}], ASSISTANT, CONVERSATION),
        ([USER, ASSISTANT, USER], [USER, ASSISTANT, USER, ASSISTANT], ASSISTANT, CONVERSATION),
        ("What is 1?", [USER, CALL, {"role": "tool", "content": "1"}, ASSISTANT], ASSISTANT, TOOLS),
        ("What is 1?", [USER, CALL], CALL, TOOLS),
        (
            [{"role": "user", "content": [{"type": "text", "text": "What is 1?"}, IMAGE]}],
            None,
            ASSISTANT,
            NOT_TEXT,
        ),
    ],
)
def test_a_conversation_that_is_more_than_a_prompt_and_its_answer_is_left_out_and_counted(
    tmp_path: Path, asked: Any, messages: Any, answer: Mapping[str, Any], reason: str
) -> None:
    second = ("What is 2?", [{**USER, "content": "What is 2?"}, ASSISTANT], ASSISTANT)
    recorded = load(write_log(tmp_path / "log.json", (asked, messages, answer), second))
    assert texts_of(recorded) == {"p2": "one"}
    assert recorded.missing == {"p1": reason}
    assert recorded.left_out == {reason: 1}


def test_a_system_text_of_all_rows_is_the_entrants_and_those_that_differ_are_left_out(
    tmp_path: Path,
) -> None:
    def sample(number: int, system: str) -> Any:
        user = {"role": "user", "content": f"What is {number}?"}
        said = [{"role": "system", "content": system}] if system else []
        return user["content"], [*said, user, ASSISTANT], ASSISTANT

    path = write_log(tmp_path / "log.json", sample(1, "Be brief."), sample(2, "Be brief."))
    recorded = load(path)
    assert (len(recorded.responses), recorded.system) == (2, "Be brief.")
    assert [sentence for sentence in recorded.warnings if "'Be brief.'" in sentence]
    path = write_log(path, sample(1, "Be brief."), sample(2, "You are a pirate."), sample(3, ""))
    recorded = load(path)
    assert (texts_of(recorded), recorded.system) == ({"p3": "one"}, None)
    assert recorded.missing == {"p1": SYSTEM, "p2": SYSTEM}


def test_a_prompt_that_a_solver_rewrote_is_known_by_either_text(tmp_path: Path) -> None:
    template = {"role": "user", "content": "Think. What is 1?"}
    recorded = load(
        write_log(tmp_path / "x.json", ("What is 1?", [template, ASSISTANT], ASSISTANT))
    )
    assert texts_of(recorded) == {"p1": "one"}


def test_an_answer_that_calls_a_tool_is_no_response(tmp_path: Path) -> None:
    body = {"model": "m", "choices": [{"message": CALL, "finish_reason": "stop"}]}
    called = {**BATCH, "custom_id": "p2", "response": {"status_code": 200, "body": body}}
    output = [{"type": "message", "content": []}, {"type": "web_search_call", "id": "w"}]
    searched = {
        **RESPONSES_BATCH,
        "custom_id": "p3",
        "response": {"status_code": 200, "body": {"model": "m", "output": output}},
    }
    recorded = load(jsonl(tmp_path / "x.jsonl", BATCH, called, searched))
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.missing == {"p2": TOOLS, "p3": NOT_TEXT}


def test_messages_may_stand_in_a_column(tmp_path: Path) -> None:
    rows = [
        {"q": [USER], "out": "one"},
        {"q": [{**USER, "content": "What is 2?"}, ASSISTANT, USER], "out": "two"},
    ]
    path = jsonl(tmp_path / "x.jsonl", *rows)
    recorded = load(path, columns={"prompt": "q", "response": "out"})
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.missing == {"p2": CONVERSATION}


def test_a_prompt_is_known_by_its_text_before_its_id(tmp_path: Path) -> None:
    edited = {**ARENA_HARD_2, "messages": [{"role": "user", "content": "What was 1?"}]}
    asked = {**ARENA_HARD_2, "uid": "p3"}
    recorded = load(jsonl(tmp_path / "x.jsonl", edited, asked))
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.left_out == {OTHER_TEXT: 1}


def test_a_file_of_several_models_asks_which(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "x.jsonl", ALPACA, {**ALPACA, "output": "eins", "generator": "n"})
    (problem,) = problems_of(path)
    assert "2 models ('m', 'n')" in problem
    recorded = load(path, model="n")
    assert texts_of(recorded) == {"p1": "eins"}
    assert recorded.left_out == {OTHER_MODEL: 1}
    (problem,) = problems_of(path, model="k")
    assert re.findall(r"'\w+'", problem.split(";")[0]) == ["'k'", "'m'", "'n'"]


def test_a_request_that_failed_leaves_its_prompt_without_a_response(tmp_path: Path) -> None:
    failed = {"custom_id": "p2", "response": None, "error": {"code": "batch_expired"}}
    refused = {"custom_id": "p3", "response": {"status_code": 400, "body": {}}, "error": None}
    recorded = load(jsonl(tmp_path / "x.jsonl", BATCH, failed, refused))
    assert texts_of(recorded) == {"p1": "one"}
    assert recorded.missing == {"p2": f"{FAILED} (batch_expired)", "p3": f"{FAILED} (400)"}
    errored = {"custom_id": "p2", "result": {"type": "expired"}}
    recorded = load(jsonl(tmp_path / "y.jsonl", CLAUDE_BATCH, errored))
    assert recorded.missing == {"p2": f"{FAILED} (expired)"}


def test_a_task_that_was_scored_by_likelihoods_holds_no_responses(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "x.jsonl", {**LM_EVAL, "resps": [[[-1.5, False]]]})
    (problem,) = problems_of(path)
    assert problem.startswith("x.jsonl:1: resps is [[[-1.5, False]]];")


def test_what_tells_no_format_is_refused_with_the_formats(tmp_path: Path) -> None:
    (problem,) = problems_of(jsonl(tmp_path / "x.jsonl", {"a": 1, "b": 2}))
    assert re.search(r"unknown format .*\ba, b\); .*alpaca-eval", problem)
    (problem,) = problems_of(jsonl(tmp_path / "x.jsonl", ALPACA), format="chess")
    assert re.search(r"'chess'; .* tournament, alpaca-eval", problem)


def test_half_a_character_is_refused_in_every_kind_of_file(tmp_path: Path) -> None:
    row = {"prompt_id": "p1", "response": "\ud83d"}
    (tmp_path / "list.json").write_text(json.dumps([row]))
    for path in (jsonl(tmp_path / "x.jsonl", row), tmp_path / "list.json"):
        (problem,) = problems_of(path)
        assert "half a character" in problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"PAR1 cut", "Parquet"),
        (b"PK\x03\x04 an eval log", "inspect log convert --to json"),
        (b"PK\x03\x04 a workbook", "or an Excel workbook"),
        (b'{"samples": [', "not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "ada.parquet"
    if content is not None:
        path.write_bytes(content)
    (problem,) = problems_of(path)
    assert problem.startswith((str(path), "ada.parquet"))
    assert said in problem


@pytest.mark.parametrize(
    ("answer", "end", "read"),
    [
        ("<think>Hm.</think>\none", "stop", ("one", {"thought": "Hm.", "thought_words": 1})),
        ("Hm.\n[/THINK]one", "eos", ("one", {"thought": "Hm.", "thought_words": 1})),
        ("<reasoning>Hm.", "length", ("", {"thought": "Hm.", "thought_words": 1})),
        (None, "length", ("", {})),
        ("one ", "stop", ("one ", {})),
        ("one", "content_filter", FILTERED),
        ("one", "tool_calls", CALLS_TOOLS),
        (None, "stop", NO_TEXT),
    ],
)
def test_a_recorded_answer_is_read_as_any_other(
    tmp_path: Path, answer: str | None, end: str, read: object
) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt_id": "p1", "response": answer, "finish_reason": end},
        {"prompt_id": "p2", "response": "two", "finish_reason": "stop"},
    ]
    jsonl(tmp_path / "ada.jsonl", *rows)
    entrant = RecordedEntrant(
        entrant_id="ada",
        loader="recorded",
        responses=ResponsesPlace(path="ada.jsonl"),
        strip="think",
    )
    recorded = load_recorded_responses(tmp_path / "ada.jsonl", entrant, prompts=PROMPTS)
    first = recorded.responses[0]
    if isinstance(read, tuple):
        assert (first.text, dict(first.diagnostics)) == read
    else:
        assert (first.prompt_id, recorded.missing, recorded.left_out) == (
            "p2",
            {"p1": read},
            {read: 1},
        )


OF_ANY_KIND = [ALPACA, LM_EVAL, BATCH, RESPONSES_BATCH, CLAUDE_BATCH]


@pytest.mark.parametrize(
    ("content", "container"),
    [
        *product([*OF_ANY_KIND, ARENA_HARD_1, ARENA_HARD_2], ["list", "lines"]),
        *product(OF_ANY_KIND, ["parquet"]),
    ],
)
def test_a_container_is_no_property_of_a_format_and_an_unknown_column_is_named(
    tmp_path: Path, content: Any, container: str
) -> None:
    rows = [content, {**content, "custom_id": "p2", "question_id": "p2", "uid": "p2"}]
    rows = [{**each, "nobody_knows": f"x{n}"} for n, each in enumerate(rows)]
    path = tmp_path / "file"
    if container == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = "\n".join(map(json.dumps, rows))
        path.write_text(json.dumps(rows) if container == "list" else lines)
    entrant = RecordedEntrant(
        entrant_id="ada", loader="recorded", responses=ResponsesPlace(path="file")
    )
    prompts = [*PROMPTS, Prompt("1", "Who are you?", "recall")]
    recorded = load_recorded_responses(path, entrant, prompts=prompts)
    assert "nobody_knows (2 of 2 filled)" in recorded.note
    assert recorded.note in recorded.warnings[-1]
    assert recorded.responses[0].text == "one"


def test_a_chat_in_the_arguments_of_lm_eval_is_read_as_messages(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "What is 1?"}]
    written = json.dumps(messages, indent=1)
    row = {**LM_EVAL, "doc": {}, "arguments": [[written, {"until": []}]]}
    recorded = load(jsonl(tmp_path / "ada.jsonl", row))
    assert (texts_of(recorded), recorded.system) == ({"p1": "one"}, "s")


def test_a_column_of_our_own_files_that_nobody_knows_is_named_too(tmp_path: Path) -> None:
    rows = [{"prompt_id": f"p{n}", "response": f"{n}!", "context": f"c{n}"} for n in (1, 2, 3)]
    assert load(jsonl(tmp_path / "ada.jsonl", *rows)).note == "not used: context (3 of 3 filled)"
