"""Labels of other tools: CSV as LMSYS publishes it.

A vote is read with whatever names its pair: texts, entrants, the prompt.
LMSYS on Kaggle, `train.csv`: https://www.kaggle.com/competitions/lmsys-chatbot-arena/data
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tournament_assets.ledger.labels import GivenVote, clean_rater
from tournament_assets.storage.row_files import csv_rows
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.fingerprints import fingerprint
from tournament_assets.tournament.json_lines import JsonObject, parse_rows

_MAX_FOREIGN_BYTES = 256 * 2**20
_WORDS: Mapping[str, GivenVote] = {
    "model_a": "a",
    "model_b": "b",
    "a": "a",
    "b": "b",
    "tie": "tie",
    **dict.fromkeys(("both_bad", "both bad", "tie (bothbad)"), "both_bad"),
}


@dataclass(frozen=True, slots=True)
class ForeignVote:
    """A vote as another tool's file tells it.

    Attributes:
        name: Names it in that tool.
        rater: Who voted.
        said: `a` for the response that stood first, `b` for the other one.
        texts: The two responses, in the order shown; None where the file has none.
        models: Who wrote them, in that order; None where the file does not say.
        strings: Every short or long text beside them, one of which is the prompt or its id.
    """

    name: str
    rater: str
    said: GivenVote
    texts: tuple[str, str] | None
    models: tuple[str, str] | None
    strings: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What a file may not say itself.

    Attributes:
        rater: Who labelled, where the file does not say; None takes every row for a rater's own.
        sides: The columns of the response that stood first and of the other one.
    """

    rater: str | None = None
    sides: tuple[str, str] | None = None


def read_foreign_votes(path: Path, options: ReadingOptions) -> list[ForeignVote]:
    """Read another tool's file.

    Raises:
        InputError: With everything that is wrong with it, the first 50 spelled out.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if size > _MAX_FOREIGN_BYTES:
        raise InputError(
            f"{path}: larger than {_MAX_FOREIGN_BYTES // 2**20} MiB; expected fewer labels"
        )
    return list(parse_rows(csv_rows(path, needed=()), lambda _, row: _read_vote(row, options)))


def _read_vote(row: JsonObject, options: ReadingOptions) -> ForeignVote:
    name = str(
        row.get("id") or row.get("question_id") or fingerprint(list(map(str, row.values())))[:12]
    )
    flat = {key: _plain(value) for key, value in row.items()}
    texts = _both(flat, options.sides or ("response_a", "response_b"))
    if options.sides and texts is None:
        raise InputError(f"{' and '.join(options.sides)} hold no text; expected the two responses")
    rater = row.get("judge") or options.rater or f"unnamed {name}"
    return ForeignVote(
        name=name,
        rater=clean_rater(str(rater)[:60]),
        said=_said(row),
        texts=texts,
        models=_both(flat, ("model_a", "model_b")),
        strings=frozenset(plain_text(text) for text in flat.values() if text is not None),
    )


def _said(row: JsonObject) -> GivenVote:
    said = row.get("winner")
    if said in (None, ""):
        marked = [
            name
            for name in ("winner_model_a", "winner_model_b", "winner_tie")
            if row.get(name) in ("1", "1.0", "True", "true")
        ]
        if len(marked) != 1:
            raise InputError(f"{len(marked)} of the columns winner_… are 1; expected one")
        said = marked[0].removeprefix("winner_")
    vote = _WORDS.get(str(said).lower())
    if vote is None:
        raise InputError(f"the winner is {said!r:.80}; expected one of {', '.join(_WORDS)}")
    return vote


def _plain(value: object) -> str | None:
    """Return a text; of a conversation of one turn, that turn."""
    if isinstance(value, str) and value.startswith("["):
        try:
            turns = json.loads(value)
        except (ValueError, RecursionError):
            return value
        if isinstance(turns, list) and len(turns) == 1 and isinstance(turns[0], str):
            return turns[0]
        return None
    return value if isinstance(value, str) else None


def _both(flat: Mapping[str, str | None], keys: tuple[str, str]) -> tuple[str, str] | None:
    one, other = flat.get(keys[0]), flat.get(keys[1])
    return None if one is None or other is None else (one, other)


def plain_text(text: str) -> str:
    """Return a text as tools may change it without saying another one: line ends, outer space."""
    return text.replace("\r\n", "\n").strip()
