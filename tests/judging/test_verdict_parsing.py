import hashlib
import json
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz import oracle
from tournament_assets.foundation.errors import VerdictParseError
from tournament_assets.judging.requests.verdict_parsing import (
    READING_VERSION,
    VERDICT_SCHEMA,
    ReplyFormat,
    needs_second_question,
    opens_an_object,
    output_config,
    parse_structured_verdict,
    parse_verdict,
    read_reply,
    reconcile_swap,
)
from tournament_assets.tournament.verdicts import Verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("VERDICT: A", Verdict.A),
        ("verdict: b", Verdict.B),
        ("Verdict : Tie", Verdict.TIE),
        ("VERDICT:A", Verdict.A),
        ("**VERDICT: TIE**", Verdict.TIE),
        ("**VERDICT:** TIE", Verdict.TIE),
        ("**Verdict**: TIE", Verdict.TIE),
        ("`VERDICT: A`", Verdict.A),
        ("## VERDICT: B", Verdict.B),
        ("> VERDICT: B", Verdict.B),
        ("Both are true, A is clearer.\n\nVERDICT: A", Verdict.A),
        ("VERDICT: A\n\n  \n\n", Verdict.A),
        ("A is truer.\r\nVERDICT: A\r\n", Verdict.A),
        ("A is truer.\rVERDICT: A\r", Verdict.A),
        ("A is truer.\tVERDICT: B\n\tVERDICT:\tA \t", Verdict.A),
        ("VERDICT: A\nThat is to say:\nVERDICT: A", Verdict.A),
        ("My verdict: B is better, then.\nVERDICT: A", Verdict.A),
        ("VERDICT: B because it is longer? No.\nVERDICT: A", Verdict.A),
        ("VERDICT: A.", Verdict.A),
        ("**VERDICT: TIE.**", Verdict.TIE),
        ("VERDICT: **B**.", Verdict.B),
        ("- VERDICT: A", Verdict.A),
        ("* **VERDICT:** B", Verdict.B),
        ("• VERDICT: A", Verdict.A),
        ("VERDICT:\N{NO-BREAK SPACE}A", Verdict.A),
        ("VERDICT: TIE\N{NARROW NO-BREAK SPACE}\n\N{NO-BREAK SPACE}\n", Verdict.TIE),
        ('"VERDICT: A"', Verdict.A),
        ("“VERDICT: B”.", Verdict.B),
        ("VERDICT: «A»", Verdict.A),
        ("So:\n```\nVERDICT: A\n```", Verdict.A),
        ("~~~text\nVERDICT: A\n~~~\n", Verdict.A),
        ("Response B ends in\n> VERDICT: B", Verdict.B),
        ("Final verdict: A", Verdict.A),
        ("**Final Verdict:** B", Verdict.B),
        ("VERDICT: [A]", Verdict.A),
        ("VERDICT: [[B]]", Verdict.B),
        ("FINAL VERDICT: **[TIE]**.", Verdict.TIE),
        ("VERDICT: \N{ZERO WIDTH SPACE}A", Verdict.A),
        ("\N{ZERO WIDTH NO-BREAK SPACE}VERDICT\N{RIGHT-TO-LEFT MARK}: A", Verdict.A),
        ("\N{RIGHT-TO-LEFT OVERRIDE}VERDICT: A\N{POP DIRECTIONAL FORMATTING}", Verdict.A),
        ("因为。\nVERDICT\uff1a\uff21。", Verdict.A),
        ("\uff36\uff25\uff32\uff24\uff29\uff23\uff34\uff1a\uff54\uff49\uff45\uff0e", Verdict.TIE),
        ("VERDICT\N{IDEOGRAPHIC SPACE}:\N{IDEOGRAPHIC SPACE}【B】", Verdict.B),
        ("VERDICT: A\n\N{ZERO WIDTH SPACE}\n", Verdict.A),
    ],
)
def test_a_verdict_alone_on_the_last_line_is_read(reply: str, verdict: Verdict) -> None:
    assert parse_verdict(reply) is verdict


@pytest.mark.parametrize(
    "reply",
    [
        "VERDICT: ABSTAIN",
        "VERDICT: A..",
        "VERDICT: A!",
        "-- VERDICT: A",
        "VERDICT: - A",
        "VERDICT: A because",
        "VERDICT: A or B",
        "VERDICT: AB",
        "VERDICT: C",
        "VERDICT:",
        "VERDICT A",
        "A",
        "My VERDICT: A",
        "The better one is A.",
        "VERDICT: A\nAlthough B is good, too.",
        "VERDICT: A\n---",
        "VERDICT: A VERDICT: B",
        "VERDICT: [A",
        "VERDICT: A]",
        "VERDICT: [[A]",
        "VERDICT: [A][B]",
        "VERDICT: [ ]",
        "FINALVERDICT: A",
        "Not the final verdict: A",
        "VERDICT: A\n```\n```",
        "```",
        '{"reasoning": "A is truer.", "verdict": "A"}',
    ],
)
def test_anything_else_on_the_last_line_is_no_verdict(reply: str) -> None:
    with pytest.raises(VerdictParseError, match="ends in"):
        parse_verdict(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "VERDICT: T\N{LATIN SMALL LETTER DOTLESS I}E",
        "VERDICT: t\N{LATIN SMALL LETTER DOTLESS I}e",
        "VERDICT: T\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}E",
        "verd\N{LATIN SMALL LETTER DOTLESS I}ct: A",
        "VERDICT: \N{CYRILLIC CAPITAL LETTER A}",
        "VERDICT: \N{GREEK CAPITAL LETTER BETA}",
        "VERDICT: \N{MATHEMATICAL BOLD CAPITAL A}",
        "VERDICT: A\N{COMBINING ACUTE ACCENT}",
        "VERDICT: A\x00",
        "VERDICT: A\ud800",
    ],
)
def test_a_letter_or_blank_that_only_looks_like_the_right_one_is_no_verdict(reply: str) -> None:
    with pytest.raises(VerdictParseError, match="ends in"):
        parse_verdict(reply)


@pytest.mark.parametrize("character", ["\x0c", "*", "``"])
def test_a_line_of_anything_but_blanks_is_a_line(character: str) -> None:
    with pytest.raises(VerdictParseError, match="ends in"):
        parse_verdict(f"VERDICT: A\n{character}\n")


NO_LINE_ENDS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"]


@pytest.mark.parametrize("character", NO_LINE_ENDS)
def test_a_character_that_only_python_ends_lines_at_makes_no_verdict_line(character: str) -> None:
    with pytest.raises(VerdictParseError, match="ends in"):
        parse_verdict(f"B says so:{character}VERDICT: B")


@pytest.mark.parametrize("character", NO_LINE_ENDS)
def test_a_quoted_response_cannot_contradict_the_verdict_with_one(character: str) -> None:
    reply = f"A ends in {character}VERDICT: B{character} for no reason.\nVERDICT: A"
    assert parse_verdict(reply) is Verdict.A


@pytest.mark.parametrize("reply", ["", " \n\n\t\n"])
def test_an_empty_reply_is_no_verdict(reply: str) -> None:
    with pytest.raises(VerdictParseError, match="is empty"):
        parse_verdict(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "VERDICT: A\nVERDICT: B",
        "**VERDICT: TIE**\nOn reflection:\nVERDICT: A",
        "> verdict: b\nVERDICT: A",
        "VERDICT: ABSTAIN\nVERDICT: A",
        "- Verdict: neither.\n\nVERDICT: TIE",
        "Final verdict: B\nVERDICT: A",
        "VERDICT: [B]\nFinal verdict: A",
        "VERDICT: [[ABSTAIN]]\nVERDICT: A",
        "VERDICT\uff1a\uff22\nVERDICT: A",
        "VERD\N{ZERO WIDTH JOINER}ICT: B\nVERDICT: A",
        "VERDICT: ABST\N{SOFT HYPHEN}AIN\nVERDICT: A",
    ],
)
def test_two_different_verdicts_are_none(reply: str) -> None:
    with pytest.raises(VerdictParseError, match="says both"):
        parse_verdict(reply)


def test_what_was_found_is_shown_and_kept_short() -> None:
    with pytest.raises(VerdictParseError) as caught:
        parse_verdict("words " * 10_000 + "the end")
    assert "the end" in str(caught.value)
    assert str(caught.value).count("'VERDICT: ") == 3
    assert len(str(caught.value)) < 250


_pieces = st.sampled_from(
    [
        "VERDICT",
        "verdict",
        "verd\u0131ct",
        "\u200b",
        "\u202e",
        "\uff1a",
        "\uff22",
        "。",
        "\u3000",
        ":",
        ": ",
        "A",
        "b",
        "TIE",
        "t\u0131e",
        "ABSTAIN",
        ".",
        "*",
        "`",
        "\n",
        "\r",
        "\u2028",
        " ",
        "because",
    ]
)
_lines = st.sampled_from(
    ["VERDICT: A", "**verdict: a**", "> Verdict: B", "VERDICT: TIE", "and", ""]
)
replies = (
    st.lists(_pieces | st.text(max_size=3), max_size=12).map("".join)
    | st.lists(_lines, max_size=4).map("\n".join)
    | st.text()
)


def said_by(reply: str) -> str | None:
    try:
        return parse_verdict(reply).value
    except VerdictParseError:
        return None


@given(replies)
@example("VERDICT: A\nno")
def test_a_reply_is_read_as_by_a_slow_reader_that_takes_it_apart(reply: str) -> None:
    assert said_by(reply) == oracle.verdict_on_last_line(reply)


@given(replies)
def test_no_verdict_comes_of_a_reply_without_the_word(reply: str) -> None:
    if "verdict" not in reply.lower():
        assert said_by(reply) is None


@given(replies, st.sampled_from(["\n", "\r", "\r\n"]))
def test_the_kind_of_line_end_does_not_matter(reply: str, line_end: str) -> None:
    unix = reply.replace("\r\n", "\n").replace("\r", "\n")
    assert said_by(unix.replace("\n", line_end)) == said_by(unix)


@given(replies, st.sampled_from(["A", "B", "TIE"]))
def test_a_word_behind_the_verdict_takes_it_back(reply: str, verdict: str) -> None:
    assert said_by(f"{reply}\nVERDICT: {verdict}\nOr not.") is None


@given(st.text(), st.sampled_from(["A", "B", "TIE"]))
def test_a_bare_verdict_counts_after_any_reasoning_without_another(
    reasoning: str, verdict: str
) -> None:
    if "verdict" not in reasoning.lower():
        assert parse_verdict(f"{reasoning}\nVERDICT: {verdict}") is Verdict(verdict)


def read(
    result_type: str = "succeeded",
    stop_reason: str | None = "end_turn",
    text: str | None = "VERDICT: A",
    reply_format: ReplyFormat = "line",
) -> tuple[Verdict, str | None]:
    return read_reply(
        result_type=result_type, stop_reason=stop_reason, text=text, reply_format=reply_format
    )


def test_a_reply_that_ended_by_itself_carries_its_verdict_and_no_reason() -> None:
    assert read() == (Verdict.A, None)


@pytest.mark.parametrize(
    ("stop_reason", "verdict"),
    [
        ("refusal", Verdict.REFUSED),
        ("max_tokens", Verdict.UNREADABLE),
        ("model_context_window_exceeded", Verdict.PERMANENT),
        ("tool_use", Verdict.UNREADABLE),
        ("pause_turn", Verdict.UNREADABLE),
    ],
)
def test_a_reply_that_stopped_for_another_reason_has_no_verdict(
    stop_reason: str | None, verdict: Verdict
) -> None:
    found, reason = read(stop_reason=stop_reason)
    assert found is verdict
    assert reason


def test_an_unreadable_reply_says_what_it_ends_in() -> None:
    verdict, reason = read(text="VERDICT: ABSTAIN")
    assert verdict is Verdict.UNREADABLE
    assert reason is not None
    assert "'VERDICT: ABSTAIN'" in reason
    assert read(text=None)[0] is Verdict.UNREADABLE


def test_a_reply_that_was_cut_off_says_so_whatever_it_ends_in() -> None:
    verdict, reason = read(stop_reason="max_tokens")
    assert verdict is Verdict.UNREADABLE
    assert "token cap" in str(reason)


def test_a_row_that_is_still_to_come_is_pending_and_a_failed_one_is_permanent() -> None:
    for result_type, verdict in (("pending", Verdict.PENDING), ("errored", Verdict.PERMANENT)):
        found, reason = read(result_type, None, None)
        assert found is verdict
        assert result_type in str(reason)


@pytest.mark.parametrize("result_type", ["expired", "canceled", "missing", "a type of next year"])
def test_a_row_that_settles_nothing_is_pending_whatever_it_holds(result_type: str) -> None:
    verdict, reason = read(result_type)
    assert verdict is Verdict.PENDING
    assert repr(result_type) in str(reason)


def test_two_identical_responses_are_a_tie_that_nobody_was_asked_about() -> None:
    assert read("identical", None, None) == (
        Verdict.TIE,
        "the two responses are identical; the judge was not asked",
    )


OBJECT = '{"reasoning": "B is truer.", "verdict": "B"}'
fenced = st.tuples(
    st.sampled_from(["", "\n", " \r\n", "Here it is:\n"]),
    st.sampled_from(["```", "```json", "``` JSON\r", "~~~", "````json", "```jsonx", "``"]),
    st.sampled_from([OBJECT, f"\n{OBJECT}\n", f"{OBJECT}\n```", "VERDICT: A", ""]),
    st.sampled_from(["```", " ```\n", "```\r\n", "~~~", "``", "```\nVERDICT: A"]),
).map(lambda parts: f"{parts[0]}{parts[1]}\n{parts[2]}\n{parts[3]}")


@pytest.mark.parametrize(
    "reply",
    [
        f"```json\n{OBJECT}\n```",
        f"\n``` JSON\r\n{OBJECT}\r\n```\r\n",
        f"~~~~\n{OBJECT}\n~~~~",
        f"```\n\n{OBJECT}\n\n```",
        f"Here it is:\n```json\n{OBJECT}\n```",
        f"B is truer.\nSo I say this.\n~~~\n{OBJECT}\n~~~\n",
        f"\N{ZERO WIDTH NO-BREAK SPACE}{OBJECT}",
    ],
)
def test_an_object_that_is_all_there_is_in_a_code_fence_is_read(reply: str) -> None:
    assert read(text=reply, reply_format="json_schema") == (Verdict.B, None)


@pytest.mark.parametrize(
    "reply",
    [
        f"VERDICT: A\n```json\n{OBJECT}\n```",
        f'Not {{"verdict": "A"}}:\n```json\n{OBJECT}\n```',
        f"Their code:\n```\nx\n```\n```json\n{OBJECT}\n```",
        f"Here it is:\n```yaml\n{OBJECT}\n```",
        f"```json\n{OBJECT}\n```\nI hope this helps.",
        f"```json\n{OBJECT}\n```\n```json\n{OBJECT}\n```",
        f"```json\n{OBJECT}\n~~~",
        f"```yaml\n{OBJECT}\n```",
        f"```json {OBJECT} ```",
    ],
)
def test_a_fence_that_is_not_the_whole_reply_is_not_looked_into(reply: str) -> None:
    assert read(text=reply, reply_format="json_schema")[0] is Verdict.UNREADABLE


def test_a_server_that_ignores_the_schema_is_read_by_its_last_line() -> None:
    reply = "B is truer.\nVERDICT: B"
    assert read(text=reply, reply_format="json_schema") == (Verdict.B, None)


def test_an_object_is_read_where_one_was_asked_for_and_only_there() -> None:
    assert read(text=OBJECT, reply_format="json_schema") == (Verdict.B, None)
    assert read(text=OBJECT)[0] is Verdict.UNREADABLE


def test_a_line_is_read_where_the_service_knows_no_schema() -> None:
    text = "A is truer.\nVERDICT: A"
    assert read(text=text, reply_format="json_schema") == (Verdict.A, None)
    assert read(text="A is truer.", reply_format="json_schema")[0] is Verdict.UNREADABLE
    assert read(text=None, reply_format="json_schema")[0] is Verdict.UNREADABLE


@pytest.mark.parametrize(
    "text",
    [
        f"{OBJECT}\nVERDICT: A",
        '{"reasoning": "x", "verdict": "B",}\nVERDICT: A',
        '{"reasoning": "x"}',
        '{"reasoning": "x", "verdict": "ABSTAIN"}',
        " \n{\nVERDICT: A",
    ],
)
def test_a_failed_object_is_unreadable_and_no_line_in_it_counts(text: str) -> None:
    verdict, reason = read(text=text, reply_format="json_schema")
    assert verdict is Verdict.UNREADABLE
    assert reason


def test_only_an_unreadable_reply_is_asked_for_again() -> None:
    assert [verdict for verdict in Verdict if needs_second_question(verdict)] == [
        Verdict.UNREADABLE
    ]


@given(
    st.sampled_from(["succeeded", "identical", "pending", "errored", "expired", "x"]),
    st.sampled_from(["end_turn", "max_tokens", "refusal", "tool_use", "x", None]),
    replies | st.just(OBJECT) | fenced | st.none(),
    st.sampled_from(["line", "json_schema"]),
)
def test_a_row_is_read_as_by_a_slow_reader_and_says_why_it_has_no_verdict(
    result_type: str, stop_reason: str | None, text: str | None, reply_format: ReplyFormat
) -> None:
    verdict, reason = read(result_type, stop_reason, text, reply_format)
    expected = oracle.verdict_of_row(
        result_type=result_type, stop_reason=stop_reason, text=text, reply_format=reply_format
    )
    assert (verdict.value if verdict.is_decided else None) == expected
    assert (reason is None) is (verdict.is_decided and result_type == "succeeded")


READINGS = {5: "57f08a834f50df07"}
"""What each version of the reader makes of the same replies, as a hash."""


def test_a_reader_that_reads_a_reply_otherwise_has_another_version() -> None:
    befores = ["", "So:\n", "VERDICT: B\n", "VERDICT: ABSTAIN\n", "```\n", '{"reasoning": ', "- "]
    words = ["VERDICT:", "verdict :", "**Verdict:** ", "My VERDICT: ", "Final verdict: "]
    words += ['"x", "verdict": ']
    values = ["A", "b", " TIE", "C", "A.", '"B"', "A or B", "[A]", "[[B]]", "", "\uff1a\uff21。"]
    afters = ["", "\n", "\n```", "}", "**", "\nOr not."]
    stops = ["end_turn", "max_tokens", "refusal"]
    formats: list[ReplyFormat] = ["line", "json_schema"]
    found = [
        read(stop_reason=stop, text="".join(parts), reply_format=reply_format)[0].value
        for *parts, stop, reply_format in product(befores, words, values, afters, stops, formats)
    ]
    found += [
        read(text=f"{opening}\n{OBJECT}\n{closing}", reply_format="json_schema")[0].value
        for opening, closing in product(["", "```json", "~~~", "So: ```"], ["", "```", "~~~", "."])
    ]
    settled = [reconcile_swap(first, second).value for first, second in product(Verdict, repeat=2)]
    assert len(set(found)) > 4
    # If this fails, the reader was changed: raise READING_VERSION, and put the new hash here.
    assert (
        hashlib.sha256("\n".join(found + settled).encode()).hexdigest()[:16]
        == READINGS[READING_VERSION]
    )


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
        '{"reasoning": "x", "verdict": "A", "confidence": 1, "notes": ["B is worse", null]}',
        '{"Reasoning": "B", "VERDICT": " a "}',
        '{"reasoning": "x", "verdict": "A", "winner": "A"}',
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
        ('{"reasoning": "x", "verdict": "A", "VERDICT": "B"}', "has the keys"),
        ('{"reasoning": "x", "verdict": "A", "winner": "B"}', "says both A and B"),
        ('{"reasoning": "x", "verdict": "A", "more": [{"verdict": "b"}]}', "says both A and B"),
        ('{"reasoning": "x", "verdict": "A", "more": {"verdict": "none"}}', "says both"),
        ('{"reasoning": "x", "verdict": "A", "verdict": "B"}', "has the keys"),
        ('{"reasoning": "x", "verdict": "A", "verdict": "A"}', "has the keys"),
        ('{"reasoning": ["x"], "verdict": "A"}', "reasoning is not a string"),
        ('{"reasoning": null, "verdict": "A"}', "reasoning is not a string"),
        ('{"reasoning": "x", "verdict": "\uff21"}', "verdict is '\uff21'"),
        ('{"reasoning": "x", "verdict": "ABSTAIN"}', "verdict is 'ABSTAIN'"),
        ('{"reasoning": "x", "verdict": "t\u0131e"}', "verdict is 't"),
        ('{"reasoning": "x", "verdict": ["A"]}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": {"verdict": "A"}}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": null}', "verdict is not a string"),
        ('{"reasoning": "x", "verdict": NaN}', "verdict is not a string"),
    ],
)
def test_anything_else_is_no_verdict(reply: str, problem: str) -> None:
    with pytest.raises(VerdictParseError, match=f"{problem}.*; expected ") as caught:
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
    schema = json.loads(json.dumps(VERDICT_SCHEMA))
    assert schema == VERDICT_SCHEMA
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"])
    assert list(schema["properties"]) == ["reasoning", "verdict"]
    for verdict in schema["properties"]["verdict"]["enum"]:
        assert parse_structured_verdict(write_object([("reasoning", ""), ("verdict", verdict)]))
