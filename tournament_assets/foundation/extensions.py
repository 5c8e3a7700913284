"""The door by which extras and extensions add rows; the core reads them without knowing whose.

An extra is a folder of `tournament_assets/extras`; an extension is a package of another
distribution, which an entry point of the group `tournament_assets.extensions` names. What either
adds stands in modules that are called after the kind of row, each with one value `ROWS`. A module
that is missing adds nothing.

| module | `ROWS` | read by |
|---|---|---|
| `commands` | by name (`bank`, `ledger import`), its place in the top package, its help | `cli` |
| `archive_readers` | by name, readers of another harness's scored runs | `extras/archives` |
| `pages` | by name, the place of an application, its help | `serving/ui_server.py` |
| `configs` | by title, the model of a file of its own | `tournament configuration` |
| `config_keys` | models of keys of a tournament's config | `tournament/config.py` |
| `mode_keys` | models of keys of a mode in a tournament's config | `tournament/config.py` |
| `config_problems` | functions that find problems across keys | `project/config_files.py` |
| `ledger_tables` | metadata of tables in the ledger | `ledger/database.py` |
| `assets` | rows of the graph's table | `graph/table.py` |
| `jobs` | rows of its jobs, which come after the core's | `graph/table.py` |
| `loaders` | rows of loaders, each with the class of its entrants | `tournament/entrants.py` |
| `services` | services that judge and play | `tournament/judge_services.py` |
| `prices` | by model, its `ConfiguredPrice` | `judging/costs/prices.py` |
| `measures` | measures with a light | `trust/measures.py` |
| `methods` | rating methods | `ratings/rating_methods.py` |
| `sections` | sections of the report | `reports/run/section_table.py` |
| `formats` | battle formats | `battles/registry.py` |
| `rounds` | ways to judge a mode in rounds | `verdicts/rounds.py` |
| `rerun_requests` | functions that count what a rerun repeats | `preparing/estimates.py` |
| `sensors` | functions from the environment to Dagster's sensors | `definitions.py` |
| `run_readers` | functions that read other tools' files | `run_comparison/run_reading.py` |
| `preflight` | functions that refuse input that cannot be read | `preparing/preflight.py` |

Its templates stand in its folder `templates` and are named after it: `people/templates/label.js`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from traceback import walk_tb
from typing import Any, Literal, get_args

from tournament_assets.foundation.errors import ExtensionError

_EXTRAS = "tournament_assets.extras"
_VARIABLE = "TOURNAMENT_EXTENSIONS"
_CORE = "tournament-assets"
RowKind = Literal[
    "assets",
    "config_keys",
    "config_problems",
    "formats",
    "jobs",
    "ledger_tables",
    "loaders",
    "measures",
    "methods",
    "mode_keys",
    "preflight",
    "rerun_requests",
    "rounds",
    "run_readers",
    "sections",
    "sensors",
    "services",
]
KindByName = Literal["archive_readers", "commands", "configs", "pages", "prices"]
_BY_NAME = tuple(f".{kind}" for kind in get_args(KindByName))


@dataclass(frozen=True, slots=True)
class Extension:
    """A package that adds rows.

    Attributes:
        name: The folder of an extra; the name of an extension's entry point.
        package: The package that holds the modules of rows.
        distribution: The distribution that installs it.
        version: The distribution's version; empty for an extra.
    """

    name: str
    package: str
    distribution: str = _CORE
    version: str = ""

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".strip()

    @property
    def versions(self) -> dict[str, str]:
        """What it is part of a recipe by: its version, by its distribution; nothing of an extra."""
        return {self.distribution: self.version} if self.version else {}


_left_out: dict[str, None] = {}
_refuses = True


def set_broken_aside() -> None:
    """Leave out what cannot be used from now on, where it would be an error otherwise.

    For what has to work whatever is installed: the list of commands, and `tournament doctor`.
    """
    global _refuses
    _refuses = False


def extension_problems() -> tuple[str, ...]:
    """Return why something was left out since what is broken is set aside, a sentence each."""
    return tuple(_left_out)


def refuse_row(problem: str, extension: Extension) -> None:
    """Leave out a row of an extension, which is an error unless what is broken is set aside."""
    _refuse(f"{problem}; uninstall {extension.distribution}, or set {_VARIABLE}=none")


@contextmanager
def naming_extensions() -> Iterator[None]:
    """Note on an error in whose code it was raised, if that is an extension's."""
    try:
        yield
    except Exception as error:
        for frame, line in reversed([*walk_tb(error.__traceback__)]):
            module = frame.f_globals.get("__name__", "")
            for extension in installed_extensions():
                if f"{module}.".startswith(f"{extension.package}."):
                    error.add_note(f"in the extension {extension}, {module}:{line}")
                    raise
        raise


def _refuse(problem: str) -> None:
    if _refuses:
        raise ExtensionError(problem)
    _left_out[problem] = None


@cache
def installed_extras() -> tuple[str, ...]:
    """Return the names of the extras that are there, in alphabetical order."""
    spec = find_spec(_EXTRAS)
    places = None if spec is None else spec.submodule_search_locations
    return tuple(sorted(module.name for module in iter_modules(places or ()) if module.ispkg))


def installed_extensions() -> tuple[Extension, ...]:
    """Return the extensions of other distributions, in alphabetical order of these.

    Raises:
        ExtensionError: If the environment names another choice than `none`.
    """
    choice = os.environ.get(_VARIABLE, "")
    if choice not in ("", "none"):
        _refuse(f"{_VARIABLE} is {choice!r}; expected none, or that it is not set")
    return () if choice else _extensions()


@cache
def _extensions() -> tuple[Extension, ...]:
    rows = [
        Extension(point.name, point.module, point.dist.name, point.dist.version)
        for point in entry_points(group="tournament_assets.extensions")
        if point.dist is not None
    ]
    return tuple(sorted(rows, key=lambda row: (row.distribution, row.name)))


def rows_by_extension(
    kind: RowKind | KindByName, beside: Iterable[Any] = (), types: Iterable[type] = ()
) -> tuple[tuple[Extension, Any], ...]:
    """Return what extras and extensions add of a kind, each row with what added it.

    Args:
        beside: The rows of the core; of a kind that has names, pairs of a name and a row.
        types: Those that added rows may have beside the core's.

    Raises:
        ExtensionError: If an extension cannot be imported, a row has another type than the core's,
            or two rows have one name.
    """
    core = tuple(beside)
    owners = {name: _CORE for row in core for name in _names_of(row)}
    types = {*types, *map(type, core)} or {object}
    return tuple(
        (extension, row)
        for extension, rows in _rows_of_kind(kind)
        for row in rows
        if _has_type(kind, row, extension, types)
        and _is_new(kind, _names_of(row), extension, owners)
    )


def added_rows(
    kind: RowKind | KindByName, beside: Iterable[Any] = (), types: Iterable[type] = ()
) -> tuple[Any, ...]:
    """Return what is added of a kind; only the modules of that kind are imported."""
    return tuple(row for _, row in rows_by_extension(kind, beside, types))


def added_rows_by_name(kind: KindByName, beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is added of a kind, by name."""
    return dict(added_rows(kind, beside.items()))


def versions_that_add(*kinds: RowKind) -> dict[str, str]:
    """Return the versions of the extensions that add rows of some kinds, by distribution."""
    adding = (extension for kind in kinds for extension, _ in _rows_of_kind(kind))
    return {name: of for extension in adding for name, of in extension.versions.items()}


def kinds_that_it_adds(extension: Extension) -> list[str]:
    """Return the kinds of row that an extension adds."""
    kinds = (*get_args(RowKind), *get_args(KindByName))
    return [kind for kind in kinds if _rows_in(extension, f"{extension.package}.{kind}")]


def added_folders() -> dict[str, str]:
    """Return the folders of extras and extensions, by name."""
    folders: dict[str, str] = {}
    for extension in _installed():
        with suppress(ImportError):  # why, is said where its rows are read
            place = next(iter(import_module(extension.package).__path__))
            folders.setdefault(extension.name, place)
    return folders


def _installed() -> tuple[Extension, ...]:
    extras = (Extension(name, f"{_EXTRAS}.{name}") for name in installed_extras())
    return (*extras, *installed_extensions())


def _rows_of_kind(kind: str) -> Iterator[tuple[Extension, Any]]:
    for extension in _installed():
        rows = _rows_in(extension, f"{extension.package}.{kind}")
        if rows:
            yield extension, rows.items() if isinstance(rows, Mapping) else rows


@cache
def _rows_in(extension: Extension, module: str) -> Any:
    try:
        if find_spec(module) is None:
            return ()
        rows, is_named = import_module(module).ROWS, module.endswith(_BY_NAME)
        if not isinstance(rows, Mapping if is_named else Sequence):
            raise TypeError(
                f"ROWS is {rows!r}; expected a {'dict' if is_named else 'tuple'} of rows"
            )
        return rows
    except ExtensionError:  # of another one, which it reads
        raise
    except Exception as error:
        if extension.distribution == _CORE:
            raise
        # The core's names are bound in the order of its imports, and loaders are read early.
        is_early = isinstance(error, ImportError) and _is_of_the_core(error.name or "")
        advice = "; name what functions use inside them, as extension.Made" if is_early else ""
        refuse_row(
            f"the extension {extension} cannot be imported: its entry point "
            f"'{extension.name} = {extension.package}' leads to {module}, which raises "
            f"{type(error).__name__}: {error}{advice}",
            extension,
        )
        return ()


def _is_of_the_core(module: str) -> bool:
    return module.startswith("tournament_assets.") and module != "tournament_assets.extension"


def _names_of(row: Any) -> tuple[str, ...]:
    """Return what only one row of its kind may be called."""
    if isinstance(row, tuple):
        return row[:1]
    fields = getattr(getattr(row, "entrant", row), "model_fields", {})
    if "loader" in fields:
        return get_args(fields["loader"].annotation)
    name = getattr(row, "name", None)
    return (name,) if isinstance(name, str) else (*fields, *getattr(row, "tables", ()))


def _has_type(kind: str, row: Any, extension: Extension, types: Iterable[type]) -> bool:
    """Return whether a row has the type of one of the core's."""
    if isinstance(row, tuple(types)):
        return True
    expected = " or ".join(sorted(each.__name__ for each in types))
    refuse_row(f"{row!r} is in the {kind} of {extension}; expected a {expected}", extension)
    return False


def _is_new(kind: str, names: Iterable[str], extension: Extension, owners: dict[str, str]) -> bool:
    """Return whether no other row has one of these names, which are the extension's then."""
    taken = [name for name in names if name in owners]
    for name in taken:
        refuse_row(
            f"{name!r} is in the {kind} of {owners[name]} and of {extension}; expected one row of "
            "a name",
            extension,
        )
    owners.update(dict.fromkeys(set(names) - {*taken}, str(extension)))
    return not taken
