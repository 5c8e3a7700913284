import base64
import html
import json
import logging
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tournament_assets.foundation.errors import JudgeError, JudgeFailure
from tournament_assets.providers import service_words
from tournament_assets.providers.service_words import (
    clean_key,
    hide_key,
    parse_object,
    quote_service,
    read_retry_after,
    split_lines,
)

KEY = "sk-ant-a+b/c=\"d'e&f<g>_0123456789"


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


ENCODINGS: list[Callable[[str], str]] = [
    str,
    lambda key: quote(key, safe=""),
    quote_plus,
    percent,
    lambda key: quote(percent(key), safe=""),
    lambda key: json.dumps(key)[1:-1],
    lambda key: json.dumps(json.dumps(key))[3:-3],
    lambda key: repr(key)[1:-1],
    html.escape,
    lambda key: "".join(f"&#{ord(letter)};" for letter in key),
    lambda key: "".join(f"&#x{ord(letter):X};" for letter in key),
    lambda key: "".join(f"\\u{ord(letter):04X}" for letter in key),
    lambda key: "".join(f"\\x{ord(letter):02x}" for letter in key),
    lambda key: key.encode().hex(),
    lambda key: key.encode().hex().upper(),
]


@pytest.mark.parametrize("encode", ENCODINGS)
def test_a_key_is_taken_out_in_whatever_way_it_is_written(encode: Callable[[str], str]) -> None:
    assert hide_key(f"bad {encode(KEY)}!", KEY) == "bad [key]!"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "x", "Bearer ", "a:", "user:"])
def test_nothing_of_a_key_in_base64_but_what_its_neighbours_share_stays(
    encode: Callable[[bytes], bytes], before: str
) -> None:
    written = encode(f"{before}{KEY} and more".encode()).decode()
    left = hide_key(written, KEY)
    assert "[key]" in left
    assert len(left) < len(written) - len(KEY)


def test_a_key_at_the_cut_leaves_no_half_behind() -> None:
    for padding in range(480, 501):
        said = quote_service("x" * padding + KEY, key=KEY, length=500)
        assert KEY[:6] not in said
        assert len(said) <= 500


@given(st.text(), st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
@example("a\\tb", "\\t")
def test_no_text_holds_the_key_afterwards(text: str, key: str) -> None:
    if key not in "[key]":
        assert key not in hide_key(f"{text}{key}{text}", key).replace("[key]", " ")


@pytest.mark.parametrize(
    "broken",
    [
        KEY.upper(),
        " ".join(KEY),
        f"{KEY[:9]}\n  {KEY[9:]}",
        f"{KEY[:9]}\r\n{KEY[9:20]}\t{KEY[20:]}",
        json.dumps(f"{KEY[:9]}\n\u00a0{KEY[9:]}")[1:-1],
        html.escape(KEY[:9]) + "&nbsp;&#10;" + html.escape(KEY[9:]).swapcase(),
        f"{quote(KEY[:9])}%0A%20{quote(KEY[9:])}",
        f"{KEY[:9]}\u200b{KEY[9:]}",
    ],
)
def test_a_key_is_taken_out_whatever_its_case_and_the_blanks_inside(broken: str) -> None:
    assert hide_key(f"bad {broken}!", KEY) == "bad [key]!"


def test_a_short_key_is_taken_out_only_as_it_is() -> None:
    assert hide_key("any, Any, a n y", "any") == "[key], Any, a n y"


def test_without_a_key_nothing_changes() -> None:
    assert hide_key("no change", None) == hide_key("no change", "") == "no change"


def test_blanks_around_a_key_are_left_out_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert clean_key(f" {KEY}\n", name="SOME_KEY") == KEY
    assert "SOME_KEY" in caplog.text
    assert KEY not in caplog.text
    caplog.clear()
    assert clean_key(KEY, name="SOME_KEY") == KEY
    assert clean_key("\n", name="SOME_KEY") == ""
    assert caplog.text == ""


@pytest.mark.parametrize(
    "key", ["sk-\N{CYRILLIC SMALL LETTER A}nt-0123", "sk-ant 0123", "sk\x07ant"]
)
def test_a_key_that_no_header_can_carry_is_refused_at_once_and_not_repeated(key: str) -> None:
    with pytest.raises(JudgeError, match="SOME_KEY holds") as caught:
        clean_key(f"{key}\n", name="SOME_KEY")
    assert caught.value.failure is JudgeFailure.FATAL
    assert key not in str(caught.value)


def test_lines_are_the_same_however_the_stream_is_cut() -> None:
    stream = b"one\n\n \r\ntw\xc2\x85o\r\n" + b"3" * 30 + b"\nfour"
    for size in range(1, len(stream) + 1):
        chunks = (stream[at : at + size] for at in range(0, len(stream), size))
        lines = [b"one\n", b"tw\xc2\x85o\r\n", b"3" * 30 + b"\n", b"four"]
        assert list(split_lines(chunks)) == lines


def test_a_line_that_no_reply_is_as_long_as_is_not_read_whole_and_no_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_words, "_LONGEST_LINE", 5_000)
    row = b'{"custom_id": "n-1"}'
    lines = [b"short\n", row + b" " * 9_000 + b"\n", b"next\n", b"x" * 4_999 + b"\n"]
    stream = b"".join(lines)
    for size in (7, 1_000, len(stream)):
        chunks = (stream[at : at + size] for at in range(0, len(stream), size))
        found = list(split_lines(chunks))
        if size < len(stream):
            assert (len(found[1]), found[1][: len(row)]) == (2_000 + len(b"\0\n"), row)
            assert parse_object(found[1]) is None
            found[1] = lines[1]
        assert found == lines


def test_a_line_in_many_parts_takes_time_in_proportion_to_its_length() -> None:
    # Less than a second; if every part copied those before it, it would be copies of 1 TB, and
    # the test would be ended by its time limit.
    part, n_parts = b"x" * 64, 200_000
    (line,) = split_lines(part for _ in range(n_parts))
    assert len(line) == len(part) * n_parts


@pytest.mark.parametrize(
    ("then", "seconds"), [("09:00:30", 30.0), ("08:59:00", 0.0), ("10:00:00", 600.0)]
)
def test_a_wait_that_ends_at_a_time_is_counted_by_the_clock_of_the_service(
    then: str, seconds: float
) -> None:
    day = "Wed, 21 Oct 2015"
    headers = {"retry-after": f"{day} {then} GMT", "date": f"{day} 09:00:00 GMT"}
    error = RuntimeError()
    error.response = httpx2.Response(429, headers=headers)  # type: ignore[attr-defined]
    assert read_retry_after(error, at_most=600.0) == seconds
