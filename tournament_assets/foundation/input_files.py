"""Opening the files that people name: each must be a regular file, and of a bearable size.

A pipe would be waited for, a device such as `/dev/zero` would never end.
"""

import io
import os
import stat
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from upath import UPath

MOST_TEXT_BYTES = 16 * 2**20
"""Of a text that is read whole: a config, a rubric, a template."""
MOST_DOCUMENT_BYTES = 2**30
"""Of one JSON document about a run that another program has written."""
MOST_ROWS_BYTES = 64 * 2**30
"""Of a file with rows: the largest public ones have a tenth of that."""
_PART_BYTES = 2**20


class NotARegularFileError(OSError):
    """A folder, a pipe, a socket or a device where a file was expected."""


class FileTooLargeError(OSError):
    """A file with more bytes than its kind can have."""


def open_input(path: "Path | UPath | Traversable", *, most: int) -> BinaryIO:
    """Open a file for reading bytes; nothing is waited for.

    Args:
        most: How many bytes it may have.

    Raises:
        NotARegularFileError: If it is a pipe, a socket or a device.
        FileTooLargeError: If it is larger.
        OSError: If it cannot be opened.
    """
    if not isinstance(path, Path) or getattr(path, "protocol", "") not in ("", "file", "local"):
        return cast("BinaryIO", path.open("rb"))  # in an object store everything is a file
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # pathlib has no opener
    state = os.fstat(file.fileno())
    if not stat.S_ISREG(state.st_mode):
        file.close()
        raise NotARegularFileError(None, "it is a pipe or a device, no regular file")
    if state.st_size > most:
        file.close()
        raise _too_large(most)
    return file


def read_input(path: "Path | UPath | Traversable", *, most: int = MOST_TEXT_BYTES) -> bytes:
    """Return the bytes of a file; raises as `open_input` does."""
    content = bytearray()
    with open_input(path, most=most) as file:
        while part := file.read(_PART_BYTES):
            content += part
            if len(content) > most:  # whatever size it claims
                raise _too_large(most)
    return bytes(content)


def read_input_text(path: "Path | UPath | Traversable") -> str:
    """Return the text of a file in UTF-8, without a byte order mark, with line feeds alone.

    Raises:
        UnicodeDecodeError: If it is not UTF-8.
        OSError: As `open_input` says.
    """
    return io.TextIOWrapper(io.BytesIO(read_input(path)), encoding="utf-8-sig").read()


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(most: int) -> FileTooLargeError:
    return FileTooLargeError(None, f"it is larger than {most // 2**20:,} MiB")
