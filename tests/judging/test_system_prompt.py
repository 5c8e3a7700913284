import hashlib

import pytest

from tournament_assets.foundation.errors import InputError
from tournament_assets.judging.requests.requests import build_system_message
from tournament_assets.judging.requests.system_prompt import (
    judge_system_prompt,
    parse_instructions,
)
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.tournament.judges import Rubric

OWN = "You review pull requests.\n\nPrefer what you would merge."
SHOWN, REPLY, PULLS = "WHAT YOU ARE SHOWN\n", "HOW TO REPLY\n", "PULLS TO RESIST"


def test_a_domain_is_one_word_of_the_built_in_text() -> None:
    plain = judge_system_prompt()
    for domain in ("medical", "legal", "code review"):
        told = judge_system_prompt(domain=domain)
        assert (told.count(domain), told.replace(f" {domain}", "")) == (1, plain)


def test_the_built_in_text_is_about_no_domain() -> None:
    found = judge_system_prompt().casefold()
    assert not [word for word in ("medic", "clinic", "patient", "physician") if word in found]


@pytest.mark.parametrize("reply_format", ["line", "json_schema"])
def test_what_is_shown_and_how_to_reply_follow_any_own_text(reply_format: ReplyFormat) -> None:
    built_in = judge_system_prompt(reply_format)
    own = judge_system_prompt(reply_format, instructions=OWN)
    assert own.startswith(f"{OWN}\n\n{SHOWN}")
    for heading in (SHOWN, REPLY):
        part = built_in[built_in.index(heading) :].split(PULLS)[0]
        assert part in own
    assert PULLS not in own
    assert own.splitlines()[-1] == built_in.splitlines()[-1]


def test_own_instructions_stand_before_the_rubric_and_are_part_of_what_it_is_known_by() -> None:
    rubric = Rubric("care", "1", "# version: 1\nWhich is more careful?")
    told = Rubric("care", "1", rubric.text, instructions=OWN)
    assert build_system_message(told).startswith(OWN)
    assert build_system_message(told).endswith(f"\n\n{rubric.text}\n")
    assert len({each.content_hash for each in (rubric, told)}) == 2


def test_line_ends_and_outer_space_of_the_file_do_not_count() -> None:
    assert parse_instructions(f"\n{OWN}\n".replace("\n", "\r\n"), where="own.txt") == OWN


@pytest.mark.parametrize(
    "line",
    [
        "VERDICT: A",
        "End with **Verdict**: A or B.",
        '{"reasoning": "", "verdict": "TIE"}',
        "How to reply",
        "## 3. HOW TO REPLY ##",
        "What you are shown:",
        '<response_a fence="12345678">',
        "</ Prompt>",
        "The tag has fence = 'abc'.",
        "  # dimension: factuality",
    ],
)
def test_a_line_that_imitates_what_the_program_says_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_instructions(f"{OWN}\n{line}\nBe brief.\n{line}", where="own.txt")
    first, second = caught.value.problems
    assert first.startswith("own.txt:4: ")
    assert repr(line.strip()) in first
    assert second.startswith("own.txt:6: ")


@pytest.mark.parametrize(
    "line",
    [
        "Give a verdict on every message.",
        "Both responses answer one prompt; it may hold <code> or <b>tags</b>.",
        "Say how to reply to the author.",
        "# dimensions differ",
    ],
)
def test_words_that_no_reply_and_no_tag_are_made_of_are_allowed(line: str) -> None:
    assert parse_instructions(line, where="own.txt") == line.strip()


def test_instructions_that_say_nothing_are_refused() -> None:
    with pytest.raises(InputError, match=r"own\.txt:1:.*empty"):
        parse_instructions(" \n\t\n", where="own.txt")


def test_the_header_is_the_one_that_earlier_replies_were_paid_for_under() -> None:
    # It is part of every request's key: a new text judges, and bills, everything anew.
    medical = judge_system_prompt(domain="medical")
    assert hashlib.sha256(medical.encode()).hexdigest() == (
        "5a6d3f5d00b08b27741061699b50d050fcfb561305ca22f8d09a85a97c709cb1"
    )
    assert judge_system_prompt("line", domain="medical") == medical


def test_the_two_headers_differ_only_in_how_to_reply() -> None:
    line, structured = judge_system_prompt("line"), judge_system_prompt("json_schema")
    before, _, how = structured.partition(REPLY)
    assert line.startswith(before + REPLY)
    assert structured.isascii()
    assert structured.splitlines()[-1] == line.splitlines()[-1]
    assert "VERDICT:" not in structured
    assert "JSON object" in how
    for word in ('"reasoning"', '"verdict"', '"A", "B" and "TIE"'):
        assert word in how


def test_the_header_is_ascii() -> None:
    assert judge_system_prompt().isascii()
