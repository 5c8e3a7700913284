"""Which configuration of a language model is better, on which quality, and how sure we are.

    import tournament_assets as ta

    tournament = ta.load("configs/demo.yaml")
    tournament.estimate("pilot")
    run = tournament.run("pilot")
    run.frame

The names in the stub beside this module are for users; every module below may change. A name is
imported when it is first used, so importing the package costs nothing. `docs/architecture.md` draws
the modules.
"""

from typing import Any

from tournament_assets.lazy_names import LazyNames

_names = LazyNames(__name__, __file__)
__all__ = [*_names]


def __getattr__(name: str) -> Any:
    return _names.load(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
