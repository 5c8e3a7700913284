"""Compiles kernels with numba and keeps the machine code on disk where the disk allows it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile a typed, module-level function on its first call for each set of argument types.

    A kernel may call only kernels of its own file: numba notices an edit of that file alone.
    """
    return _compile(function)


def vectorised(function: Kernel) -> Kernel:
    """Compile a function so that its loops over arrays become vector instructions.

    A division by zero gives infinity or NaN and no error. Rounding stays that of one operation
    after the other, on every processor.
    """
    return _compile(function, error_model="numpy")


def fused(function: Kernel) -> Kernel:
    """Compile as `vectorised`, and let a product and a sum be one instruction.

    It rounds once where two would round twice, so the last bits may differ between processors.
    """
    return _compile(function, error_model="numpy", fastmath={"contract"})


def inlined(function: Kernel) -> Kernel:
    """Let kernels of the same file paste a function into themselves.

    A loop around a call is seldom turned into vector instructions; around pasted lines it is.
    """
    return cast("Kernel", njit(inline="always")(function))


def _compile(function: Kernel, **options: Any) -> Kernel:
    try:
        return cast("Kernel", njit(cache=True, nogil=True, **options)(function))
    except RuntimeError:
        # numba tries the package's folder and then the user's cache folder, and refuses when it
        # may write to neither, as in a locked-down container. Compiling anew still works there.
        return cast("Kernel", njit(nogil=True, **options)(function))
