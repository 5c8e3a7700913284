"""Batches as they travel to the Anthropic API: too large for memory, so they go through a file."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from tournament_assets.judging.service import SubmittedRequest
from tournament_assets.tournament.errors import JudgeError
from tournament_assets.tournament.fingerprints import canonical_json


@contextmanager
def written_body(requests: Iterable[SubmittedRequest]) -> Iterator[tuple[IO[bytes], int]]:
    """Write a batch to a file, request by request, and say how many there were.

    Raises:
        JudgeError: If there is no room for it.
    """
    with ExitStack() as stack:
        n_requests = 0
        try:
            body = stack.enter_context(tempfile.TemporaryFile())
            body.write(b'{"requests":[')
            for request in requests:
                row = {"custom_id": request.custom_id, "params": request.params}
                body.write(b"," if n_requests else b"")
                body.write(canonical_json(row).encode())
                n_requests += 1
            body.write(b"]}")
            body.seek(0)
        except OSError as error:
            raise JudgeError(
                f"a batch could not be written to a temporary file: {error}; expected up to 256 MB "
                "of room; nothing was sent: make room, or set TMPDIR, and run again"
            ) from None
        yield body, n_requests
