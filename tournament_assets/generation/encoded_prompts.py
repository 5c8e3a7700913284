"""Prompts as a model reads them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """What is read before a response is written.

    Attributes:
        ids: Token ids, at least one.
        seed: Seeds the response's random numbers.
    """

    ids: tuple[int, ...]
    seed: int


def pad_right(rows: Sequence[Sequence[int]], length: int) -> Tensor:
    """Return token ids, shape (n_rows, length); what follows a row's own ids is never read."""
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
    return ids
