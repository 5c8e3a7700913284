from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.storage.match_texts import Texts, restore_texts, without_repeated_texts

TEXT = st.sampled_from(["", "so", "no", None])


@st.composite
def matches(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw records as of table "match_list", in which even a text of one prompt may change."""
    keys = product(("facts", "tone"), ("p1", "p2"), (1, 2), combinations("abc", 2))
    fields = ("prompt_text", "gold_answer", "expected_behavior", "response_a", "response_b")
    return [
        {
            "dimension": dimension,
            "prompt_id": prompt,
            "sample": sample,
            "entrant_a": one,
            "entrant_b": other,
            **{name: draw(TEXT) for name in fields},
        }
        for dimension, prompt, sample, (one, other) in keys
    ]


@given(matches())
def test_records_whose_repeated_texts_are_left_out_come_back_whole(
    records: list[dict[str, Any]],
) -> None:
    texts: Texts = {}
    assert [restore_texts(each, texts) for each in without_repeated_texts(records)] == records


def test_a_text_that_stays_the_same_is_written_once() -> None:
    records = [
        {
            "dimension": dimension,
            "prompt_id": "p",
            "sample": 1,
            "prompt_text": "why?",
            "gold_answer": None,
            "expected_behavior": None,
            "entrant_a": one,
            "response_a": f"I am {one}",
            "entrant_b": other,
            "response_b": f"I am {other}",
        }
        for dimension in ("facts", "tone")
        for one, other in combinations("abcd", 2)
    ]
    values = Counter(
        value for record in without_repeated_texts(records) for value in record.values()
    )
    assert [values[f"I am {name}"] for name in "abcd"] == [1] * 4
    assert values["why?"] == 1
    assert sum(map(len, without_repeated_texts(records))) < sum(map(len, records))


def test_a_record_that_names_no_prompt_is_refused() -> None:
    with pytest.raises(KeyError, match="prompt_id"):
        restore_texts({"sample": 1, "entrant_a": "ada", "entrant_b": "bob"}, {})
