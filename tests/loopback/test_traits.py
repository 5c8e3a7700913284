import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loopback.recorded_comparisons import generate_comparisons
from tournament_assets.loopback.lexical_judge import LEXICONS, Lexicon, Traits, judge_lexically

PHRASES = sorted({phrase for lexicon in LEXICONS for phrase in lexicon.phrases})
WORDS = sorted(
    {word for lexicon in LEXICONS for word in lexicon.words}
    | {word for phrase in PHRASES for word in phrase.split()}
)
speech = st.lists(
    st.sampled_from(WORDS) | st.sampled_from(PHRASES) | st.sampled_from(["-", "_", ".", "\n", "é"]),
    max_size=40,
)


@pytest.mark.parametrize(
    ("dimension", "recorded"),
    [
        ("factuality", "b117ad4bbe973e22c751e5bb865d71bab6fd1be5d2230d285a0a82575750a632"),
        ("calibration", "3228bb859064f053b7e0a2dbe1958dfdb1181922f4a863fe51734d8160b934bb"),
        ("clinical_utility", "d7f1dac3979009da25e0abe3317dc1f1d1b4774fe6e712b66748143bb15cccfa"),
        (None, "cd7068a7a6c7b4c345221d48a2c1fda03f3c540149ffe4341bad2b3a3cc0f3b5"),
    ],
)
def test_replies_are_to_the_byte_what_they_were_when_they_were_recorded(
    dimension: str | None, recorded: str
) -> None:
    replies = [
        judge_lexically(text, dimension=dimension) for text in generate_comparisons(400, seed=11)
    ]
    assert hashlib.sha256("\0".join(replies).encode()).hexdigest() == recorded


@settings(deadline=None)
@given(speech, st.sampled_from([" ", "  ", "-", "_"]))
def test_cues_are_counted_as_one_search_for_all_of_them_would(spoken: list[str], gap: str) -> None:
    text = gap.join(spoken)
    plain = " ".join(text.split())
    for lexicon in LEXICONS:
        listed = "|".join(map(re.escape, [*lexicon.phrases, *lexicon.words]))
        assert Traits(text).count(lexicon) == len(re.findall(rf"\b(?:{listed})\b", plain))


def test_a_word_is_a_cue_of_one_kind_and_no_phrase_begins_another() -> None:
    assert sum(len(lexicon.words) for lexicon in LEXICONS) == len(
        {word for lexicon in LEXICONS for word in lexicon.words}
    )
    for lexicon in LEXICONS:
        beginnings = [
            (one, two) for one in lexicon.phrases for two in lexicon.phrases if one != two
        ]
        assert not [pair for pair in beginnings if f"{pair[0]} ".startswith(f"{pair[1]} ")]


def test_a_phrase_counts_once_although_a_word_in_it_is_a_cue() -> None:
    lexicon = next(each for each in LEXICONS if "at all" in each.phrases)
    assert isinstance(lexicon, Lexicon)
    assert "all" in lexicon.words
    assert Traits("All of it, not at all.").count(lexicon) == 2


def test_the_traits_of_ascii_do_not_depend_on_what_stands_beside_it() -> None:
    plain = "Don't wait-and-see: 5mg of B12_x, twice! (It is all there is.)"
    quoted = Traits(f"{plain} \N{EM DASH}")
    assert Traits(plain).content_words == quoted.content_words
    assert Traits(plain).n_words == quoted.n_words
    assert Traits(plain).garbling == quoted.garbling
