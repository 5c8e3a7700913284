"""The random numbers of one response, all drawn before it is decoded.

A prompt's own generator gives one number for the head that speaks, then three for each position of
the response: to draft, to accept, to replace. A position's numbers do not depend on what happened
before it, so drafting further ahead or sharing a batch changes no response.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Uniform numbers in [0, 1) of some prompts.

    Attributes:
        heads: For the drawn head, shape (n_prompts,).
        positions: To draft, to accept and to replace, shape (n_prompts, n_positions, 3).
    """

    heads: Tensor
    positions: Tensor

    def pick_heads(self, n_heads: int) -> Tensor:
        """Draw one head per prompt, each as probable as any; shape (n_prompts,)."""
        return (self.heads * n_heads).long()


def draw_numbers(seeds: Sequence[int], *, n_positions: int) -> Draws:
    """Draw the numbers of some prompts, each from a generator of its own.

    A longer response begins with the same numbers as a shorter one.

    Args:
        seeds: One per prompt, e.g. `prompt_seed(prompt_id)`.
        n_positions: Positions of a response, at most.

    Returns:
        Numbers in float64 on the CPU.
    """
    rows = [
        torch.rand(
            1 + 3 * n_positions,
            generator=torch.Generator().manual_seed(seed),
            dtype=torch.float64,
        )
        for seed in seeds
    ]
    numbers = torch.stack(rows)
    return Draws(heads=numbers[:, 0], positions=numbers[:, 1:].reshape(-1, n_positions, 3))
