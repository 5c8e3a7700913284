"""Modules that are imported when something of them is first used.

    from tournament_assets.tournament.late_modules import np, pd

Definitions name the tables' libraries in many places and use none of them; a run uses them all.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["late_module", "np", "pa", "pd", "pq", "upath"]


class _LateModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        # What looks at modules without using them asks for names like `__wrapped__`.
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} is not imported yet: no {name!r}")
        module = import_module(self.__name__)
        value = getattr(module, name)
        # The next one finds it where any module has it, without coming here.
        setattr(self, name, value)
        return value


def late_module(name: str) -> ModuleType:
    """Return what stands for a module, and imports it for the first attribute that is asked for.

    Args:
        name: Its whole name, such as `pyarrow.parquet`.
    """
    return _LateModule(name)


if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
    import upath
else:
    np = late_module("numpy")
    pd = late_module("pandas")
    pa = late_module("pyarrow")
    pq = late_module("pyarrow.parquet")
    upath = late_module("upath")
