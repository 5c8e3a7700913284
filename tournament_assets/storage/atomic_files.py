"""Writing a file whole or not at all, on a local disk or in an object store."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import upath

_SPOOLED_BYTES = 4_000_000
_COPIED_BYTES = 1 << 20


class WaitingContent:
    """Bytes waiting to be stored or shown: few in memory, many in an unnamed temporary file.

    Attributes:
        file: The file that holds them; closed with the last reference to this object.
    """

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115

    def __del__(self) -> None:
        self.file.close()

    def read(self) -> bytes:
        """Return all the bytes."""
        self.file.seek(0)
        return self.file.read()

    def copy_to(self, file: IO[bytes]) -> None:
        """Write all the bytes to a file, a part at a time."""
        self.file.seek(0)
        shutil.copyfileobj(self.file, file, _COPIED_BYTES)


def write_bytes_atomically(path: Path | upath.UPath, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    write_atomically(path, lambda file: file.write(content))


def write_atomically(path: Path | upath.UPath, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file, a part at a time, so that a reader sees the old one or the new one.

    On a local disk a temporary file beside it is written, flushed and renamed; an object store
    shows an object only once it is complete.

    Args:
        path: Where the file goes; its folder is created if needed.
        write: Writes the content to the file it is given.
    """
    if getattr(path, "protocol", "") not in ("", "file", "local"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            write(file)
        return
    with atomic_file(Path(str(getattr(path, "path", path)))) as file:
        write(file)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a local file that appears whole at the end of the `with` block, or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
