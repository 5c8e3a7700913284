import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loopback.builders import judge_params
from tournament_assets.loopback.batches import BatchedRequest, read_rows, write_rows

SYSTEM = "Judge well. " * 100
all_params = st.lists(
    st.fixed_dictionaries(
        {"messages": st.lists(st.text(max_size=3), max_size=2)},
        optional={
            "model": st.sampled_from(["one", "two"]),
            "max_tokens": st.sampled_from([1, 1.0, True, None]),
            "system": st.sampled_from(["s", ["s"], "\ud800"]),
        },
    )
    | st.just({}),
    max_size=12,
)


def write(requests: list[BatchedRequest]) -> list[bytes]:
    file = io.BytesIO()
    write_rows(file, requests)
    return file.getvalue().splitlines(keepends=True)


def read(lines: list[bytes]) -> list[BatchedRequest]:
    return list(read_rows(io.BytesIO(b"".join(lines))))


def request(name: str, **params: Any) -> BatchedRequest:
    return BatchedRequest(name, judge_params(**params), "none")


@given(all_params)
def test_reading_undoes_writing(drawn: list[dict[str, Any]]) -> None:
    requests = [
        BatchedRequest(f"r{number}", params, "read", "text_empty" if number % 2 else None)
        for number, params in enumerate(drawn)
    ]
    found = sorted(read(write(requests)), key=lambda each: int(each.custom_id[1:]))
    # 1, 1.0 and true are equal in Python and not in JSON.
    assert [json.dumps(each.params, sort_keys=True) for each in found] == [
        json.dumps(params, sort_keys=True) for params in drawn
    ]
    assert found == requests


def test_a_system_text_that_many_requests_share_is_written_once() -> None:
    lines = write([request(f"r{number}", system=SYSTEM) for number in range(50)])
    assert b"".join(lines).count(SYSTEM.encode()) == 1
    assert len(lines) == 51
    assert json.loads(lines[0])["params"]["system"][0]["text"] == SYSTEM


def test_two_system_texts_are_written_once_each() -> None:
    requests = [request(f"r{number}", system=SYSTEM + "ab"[number % 2]) for number in range(40)]
    text = b"".join(write(requests)).decode()
    assert (text.count(f"{SYSTEM}a"), text.count(f"{SYSTEM}b")) == (1, 1)


def test_a_request_that_shares_nothing_is_a_row_by_itself() -> None:
    lines = write([request("r1", system="one"), request("r2", system="two")])
    assert [sorted(json.loads(line)) for line in lines] == [
        ["cache_use", "custom_id", "fault", "params"]
    ] * 2


def test_the_order_of_the_rows_is_fixed_and_not_the_one_of_the_requests() -> None:
    requests = [request(f"r{number}") for number in range(30)]
    names = [each.custom_id for each in read(write(requests))]
    assert names == [each.custom_id for each in read(write(requests[::-1]))]
    assert names != [each.custom_id for each in requests]


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"shared": 0}\n',
        b'{"custom_id": "a", "shared": 7, "params": {}}\n',
    ],
)
def test_a_line_that_is_no_request_is_quoted(line: bytes) -> None:
    with pytest.raises(ValueError, match=re.escape(line.decode().strip())):
        read([line])
