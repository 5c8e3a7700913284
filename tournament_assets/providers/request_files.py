"""Batches on their way to a service: in a temporary file, so that memory holds none whole."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from tournament_assets.foundation.errors import JudgeError


@contextmanager
def temporary_file(parts: Iterable[bytes], *, most_mb: int) -> Iterator[IO[bytes]]:
    """Write parts to a file that is gone afterwards, and go back to its beginning.

    Args:
        parts: They are made one by one as they are written.
        most_mb: How much room a batch may need, in MB, for the message.

    Raises:
        JudgeError: If there is no room for it; nothing was sent.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile())
            for part in parts:
                file.write(part)
            file.seek(0)
        except OSError as error:
            with suppress(OSError):  # closing it writes what is buffered, which has no room either
                stack.close()
            raise JudgeError(
                f"a batch could not be written to a temporary file: {error}; expected up to "
                f"{most_mb} MB of room; nothing was sent: make room, or set TMPDIR, and run again"
            ) from None
        yield file
