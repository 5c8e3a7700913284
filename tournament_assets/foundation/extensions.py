"""The rows that extras add; the core reads them without knowing which extra wrote them.

An extra is a folder of `tournament_assets/extras`. What it adds to the core stands in modules that
are called after the kind of row, each with one value `ROWS`. A missing folder adds nothing.

| module | `ROWS` | read by |
|---|---|---|
| `commands` | by name, where a command is and what the list says about it | `cli` |
| `configs` | by title, the model of a file of its own | `tournament configuration` |
| `config_keys` | models of keys of a tournament's config | `tournament/config.py` |
| `config_problems` | functions that find problems across keys | `project/config_files.py` |
| `ledger_tables` | metadata of tables in the ledger | `ledger/database.py` |
| `assets` | rows of the graph's table | `graph/table.py` |
| `loaders` | rows of loaders, each with the class of its entrants | `tournament/entrants.py` |
| `measures` | measures with a light | `trust/measures.py` |
| `methods` | rating methods | `ratings/rating_methods.py` |
| `sections` | sections of the report | `reports/run/section_table.py` |
| `formats` | battle formats | `battles/registry.py` |
| `preflight` | functions that refuse input that cannot be read | `preparing/preflight.py` |
"""

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


def added_rows(
    kind: Literal[
        "assets",
        "config_keys",
        "config_problems",
        "formats",
        "ledger_tables",
        "loaders",
        "measures",
        "methods",
        "preflight",
        "sections",
    ],
) -> tuple[Any, ...]:
    """Return what the extras add of a kind; only the modules of that kind are imported."""
    return tuple(row for rows in _found(kind) for row in rows)


def added_rows_by_name(kind: Literal["commands", "configs"]) -> dict[str, Any]:
    """Return what the extras add of a kind, by name."""
    return {name: row for rows in _found(kind) for name, row in rows.items()}


def _found(kind: str) -> list[Any]:
    modules = (f"{_PACKAGE}.{extra}.{kind}" for extra in installed_extras())
    return [import_module(each).ROWS for each in modules if find_spec(each) is not None]
