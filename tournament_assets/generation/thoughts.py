"""What a reasoning model thinks aloud before it answers, told apart from its response."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

OPENING = "<think>"
CLOSING = "</think>"


@dataclass(frozen=True, slots=True)
class ToldApart:
    """A text in its two parts.

    Attributes:
        response: What is left for the reader.
        thought: What was cut; None if nothing was.
    """

    response: str
    thought: str | None = None

    @property
    def diagnostics(self) -> Mapping[str, Any]:
        """What was cut, kept beside the response; empty if nothing was."""
        if self.thought is None:
            return {}
        return {"thought": self.thought, "thought_words": len(self.thought.split())}


def cut_thought(text: str, *, is_open: bool) -> ToldApart:
    """Cut what a model thinks aloud at the beginning of a text.

    A thought ends at the first `</think>`. It begins with `<think>`, or where some chat templates
    have opened it: before the text. One that never ends is a thought without a response.

    Args:
        text: What the model wrote.
        is_open: Whether the prompt ended inside a thought.
    """
    begun = text.lstrip()
    own_words = begun.removeprefix(OPENING)
    thought, closing, response = own_words.partition(CLOSING)
    is_thought = is_open or begun != own_words
    if closing and (is_thought or OPENING not in thought):
        return ToldApart(response.strip(), thought.strip())
    if is_thought:
        return ToldApart("", own_words.strip())
    return ToldApart(text)
