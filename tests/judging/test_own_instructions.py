import pytest

from tournament_assets.judging.requests.requests import build_system_message
from tournament_assets.judging.requests.system_prompt import (
    judge_system_prompt,
    parse_instructions,
)
from tournament_assets.judging.requests.verdict_parsing import ReplyFormat
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judges import Rubric

OWN = "You review pull requests.\n\nPrefer what you would merge."


def test_a_domain_is_one_word_of_the_built_in_text() -> None:
    plain = judge_system_prompt()
    assert "two written responses to the same prompt.\n" in plain
    for domain in ("medical", "legal", "code review"):
        assert judge_system_prompt(domain=domain) == plain.replace(
            "to the same prompt.", f"to the same {domain} prompt.", 1
        )


def test_the_built_in_text_is_about_no_domain() -> None:
    found = judge_system_prompt().casefold()
    assert not [word for word in ("medic", "clinic", "patient", "physician") if word in found]


@pytest.mark.parametrize("reply_format", ["line", "json_schema"])
def test_what_is_shown_and_how_to_reply_follow_any_own_text(reply_format: ReplyFormat) -> None:
    built_in = judge_system_prompt(reply_format)
    own = judge_system_prompt(reply_format, instructions=OWN)
    assert own.startswith(f"{OWN}\n\nWHAT YOU ARE SHOWN\n")
    for heading in ("WHAT YOU ARE SHOWN\n", "HOW TO REPLY\n"):
        part = built_in[built_in.index(heading) :].split("PULLS TO RESIST")[0]
        assert part in own
    assert "PULLS TO RESIST" not in own
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
    assert first.startswith(f"own.txt:4: the line {line.strip()!r} ")
    assert second.startswith("own.txt:6: ")
    assert first.endswith("the program says what is shown and how to reply; remove the line")


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
    with pytest.raises(InputError, match=r"own\.txt:1: the judge's instructions are empty"):
        parse_instructions(" \n\t\n", where="own.txt")
