"""Lines of judgment files that are nearly right, drawn at random."""

import json

import pytest

from tests.fuzz.fuzzing import FuzzReport, Parsers, RecordParser, fuzz
from tournament_assets.extras.transfers.judgment_files import JudgmentRecord, parse_judgment
from tournament_assets.foundation.errors import InputError

pytestmark = pytest.mark.e2e


def fuzzed(parse: RecordParser) -> FuzzReport:
    return fuzz(20_000, seed="test", parsers=Parsers(record=parse))


def test_no_line_is_read_as_what_it_does_not_say() -> None:
    report = fuzzed(parse_judgment)
    assert (report.findings, report.n_wrong) == ([], 0)
    for outcome in ("A", "B", "TIE", "no verdict"):
        assert report.outcomes[f"record: {outcome}"] > 50


def let_the_first_of_two_keys_win(line: str | bytes, *, where: str) -> JudgmentRecord:
    try:
        row = dict(reversed(json.loads(line, object_pairs_hook=list)))
    except (ValueError, TypeError, RecursionError):
        raise InputError(where) from None
    return parse_judgment(json.dumps(row), where=where)


def refuse_everything(line: str | bytes, *, where: str) -> JudgmentRecord:
    raise InputError(where)


@pytest.mark.parametrize("broken", [let_the_first_of_two_keys_win, refuse_everything])
def test_a_broken_file_parser_is_found_out(broken: RecordParser) -> None:
    assert fuzzed(broken).n_wrong > 0
