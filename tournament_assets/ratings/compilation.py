"""Compiles kernels with numba and keeps the machine code on disk where the disk allows it."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a typed, module-level function on its first call for each set of argument types.

    A kernel may call only kernels of its own file: numba notices an edit of that file alone.
    """
    return cast("Kernel", _Kernel(function))


class _Kernel(Generic[Kernel]):
    """A function that is compiled when it is first called, so that importing it takes no numba."""

    def __init__(self, function: Kernel) -> None:
        self.py_func = function
        self._dispatcher: Kernel | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.dispatcher()(*arguments, **named)

    def dispatcher(self) -> Kernel:
        """Return numba's own object, which the file's other kernels have to see under its name."""
        if self._dispatcher is None:
            self._dispatcher = self._jit()
            names = self.py_func.__globals__
            for name, value in list(names.items()):
                if isinstance(value, _Kernel) and value.py_func.__globals__ is names:
                    names[name] = value.dispatcher()
        return self._dispatcher

    def _jit(self) -> Kernel:
        from numba import njit

        try:
            return cast("Kernel", njit(cache=True, nogil=True)(self.py_func))
        except RuntimeError:
            # numba tries the package's folder and then the user's cache folder, and refuses when it
            # may write to neither, as in a locked-down container. Compiling again still works
            # there.
            return cast("Kernel", njit(nogil=True)(self.py_func))
