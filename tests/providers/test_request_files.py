"""Tests of the temporary files of batches."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.judging.builders import requests_for
from tournament_assets.foundation.errors import JudgeError
from tournament_assets.judging.batch_service import SubmittedRequest
from tournament_assets.providers.anthropic.message_batches import written_body
from tournament_assets.providers.openai.services import _written_lines
from tournament_assets.providers.openai.wire_format import NEW_CAP, Dialect
from tournament_assets.providers.request_files import temporary_file


@contextmanager
def no_file_longer_than(n_bytes: int) -> Iterator[None]:
    """Let every file be full at a length, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("n_bytes", [100_000, 1_000_000])
def test_a_batch_without_room_says_what_to_do_whether_it_is_written_or_closed(n_bytes: int) -> None:
    parts = [b"x" * 1000] * (n_bytes // 1000)
    with (
        no_file_longer_than(50_000),
        pytest.raises(JudgeError) as caught,
        temporary_file(parts, most_mb=256),
    ):
        raise AssertionError("expected no room")
    assert "nothing was sent: make room, or set TMPDIR" in str(caught.value)


def test_both_protocols_say_so() -> None:
    requests = [SubmittedRequest(each.request_key, each.params) for each in requests_for(40)]
    for written in (
        lambda: written_body(requests),
        lambda: _written_lines(requests, lambda _: Dialect(NEW_CAP)),
    ):
        with no_file_longer_than(1000), pytest.raises(JudgeError, match="TMPDIR"), written():
            raise AssertionError("expected no room")
