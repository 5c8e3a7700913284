"""How many prompts fit into memory together: measured, since few configs would tell."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LARGEST = 64
"""Rows from which a batch gains nothing on any device that was looked at."""
_LARGEST_ON_CPU = 16
SHARE = 0.7
"""Of the free memory; the rest is for what one row does not show, such as fragmentation."""
_SIGNS_OF_NO_MEMORY = (
    "out of memory",
    "cublas_status_alloc_failed",
    # What cuBLAS says when there is no room for its own workspace.
    "cublas_status_not_initialized",
    "cudnn_status_alloc_failed",
    "cudnn_status_internal_error_host_allocation_failed",
    "defaultcpuallocator",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that a smaller batch may fit.

    Torch, cuBLAS and cuDNN each say it in their own way; while a CUDA graph is recorded the error
    that comes out speaks of the recording, and what it came from speaks of the memory.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, torch.OutOfMemoryError | MemoryError):
            return True
        said = str(cause).lower()
        if isinstance(cause, RuntimeError) and any(sign in said for sign in _SIGNS_OF_NO_MEMORY):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def choose_batch_size(
    answer_alone: Callable[[], object], *, device: torch.device, share: float = SHARE
) -> int:
    """Return the largest power of two whose batch has room in the free memory.

    Args:
        answer_alone: Takes one step with one row, as long as the longest will become.
        device: Where that happens.
        share: Of the free memory that a batch may fill.

    Returns:
        1 to 64, or to 16 on a CPU. Where that was too much, generation halves it.
    """
    room = share * free_bytes(device)
    try:
        with measure_peak(device) as peak:
            answer_alone()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return 1
    rows = LARGEST if device.type == "cuda" else _LARGEST_ON_CPU
    while rows > 1 and rows * peak.n_bytes > room:
        rows //= 2
    return rows


def free_bytes(device: torch.device) -> int:
    """Return how much memory of a device nothing has taken."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


@dataclass(slots=True)
class Peak:
    """What was measured.

    Attributes:
        n_bytes: The most memory that new tensors held at once; known after the `with` block.
    """

    n_bytes: int = 0


@contextmanager
def measure_peak(device: torch.device) -> Iterator[Peak]:
    """Measure the memory that the tensors made inside the `with` block hold at most."""
    peak = Peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        yield peak
        peak.n_bytes = torch.cuda.max_memory_allocated(device) - before
        return
    with _NewTensors() as new:
        yield peak
    peak.n_bytes = new.peak


class _NewTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it so
    """Adds up the tensors that are alive; what a kernel takes for itself is not seen."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it so
        self.peak = 0
        self._alive = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        given = {
            leaf.untyped_storage().data_ptr()
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, Tensor)
        }
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            # A view, and what is changed in place, takes no memory of its own.
            if isinstance(leaf, Tensor) and leaf.untyped_storage().data_ptr() not in given:
                self._add(leaf.untyped_storage())
        return made

    def _add(self, storage: torch.UntypedStorage) -> None:
        n_bytes = storage.nbytes()
        self._alive += n_bytes
        self.peak = max(self.peak, self._alive)
        weakref.finalize(storage, self._forget, n_bytes)

    def _forget(self, n_bytes: int) -> None:
        self._alive -= n_bytes
