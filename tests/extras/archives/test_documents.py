import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.extras.archives.documents import edit_document
from tournament_assets.foundation.errors import InputError

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
layouts = st.sampled_from(
    [{}, {"indent": 2}, {"indent": "\t"}, {"indent": 0}, {"separators": (",", ":")}]
)


def edited(text: str, **values: Any) -> str:
    return edit_document(text, values).decode()


@given(
    before=st.dictionaries(st.text(), values, max_size=3),
    judge=st.dictionaries(st.text(), values, max_size=3),
    new=values,
    after=st.dictionaries(st.text(), values, max_size=3),
    layout=layouts,
    is_ascii=st.booleans(),
)
def test_two_values_change_and_every_other_one_stays(
    before: dict[str, Any],
    judge: dict[str, Any],
    new: Any,
    after: dict[str, Any],
    layout: dict[str, Any],
    is_ascii: bool,
) -> None:
    taken = {"judge", "judge_before", "score", "score_before"}
    rest = {f"{place}{key}" for place, each in (("a", before), ("b", after)) for key in each}
    document = {
        **{f"a{key}": value for key, value in before.items()},
        "judge": judge,
        "score": 0.25,
        "other": [1],
        **{f"b{key}": value for key, value in after.items()},
    }
    assert not rest & taken
    text = json.dumps(document, ensure_ascii=is_ascii, **layout)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(document, **layout)
    found = edited(text, judge=new, score=0.5)
    assert json.loads(found) == {
        **document,
        "judge": new,
        "judge_before": judge,
        "score": 0.5,
        "score_before": 0.25,
    }
    start, end = text.index('"judge":'), text.index('"other":')
    assert found.startswith(text[:start])
    assert found.endswith(text[end:])


def test_every_value_that_ever_stood_there_is_kept() -> None:
    text = '{"score": 0}'
    for score in (1, 2, 3):
        text = edited(text, score=score)
    assert json.loads(text) == {
        "score": 3,
        "score_before": 0,
        "score_before_2": 1,
        "score_before_3": 2,
    }


def test_a_file_that_escapes_nothing_has_nothing_escaped() -> None:
    assert edited('{"x": "é", "s": 0}', s="ü") == '{"x": "é", "s": "ü", "s_before": 0}'
    assert edited('{"x": "e", "s": 0}', s="ü") == '{"x": "e", "s": "\\u00fc", "s_before": 0}'


def test_an_indented_object_stays_indented() -> None:
    text = '{\n  "judge": {\n    "score": 0\n  },\n  "x": 1.50\n}\n'
    assert edited(text, judge={"score": 1, "why": ["a"]}) == (
        '{\n  "judge": {\n    "score": 1,\n    "why": [\n      "a"\n    ]\n  },\n'
        '  "judge_before": {\n    "score": 0\n  },\n  "x": 1.50\n}\n'
    )


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"a": {"score": 1}}'])
def test_a_value_that_is_not_there_cannot_be_replaced(text: str) -> None:
    with pytest.raises(InputError, match="expected"):
        edited(text, score=1)
