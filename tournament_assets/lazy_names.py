"""Names that a module promises and imports when they are first used, by PEP 562."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any


class LazyNames:
    """The names that the stub beside a module imports, for it and for type checkers alike.

    Args:
        module: The module's name, for messages.
        file: Its file; the stub has the suffix `.pyi` and imports one name a line.
    """

    def __init__(self, module: str, file: str) -> None:
        self._module = module
        with open(f"{file.removesuffix('.py')}.pyi", encoding="utf-8") as stub:  # noqa: PTH123 (pathlib takes longer to load)
            imports = (line.split() for line in stub if line.startswith("from "))
            self._places = dict(sorted((name, place) for _, place, _, name, *_ in imports))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def load(self, name: str) -> Any:
        """Return what a name stands for.

        Raises:
            AttributeError: If the stub does not have it.
        """
        if name not in self._places:
            raise AttributeError(
                f"module {self._module!r} has no attribute {name!r}; it promises "
                f"{', '.join(self._places)}"
            )
        return getattr(import_module(self._places[name]), name)
