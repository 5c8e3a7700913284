"""What the loopback service says: a verdict as prose or JSON, a score, or an echo of a prompt."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tournament_assets.loopback.traits import examine, list_content_words, list_words

_VERDICTS = {"A", "B", "TIE"}
_SHAPES = (
    {"reasoning": "string", "verdict": "verdict"},
    {"reason": "string", "score": "number"},
)
_LINE = "VERDICT: "
_OPPOSITE = {"A": "B", "B": "A", "TIE": "A"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply taken apart.

    Attributes:
        reasoning: What comes before the verdict.
        verdict: A, B or TIE; None if there is none.
        names: The names of a JSON reply's values, in their order; empty for prose.
    """

    reasoning: str
    verdict: str | None
    names: tuple[str, ...] = ()

    @property
    def opposite(self) -> str:
        """A verdict other than this one."""
        return _OPPOSITE.get(self.verdict or "", "A")

    def write(self) -> str:
        """Return the reply as a text."""
        if self.names:
            values = {"reasoning": self.reasoning, "verdict": self.verdict}
            return json.dumps(
                {name: values[name] for name in self.names if values[name] is not None},
                ensure_ascii=False,
            )
        return (
            self.reasoning if self.verdict is None else f"{self.reasoning}\n{self.write_verdict()}"
        )

    def write_verdict(self) -> str:
        """Return the verdict alone, in the reply's own form."""
        return json.dumps({"verdict": self.verdict}) if self.names else f"{_LINE}{self.verdict}"


def read_reply(text: str) -> Reply:
    """Take apart a reply that the judge wrote, even one that a fault has spoiled."""
    try:
        values = json.loads(text)
    except ValueError:
        reasoning, _, last_line = text.rpartition("\n")
        if not last_line.startswith(_LINE):
            return Reply(text, None)
        return Reply(reasoning, last_line.removeprefix(_LINE))
    if not isinstance(values, Mapping) or "reasoning" not in values:
        return Reply(text, None)
    return Reply(values["reasoning"], values.get("verdict"), ("reasoning", "verdict"))


def find_format_problem(params: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the format that a request asks for, or None."""
    config = params.get("output_config")
    if config is None:
        return None
    if not isinstance(config, Mapping):
        return "output_config: expected an object"
    wanted = config.get("format")
    if wanted is None:
        return None
    if not isinstance(wanted, Mapping) or wanted.get("type") != "json_schema":
        return "output_config.format.type: expected 'json_schema'"
    schema = wanted.get("schema")
    if not isinstance(schema, Mapping):
        return "output_config.format.schema: expected an object"
    if not any(_has_shape(schema, types) for types in _SHAPES):
        return (
            "output_config.format.schema: the loopback judge knows only schemas with reasoning and "
            "verdict, a string and one of 'A', 'B' and 'TIE', or with reason and score, a string "
            "and a number, both required and nothing else"
        )
    return None


def find_wanted_names(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the values that a valid request wants as JSON; none if it wants prose."""
    wanted = (params.get("output_config") or {}).get("format")
    return tuple(wanted["schema"]["properties"]) if wanted else ()


def wants_score(params: Mapping[str, Any]) -> bool:
    """Say whether a valid request wants a score of one response."""
    return set(find_wanted_names(params)) == {"reason", "score"}


def _has_shape(schema: Mapping[str, Any], types: Mapping[str, str]) -> bool:
    properties = schema.get("properties")
    return (
        schema.get("type") == "object"
        and schema.get("additionalProperties") is False
        and _is_list_of(schema.get("required"), set(types))
        and isinstance(properties, Mapping)
        and set(properties) == set(types)
        and all(_is_value(properties[name], kind) for name, kind in types.items())
    )


def _is_value(value: Any, kind: str) -> bool:
    if not isinstance(value, Mapping):
        return False
    if kind == "verdict":
        return value.get("type", "string") == "string" and _is_list_of(value.get("enum"), _VERDICTS)
    return value.get("type") == kind


def _is_list_of(value: Any, expected: set[str]) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(expected)
        and all(name in value for name in expected)
    )


_PART = re.compile(
    r'<(?P<name>[a-z][a-z0-9_]*) fence="(?P<code>[^"\n]+)">\n(?P<text>.*?)\n?'
    r'</(?P=name) fence="(?P=code)">',
    re.DOTALL,
)


def score_lexically(user_text: str, *, names: tuple[str, ...]) -> str:
    """Return a JSON object with a reason and a score from 0 to 1.

    Args:
        user_text: The user message.
        names: The names of the object's values, in their order.
    """
    parts = [match["text"] for match in _PART.finditer(user_text)]
    *wanted, response = parts or [user_text]
    words = list_content_words("\n".join(wanted))
    score = round(examine(response).measure_coverage(words), 2) if words else 0.5
    reason = f"It has {score:.0%} of the words that what comes before it asks for."
    values = {"reason": reason, "score": score}
    return json.dumps({name: values[name] for name in names}, ensure_ascii=False)


_LABEL = "This is the loopback service, which is no language model."
_MOST_WORDS = 12


def respond_lexically(prompt: str) -> str:
    """Repeat the words of a prompt that carry meaning; the same prompt gives the same response."""
    words = list(dict.fromkeys(word for word in list_words(prompt) if list_content_words(word)))
    if not words:
        return f"{_LABEL} Nothing in the prompt carries meaning."
    return f"{_LABEL} The prompt is about: {', '.join(words[:_MOST_WORDS])}."
