"""Devices to generate on, and the leases by which processes share the GPUs.

A process holds a card by locking a file named after the card while its model is on it. The
operating system releases the lock when the process ends, however it ends.
"""

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from tournament_assets.foundation.errors import GenerationError, InputError

DTYPE_NAMES = ("auto", "bfloat16", "float16", "float32")
"""The names for the weights' precision."""
_NAMES = re.compile(r"auto|cpu|cuda(?::(?P<index>\d+))?")
DEVICES = "auto (CUDA if there is one, else the CPU), cpu, cuda, or one card such as cuda:1"
"""What names a device, for messages."""
_POLL_SECONDS = 2.0
_SAID_EVERY = 30
"""How many times a waiting process looks before it logs again."""


def device_problem(device: str, *, where: str = "TOURNAMENT_DEVICE") -> str | None:
    """Explain why a name is not a device, or return None.

    Args:
        where: The setting that holds the name, for the message.
    """
    if _NAMES.fullmatch(device):
        return None
    return f"{where} is {device!r}; expected {DEVICES}"


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU.

    Attributes:
        name: Identifies it on the machine, whichever cards a process sees.
        n_bytes: The size of its memory.
        look: Returns its free memory. That takes some of it, so only a card that is held is asked.
    """

    name: str
    n_bytes: int
    title: str = "a card"
    look: Callable[[], int] | None = field(default=None, compare=False)

    @property
    def free(self) -> int:
        """The free memory now, in bytes; all of it unless `look` says otherwise."""
        return self.n_bytes if self.look is None else self.look()


def cuda_cards() -> Sequence[Card]:
    """Return the cards that a process sees, in torch's order; none without CUDA."""
    import torch

    if not torch.cuda.is_available():
        return []
    properties = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]

    def look(index: int) -> int:
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(index)[0])

    return [
        Card(str(card.uuid), int(card.total_memory), str(card.name), partial(look, index))
        for index, card in enumerate(properties)
    ]


@dataclass(frozen=True, slots=True)
class CardLease:
    """Cards reserved until the lease is given back or the process ends.

    Attributes:
        indices: Their places among the cards that the process sees; several share one model.
        free: The memory of each that was free when it was taken, in bytes.
    """

    indices: tuple[int, ...]
    locks: tuple[FileLock, ...]
    free: tuple[int, ...]

    def give_back(self) -> None:
        """Release the cards."""
        for lock in self.locks:
            lock.release()


def lease_folder() -> Path:
    """Return the folder of the locks of this user's processes on this machine."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return Path(tempfile.gettempdir()) / f"tournament_gpus_{user}"


def lease_cards(
    cards: Sequence[Card],
    *,
    needed_bytes: int,
    folder: Path,
    index: int | None = None,
    log: Callable[[str], None],
    wait: Callable[[float], None] = time.sleep,
) -> CardLease:
    """Take the first card with enough free memory, or several if none is that large; wait for them.

    A program that leases nothing, a server for example, may fill a card that no process holds.

    Args:
        cards: The cards that the process sees, at least one.
        folder: The folder of the locks.
        index: Take this card only; None for any.
        log: Called with a message if all are taken.
    """
    if index is not None and index >= len(cards):
        raise InputError(
            f"the device is 'cuda:{index}', and {len(cards)} cards are seen; expected "
            f"{_listed(cards)}; correct TOURNAMENT_DEVICE or CUDA_VISIBLE_DEVICES"
        )
    allowed = range(len(cards)) if index is None else [index]
    if sum(cards[each].n_bytes for each in allowed) < needed_bytes:
        raise GenerationError(
            f"the model takes {needed_bytes / 1e9:.1f} GB, and its cards have {_listed(cards)}; "
            "expected room for it; let another machine serve it (openai_api)"
        )
    is_alone = any(cards[each].n_bytes >= needed_bytes for each in allowed)
    looks = 0
    while True:
        lease = _try(cards, allowed, needed_bytes=needed_bytes, folder=folder, is_alone=is_alone)
        if lease is not None:
            return lease
        if looks % _SAID_EVERY == 0:
            log(
                f"every card that has room for {needed_bytes / 1e9:.1f} GB is taken or filled by "
                f"another process; waiting ({folder})"
            )
        looks += 1
        wait(_POLL_SECONDS)


def _try(
    cards: Sequence[Card],
    allowed: Sequence[int],
    *,
    needed_bytes: int,
    folder: Path,
    is_alone: bool,
) -> CardLease | None:
    folder.mkdir(parents=True, exist_ok=True)
    held: dict[int, tuple[FileLock, int]] = {}
    for card in allowed:
        if is_alone and cards[card].n_bytes < needed_bytes:
            continue
        lock = FileLock(folder / f"{cards[card].name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        free = cards[card].free
        if is_alone and free < needed_bytes:
            lock.release()
            continue
        held[card] = lock, free
        if sum(free for _, free in held.values()) >= needed_bytes:
            locks, sizes = zip(*held.values(), strict=True)
            return CardLease(tuple(held), locks, sizes)
    for lock, _ in held.values():
        lock.release()
    return None


def _listed(cards: Sequence[Card]) -> str:
    return ", ".join(f"cuda:{n} ({card.n_bytes / 1e9:.0f} GB)" for n, card in enumerate(cards))


def forget_peak(device: str) -> None:
    """Begin to measure the peak memory of the cards anew, for another entrant."""
    import torch

    if torch.device(device).type == "cuda":
        for index in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(index)


def taken_bytes(device: str) -> int:
    """Return the peak memory since `forget_peak`: of the cards, or else what the process holds."""
    import torch

    if torch.device(device).type != "cuda":
        return int(psutil.Process().memory_info().rss)
    return sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count()))


def card_index(device: str) -> int | None:
    """Return the index in a device's name; None for `cuda` and `auto`."""
    named = _NAMES.fullmatch(device)
    index = named["index"] if named else None
    return None if index is None else int(index)
