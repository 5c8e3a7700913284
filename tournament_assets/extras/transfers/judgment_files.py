"""Files of judge replies, one JSON object per line: `judgments_<dimension>.jsonl`.

A record is one presentation of one pair and what came back for it. One request can serve several
pairs with the same texts, so its reply may occur several times, unchanged, each time with another
pair. All problems of a line are reported at once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from reprlib import Repr
from typing import Annotated, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError
from upath import UPath

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.fingerprints import fingerprint, short
from tournament_assets.foundation.json_lines import (
    JsonObject,
    numbered_lines,
    parse_object,
    parse_rows,
)
from tournament_assets.judging.batch_service import TOKEN_NAMES, Channel, TokenUsage
from tournament_assets.judging.requests.pairs import Presentation
from tournament_assets.judging.requests.verdict_parsing import FailureClass, classify_reply
from tournament_assets.judging.settlement.records import StoredReply
from tournament_assets.storage.atomic_files import write_bytes_atomically

_LARGEST_COUNT = 2**31 - 1  # the largest whole number every ledger can store
_repr = Repr()
_repr.maxstring = _repr.maxother = 60


def _in_utc(value: object) -> datetime:
    time = datetime.fromisoformat(value) if isinstance(value, str) else None
    if time is None or time.utcoffset() is None:
        raise ValueError("no time, or without a zone")
    try:
        return time.astimezone(UTC)
    except OverflowError as error:  # in UTC it is before the year 1
        raise ValueError(error) from None


_DISAGREES = "disagrees"
_SAYS_SOMETHING = Field(pattern=r"\S", description="a text of whole characters that says something")
_FROM_1 = Field(ge=1, le=_LARGEST_COUNT, description=f"a whole number from 1 to {_LARGEST_COUNT}")
_COUNT = Field(ge=0, le=_LARGEST_COUNT)
# A pattern is matched in UTF-8, so it also refuses half of a character.
_OPTIONAL = Field(default=None, pattern=r"\A", description="a text of whole characters, or null")


class _Line(BaseModel):
    """A line of a file; a field's description says in messages what was expected."""

    model_config = ConfigDict(strict=True, regex_engine="python-re")

    request_key: str = Field(
        pattern=r"\A[0-9a-f]{64}\Z", description="64 hex characters in lower case"
    )
    cache_key: object = None
    dimension: str = _SAYS_SOMETHING
    prompt_id: str = _SAYS_SOMETHING
    sample: int = Field(1, ge=1, le=_LARGEST_COUNT, description=_FROM_1.description)
    entrant_a: str = _SAYS_SOMETHING
    entrant_b: str = _SAYS_SOMETHING
    presentation: Presentation = Field(strict=False, description="'ab' or 'ba'")
    position_swap: object = None
    judge_model: str = _SAYS_SOMETHING
    attempt: int = _FROM_1
    channel: Channel = Field(description=" or ".join(map(repr, get_args(Channel))))
    stop_reason: str | None = _OPTIONAL
    reply: str | None = _OPTIONAL
    result_type: str = _SAYS_SOMETHING
    error_type: str | None = _OPTIONAL
    usage: Mapping[str, Annotated[int, _COUNT]] | None = Field(
        description=f"a whole number from 0 to {_LARGEST_COUNT}"
    )
    received_at: Annotated[datetime, PlainValidator(_in_utc)] = Field(
        description="a time with its zone, such as '2026-09-30T12:00:00+00:00'"
    )

    @field_validator("cache_key", "position_swap", "result_type")
    @classmethod
    def _agrees(cls, value: object, info: ValidationInfo) -> object:
        """Check a value against the fields before it, as far as these are valid."""
        before = info.data
        expected = ""
        match info.field_name:
            case "cache_key" if "request_key" in before:
                begins = short(before["request_key"])
                if value not in (None, begins):
                    expected = f"{begins!r}, with which the request_key begins"
            case "position_swap" if "presentation" in before:
                presentation = before["presentation"]
                if value is not None and value is not (presentation is Presentation.BA):
                    expected = f"what the presentation {presentation.value!r} says"
            case "result_type" if value == "identical":
                if (before.get("stop_reason"), before.get("reply")) != (None, None):
                    expected = "no stop_reason and no reply where nothing was asked"
        if expected:
            raise PydanticCustomError(_DISAGREES, "{expected}", {"expected": expected})
        return value


_PRESENTED = ("dimension", "prompt_id", "sample", "entrant_a", "entrant_b", "presentation")
"""The fields that say what was shown to the judge."""
_PAIR = (*_PRESENTED, "position_swap")
_EXPECTED = "a file with one judgment a line"
_NOT_THE_JUDGES = (FailureClass.EMPTY, FailureClass.INFRASTRUCTURE)


@dataclass(frozen=True, slots=True)
class JudgmentRecord:
    """What came back for one presentation of one pair.

    Attributes:
        sample: Which of their answers to it were shown, from 1; 1 where a file does not say.
        entrant_a: The pair's first entrant, whichever was shown first.
        entrant_b: The pair's second entrant.
        presentation: Whose response was shown as response A.
        reply: What the ledger keeps of it; its `model` is the one that was asked, and its result
            type `identical` where there was nothing to ask.
    """

    dimension: str
    prompt_id: str
    sample: int
    entrant_a: str
    entrant_b: str
    presentation: Presentation
    reply: StoredReply


@dataclass(frozen=True, slots=True)
class JudgmentFile:
    """A file whose lines are all valid; iterating over it reads it again.

    Attributes:
        n_records: How many different records it holds.
        repeated: The places of lines that are skipped because they repeat an earlier one.
    """

    path: Path | UPath
    n_records: int
    repeated: frozenset[str]

    def __iter__(self) -> Iterator[JudgmentRecord]:
        for where, line in numbered_lines(self.path, expected=_EXPECTED):
            if where not in self.repeated:
                yield parse_judgment(line, where=where)


def write_judgments(path: Path | UPath, records: Iterable[JudgmentRecord]) -> None:
    """Write a file whole or not at all; the same records give the same bytes in any order."""
    # A lone surrogate, which UTF-8 cannot encode, becomes a question mark.
    by_line = {
        json.dumps(row, ensure_ascii=False).encode(errors="replace") + b"\n": row
        for row in map(_to_row, records)
    }
    order = (*_PAIR, "request_key", "attempt")
    in_order = sorted(by_line, key=lambda line: ([by_line[line][name] for name in order], line))
    write_bytes_atomically(path, b"".join(in_order))


def read_judgments(path: Path | UPath) -> JudgmentFile:
    """Check a whole file, keeping in memory only what identifies its records.

    A reply that is empty, or that an intermediary wrote instead of the judge, is read as `errored`
    with the error type `infrastructure`: it gives no verdict and can be asked for again.
    """
    answers: dict[tuple[str, int], tuple[str, str]] = {}
    seen: set[str] = set()
    repeated: set[str] = set()

    def look(where: str, values: JsonObject) -> None:
        record = _record(values, where)
        row = _to_row(record)
        answer = fingerprint({name: row[name] for name in row.keys() - _PAIR})
        mark = fingerprint([answer, *(row[name] for name in _PAIR)])
        if mark in seen:
            repeated.add(where)
        seen.add(mark)
        key = (record.reply.request_key, record.reply.attempt)
        first, first_answer = answers.setdefault(key, (where, answer))
        if first_answer != answer:
            raise InputError(
                f"{where}: the request {row['cache_key']}, attempt {row['attempt']}, is answered "
                f"differently at {first}; expected one answer; remove one of them"
            )

    for _ in parse_rows(numbered_lines(path, expected=_EXPECTED), look):
        pass
    return JudgmentFile(path=path, n_records=len(seen), repeated=frozenset(repeated))


def parse_judgment(line: str | bytes, *, where: str) -> JudgmentRecord:
    """Read one line as `read_judgments` does; unknown keys are ignored.

    Args:
        where: `file:line`, for messages.
    """
    return _record(parse_object(line, where), where)


def _record(values: JsonObject, where: str) -> JudgmentRecord:
    swap = values.get("position_swap")
    shaped = dict(values) | {"usage": None}
    if values.get("presentation") is None and isinstance(swap, bool):
        shaped["presentation"] = Presentation.BA if swap else Presentation.AB
    if any(values.get(name) is not None for name in TOKEN_NAMES):
        shaped["usage"] = {name: values.get(name) for name in TOKEN_NAMES}
    try:
        line = _Line.model_validate(shaped)
    except ValidationError as error:
        raise InputError(_problem(detail, values, where) for detail in error.errors()) from None
    return JudgmentRecord(
        **{name: getattr(line, name) for name in _PRESENTED},
        reply=failed_unless_the_judges(
            StoredReply(
                request_key=line.request_key,
                attempt=line.attempt,
                channel=line.channel,
                result_type=line.result_type,
                stop_reason=line.stop_reason,
                text=line.reply,
                error_type=line.error_type,
                error_message=line.reply if line.error_type else None,
                model=line.judge_model,
                usage=None if line.usage is None else TokenUsage(**line.usage),
                received_at=line.received_at,
            )
        ),
    )


def failed_unless_the_judges(reply: StoredReply) -> StoredReply:
    """Return a reply as failed where it is empty, or an intermediary's words."""
    failure = classify_reply(
        result_type=reply.result_type, stop_reason=reply.stop_reason, text=reply.text
    )
    if reply.result_type != "succeeded" or failure not in _NOT_THE_JUDGES:
        return reply
    return replace(
        reply, result_type="errored", error_type="infrastructure", error_message=reply.text
    )


def _problem(detail: ErrorDetails, values: JsonObject, where: str) -> str:
    name = str(detail["loc"][-1])
    state = f"is {_repr.repr(values[name])}" if name in values else "is missing"
    usual = _Line.model_fields[str(detail["loc"][0])].description
    expected = detail["msg"] if detail["type"] == _DISAGREES else usual
    return f"{where}: {name} {state}; expected {expected}"


def _to_row(record: JudgmentRecord) -> JsonObject:
    reply = record.reply
    cache_key = short(reply.request_key)
    if reply.received_at.utcoffset() is None:
        raise InputError(
            f"the reply to {cache_key} was received at {reply.received_at}, in no time "
            "zone; expected a time with its zone"
        )
    return {
        "request_key": reply.request_key,
        **{name: getattr(record, name) for name in _PRESENTED},
        "judge_model": reply.model,
        "attempt": reply.attempt,
        "channel": reply.channel,
        "result_type": reply.result_type,
        "stop_reason": reply.stop_reason,
        "reply": reply.text,
        "error_type": reply.error_type,
        "received_at": reply.received_at.astimezone(UTC).isoformat(),
        "cache_key": cache_key,
        "position_swap": record.presentation is Presentation.BA,
        **{name: getattr(reply.usage, name, None) for name in TOKEN_NAMES},
    }
