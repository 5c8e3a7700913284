"""Finds readers by name: ClawBench's, and those of installed packages."""

from collections.abc import Callable
from importlib.metadata import entry_points

from tournament_assets.extras.archives.clawbench import ClawBench
from tournament_assets.extras.archives.harness import Reader

READERS: dict[str, Callable[[], Reader]] = {"clawbench": ClawBench}
"""The built-in readers, by their name in a description."""
ENTRY_POINTS = "tournament_assets.archive_readers"
"""The group of entry points for a package's readers: `name = "module:Class"`."""


def find_reader(name: str) -> Reader:
    """Return a reader by its name."""
    if name in READERS:
        return READERS[name]()
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name not in others:
        names = ", ".join([*READERS, *sorted(others.keys() - READERS.keys())])
        raise ValueError(
            f"it is {name!r}; expected one of {names}, or one that a package names in the "
            f"entry points of {ENTRY_POINTS}"
        )
    entry = others[name]
    try:
        reader = entry.load()()
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(
            f"it is {name!r}, and {entry.value} cannot be made ({type(error).__name__}: {error}); "
            "expected a class without arguments"
        ) from error
    if not isinstance(reader, Reader):
        raise ValueError(
            f"it is {name!r}, and {entry.value} is not a reader; expected a subclass of Reader"
        )
    return reader
