"""The formats of prompts and responses in other tools' files: what identifies one, and its rows.

Missing values are not made up: if a file does not say how a response ended, its finish reason is
`recorded`.

Sources: AlpacaEval, https://github.com/tatsu-lab/alpaca_eval; arena-hard,
https://github.com/lmarena/arena-hard-auto; MT-bench, https://github.com/lm-sys/FastChat; lm-eval,
https://github.com/EleutherAI/lm-evaluation-harness; inspect, https://inspect.aisi.org.uk; the batch
files of OpenAI, https://platform.openai.com/docs/guides/batch.
"""

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, get_args

from tournament_assets.foundation.errors import InputError
from tournament_assets.storage.foreign_tables import Row, TableFormat
from tournament_assets.storage.row_files import FileSample
from tournament_assets.tournament.completions import (
    Completion,
    End,
    Message,
    PartKind,
    end_of,
    parts_of,
    text_of,
)
from tournament_assets.tournament.entrants import SampleColumn
from tournament_assets.tournament.prompts import BANK_FIELDS

OWN = "tournament"
"""The name of our own format."""
LATER_TURN = "later turns: only the first one is judged"
FURTHER_SAMPLE = "further samples of a prompt: only the first one is judged"
NO_TEXT = "no text: the row holds none"
FAILED = "no text: the request failed"
CONVERSATION = "a conversation: the response answers its last turn, and a prompt is a single one"
TOOLS = "a use of tools: neither a prompt nor a response holds one"
SHAPED = "a reply of a given shape, such as JSON: a prompt cannot ask for one"
NOT_TEXT = "an image or another part that is not text"
SYSTEM = "a system text of its own: those of a model's rows differ, and a prompt holds none"

_RESPONSE_KEYS = ("response", "response_text", "text")
_OWN_COLUMNS = frozenset(
    {*BANK_FIELDS, *_RESPONSE_KEYS, "entrant_id", "finish_reason", "prompt_tokens"}
    | {"response_tokens", "diagnostics"}
)
"""The columns of our own files."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a row of a file holds: a prompt, a response, or both.

    Attributes:
        where: Where the row is (`file:line`).
        prompt_ids: What may be the prompt's id.
        prompt_texts: What may be the prompt's text, as first asked.
        response: The answer; None if there is none.
        missing: Why there is no answer.
        model: Who answered, if the row says.
        finish_reason: How it ended, as an `End`.
        prompt_tokens: Tokens the model read; None if not counted.
        response_tokens: Tokens the model wrote; None if not counted.
        gold_answer: The accepted answer, if the row has one.
        category: The kind of prompt, if the row says.
        left_out: A reason for each other part of the row that is not judged.
        system: The system text under which it was answered, if the row has one.
        lost: Why the row can be used neither as a prompt nor as a response, if a part of it would
            be lost.
        row: The row as the file has it.
    """

    where: str = ""
    prompt_ids: tuple[str, ...] = ()
    prompt_texts: tuple[str, ...] = ()
    response: str | None = None
    missing: str = NO_TEXT
    model: str | None = None
    finish_reason: End = End.UNSAID
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    gold_answer: str | None = None
    category: str | None = None
    left_out: tuple[str, ...] = ()
    system: str | None = None
    lost: str | None = None
    row: Row = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SampleFormat(TableFormat):
    """A format of prompts and responses.

    Attributes:
        parse: Reads one row; raises `InputError` with what is wrong, without saying where.
        rows_in: The key that holds the rows, if the file is one object.
    """

    parse: Callable[[Row], Sample]
    rows_in: str | None = None


COLUMN_FIELDS = get_args(SampleColumn)
"""The fields that a column can be mapped to."""


def format_of_columns(
    sample: FileSample, title: str, columns: Mapping[SampleColumn, str]
) -> SampleFormat:
    """Return the format of a table whose columns somebody has named.

    Args:
        sample: The beginning of the file.
        title: What the file is called in messages.
        columns: The column of each field; a dot leads into a column that is an object.
    """
    absent = [name for name in columns.values() if name.split(".")[0] not in sample.columns]
    if absent:
        raise InputError(
            f"{title}: column {', '.join(map(repr, absent))} is missing; expected some of "
            f"{', '.join(sorted(sample.columns))[:300]}"
        )

    def parse(row: Row) -> Sample:
        values = {name: value_at(row, column) for name, column in columns.items()}
        response = values.get("response")
        conversation = _read_conversation(values.get("prompt"))
        return Sample(
            prompt_ids=_words(values.get("prompt_id")),
            prompt_texts=conversation.texts,
            system=conversation.system,
            lost=conversation.lost,
            response=response if isinstance(response, str) else None,
            model=_word(values.get("model")),
            finish_reason=end_of(values.get("finish_reason")),
            prompt_tokens=_count(values.get("prompt_tokens")),
            response_tokens=_count(values.get("response_tokens")),
        )

    return SampleFormat("columns", "a table", (), parse)


def value_at(row: Row, name: str) -> Any:
    """Return a value of a row, None if missing; a dot in the name leads into objects."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _words(*values: object) -> tuple[str, ...]:
    """Return the non-empty values as texts, each once."""
    texts = [str(value) if type(value) is int else value for value in values]
    return tuple(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))


def _inside(value: object) -> Row:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _Conversation:
    """What a model was given to answer.

    Attributes:
        texts: The user's text, if there is one.
        system: The system text, if there is one.
        lost: Why the texts are incomplete, if they are.
    """

    texts: tuple[str, ...] = ()
    system: str | None = None
    lost: str | None = None


def _read_conversation(messages: object) -> _Conversation:
    """Read what was said before an answer: a plain text, or messages, one of them a user's."""
    if not isinstance(messages, list):
        return _Conversation(_words(messages))
    turns = [turn for turn in messages if isinstance(turn, Mapping)]
    of_role: dict[str, list[str | None]] = {}
    for turn in turns:
        message = Message.read(turn)
        of_role.setdefault(message.role, []).append(message.text)
    lost = next((reason for turn in turns if (reason := _loss_of(turn)) is not None), None)
    if of_role.keys() - {"system", "user", "assistant"}:
        lost = TOOLS
    if lost is None and (len(of_role.get("user", ())) > 1 or "assistant" in of_role):
        lost = CONVERSATION
    system = "\n\n".join(text for text in of_role.get("system", ()) if text)
    return _Conversation(_words(*of_role.get("user", ())[:1]), system or None, lost)


def _loss_of(message: Row) -> str | None:
    """Return what a message's text leaves out; None if it is complete."""
    return _loss_in(Message.read(message).kinds)


def _loss_in(kinds: AbstractSet[PartKind]) -> str | None:
    if kinds & {"tool_call", "tool_result"}:
        return TOOLS
    return NOT_TEXT if kinds & {"image", "other"} else None


def _own(row: Row) -> Sample:
    text = next((row[key] for key in _RESPONSE_KEYS if row.get(key) is not None), None)
    if text is not None and not isinstance(text, str):
        raise InputError(f"the response is {text!r:.60}; expected a text")
    return Sample(
        prompt_ids=_words(row.get("prompt_id")),
        response=text,
        model=_word(row.get("entrant_id")),
        finish_reason=end_of(row.get("finish_reason")),
        prompt_tokens=_count(row.get("prompt_tokens")),
        response_tokens=_count(row.get("response_tokens")),
        gold_answer=_word(row.get("gold_answer")),
        category=_word(row.get("category")),
    )


def _alpaca_eval(row: Row) -> Sample:
    """Read a row of Alpaca, AlpacaEval or Dolly: their templates put an input below the prompt."""
    output = row.get("output", row.get("response"))
    inputs = [row.get(name) for name in ("input", "context")]
    parts = [*_words(row.get("instruction")), *_words(*inputs)]
    return Sample(
        lost=NOT_TEXT if any(value and not isinstance(value, str) for value in inputs) else None,
        prompt_texts=_words("\n\n".join(parts)),
        response=output if isinstance(output, str) else None,
        model=_word(row.get("generator")),
        category=_word(row.get("dataset")) or _word(row.get("category")),
    )


def _chat_answer(row: Row) -> Sample:
    """Read an answer of FastChat: choices with turns, or arena-hard's messages."""
    turns, others = _turns(row)
    first = turns[0] if turns else None
    counts = {**_inside(row.get("metadata")), **_inside(first)}
    before, answer = _first_turn(row.get("messages"))
    conversation = _read_conversation(before)
    return Sample(
        prompt_ids=_words(row.get("uid"), row.get("question_id")),
        prompt_texts=conversation.texts,
        system=conversation.system,
        lost=conversation.lost or _loss_of(answer),
        response=text_of(parts_of(first)),
        model=_word(row.get("model")) or _word(row.get("model_id")),
        finish_reason=end_of(counts.get("finish_reason")),
        response_tokens=_count(counts.get("token_len")),
        left_out=(LATER_TURN,) * (len(turns) - 1) + (FURTHER_SAMPLE,) * others,
    )


def _first_turn(messages: object) -> tuple[list[Row], Row]:
    """Return the messages before a model's first answer, and the answer."""
    turns = messages if isinstance(messages, list) else []
    turns = [message for message in turns if isinstance(message, Mapping)]
    answers = [n for n, message in enumerate(turns) if message.get("role") == "assistant"]
    end = answers[0] if answers else len(turns)
    return turns[:end], turns[end] if answers else {}


def _turns(row: Row) -> tuple[list[Any], int]:
    """Return the model's turns, and how many further choices there are."""
    messages = row.get("messages")
    if isinstance(messages, list):
        spoken = [message for message in messages if isinstance(message, Mapping)]
        return [turn.get("content") for turn in spoken if turn.get("role") == "assistant"], 0
    choices = row.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        raise InputError(f"choices is {choices!r:.60}; expected a list with an object with turns")
    turns = choices[0].get("turns")
    if not isinstance(turns, list):
        raise InputError(f"turns is {turns!r:.60}; expected a list")
    return turns, len(choices) - 1


def _chat_question(row: Row) -> Sample:
    turns = row.get("turns")
    turns = turns if isinstance(turns, list) else [row.get("prompt")]
    reference = row.get("reference")
    first = reference[0] if isinstance(reference, list) and reference else reference
    return Sample(
        prompt_ids=_words(row.get("uid"), row.get("question_id")),
        prompt_texts=_words(text_of(parts_of(turns[0]))) if turns else (),
        gold_answer=_word(first),
        category=_word(row.get("category")),
        left_out=(LATER_TURN,) * (len(turns) - 1),
    )


def _lm_eval(row: Row) -> Sample:
    responses = row.get("resps")
    first = responses[0] if isinstance(responses, list) and responses else None
    given = _generated_from(row.get("arguments"))
    conversation = _read_conversation(_messages_in(given))
    text = first[0] if isinstance(first, list) and first else first
    if text is not None and not isinstance(text, str):
        raise InputError(
            f"resps is {responses!r:.60}; expected texts; this task was scored by likelihoods and "
            "holds no responses"
        )
    inside = _inside(row.get("doc"))
    further = len(first) - 1 if isinstance(first, list) else 0
    return Sample(
        prompt_ids=_words(inside.get("prompt_id"), inside.get("id"), row.get("doc_id")),
        prompt_texts=(*conversation.texts, *_words(*inside.values())),
        system=conversation.system,
        lost=conversation.lost,
        response=text,
        gold_answer=_word(row.get("target")),
        left_out=(FURTHER_SAMPLE,) * further,
    )


def _generated_from(arguments: object) -> object:
    """Return the text that lm-eval gave the model, as either of its versions writes it."""
    if isinstance(arguments, Mapping):
        arguments = next(iter(arguments.values()), None)
        return arguments.get("arg_0") if isinstance(arguments, Mapping) else None
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    return first[0] if isinstance(first, list) and first else first


def _messages_in(text: object) -> object:
    """Return the messages of a chat that a text holds as JSON; another text as it is."""
    if not isinstance(text, str) or not text.lstrip().startswith("["):
        return text
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_chat = all(isinstance(each, Mapping) and "role" in each for each in messages)
    return messages if messages and is_chat else text


def _inspect(row: Row) -> Sample:
    output = _inside(row.get("output"))
    choices = output.get("choices")
    choices = choices if isinstance(choices, list) else []
    choice = _inside(choices[0]) if choices else {}
    message = _inside(choice.get("message"))
    usage = _inside(output.get("usage"))
    has_failed = bool(row.get("error") or output.get("error"))
    text = Message.read(message).text
    further = (FURTHER_SAMPLE,) * max(len(choices) - 1, 0)
    source = _read_conversation(row.get("input"))
    conversation = _read_conversation(_before_answer(row))
    return Sample(
        prompt_ids=_words(row.get("id")),
        prompt_texts=tuple(dict.fromkeys(source.texts + conversation.texts)),
        system=conversation.system,
        lost=conversation.lost or source.lost or _loss_of(message),
        response=None if has_failed or row.get("epoch", 1) != 1 else text,
        missing=FURTHER_SAMPLE if row.get("epoch", 1) != 1 else FAILED if has_failed else NO_TEXT,
        model=_word(output.get("model")),
        finish_reason=end_of(choice.get("stop_reason")),
        prompt_tokens=_count(usage.get("input_tokens")),
        response_tokens=_count(usage.get("output_tokens")),
        gold_answer=_word(row.get("target")),
        left_out=further,
    )


def _before_answer(row: Row) -> object:
    """Return what a model saw before a sample's output, as solvers may add to its input."""
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        return row.get("input")
    return messages[:-1] if _inside(messages[-1]).get("role") == "assistant" else messages


def _batch_answer(row: Row) -> Sample:
    answer = _inside(row.get("response")) or _inside(row.get("result"))
    body = _inside(answer.get("body", answer.get("message")))
    has_failed = row.get("error") or answer.get("status_code", 200) != 200
    completion = None if has_failed else Completion.of_answer(body)
    if completion is None:
        kinds = (_inside(row.get("error")).get("code"), answer.get("type"), body.get("status"))
        kind = next((str(each) for each in kinds if each), None) or answer.get("status_code")
        why = f"{FAILED} ({kind})" if kind not in (None, 200) else FAILED
        return Sample(prompt_ids=_words(row.get("custom_id")), missing=why)
    usage, choices = _inside(body.get("usage")), body.get("choices")
    return Sample(
        prompt_ids=_words(row.get("custom_id")),
        response=completion.text,
        lost=_loss_in({part.kind for part in completion.parts}),
        model=completion.model,
        finish_reason=end_of(completion.end),
        prompt_tokens=_count(usage.get("prompt_tokens", usage.get("input_tokens"))),
        response_tokens=_count(usage.get("completion_tokens", usage.get("output_tokens"))),
        left_out=(FURTHER_SAMPLE,) * (len(choices) - 1 if isinstance(choices, list) else 0),
    )


def _batch_request(row: Row) -> Sample:
    body = _inside(row.get("body", row.get("params")))
    content = next((body[key] for key in ("messages", "input", "prompt") if key in body), None)
    conversation = _read_conversation(content)
    own = text_of(parts_of(body.get("system")))
    system = _words(own, body.get("instructions"), conversation.system)
    return Sample(
        prompt_ids=_words(row.get("custom_id")),
        prompt_texts=conversation.texts,
        system="\n\n".join(system) or None,
        lost=_loss_of_request(body) or conversation.lost,
    )


def _loss_of_request(body: Row) -> str | None:
    """Return what a request asks for besides an answer to its prompt; None if nothing."""
    if any(body.get(name) for name in ("tools", "functions", "function_call")):
        return TOOLS
    if body.get("web_search_options"):
        return TOOLS
    if any(body.get(name) for name in ("previous_response_id", "conversation")):
        return CONVERSATION
    is_stored = isinstance(body.get("prompt"), Mapping) or body.get("suffix")
    if is_stored or set(_listed(body.get("modalities"))) - {"text"}:
        return NOT_TEXT
    form = body.get("response_format") or _inside(body.get("text")).get("format")
    return SHAPED if form and _inside(form).get("type", "text") != "text" else None


def _listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _has_scored_turns(row: Row) -> bool:
    """Return whether the turns of an answer are objects, as arena-hard's are."""
    try:
        return any(isinstance(turn, Mapping) for turn in _turns(row)[0])
    except InputError:
        return False


_ALL = (
    SampleFormat(OWN, "this project", ("prompt_id",), _own, known=_OWN_COLUMNS),
    SampleFormat(
        "alpaca-eval",
        "Alpaca, AlpacaEval or Dolly",
        ("instruction",),
        _alpaca_eval,
        one_of=frozenset({"output", "response"}),
    ),
    SampleFormat("arena-hard", "arena-hard's answers", ("uid", "messages"), _chat_answer),
    SampleFormat(
        "arena-hard-v0.1",
        "arena-hard's first answers",
        ("question_id", "choices"),
        _chat_answer,
        tells=lambda sample: _has_scored_turns(sample.first),
    ),
    SampleFormat(
        "mt-bench",
        "MT-bench's answers",
        ("question_id", "choices"),
        _chat_answer,
        tells=lambda sample: not _has_scored_turns(sample.first),
    ),
    SampleFormat(
        "questions",
        "the questions of MT-bench or arena-hard",
        ("category",),
        _chat_question,
        one_of=frozenset({"turns", "prompt"}),
        tells=lambda sample: bool({"question_id", "uid"} & sample.columns),
    ),
    SampleFormat("lm-eval", "lm-eval's samples", ("doc_id", "doc", "resps"), _lm_eval),
    SampleFormat(
        "inspect",
        "logs of inspect, as JSON",
        ("eval", "samples"),
        _inspect,
        kinds=("json object", "json lines", "json list"),
        rows_in="samples",
    ),
    SampleFormat(
        "openai-batch", "outputs of OpenAI's batches", ("custom_id", "response"), _batch_answer
    ),
    SampleFormat(
        "anthropic-batch", "results of Anthropic's batches", ("custom_id", "result"), _batch_answer
    ),
    SampleFormat(
        "anthropic-batch-input",
        "requests of Anthropic's batches",
        ("custom_id", "params"),
        _batch_request,
    ),
    SampleFormat(
        "openai-batch-input", "requests of OpenAI's batches", ("custom_id", "body"), _batch_request
    ),
)
FORMATS: Mapping[str, SampleFormat] = {each.name: each for each in _ALL}
"""Every format by its name."""
