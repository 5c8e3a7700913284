"""Which prompts judging in rounds asks about: their order, the ends of the rounds, the tail.

Loaded with every config, so without numpy.
"""

import hashlib
import math
from collections.abc import Sequence

from tournament_assets.foundation.errors import InputError

ROUNDS, MIN_PROMPTS, TAIL = 5, 20, 0.2
"""Looks at a pair, the fewest prompts on which it stops, and the share of the others that is judged
all the same, unless a config says otherwise."""
_ROUND_ENDS = {1: (), 2: (0.4,), 3: (0.3, 0.6), 4: (0.25, 0.45, 0.7), 5: (0.23, 0.4, 0.58, 0.8)}


def hashed_order(prompt_ids: Sequence[str], *, salt: str = "") -> tuple[str, ...]:
    """Order prompts by the SHA-256 of their ids, independently of their content.

    Adding a prompt leaves the order of the others unchanged.

    Args:
        salt: Selects the order, such as a dimension's name, so that one unlucky order does not
            affect every dimension.
    """
    if len(set(prompt_ids)) < len(prompt_ids):
        raise InputError("a prompt is named twice; expected every prompt once")
    return tuple(sorted(prompt_ids, key=lambda each: (_hash(salt, each), each)))


def round_ends(n_prompts: int, *, rounds: int, min_prompts: int) -> tuple[int, ...]:
    """Return how many prompts an open pair has by the end of each round, the whole bank last.

    In a small bank ends coincide, so there may be fewer than `rounds`.
    """
    inner = _ROUND_ENDS.get(rounds, tuple(k / rounds for k in range(1, rounds)))
    ends = {min(n_prompts, max(min_prompts, math.ceil(n_prompts * share))) for share in inner}
    return tuple(sorted(ends | {n_prompts}))


def tail_prompts(
    prompt_ids: Sequence[str], *, pair: tuple[str, str], share: float, salt: str = ""
) -> tuple[str, ...]:
    """Return those of a stopped pair's remaining prompts that are judged anyway.

    Stopping early favours lucky runs, which pushes ratings apart. The tail's prompts, each weighing
    1 / share (Horvitz and Thompson), stand for the rest of the bank without bias.

    Args:
        prompt_ids: What is left of the bank, in the order to keep.
        pair: The pair's entrants; their order does not matter.
        share: Probability with which a prompt is in the tail; the tail of a larger share contains
            that of a smaller one.
        salt: As for `hashed_order`.
    """
    if not 0 <= share <= 1:
        raise InputError(f"the tail's share is {share!r}; expected a share from 0 to 1")
    key = ("tail", salt, *sorted(pair))
    return tuple(each for each in prompt_ids if _hash(*key, each) / 2**256 < share)


def _hash(*parts: str) -> int:
    # Lengths first, so that no two lists of parts read as one.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
