"""A verdict as a JSON object: the format that a judge can be held to, and how it is read.

A service that knows the schema lets the model write nothing else, so a response that quotes a
verdict line cannot be mistaken for the judge. It does not protect against persuasion.
"""

import json
from typing import Any, Literal

from tournament_assets.tournament.errors import VerdictParseError
from tournament_assets.tournament.verdicts import Verdict

ReplyFormat = Literal["line", "json_schema"]
"""How a judge writes its verdict: on the last line, or in a JSON object."""

# The reasoning stands first, so that it is written first: a verdict cannot follow from what comes
# after it.
VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "verdict": {"type": "string", "enum": ["A", "B", "TIE"]},
    },
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}
"""What a structured reply looks like."""

_VERDICTS = {"A": Verdict.A, "B": Verdict.B, "TIE": Verdict.TIE}
_KEYS = {"reasoning", "verdict"}
_WHITE_SPACE = " \t\n\r"
_EXPECTED = (
    'expected one JSON object and nothing else, with a text under "reasoning" '
    'and "A", "B" or "TIE" under "verdict"'
)


def output_config() -> dict[str, Any]:
    """Return the request's parameter that holds the judge to the schema."""
    return {"format": {"type": "json_schema", "schema": VERDICT_SCHEMA}}


def opens_an_object(reply: str) -> bool:
    """Say whether a reply sets out to be a JSON object, well-formed or not."""
    return reply.lstrip(_WHITE_SPACE).startswith("{")


def parse_structured_verdict(reply: str) -> Verdict:
    """Read the verdict of a reply that is one JSON object.

    A key that occurs twice is refused: of two verdicts, neither is the one.

    Raises:
        VerdictParseError: If the reply is anything but an object that the schema allows.
    """
    if not reply.strip():
        raise VerdictParseError(f"the judge's reply is empty; {_EXPECTED}")
    try:
        pairs = json.loads(reply, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of 5,000 digits
        raise VerdictParseError(
            f"the judge's reply is not JSON ({type(error).__name__}) and ends in "
            f"{reply[-80:]!r}; {_EXPECTED}"
        ) from None
    if not isinstance(pairs, _Pairs):
        raise VerdictParseError(f"the judge's reply is JSON but no object; {_EXPECTED}")
    found = dict(pairs)
    if len(pairs) != len(found) or found.keys() != _KEYS:
        raise VerdictParseError(
            f"the judge's reply has the keys {[key[:40] for key, _ in pairs[:5]]!r}; {_EXPECTED}"
        )
    verdict = found["verdict"]
    if not isinstance(found["reasoning"], str):
        raise VerdictParseError(f"the judge's reasoning is no text; {_EXPECTED}")
    if not isinstance(verdict, str) or verdict not in _VERDICTS:
        shown = repr(verdict[:80]) if isinstance(verdict, str) else "no text"
        raise VerdictParseError(f"the judge's verdict is {shown}; {_EXPECTED}")
    return _VERDICTS[verdict]


class _Pairs(list[tuple[str, Any]]):
    """An object's members in the order they are written, each as often as it is written."""
