"""Which configuration of a language model is better, on which quality, and how sure we are.

    import tournament_assets as ta

    tournament = ta.load("configs/demo.yaml")
    tournament.estimate("pilot")
    run = tournament.run("pilot")
    run.frame

The names in `__all__` are for users; every module below may change. A name is imported when it is
first used, so importing the package costs nothing. `docs/architecture.md` draws the modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tournament_assets.definitions import TournamentComponent
    from tournament_assets.foundation.errors import InputError, TournamentError, WorkError
    from tournament_assets.python_api import (
        Run,
        Tournament,
        compare,
        compare_answers,
        load,
        open_run,
        rate,
    )
    from tournament_assets.python_results import (
        Comparison,
        GateResult,
        Picture,
        PriceEstimate,
        Ratings,
    )
    from tournament_assets.tournament.battles import RatingSettings

__all__ = [
    "Comparison",
    "GateResult",
    "InputError",
    "Picture",
    "PriceEstimate",
    "RatingSettings",
    "Ratings",
    "Run",
    "Tournament",
    "TournamentComponent",
    "TournamentError",
    "WorkError",
    "compare",
    "compare_answers",
    "load",
    "open_run",
    "rate",
]

_ELSEWHERE = {
    "Comparison": "python_results",
    "PriceEstimate": "python_results",
    "GateResult": "python_results",
    "InputError": "foundation.errors",
    "Picture": "python_results",
    "RatingSettings": "tournament.battles",
    "Ratings": "python_results",
    "TournamentComponent": "definitions",
    "TournamentError": "foundation.errors",
    "WorkError": "foundation.errors",
}
"""The module of a name that `python_api` does not define."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'python_api')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
