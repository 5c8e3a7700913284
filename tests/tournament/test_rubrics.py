import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.judges import Rubric, parse_rubric

TEXT = "# version: 3\n# dimension: factuality\n\nWhich response is truer?\n  - An indented line.\n"


def parse(text: str) -> Rubric:
    return parse_rubric(text, dimension="factuality", where="rubrics/factuality.txt")


def test_the_version_is_read_and_stays_part_of_what_the_judge_sees() -> None:
    rubric = parse(TEXT)
    assert rubric.version == "3"
    assert rubric.dimension == "factuality"
    assert rubric.text == TEXT.strip()


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\r"),
        f"\n\n  {TEXT}\n\n",
        TEXT.rstrip(),
    ],
    ids=["Windows line ends", "old Mac line ends", "outer white space", "no line end"],
)
def test_line_ends_and_outer_white_space_do_not_change_the_hash(text: str) -> None:
    assert parse(text).content_hash == parse(TEXT).content_hash


@settings(deadline=None)
@given(position=st.integers(0, len(TEXT.strip())), inserted=st.sampled_from(["x", ".", "é", "  "]))
def test_any_other_edit_changes_the_hash(position: int, inserted: str) -> None:
    text = TEXT.strip()
    edited = text[:position] + inserted + text[position:]
    assume(edited.strip() != text)
    try:
        rubric = parse(edited)
    except InputError:
        return  # the edit broke the version line
    assert rubric.content_hash != parse(TEXT).content_hash


@pytest.mark.parametrize("line", ["#version:1", "# version: 1", "#  version:   1  "])
def test_spaces_in_the_version_line_are_free(line: str) -> None:
    assert parse(f"{line}\nJudge.").version == "1"


@pytest.mark.parametrize("text", ["Which is truer?\n# version: 1\n", "# version:\nJudge.\n", ""])
def test_a_rubric_without_a_version_line_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"rubrics/factuality.txt:1: .* expected .*# version: 1"):
        parse(text)


def test_a_rubric_that_says_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"nothing after its version line; .* judge factuality"):
        parse("# version: 1\n\n   \n")
