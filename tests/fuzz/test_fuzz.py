import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import oracle
from tests.fuzz.fuzzing import FuzzReport, Parsers, fuzz
from tournament_assets.foundation.errors import VerdictParseError
from tournament_assets.judging.requests.verdict_parsing import parse_verdict
from tournament_assets.tournament.verdicts import Verdict

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report() -> FuzzReport:
    return fuzz(20_000, seed="test")


def test_no_input_is_read_as_what_it_does_not_say(report: FuzzReport) -> None:
    assert report.findings == []
    assert report.n_wrong == 0
    assert report.n_inputs == 20_000


@pytest.mark.parametrize("target", ["line", "structured", "row"])
def test_the_inputs_are_near_enough_to_good_ones_to_mean_something(
    report: FuzzReport, target: str
) -> None:
    for outcome in ("A", "B", "TIE", "no verdict"):
        assert report.outcomes[f"{target}: {outcome}"] > 50


def test_the_same_seed_draws_the_same_inputs() -> None:
    assert fuzz(500, seed="x").outcomes == fuzz(500, seed="x").outcomes
    assert fuzz(500, seed="x").outcomes != fuzz(500, seed="y").outcomes


def accept_a_dotless_i(reply: str) -> Verdict:
    # What `.upper()` did: the dotless i becomes an I.
    return parse_verdict(reply.replace("\u0131", "I"))


def tie_by_default(reply: str) -> Verdict:
    try:
        return parse_verdict(reply)
    except VerdictParseError:
        return Verdict.TIE


def cut_lines_wherever_python_does(reply: str) -> Verdict:
    return parse_verdict("\n".join(reply.splitlines()))


def take_the_last_verdict(reply: str) -> Verdict:
    return parse_verdict(reply.replace("\r", "\n").strip(" \t\n").rpartition("\n")[2])


def forget_the_lower_case(reply: str) -> Verdict:
    return parse_verdict(reply.replace("tie", "no"))


def encode_first(reply: str) -> Verdict:
    return parse_verdict(reply.encode().decode())


@pytest.mark.parametrize(
    "broken",
    [
        accept_a_dotless_i,
        tie_by_default,
        cut_lines_wherever_python_does,
        take_the_last_verdict,
        forget_the_lower_case,
        encode_first,
    ],
)
def test_a_broken_line_parser_is_found_out(broken: Callable[[str], Verdict]) -> None:
    assert fuzz(20_000, seed="test", parsers=Parsers(line=broken)).n_wrong > 0


def let_the_last_key_win(reply: str) -> Verdict:
    try:
        found = json.loads(reply)
        return {"A": Verdict.A, "B": Verdict.B, "TIE": Verdict.TIE}[found["verdict"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise VerdictParseError("no verdict") from None


def let_deep_nesting_through(reply: str) -> Verdict:
    try:
        json.loads(reply)
    except ValueError:
        raise VerdictParseError("no JSON") from None
    verdict = oracle.verdict_in_object(reply)
    if verdict is None:
        raise VerdictParseError("no verdict")
    return Verdict(verdict)


@pytest.mark.parametrize("broken", [let_the_last_key_win, let_deep_nesting_through])
def test_a_broken_json_parser_is_found_out(broken: Callable[[str], Verdict]) -> None:
    assert fuzz(20_000, seed="test", parsers=Parsers(structured=broken)).n_wrong > 0


def test_the_script_says_what_it_found_and_how_fast() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.fuzz", "--inputs", "12000", "--seed", "s"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("12,000 inputs, ")
    assert done.stdout.endswith(" inputs/s, 0 wrong\n")
