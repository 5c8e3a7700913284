"""What the extras add: rows that the core reads without knowing who wrote them.

An extra is a folder of `tournament_assets/extras`. What it adds to the core stands in modules that
are called after the kind of row, each with one value `ROWS`. A folder that is not there adds
nothing.

| module | `ROWS` | read by |
|---|---|---|
| `commands` | by name, where a command is and what the list says of it | `cli` |
| `configs` | by title, the model of a file of its own | `tournament configuration` |
| `formats` | battle formats | `battles/registry.py` |
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, Literal

_PACKAGE = "tournament_assets.extras"


def installed_extras() -> tuple[str, ...]:
    """Return the names of the extras that are there, in alphabetical order."""
    spec = find_spec(_PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    return tuple(sorted(each.name for each in iter_modules(places or ()) if each.ispkg))


def rows_of_extras(kind: Literal["commands", "configs", "formats"]) -> Iterator[Any]:
    """Yield what every extra adds of a kind; only the modules of that kind are imported."""
    for extra in installed_extras():
        if find_spec(f"{_PACKAGE}.{extra}.{kind}") is not None:
            yield import_module(f"{_PACKAGE}.{extra}.{kind}").ROWS
