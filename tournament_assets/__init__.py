"""Which configuration of a language model is better, on which quality, and how sure we are.

A Dagster asset graph: `definitions.py` wires it, `cli.py` runs it, and the packages below hold
what it is made of. Imports point down; `docs/architecture.md` draws the floors.

The names in `__all__` are for users. A name is imported when it is first used, so importing the
package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tournament_assets.component import TournamentComponent

__all__ = ["TournamentComponent"]

_ELSEWHERE = {"TournamentComponent": "component"}
"""The module that a name comes from."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
