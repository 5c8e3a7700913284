"""What a model wrote, as it came, and how it is read: one reader for judges and entrants.

A completion is kept whole. What it says (the answer, the thought before it, why it ended) is read
from it anew each time, so that a better reader corrects what is stored without asking again; then
`READING_VERSION` is increased.

Sources of the marks: the chat templates of the models named beside them; OpenAI's harmony format,
https://github.com/openai/harmony.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any, Literal, Self

from tournament_assets.foundation.json_lines import JsonObject

READING_VERSION = 1
"""Increase it whenever a completion is read differently: what was made of it is out of date."""

PartKind = Literal["text", "thinking", "tool_call", "tool_result", "image", "refusal", "other"]
_NAMES: Mapping[PartKind, str] = {
    "text": "text input_text output_text",
    "thinking": "thinking reasoning redacted_thinking summary_text reasoning_text",
    "tool_call": "tool_use tool_call function_call custom_tool_call",
    "tool_result": "tool_result function_call_output",
    "image": "image image_url input_image",
    "refusal": "refusal",
}
"""The services' names for each kind of part."""
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message.

    Attributes:
        text: What it says; of a call or a result its JSON, of an image the SHA-256 of its JSON.
    """

    kind: PartKind
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said in a conversation, whatever the dialect it came in.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`; another word as it came.
    """

    role: str
    parts: tuple[Part, ...]

    @classmethod
    def read(cls, message: JsonObject) -> Self:
        """Read a message of Chat Completions, Messages, Responses, or a tool that logs them."""
        role = str(message.get("role"))
        thoughts = (message.get(key) for key in ("reasoning_content", "reasoning", "thinking"))
        apart = next((text for text in thoughts if isinstance(text, str) and text), None)
        calls = message.get("tool_calls") or message.get("function_call") or []
        refusal = message.get("refusal")
        return cls(
            {"developer": "system"}.get(role, role),
            (
                *([Part("thinking", apart)] if apart else []),
                *parts_of(message.get("content")),
                *([Part("refusal", str(refusal))] if refusal else []),
                *(
                    Part("tool_call", _as_json(each))
                    for each in (calls if isinstance(calls, list) else [calls])
                ),
            ),
        )

    @property
    def text(self) -> str | None:
        """Its texts, joined; None if it has none."""
        return text_of(self.parts)

    @property
    def kinds(self) -> frozenset[PartKind]:
        """The kinds of its parts."""
        return frozenset(part.kind for part in self.parts)


def parts_of(content: object) -> tuple[Part, ...]:
    """Return the parts of a content: a text, a part, or a list of both."""
    if isinstance(content, str):
        return (Part("text", content),)
    if isinstance(content, list):
        return tuple(part for each in content for part in parts_of(each))
    if not isinstance(content, Mapping):
        return ()
    if "type" not in content and ("answer" in content or "content" in content):
        # Arena-hard stores a text next to its scores.
        return parts_of(content.get("answer", content.get("content")))
    name = str(content.get("type", "text"))
    kind = _KINDS.get(name, "other")
    if kind in ("text", "thinking", "refusal"):
        inside = next((content[key] for key in ("text", name, "summary") if content.get(key)), "")
        return (Part(kind, "".join(part.text for part in parts_of(inside))),)
    written = _as_json(content)
    return (Part(kind, sha256(written.encode()).hexdigest() if kind == "image" else written),)


def _as_json(value: object) -> str:
    """Return a value as ASCII JSON, NaN and infinity included."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def text_of(parts: Iterable[Part], kind: PartKind = "text") -> str | None:
    """Return the texts of the parts of a kind, joined; None if there is none."""
    texts = [part.text for part in parts if part.kind == kind]
    return "".join(texts) if texts else None


class End(StrEnum):
    """Why a completion ended, by our names: the finish reason of a response."""

    STOP = "stop"
    """The model ended it, or a stop text."""
    LENGTH = "length"
    """The token cap cut it off."""
    CONTEXT = "context"
    """The model's context was full."""
    FILTER = "filter"
    """A filter or the model's own safeguard withheld it."""
    TOOLS = "tools"
    """The model wants to use a tool."""
    BROKEN = "broken"
    """The service broke it off: asking again may help."""
    UNSAID = "recorded"
    """Nobody says."""
    OTHER = "other"
    """A word that nobody here knows."""


_WORDS: Mapping[End, str] = {
    End.STOP: "stop end_turn stop_sequence eos eos_token completed complete end finish finished",
    End.LENGTH: "length max_tokens max_output_tokens max_completion_tokens max_length model_length",
    End.CONTEXT: "model_context_window_exceeded context_length_exceeded",
    End.FILTER: "refusal content_filter content_filtered safety blocklist prohibited_content "
    "recitation spii guardrail_intervened error_toxic sensitive",
    End.TOOLS: "tool_use tool_calls tool_call function_call pause_turn",
    End.BROKEN: "error abort aborted cancelled canceled failed network_error timeout "
    "insufficient_system_resource in_progress queued",
    End.UNSAID: "none null unknown recorded",
}
"""The services' words for each end, in small letters."""
_ENDS = {word: end for end, words in _WORDS.items() for word in words.split()}
_ENDS |= {end.value: end for end in End}


def end_of(word: object) -> End:
    """Return what a service's word for an end means; `OTHER` if nobody here knows it."""
    if word in (None, ""):
        return End.UNSAID
    plain = str(word).strip().lower().replace("-", "_").replace(" ", "_").rpartition(".")[2]
    return _ENDS.get(plain.removeprefix("finish_reason_"), End.OTHER)


Marks = tuple[str, str]
"""What opens a thought and what closes it."""
THOUGHT_MARKS: tuple[Marks, ...] = (
    ("<think>", "</think>"),  # DeepSeek R1, Qwen 3, LFM 2.5 and most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),  # EXAONE Deep
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<mm:think>", "</mm:think>"),
    ("[THINK]", "[/THINK]"),  # Magistral, Ministral 3
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command A Reasoning
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # Sky-T1, OpenThinker
    ("<|thinking|>", "<|/thinking|>"),
    ("◁think▷", "◁/think▷"),  # Kimi-VL
    ("<unused94>thought", "<unused95>"),  # MedGemma
)
"""What models write around a thought. Their case does not count."""
_MARK_OF = {
    mark.lower(): mark for mark in (*(m for pair in THOUGHT_MARKS for m in pair), "<|channel|>")
}
_THOUGHT_MARK = re.compile("|".join(map(re.escape, _MARK_OF)), re.ASCII | re.IGNORECASE)
_NAMES_A_THOUGHT = re.compile(r"think|thought|reason", re.IGNORECASE)
_CLOSES = re.compile(r"/|end|close|stop", re.IGNORECASE)


def marks_among(tokens: Iterable[str]) -> tuple[Marks, ...]:
    """Return the marks of thoughts among a tokenizer's special tokens that no table has."""
    ours = {mark.lower() for marks in THOUGHT_MARKS for mark in marks}
    names = [
        token for token in tokens if _NAMES_A_THOUGHT.search(token) and token.lower() not in ours
    ]
    closing = {_CLOSES.sub("", token).lower(): token for token in names if _CLOSES.search(token)}
    openings = {
        re.sub(r"begin|start|open", "", token, flags=re.IGNORECASE).lower(): token
        for token in names
        if not _CLOSES.search(token)
    }
    return tuple(
        (opening, closing[name])
        for name, opening in sorted(openings.items())
        if name in closing and closing[name] != opening
    )


_HARMONY = frozenset(
    f"<|{name}|>" for name in ("channel", "message", "start", "end", "return", "call", "constrain")
)
"""What separates the channels of gpt-oss."""


def is_thought_mark(token: str, marks: Iterable[Marks] = ()) -> bool:
    """Return whether a special token tells thoughts apart, and so has to stay in the text."""
    known = {mark.lower() for pair in (*THOUGHT_MARKS, *marks) for mark in pair}
    return token.lower() in known | _HARMONY


@dataclass(frozen=True, slots=True)
class ToldApart:
    """A text in its two parts.

    Attributes:
        response: What is left for the reader.
        thought: What was cut; None if nothing was.
        is_certain: Whether the text or its prompt opened the thought; otherwise only a mark that
            closes one tells of it.
    """

    response: str
    thought: str | None = None
    is_certain: bool = True


def opens_thought(text: str, marks: Iterable[Marks] = ()) -> bool:
    """Return whether a text, such as a prompt in its template, ends inside a thought."""
    ending = text.rstrip().lower()
    openings = [opening.lower() for opening, _ in (*THOUGHT_MARKS, *marks)]
    return ending.endswith((*openings, "<|channel|>analysis<|message|>"))


def cut_thought(text: str, *, is_open: bool = False, marks: Iterable[Marks] = ()) -> ToldApart:
    """Cut what a model thinks aloud at the beginning of a text.

    A thought ends at the first mark that closes it. It begins with a mark, or where a chat template
    has opened it: before the text. One that never ends is a thought without a response.

    Args:
        text: What the model wrote.
        is_open: Whether the prompt ended inside a thought.
        marks: Marks of this model, besides the usual ones.
    """
    own_marks = list(marks)
    if not (is_open or own_marks or _THOUGHT_MARK.search(text) or _WITHOUT_MARKS.match(text)):
        return ToldApart(text)
    if (harmony := _cut_channels(text, is_open=is_open)) is not None:
        return harmony
    pairs = [
        (opening.lower(), closing.lower()) for opening, closing in (*THOUGHT_MARKS, *own_marks)
    ]
    thoughts: list[str] = []
    is_certain, rest = True, text
    while True:
        begun = rest.lstrip()
        lowered = _lower(begun)
        pair = next((each for each in pairs if lowered.startswith(each[0])), None)
        start = 0 if pair is None else len(pair[0])
        closings = [
            (at, closing)
            for opening, closing in ([pair] if pair else pairs)
            if (at := lowered.find(closing, start)) >= 0
            and (pair or (is_open and not thoughts) or opening not in lowered[:at])
        ]
        is_thought = pair is not None or (is_open and not thoughts)
        if not is_thought and (thoughts or not closings):
            break
        if not closings:
            thoughts.append(begun[start:].strip())
            rest = ""
            break
        at, closing = min(closings)
        is_certain = is_certain and is_thought
        thoughts.append(begun[start:at].strip())
        rest = begun[at + len(closing) :]
    if not thoughts:
        return ToldApart(text)
    return ToldApart(rest.strip(), "\n\n".join(thoughts), is_certain)


def _lower(text: str) -> str:
    """Return ASCII letters in small, so that every character keeps its place."""
    return text.translate(_SMALL)


_SMALL = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(?P<channel>\w+)(?P<to>[^<]*)"
    r"(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start)\|>")
_WITHOUT_MARKS = re.compile(r"\s*analysis(?P<thought>.*?)assistantfinal(?P<answer>.*)", re.DOTALL)
"""The channels of gpt-oss after its special tokens were dropped."""


def _cut_channels(text: str, *, is_open: bool) -> ToldApart | None:
    """Read the channels of harmony: only `final` is for the reader; None of another text."""
    openings = list(_CHANNEL.finditer(text))
    if not openings:
        if text.lstrip().startswith("<|channel|>"):
            return ToldApart("", text.strip())  # the cap cut off even the channel's name
        dropped = _WITHOUT_MARKS.fullmatch(text)
        return dropped and ToldApart(dropped["answer"].strip(), dropped["thought"].strip())
    answers, thoughts = list[str](), list[str]()
    if is_open or text[: openings[0].start()].strip():
        before = _CHANNEL_END.split(text[: openings[0].start()])[0]
        (thoughts if is_open else answers).append(before.strip())
    for opening, following in zip(openings, [*openings[1:], None], strict=True):
        inside = text[opening.end() : following.start() if following else len(text)]
        words = _CHANNEL_END.split(inside)[0].strip()
        (answers if opening["channel"] == "final" else thoughts).append(words)
    return ToldApart("\n\n".join(answers).strip(), "\n\n".join(thoughts).strip() or None)


def thought_mark_in(text: str) -> str | None:
    """Return the first mark of a thought that a text holds; None if it holds none."""
    mark = _THOUGHT_MARK.search(text)
    return mark and _MARK_OF[_lower(mark[0])]


_CONTROL_TOKEN = re.compile(
    r"<[|\uff5c][^<>\n]{1,40}>|<[^<>\n|\uff5c]{1,40}[|\uff5c]>"  # ChatML, Llama, DeepSeek
    r"|</?s>|<</?SYS>>|</?(?:bos|eos|pad|unk|mask|eod|eot|sop|eop|im_start|im_end)>"
    r"|<(?:start|end)_of_(?:turn|text|image|utterance)>|<(?:extra_id_|unused|reserved)_?\d+>"
    r"|<(?:begin|end)_(?:of_)?\w{1,20}>|\[\|[\w ]{1,30}\|\]"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|IMG|ARGS)\]"
    r"|\[(?:gMASK|sMASK|BOS|EOS|CLS|SEP|PAD|UNK)\]",
    re.IGNORECASE,
)
"""What chat templates write between turns, as one token of their own."""
_BREAK = "\N{MIDDLE DOT}"
"""Stands behind the first character of a mark that a judge must not read as one."""


def mark_in(text: str) -> str | None:
    """Return the first mark of a thought or of a chat template in a text; None without any."""
    control = _CONTROL_TOKEN.search(text)
    thought = thought_mark_in(text)
    return thought if thought is not None or control is None else control[0]


def break_marks(text: str, *, of_templates: bool) -> str:
    """Return a text in which no mark is one: a visible dot stands in each.

    A judge that quotes a mark of a thought would be read as if it thought aloud. A mark of a chat
    template is a token of its own for a server that reads texts with their marks: it would see
    turns that nobody took.

    Args:
        of_templates: Whether to break those of chat templates, too.
    """
    for pattern in (_THOUGHT_MARK, *([_CONTROL_TOKEN] if of_templates else [])):
        text = pattern.sub(lambda mark: f"{mark[0][0]}{_BREAK}{mark[0][1:]}", text)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model wrote to one prompt, as it came.

    Attributes:
        parts: What it wrote, in order.
        end: The service's word for why it ended; None if nobody says.
        model: The model that the service names.
        is_open: Whether the prompt ended inside a thought, so that the text begins with one.
        marks: The marks of thoughts that this model has besides the usual ones.
    """

    parts: tuple[Part, ...]
    end: str | None = None
    model: str | None = None
    is_open: bool = False
    marks: tuple[Marks, ...] = ()

    @classmethod
    def of_text(cls, text: str, *, end: str | None = None) -> Self:
        """Return the completion that is one text."""
        return cls(parts=(Part("text", text),), end=end)

    @classmethod
    def of_answer(cls, answer: JsonObject) -> Self | None:
        """Read the answer of a service, or the row of a batch with one; None if it holds none.

        Chat Completions, Completions, Messages and Responses are known by their keys.
        """
        for wrapper, inside in (("result", "message"), ("response", "body")):
            row = answer.get(wrapper)
            if isinstance(row, Mapping):
                body = row.get(inside)
                return cls.of_answer(body) if isinstance(body, Mapping) else None
        model = answer.get("model")
        named = model if isinstance(model, str) else None
        choices, output = answer.get("choices"), answer.get("output")
        if isinstance(choices, list):
            choice = choices[0] if choices and isinstance(choices[0], Mapping) else {}
            message = choice.get("message")
            if isinstance(message, Mapping):
                parts = Message.read(message).parts
            elif isinstance(choice.get("text"), str):
                parts = parts_of(choice["text"])
            else:
                return None
            return cls(parts=parts, end=_word(choice.get("finish_reason")), model=named)
        if isinstance(output, list):
            items = [item for item in output if isinstance(item, Mapping)]
            parts = tuple(part for item in items for part in _parts_of_item(item))
            cut = answer.get("incomplete_details")
            reason = cut.get("reason") if isinstance(cut, Mapping) else answer.get("status")
            return cls(parts=parts, end=_word(reason), model=named)
        if isinstance(answer.get("content"), list):
            parts = parts_of(answer["content"])
            return cls(parts=parts, end=_word(answer.get("stop_reason")), model=named)
        return None

    @property
    def text(self) -> str | None:
        """Its texts as they came, joined; None if it has none."""
        return text_of(self.parts)

    def as_json(self) -> str:
        """Return it as JSON, without what is as usual."""
        return _as_json(
            {
                "parts": [[part.kind, part.text] for part in self.parts],
                **({} if self.end is None else {"end": self.end}),
                **({} if self.model is None else {"model": self.model}),
                **({"is_open": True} if self.is_open else {}),
                **({"marks": [list(pair) for pair in self.marks]} if self.marks else {}),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `as_json` wrote."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            parts=tuple(Part(*part) for part in values.pop("parts")),
            marks=tuple((opening, closing) for opening, closing in values.pop("marks", ())),
            **values,
        )


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _parts_of_item(item: JsonObject) -> tuple[Part, ...]:
    """Return the parts of one item of a Responses answer."""
    return parts_of(item.get("content")) if item.get("type") == "message" else parts_of(dict(item))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a completion says.

    Attributes:
        answer: What is for the reader; None if there is none.
        thought: What the model thought aloud; None if nothing was told apart.
        end: Why it ended.
        missing: Why there is no answer, without a full stop; empty if there is one.
    """

    answer: str | None
    thought: str | None
    end: End
    missing: str = ""

    @property
    def diagnostics(self) -> Mapping[str, Any]:
        """What was cut, kept beside the response; empty if nothing was."""
        if self.thought is None:
            return {}
        return {"thought": self.thought, "thought_words": len(self.thought.split())}


FILTERED = "a filter withheld the answer"
CALLS_TOOLS = "the model called a tool instead of answering"


def read_completion(completion: Completion, *, cuts_thoughts: bool) -> Reading:
    """Read a completion.

    Only bad ends say that there is no answer: a filter, a tool, a full context, a service that
    broke it off. A thought that the token cap cut off leaves an empty answer: the model was given
    its tokens and said nothing. A missing text is never an empty answer otherwise.

    Args:
        cuts_thoughts: Whether thoughts in the text are told apart; those that the service tells
            apart are no part of the answer in any case.
    """
    kinds = {part.kind for part in completion.parts}
    text = text_of(completion.parts)
    end = end_of(completion.end)
    thought = text_of(completion.parts, "thinking")
    if end is End.FILTER or "refusal" in kinds:
        return Reading(None, thought, End.FILTER, FILTERED)
    if end is End.TOOLS or "tool_call" in kinds:
        return Reading(None, thought, End.TOOLS, CALLS_TOOLS)
    if end is End.CONTEXT:
        why = "the prompt and its response exceed the model's context"
        return Reading(None, thought, end, why)
    if end is End.BROKEN:
        return Reading(None, thought, end, f"the service broke the answer off ({completion.end})")
    if text is None and end is End.LENGTH:
        text = ""
    if text is None:
        says = f"finish reason {completion.end!r}"
        return Reading(None, thought, end, f"the model answered without a text ({says})")
    if len(completion.parts) > 1:
        text = text.strip()
    if not cuts_thoughts:
        return Reading(text, thought, end)
    apart = cut_thought(text, is_open=completion.is_open, marks=completion.marks)
    return Reading(apart.response, thought if apart.thought is None else apart.thought, end)
