"""Files of judge replies, one JSON object per line: `judgments_<dimension>.jsonl`.

A record is one presentation of one pair and what came back for it. One request can serve several
pairs with the same texts, so its reply may occur several times, unchanged, each time with another
pair. All problems of a line are reported at once.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from reprlib import Repr
from typing import get_args

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
from tournament_assets.storage.atomic_files import write_bytes_atomically

_LARGEST_COUNT = 2**31 - 1  # the largest whole number every ledger can store
_REQUEST_KEY = re.compile("[0-9a-f]{64}")
_CHANNELS: tuple[Channel, ...] = get_args(Channel)
_PRESENTATIONS = {presentation.value: presentation for presentation in Presentation}
_repr = Repr()
_repr.maxstring = _repr.maxother = 60


@dataclass(slots=True)
class JudgmentRow:
    """A line's object and its problems; an invalid value reads as absent.

    Attributes:
        values: The object.
        where: `file:line`, for messages.
        problems: The problems found so far.
    """

    values: JsonObject
    where: str
    problems: list[str] = field(default_factory=list)

    def refuse(self, name: str, expected: str) -> None:
        """Record that a value is invalid."""
        state = f"is {_repr.repr(self.values[name])}" if name in self.values else "is missing"
        self.problems.append(f"{self.where}: {name} {state}; expected {expected}")

    def text(self, name: str) -> str:
        """Return a text that is not blank."""
        value = self.values.get(name)
        if isinstance(value, str) and value.strip() and _is_unicode(value):
            return value
        self.refuse(name, "a text of whole characters that says something")
        return ""

    def optional_text(self, name: str) -> str | None:
        """Return a text, or None if absent."""
        value = self.values.get(name)
        if value is None or (isinstance(value, str) and _is_unicode(value)):
            return value
        self.refuse(name, "a text of whole characters, or null")
        return None

    def count(self, name: str, *, least: int = 0) -> int:
        """Return a whole number."""
        value = self.values.get(name)
        if type(value) is int and least <= value <= _LARGEST_COUNT:
            return value
        self.refuse(name, f"a whole number from {least} to {_LARGEST_COUNT}")
        return least

    def request_key(self) -> str:
        """Return the key; the short form must agree with it."""
        key, cache_key = self.values.get("request_key"), self.values.get("cache_key")
        if not isinstance(key, str) or not _REQUEST_KEY.fullmatch(key):
            self.refuse("request_key", "64 hex characters in lower case")
            return ""
        if cache_key is not None and cache_key != short(key):
            self.refuse("cache_key", f"{short(key)!r}, with which the request_key begins")
        return key

    def presentation(self) -> Presentation:
        """Return the presentation, by either of its names."""
        name, swap = self.values.get("presentation"), self.values.get("position_swap")
        if name is None and isinstance(swap, bool):
            return Presentation.BA if swap else Presentation.AB
        if not isinstance(name, str) or name not in _PRESENTATIONS:
            self.refuse("presentation", "'ab' or 'ba'")
            return Presentation.AB
        presentation = _PRESENTATIONS[name]
        if swap is not None and swap is not (presentation is Presentation.BA):
            self.refuse("position_swap", f"what the presentation {name!r} says")
        return presentation

    def channel(self) -> Channel:
        """Return how the request was sent."""
        value = self.values.get("channel")
        for channel in _CHANNELS:
            if value == channel:
                return channel
        self.refuse("channel", " or ".join(map(repr, _CHANNELS)))
        return _CHANNELS[0]

    def usage(self) -> TokenUsage | None:
        """Return the tokens, or None if not given."""
        if all(self.values.get(name) is None for name in TOKEN_NAMES):
            return None
        return TokenUsage(**{name: self.count(name) for name in TOKEN_NAMES})

    def time(self, name: str) -> datetime:
        """Return a time with its zone, in UTC."""
        value = self.values.get(name)
        try:
            time = datetime.fromisoformat(value) if isinstance(value, str) else None
            if time is not None and time.utcoffset() is not None:
                return time.astimezone(UTC)
        except (ValueError, OverflowError):  # OverflowError: in UTC it is before the year 1
            pass
        self.refuse(name, "a time with its zone, such as '2026-09-30T12:00:00+00:00'")
        return datetime.min.replace(tzinfo=UTC)


def _is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates, which JSON can carry but no store keeps."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_PAIR = (
    "dimension",
    "prompt_id",
    "sample",
    "entrant_a",
    "entrant_b",
    "presentation",
    "position_swap",
)
_EXPECTED = "a file with one judgment a line"
_NOT_THE_JUDGES = (FailureClass.EMPTY, FailureClass.INFRASTRUCTURE)


@dataclass(frozen=True, slots=True)
class JudgmentRecord:
    """What came back for one presentation of one pair.

    Attributes:
        request_key: SHA-256 of the request.
        sample: Which of their answers to it were shown, from 1; 1 where a file does not say.
        entrant_a: The pair's first entrant, whichever was shown first.
        entrant_b: The pair's second entrant.
        presentation: Whose response was shown as response A.
        judge_model: The model that was asked.
        asking: Which attempt this answers; 1 is the first.
        channel: How the request was sent.
        result_type: `succeeded`, `errored`, `expired` or any other word of the service;
            `identical` where there was nothing to ask.
        stop_reason: Why the model stopped.
        reply: What it wrote, verbatim.
        error_type: The kind of error.
        usage: The tokens billed; None if not given.
        received_at: When it came, with its time zone.
    """

    request_key: str
    dimension: str
    prompt_id: str
    sample: int
    entrant_a: str
    entrant_b: str
    presentation: Presentation
    judge_model: str
    attempt: int
    channel: Channel
    result_type: str
    stop_reason: str | None
    reply: str | None
    error_type: str | None
    usage: TokenUsage | None
    received_at: datetime

    @property
    def cache_key(self) -> str:
        """The short form of the request key, for readers."""
        return short(self.request_key)

    @property
    def position_swap(self) -> bool:
        """Whether entrant_b's response was shown as response A."""
        return self.presentation is Presentation.BA


_OWN_NAMES = tuple(each.name for each in fields(JudgmentRecord) if each.name != "usage")


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
        key = (record.request_key, record.attempt)
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
        line: A JSON object.
        where: `file:line`, for messages.
    """
    return _record(parse_object(line, where), where)


def _record(values: JsonObject, where: str) -> JudgmentRecord:
    row = JudgmentRow(values, where)
    record = JudgmentRecord(
        request_key=row.request_key(),
        dimension=row.text("dimension"),
        prompt_id=row.text("prompt_id"),
        sample=row.count("sample", least=1) if "sample" in values else 1,
        entrant_a=row.text("entrant_a"),
        entrant_b=row.text("entrant_b"),
        presentation=row.presentation(),
        judge_model=row.text("judge_model"),
        attempt=row.count("attempt", least=1),
        channel=row.channel(),
        result_type=row.text("result_type"),
        stop_reason=row.optional_text("stop_reason"),
        reply=row.optional_text("reply"),
        error_type=row.optional_text("error_type"),
        usage=row.usage(),
        received_at=row.time("received_at"),
    )
    if record.result_type == "identical" and (record.stop_reason, record.reply) != (None, None):
        row.refuse("result_type", "no stop_reason and no reply where nothing was asked")
    if row.problems:
        raise InputError(row.problems)
    failure = classify_reply(
        result_type=record.result_type, stop_reason=record.stop_reason, text=record.reply
    )
    if record.result_type == "succeeded" and failure in _NOT_THE_JUDGES:
        return replace(record, result_type="errored", error_type="infrastructure")
    return record


def _to_row(record: JudgmentRecord) -> JsonObject:
    if record.received_at.utcoffset() is None:
        raise InputError(
            f"the reply to {record.cache_key} was received at {record.received_at}, in no time "
            "zone; expected a time with its zone"
        )
    return {
        **{name: getattr(record, name) for name in _OWN_NAMES},
        "received_at": record.received_at.astimezone(UTC).isoformat(),
        "cache_key": record.cache_key,
        "position_swap": record.position_swap,
        **{name: getattr(record.usage, name, None) for name in TOKEN_NAMES},
    }
