"""Finding the parts of a judge request: what stands between fenced tags."""

import re
from dataclasses import dataclass
from functools import lru_cache

_OPENING_TAG = re.compile(
    r'<(?:prompt|gold_answer|expected_behavior|response_a|response_b) fence="(?P<code>[^"\n]+)">\n'
)
_DIMENSION_LINE = re.compile(r"^#\s*dimension:\s*(?P<dimension>\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShownParts:
    """What a judge request shows.

    Attributes:
        prompt: What both responses answer.
        gold_answer: The reference answer, if shown.
        expected_behavior: `answer`, `hedge` or `abstain`, if shown.
        response_a: The response shown first.
        response_b: The response shown second.
    """

    prompt: str
    gold_answer: str | None
    expected_behavior: str | None
    response_a: str
    response_b: str


def read_parts(user_text: str) -> ShownParts | None:
    """Read the parts of a user message in their order.

    The code on the very first opening tag is the message's own. A tag with another code is plain
    text of the part in which it stands.

    Returns:
        The parts, or None if the message is no comparison of two responses.
    """
    first = _OPENING_TAG.search(user_text)
    if first is None:
        return None
    reader = _Reader(user_text, first["code"], first.start())
    prompt = reader.read("prompt")
    gold_answer = reader.read("gold_answer")
    expected_behavior = reader.read("expected_behavior")
    response_a = reader.read("response_a")
    response_b = reader.read("response_b")
    if prompt is None or response_a is None or response_b is None:
        return None
    return ShownParts(
        prompt=prompt,
        gold_answer=gold_answer,
        expected_behavior=None if expected_behavior is None else expected_behavior.strip(),
        response_a=response_a,
        response_b=response_b,
    )


# All requests of a batch have the same long system text.
@lru_cache(maxsize=64)
def read_dimension(system_text: str) -> str | None:
    """Return the quality that a system message names in its `# dimension:` line."""
    match = _DIMENSION_LINE.search(system_text)
    return None if match is None else match["dimension"]


class _Reader:
    def __init__(self, text: str, code: str, position: int) -> None:
        self._text = text
        self._code = code
        self._position = position

    def read(self, name: str) -> str | None:
        """Return the part if it is the next one, and step over it."""
        opening = f'<{name} fence="{self._code}">\n'
        closing = f'\n</{name} fence="{self._code}">'
        start = self._position
        while self._text.startswith("\n", start):
            start += 1
        if not self._text.startswith(opening, start):
            return None
        content = start + len(opening)
        # One character back: the two tags of an empty part may share their line break.
        end = self._text.find(closing, content - 1)
        if end < 0:
            return None
        self._position = end + len(closing)
        return self._text[content:end]
