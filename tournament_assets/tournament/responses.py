"""What an entrant said, and the seed it said it with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def prompt_seed(prompt_id: str) -> int:
    """Seed of a prompt's random numbers: SHA-256 of its id, modulo 2**32.

    Every entrant draws the same numbers for the same prompt, whatever else is in its batch.
    """
    return int.from_bytes(hashlib.sha256(prompt_id.encode()).digest(), "big") % 2**32


@dataclass(frozen=True, slots=True)
class GeneratedResponse:
    """One entrant's answer to one prompt.

    Attributes:
        prompt_id: The prompt that was answered.
        text: The answer.
        finish_reason: `stop` (the model ended), `length` (the cap ended it), `recorded`, or
            `other` (a server's filter ended it, for one).
        prompt_tokens: Tokens the model read; None where nobody counted.
        response_tokens: Tokens the model wrote; None where nobody counted.
        diagnostics: What the decoder noticed, as JSON values.
    """

    prompt_id: str
    text: str
    finish_reason: str
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
