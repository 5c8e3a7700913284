import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import oracle
from tournament_assets.judging.requests.system_prompt import judge_system_prompt
from tournament_assets.judging.requests.verdict_parsing import (
    VERDICT_SCHEMA,
    opens_an_object,
    output_config,
    parse_structured_verdict,
)
from tournament_assets.tournament.errors import VerdictParseError
from tournament_assets.tournament.verdicts import Verdict


@pytest.mark.parametrize("verdict", [Verdict.A, Verdict.B, Verdict.TIE])
def test_a_reply_that_is_one_object_of_the_schema_is_read(verdict: Verdict) -> None:
    reply = json.dumps({"reasoning": "VERDICT: B", "verdict": verdict.value})
    assert parse_structured_verdict(reply) is verdict


@pytest.mark.parametrize(
    "reply",
    [
        '{"verdict":"A","reasoning":""}',
        ' \r\n{"reasoning": "x",\n\t"verdict": "A"}\n',
        '{"reasoning": "x", "verdict": "\\u0041"}',
        '{"reasoning": "\\ud800", "verd\\u0069ct": "A"}',
    ],
)
def test_what_json_lets_one_write_differently_makes_no_difference(reply: str) -> None:
    assert parse_structured_verdict(reply) is Verdict.A


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("VERDICT: A", "is not JSON"),
        ('Here it is: {"reasoning": "x", "verdict": "A"}', "is not JSON"),
        ('{"reasoning": "x", "verdict": "A"} I hope this helps.', "is not JSON"),
        ('```json\n{"reasoning": "x", "verdict": "A"}\n```', "is not JSON"),
        ('{"reasoning": "x", "verdict": "A"}{"reasoning": "x", "verdict": "A"}', "is not JSON"),
        ('\ufeff{"reasoning": "x", "verdict": "A"}', "is not JSON"),
        ('{"reasoning": "a\nb", "verdict": "A"}', "is not JSON"),
        ('{"reasoning": "x", "verdict": ' + "1" * 5_000 + "}", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ('"A"', "not an object"),
        ('[["reasoning", "x"], ["verdict", "A"]]', "not an object"),
        ("{}", "has the keys"),
        ('{"verdict": "A"}', "has the keys"),
        ('{"reasoning": "x", "verdict": "A", "confidence": 1}', "has the keys"),
        ('{"reasoning": "x", "verdict": "A", "verdict": "B"}', "has the keys"),
        ('{"reasoning": "x", "verdict": "A", "verdict": "A"}', "has the keys"),
        ('{"reasoning": "x", "Verdict": "A"}', "has the keys"),
        ('{"reasoning": ["x"], "verdict": "A"}', "reasoning is not a string"),
        ('{"reasoning": null, "verdict": "A"}', "reasoning is not a string"),
        ('{"reasoning": "x", "verdict": "a"}', "verdict is 'a'"),
        ('{"reasoning": "x", "verdict": "A "}', "verdict is 'A '"),
        ('{"reasoning": "x", "verdict": "ABSTAIN"}', "verdict is 'ABSTAIN'"),
        ('{"reasoning": "x", "verdict": "t\u0131e"}', "verdict is 't"),
        ('{"reasoning": "x", "verdict": ["A"]}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": {"verdict": "A"}}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": null}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": NaN}', "verdict is not a string"),
    ],
)
def test_anything_else_is_no_verdict(reply: str, problem: str) -> None:
    with pytest.raises(VerdictParseError, match=f"{problem}.*; expected one JSON object") as caught:
        parse_structured_verdict(reply)
    assert len(str(caught.value)) < 400


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_values = st.sampled_from(["A", "B", "TIE", "tie", "A "]) | _json
_objects = st.lists(
    st.tuples(st.sampled_from(["reasoning", "verdict", "verdict ", "x"]), _values), max_size=3
)


def write_object(members: list[tuple[str, Any]]) -> str:
    inner = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in members)
    return f"{{{inner}}}"


@settings(deadline=None, max_examples=500)
@given(
    _objects.map(write_object)
    | st.tuples(st.text(), st.sampled_from(["A", "B", "TIE"])).map(
        lambda pair: write_object([("reasoning", pair[0]), ("verdict", pair[1])])
    )
    | _json.map(json.dumps)
    | st.text()
)
def test_a_reply_is_read_as_by_a_slow_reader_that_knows_no_json_library(reply: str) -> None:
    try:
        found = parse_structured_verdict(reply).value
    except VerdictParseError:
        found = None
    assert found == oracle.verdict_in_object(reply)


def test_a_reply_that_opens_with_a_brace_sets_out_to_be_an_object() -> None:
    assert opens_an_object(' \n{"reasoning"')
    assert not opens_an_object('The object {"verdict": "A"}')
    assert not opens_an_object("")


def test_the_request_asks_for_the_schema_that_is_read() -> None:
    assert output_config() == {"format": {"type": "json_schema", "schema": VERDICT_SCHEMA}}
    assert json.loads(json.dumps(VERDICT_SCHEMA)) == VERDICT_SCHEMA
    assert VERDICT_SCHEMA["additionalProperties"] is False
    assert set(VERDICT_SCHEMA["required"]) == set(VERDICT_SCHEMA["properties"])
    assert list(VERDICT_SCHEMA["properties"]) == ["reasoning", "verdict"]
    for verdict in VERDICT_SCHEMA["properties"]["verdict"]["enum"]:
        assert parse_structured_verdict(write_object([("reasoning", ""), ("verdict", verdict)]))


def test_the_header_is_the_one_that_earlier_replies_were_paid_for_under() -> None:
    # It is part of every request's key: a new text judges, and bills, everything anew.
    medical = judge_system_prompt(domain="medical")
    assert hashlib.sha256(medical.encode()).hexdigest() == (
        "5a6d3f5d00b08b27741061699b50d050fcfb561305ca22f8d09a85a97c709cb1"
    )
    assert judge_system_prompt("line", domain="medical") == medical


def test_the_two_headers_differ_only_in_how_to_reply() -> None:
    line, structured = judge_system_prompt("line"), judge_system_prompt("json_schema")
    before, _, how = structured.partition("HOW TO REPLY\n")
    assert line.startswith(before + "HOW TO REPLY\n")
    assert structured.isascii()
    assert structured.splitlines()[-1] == line.splitlines()[-1]
    assert "VERDICT:" not in structured
    assert "JSON object" in how
    for word in ('"reasoning"', '"verdict"', '"A", "B" and "TIE"'):
        assert word in how
