"""Opening the files that people name: each must be a regular file, and of a bearable size.

A pipe would be waited for, a device such as `/dev/zero` would never end.
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from upath import UPath

from tournament_assets.foundation.errors import InputError
from tournament_assets.foundation.formatting import hint_at

MOST_TEXT_BYTES = 16 * 2**20
"""Of a text that is read whole: a config, a rubric, a template."""
MOST_DOCUMENT_BYTES = 2**30
"""Of one JSON document about a run that another program has written."""
MOST_ROWS_BYTES = 64 * 2**30
"""Of a file with rows: the largest public ones have a tenth of that."""
OTHER_KINDS = {
    b"\x1f\x8b": "gzip",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PAR1": "Parquet",
}
"""What files are that begin so, and are no text in UTF-8."""
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


@contextmanager
def reading(
    path: "Path | UPath | Traversable", expected: str, *, label: str = ""
) -> Iterator[None]:
    """Refuse a file that cannot be opened, or is not UTF-8, where its block reads it.

    Args:
        expected: What the file should be, for messages.
        label: What messages begin with; its path by default.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        # Of another encoding it is a part that could not be read, and not the whole.
        line = error.object.count(b"\n", 0, error.start) + 1
        place = f"{path}:{line}" if error.encoding == "utf-8" else str(path)
        raise InputError(f"{place}: {explain_bytes(error.object)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"{error!s:.200}"
        if isinstance(error, FileNotFoundError):
            reason += hint_at_path(path)
        raise InputError(
            f"{label or f'{path}: the file'} cannot be read ({reason}); expected {expected}; "
            "check the path"
        ) from None


def hint_at_path(path: "Path | UPath | Traversable") -> str:
    """Return `; did you mean …?` with what lies there and is named nearly as a missing file."""
    if not isinstance(path, Path):
        return ""
    missing = next(at for at in (path, *path.parents) if at.parent.is_dir())
    if not os.access(missing.parent, os.R_OK):
        return ""
    deeper = sorted(str(at.relative_to(path.parent)) for at in path.parent.glob(f"*/{path.name}"))
    near = hint_at(missing.name, (entry.name for entry in missing.parent.iterdir()))
    return near or hint_at(path.name, deeper[-1:])


def explain_bytes(content: bytes) -> str:
    """Say what bytes that are not UTF-8 may be instead, and how to make a text of them."""
    kinds = (kind for beginning, kind in OTHER_KINDS.items() if content.startswith(beginning))
    return (
        f"the text is not UTF-8, but perhaps {next(kinds, 'Windows-1252 (Latin-1)')}; expected "
        "UTF-8; unpack it, or save it as UTF-8 ('CSV UTF-8' in a spreadsheet)"
    )


def _open_at_once(name: str, flags: int) -> int:
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(most: int) -> FileTooLargeError:
    return FileTooLargeError(None, f"it is larger than {most // 2**20:,} MiB")
