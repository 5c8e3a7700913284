"""Runs random inputs through the parsers and holds what they say against the oracle."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from tests.fuzz import oracle
from tests.fuzz.inputs import Case, draw_case
from tournament_assets.foundation.errors import InputError, VerdictParseError
from tournament_assets.judging.batch_service import Reply
from tournament_assets.judging.requests.verdict_parsing import (
    ReplyFormat,
    parse_structured_verdict,
    parse_verdict,
    read_reply,
)
from tournament_assets.tournament.verdicts import Verdict

_SHOWN_FINDINGS = 20


class ReplyReader(Protocol):
    """What `read_reply` looks like."""

    def __call__(
        self,
        *,
        result_type: str,
        stop_reason: str | None,
        text: str | None,
        reply_format: ReplyFormat = "line",
    ) -> tuple[Verdict, str | None]: ...


class Record(Protocol):
    """What a line of a judgment file holds."""

    @property
    def reply(self) -> Reply: ...


class RecordParser(Protocol):
    """What reads a line of a judgment file."""

    def __call__(self, line: str | bytes, *, where: str) -> Record: ...


@dataclass(frozen=True, slots=True)
class Parsers:
    """What is put to the test; no lines of files are drawn without a parser of them."""

    line: Callable[[str], Verdict] = parse_verdict
    structured: Callable[[str], Verdict] = parse_structured_verdict
    row: ReplyReader = read_reply
    record: RecordParser | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """An input on which a parser is wrong.

    Attributes:
        case: The input.
        expected: What the oracle says.
        found: What the parser says.
    """

    case: Case
    expected: str
    found: str


@dataclass(slots=True)
class FuzzReport:
    """What came of some inputs.

    Attributes:
        outcomes: How many inputs of each target ended in what.
        findings: The first inputs on which a parser was wrong.
        n_wrong: How many there were.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    n_wrong: int = 0

    @property
    def n_inputs(self) -> int:
        return self.outcomes.total()

    def add(self, other: "FuzzReport") -> None:
        self.outcomes.update(other.outcomes)
        self.findings = [*self.findings, *other.findings][:_SHOWN_FINDINGS]
        self.n_wrong += other.n_wrong


def fuzz(n_inputs: int, *, seed: str, parsers: Parsers | None = None) -> FuzzReport:
    """Draw inputs and check every one of them; the same seed draws the same ones."""
    rng = Random(seed)
    report = FuzzReport()
    under_test = parsers or Parsers()
    for _ in range(n_inputs):
        case = draw_case(rng, records=under_test.record is not None)
        found, expected = _check(case, under_test)
        report.outcomes[f"{case.target}: {found}"] += 1
        if found != expected:
            report.n_wrong += 1
            if len(report.findings) < _SHOWN_FINDINGS:
                report.findings.append(Finding(case, expected=expected, found=found))
    return report


def _check(case: Case, parsers: Parsers) -> tuple[str, str]:
    """Return what a parser makes of an input, and what it should."""
    try:
        if parsers.record is not None and case.target == "record":
            return _check_record(case, parsers.record, parsers.row)
        assert isinstance(case.text, str)
        if case.target == "line":
            expected = oracle.verdict_on_last_line(case.text)
            found = _try(parsers.line, case.text)
        elif case.target == "structured":
            expected = oracle.verdict_in_object(case.text)
            found = _try(parsers.structured, case.text)
        else:
            expected = oracle.verdict_of_row(
                result_type=case.result_type,
                stop_reason=case.stop_reason,
                text=case.text,
                reply_format=case.reply_format,
            )
            found = _decided(
                parsers.row(
                    result_type=case.result_type,
                    stop_reason=case.stop_reason,
                    text=case.text,
                    reply_format=case.reply_format,
                )[0]
            )
    except Exception as error:  # noqa: BLE001  # any other exception is what is looked for
        return f"raised {type(error).__name__}", "no such exception"
    return found, expected or "no verdict"


def _check_record(case: Case, parse: RecordParser, read: ReplyReader) -> tuple[str, str]:
    try:
        reply = parse(case.text, where="fuzz:1").reply
    except InputError:
        return "refused", "accepted" if case.is_good else "refused"
    verdict, _ = read(result_type=reply.result_type, stop_reason=reply.stop_reason, text=reply.text)
    found = _decided(verdict)
    text = case.text if isinstance(case.text, str) else case.text.decode()
    return found, oracle.verdict_of_record(text) or "no verdict"


def _try(parse: Callable[[str], Verdict], reply: str) -> str:
    try:
        return _decided(parse(reply))
    except VerdictParseError:
        return "no verdict"


def _decided(verdict: Verdict) -> str:
    return verdict.value if verdict.is_decided else "no verdict"
