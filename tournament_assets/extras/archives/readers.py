"""Finds readers by name: ClawBench's, and those that extensions add."""

from tournament_assets.extras.archives.clawbench import ClawBench
from tournament_assets.extras.archives.harness import Reader
from tournament_assets.foundation.extensions import added_rows_by_name

READERS: dict[str, type[Reader]] = {"clawbench": ClawBench}
"""The built-in readers, by their name in a description."""


def find_reader(name: str) -> Reader:
    """Return a reader by its name."""
    readers = {**READERS, **added_rows_by_name("archive_readers", READERS)}
    if name not in readers:
        raise ValueError(f"it is {name!r}; expected one of {', '.join(readers)}")
    reader = readers[name]()
    if not isinstance(reader, Reader):
        raise ValueError(f"it is {name!r}, which is no reader; expected a subclass of Reader")
    return reader
