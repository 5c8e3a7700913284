"""Which low-rank changes speak for which rows of a batch.

The heads differ from the base model in low-rank changes of the MLP projections and in nothing else,
so one copy of the base weights serves all of them: W x is computed by the shared projection, and
B (A x) is added by one batched multiplication over the heads (LoRA: Hu et al.,
https://arxiv.org/abs/2106.09685). Adapters that were trained on top of one another, each merged
before the next, are a sum of such changes, that is, one change of the summed rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tournament_assets.generation.shards import PROJECTIONS, HeadShards, LoraFactors

Changes = tuple[Mapping[str, LoraFactors], ...]
"""For each layer of a head, the changes of its projections, first axis: groups of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Voices:
    """Who speaks: what the heads' layers add to the base weights, for each group of rows.

    Attributes:
        copies: Rows per prompt; each prompt's rows see the same trunk.
        changes: The scaled changes of each group of rows; None for the base model itself. With
            several copies there is one group per copy, which holds that copy's row of every
            prompt; with one copy either one group of all rows, or one group per row.
    """

    copies: int = 1
    changes: Changes | None = None

    def group(self, hidden: Tensor) -> Tensor:
        """Sort rows into groups; rows that all groups share are not copied.

        Args:
            hidden: The trunk's output, shape (n_prompts, n_tokens, hidden_size).

        Returns:
            Shape (n_groups, rows_per_group, n_tokens, hidden_size), or with several copies
            (1, n_prompts, n_tokens, hidden_size), which broadcasts over the groups.
        """
        n_groups = 1 if self.changes is None else self.changes[0]["gate_proj"].a.shape[0]
        return hidden.reshape(n_groups // self.copies, -1, *hidden.shape[1:])

    def project(self, linear: Any, hidden: Tensor, *, layer: int, projection: str) -> Tensor:
        """Apply one projection of a head's layer with everybody's own change.

        Args:
            linear: The base model's projection.
            hidden: Shape (n_groups or 1, rows_per_group, n_tokens, n_in).
            layer: Which layer of the head, from 0.
            projection: `gate_proj`, `up_proj` or `down_proj`.

        Returns:
            Shape (n_groups, rows_per_group, n_tokens, n_out).
        """
        base: Tensor = linear(hidden)
        if self.changes is None:
            return base
        factors = self.changes[layer][projection]
        low = hidden.flatten(1, 2) @ factors.a.mT  # (n_groups, rows * tokens, rank)
        own = base.flatten(1, 2)  # nobody else's, so that it can be changed where it is
        if own.shape[0] == low.shape[0] == factors.b.shape[0]:
            return own.baddbmm_(low, factors.b.mT).reshape(base.shape)
        changed = torch.baddbmm(own, low, factors.b.mT)
        return changed.reshape(-1, *base.shape[1:])


class LoraStack:
    """All adapters of all heads, concatenated along the rank axis, ready to be spoken with.

    Attributes:
        n_heads: Heads.
        ranks: Rank of each adapter, in order.
    """

    def __init__(
        self, adapters: Sequence[HeadShards], *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.n_heads = adapters[0].n_heads
        self.ranks = tuple(adapter.rank for adapter in adapters)
        # Scaled in float32, before the precision of the model rounds it.
        self._changes: Changes = tuple(
            {
                projection: LoraFactors(
                    a=torch.cat([a.layers[layer][projection].a for a in adapters], dim=1).to(
                        device, dtype
                    ),
                    b=torch.cat(
                        [a.layers[layer][projection].b * a.scale for a in adapters], dim=2
                    ).to(device, dtype),
                )
                for projection in PROJECTIONS.values()
            }
            for layer in range(adapters[0].shape.heads_depth)
        )

    def jury(self, n_adapters: int) -> Voices:
        """All heads, each of them with its first adapters: one row per head and prompt."""
        return Voices(copies=self.n_heads, changes=self._pick(n_adapters))

    def drawn(self, heads: Tensor, n_adapters: int) -> Voices:
        """One head per prompt with its first adapters; `heads` has shape (n_prompts,)."""
        return Voices(changes=self._pick(n_adapters, heads))

    def _pick(self, n_adapters: int, heads: Tensor | None = None) -> Changes:
        rank = sum(self.ranks[:n_adapters])
        chosen = slice(None) if heads is None else heads
        return tuple(
            {
                projection: LoraFactors(a=factors.a[chosen, :rank], b=factors.b[chosen, :, :rank])
                for projection, factors in layer.items()
            }
            for layer in self._changes
        )
