import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tournament_assets.foundation.fingerprints import (
    canonical_json,
    combine,
    fingerprint,
    fingerprint_bytes,
    fingerprint_text,
    short,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Characters of every kind but surrogates, which UTF-8 has no bytes for.
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_reversed_keys(item) for item in value]
    return value


@given(json_values)
def test_the_order_of_keys_does_not_change_canonical_json(value: Any) -> None:
    assert canonical_json(_reversed_keys(value)) == canonical_json(value)


@given(json_values)
def test_canonical_json_reads_back_as_the_same_value(value: Any) -> None:
    assert json.loads(canonical_json(value)) == value


def test_canonical_json_has_no_spaces_and_escapes_no_letters() -> None:
    assert canonical_json({"b": [1, "é"], "a": None}) == '{"a":null,"b":[1,"é"]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_numbers_that_json_cannot_say_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


def test_a_fingerprint_is_the_sha256_of_canonical_json() -> None:
    expected = hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    assert fingerprint({"b": 2, "a": 1}) == expected
    assert fingerprint_text('{"a":1,"b":2}') == expected
    assert fingerprint_bytes(b'{"a":1,"b":2}') == expected


def test_a_known_hash() -> None:
    assert fingerprint_text("abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, B.1
    )


def test_different_lone_surrogates_have_different_fingerprints() -> None:
    assert fingerprint_text("\ud800") != fingerprint_text("\ud801")


def test_a_combined_fingerprint_depends_on_the_order() -> None:
    first, second = fingerprint_text("first"), fingerprint_text("second")
    assert combine([first, second]) == combine(iter([first, second]))
    assert combine([first, second]) != combine([second, first])


def test_people_are_shown_twelve_characters() -> None:
    assert short(fingerprint_text("abc")) == "ba7816bf8f01"
