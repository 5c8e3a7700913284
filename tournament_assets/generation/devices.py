"""Devices that entrants are generated on, by their names; without torch."""

import re

_NAMES = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def device_problem(asked: str, *, where: str = "TOURNAMENT_DEVICE") -> str | None:
    """Say why a name is no device, or None.

    Args:
        asked: The name.
        where: Who says it, for the message.
    """
    if _NAMES.fullmatch(asked):
        return None
    return (
        f"{where} is {asked!r}; expected auto (CUDA if there is one, else the CPU), cpu, cuda, one "
        "card such as cuda:1, or mps"
    )
