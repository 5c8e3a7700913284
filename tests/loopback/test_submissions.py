import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loopback.builders import batch_body, judge_params
from tournament_assets.loopback.submissions import Refusal, read_requests

texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def read(body: bytes, *, size: int = 7, limit: int = 10**9) -> list[tuple[str, Mapping[str, Any]]]:
    """Read a body that arrives in chunks of a size."""

    async def arrive() -> AsyncIterator[bytes]:
        for start in range(0, len(body), size):
            yield body[start : start + size]

    return asyncio.run(read_requests(arrive(), max_bytes=limit))


@given(
    st.lists(st.dictionaries(texts, values, max_size=4), min_size=1, max_size=4),
    values,
    st.integers(1, 60),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_a_body_in_pieces_is_read_as_it_would_be_in_one(
    all_params: list[dict[str, Any]], other: Any, size: int, escaped: bool, indent: int | None
) -> None:
    requests = [
        {"custom_id": f"r{number}", "params": params} for number, params in enumerate(all_params)
    ]
    body = {"before": other, "requests": requests, "after": other}
    written = json.dumps(body, ensure_ascii=escaped, indent=indent)
    found = read(written.encode("utf-8", errors="surrogatepass"), size=size)
    assert [name for name, _ in found] == [request["custom_id"] for request in requests]
    assert [json.dumps(params, sort_keys=True) for _, params in found] == [
        json.dumps(params, sort_keys=True) for params in all_params
    ]


def test_a_body_that_is_cut_off_anywhere_is_no_json() -> None:
    body = json.dumps(batch_body(2)).encode()
    assert len(read(body)) == 2
    for length in range(len(body)):
        with pytest.raises(Refusal, match="valid JSON"):
            read(body[:length], size=50)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"requests": [1,]}', b'{"requests": [}', b'{"requests": []} x', b"\xff",
     b'{1: 2}', b'{"requests" []}', b'{"a": tru}', b"[" * 10**5,
     b'{"requests": [' + b"[" * 10**5],
)  # fmt: skip
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="valid JSON"):
        read(body, size=1000)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [(b"[]", "not a JSON object"), (b"12", "not a JSON object"), (b"{}", "at least one request"),
     (b'{"requests": []}', "at least one"), (b'{"requests": {"a": 1}}', "at least one"),
     (b'{"requests": [1]}', "requests.0.custom_id"),
     (b'{"requests": [{"custom_id": "a"}]}', "requests.0.params")],
)  # fmt: skip
def test_json_that_is_no_batch_is_refused_by_name(body: bytes, complaint: str) -> None:
    with pytest.raises(Refusal, match=complaint):
        read(body)


@pytest.mark.parametrize("number", ["7", "1.5", "1e5", "-1.25E-7", "1.0000000000000002e+16"])
def test_a_number_that_is_cut_anywhere_is_read_as_a_whole(number: str) -> None:
    row = f'{{"custom_id": "a", "params": {{"max_tokens": {number}}}}}'
    found = read(f'{{"n": {number}, "requests": [{row}], "m": {number}}}'.encode(), size=1)
    assert found == [("a", {"max_tokens": float(number)})]


@pytest.mark.parametrize(
    ("rows", "limit", "complaint"),
    [([b'{"custom_id": "a b"}', b'{"custom_id": ""}'], 1000, r"requests\.0\.custom_id"),
     ([b"1 1", b"2"], 1000, "not valid JSON"),
     ([b"1", b"2", b"3"], 15, "exceeds the maximum size")],
)  # fmt: skip
def test_a_body_that_is_refused_is_read_to_its_end(
    rows: list[bytes], limit: int, complaint: str
) -> None:
    rest = [b'{"requests": [', b",".join(rows), b"]", b"}", b"\n"]

    async def arrive() -> AsyncIterator[bytes]:
        while rest:
            yield rest.pop(0)

    # A client that is still sending would not hear a refusal.
    with pytest.raises(Refusal, match=complaint):
        asyncio.run(read_requests(arrive(), max_bytes=limit))
    assert rest == []


def test_more_than_100_000_requests_are_refused() -> None:
    rows = ",".join(f'{{"custom_id":"r{number}","params":{{}}}}' for number in range(100_001))
    body = f'{{"requests":[{rows}]}}'.encode()
    with pytest.raises(Refusal, match="100000"):
        read(body, size=100_000)


def test_a_body_that_is_too_long_is_refused_as_too_large() -> None:
    body = json.dumps(batch_body(3)).encode()
    assert len(read(body, limit=len(body))) == 3
    with pytest.raises(Refusal) as refused:
        read(body, limit=len(body) - 1)
    assert (refused.value.status, refused.value.kind) == (413, "request_too_large")


def test_what_requests_have_in_common_is_in_memory_once() -> None:
    body = json.dumps(batch_body(3, system="x" * 100)).encode()
    first, second, third = (params["system"] for _, params in read(body))
    assert first is second is third


def test_a_one_and_a_true_are_not_held_to_be_the_same() -> None:
    body = b'{"requests": [%s]}' % b",".join(
        b'{"custom_id": "r%d", "params": {"max_tokens": %s}}' % (number, written)
        for number, written in enumerate([b"1", b"true", b"1.0"])
    )
    assert [repr(params["max_tokens"]) for _, params in read(body)] == ["1", "True", "1.0"]


def test_reading_a_large_body_takes_the_memory_of_its_messages_only() -> None:
    n_requests, system = 2_000, "s" * 9_000
    row = json.dumps({"params": judge_params(system=system)})[1:]
    parts = [f'{{"custom_id": "r{number}", {row}'.encode() for number in range(n_requests)]

    async def arrive(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
        for number, part in enumerate(parts):
            yield (b'{"requests": [' if number == 0 else b",") + part
        yield b"]}"

    tracemalloc.start()
    try:
        requests = asyncio.run(read_requests(arrive(parts)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(requests) == n_requests
    # The body has 18 MB of system text, and 0.5 MB of messages with their objects around them.
    assert peak < 5_000_000
