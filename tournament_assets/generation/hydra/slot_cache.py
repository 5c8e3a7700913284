"""An attention cache in which every token's slot is its position.

Rows are padded on the right. A token at position p writes slot p and sees the slots up to p, so
rows may have different lengths and positions, nothing is ever moved, and what padding wrote is
overwritten before it can be seen. transformers' caches do not fit: they keep one length for a whole
batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class SlotCache:
    """Keys and values of some layers.

    Attributes:
        keys: Keys by layer, shape (n_rows, n_kv_heads, n_slots, head_dim).
        values: Values by layer, the same shape.
    """

    keys: Mapping[int, Tensor]
    values: Mapping[int, Tensor]

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the model."""
        return next(iter(self.keys.values())).dtype

    @classmethod
    def zeros(
        cls,
        layers: Sequence[int],
        *,
        shape: tuple[int, int, int, int],
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> "SlotCache":
        """Make an empty cache.

        A hidden slot takes part in attention with weight 0, and 0 times NaN is NaN: unzeroed memory
        could turn every row into NaN.

        Args:
            layers: Its layers, as the model numbers them.
            shape: (n_rows, n_kv_heads, n_slots, head_dim).
        """
        return cls(
            keys={layer: torch.zeros(shape, dtype=dtype, device=device) for layer in layers},
            values={layer: torch.zeros(shape, dtype=dtype, device=device) for layer in layers},
        )

    def take(self, rows: Tensor, other: "SlotCache") -> None:
        """Take over in place all rows of another cache, which has no more slots, as these rows."""
        for mine, others in ((self.keys, other.keys), (self.values, other.values)):
            for layer, tensor in others.items():
                mine[layer][rows, :, : tensor.shape[2]] = tensor

    def at(self, slots: Tensor, *, n_seen: int | None = None) -> "SlotWriter":
        """Return the cache to give to a layer while it reads tokens for these slots."""
        return SlotWriter(cache=self, slots=slots, n_seen=n_seen)


@dataclass(frozen=True, slots=True, eq=False)
class SlotWriter:
    """A slot cache with the slots to write; attention layers use it as their cache.

    Attributes:
        slots: The slot of each token being read, which is its position, shape (n_rows, n_tokens).
        n_seen: How many slots attention sees, from the first on; None for all.
    """

    cache: SlotCache
    slots: Tensor
    n_seen: int | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int
    ) -> tuple[Tensor, Tensor]:
        """Store the keys and values of the tokens being read.

        Args:
            key_states: Shape (n_rows, n_kv_heads, n_tokens, head_dim).
            value_states: The same shape.
            layer_idx: The layer they come from.

        Returns:
            The keys and the values of the visible slots,
            shape (n_rows, n_kv_heads, n_seen, head_dim).
        """
        keys, values = self.cache.keys[layer_idx], self.cache.values[layer_idx]
        places = self.slots[:, None, :, None].expand_as(key_states)
        keys.scatter_(2, places, key_states)
        values.scatter_(2, places, value_states)
        return keys[:, :, : self.n_seen], values[:, :, : self.n_seen]


def mask_slots(slots: Tensor, *, n_slots: int, dtype: torch.dtype) -> Tensor:
    """Return the mask for attention: a token sees its own slot and those before.

    Attention adds it to its scores. It is made once for all layers, each of which would otherwise
    derive it from a boolean mask.

    Args:
        slots: The slot of each token, shape (n_rows, n_tokens).
        n_slots: Slots per row.

    Returns:
        0 where a slot is seen, else minus infinity, shape (n_rows, 1, n_tokens, n_slots).
    """
    hidden = torch.arange(n_slots, device=slots.device) > slots[:, None, :, None]
    return torch.zeros(hidden.shape, dtype=dtype, device=slots.device).masked_fill_(
        hidden, float("-inf")
    )


@dataclass(frozen=True, slots=True, eq=False)
class TokenPositions:
    """The positions of the tokens of one forward pass.

    Attributes:
        positions: Absolute position of each token, shape (n_rows, n_tokens).
        rotary: Cosine and sine of the rotary embedding, each (n_rows, n_tokens, head_dim).
        mask: 0 where a slot is seen, else minus infinity, shape (n_rows, 1, n_tokens, n_slots).
    """

    positions: Tensor
    rotary: tuple[Tensor, Tensor]
    mask: Tensor

    @property
    def n_slots(self) -> int:
        """How many slots attention looks at, seen or not."""
        return self.mask.shape[-1]

    def repeat(self, copies: int) -> "TokenPositions":
        """Repeat the tokens for each copy of the rows."""
        if copies == 1:
            return self
        cos, sin = self.rotary
        return TokenPositions(
            positions=self.positions.repeat(copies, 1),
            rotary=(cos.repeat(copies, 1, 1), sin.repeat(copies, 1, 1)),
            mask=self.mask.repeat(copies, 1, 1, 1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HydraCaches:
    """The caches of a batch.

    Attributes:
        trunk: The trunk's, one row per prompt.
        heads: The heads', one row per copy and prompt: row copy * n_prompts + prompt.
        rotary: Cosine and sine of the rotary embedding of each slot, each (n_slots, head_dim).
    """

    trunk: SlotCache
    heads: SlotCache
    rotary: tuple[Tensor, Tensor]

    def take(self, rows: Tensor, other: "HydraCaches") -> None:
        """Take over in place the prompts of other caches, as these prompts; see `SlotCache`."""
        self.trunk.take(rows, other.trunk)
        n_prompts = next(iter(self.trunk.keys.values())).shape[0]
        for keys in (*self.heads.keys.values(),)[:1]:  # heads of one layer keep nothing
            starts = torch.arange(0, keys.shape[0], n_prompts, device=rows.device)
            self.heads.take((starts[:, None] + rows).flatten(), other.heads)

    def locate(self, positions: Tensor, *, n_slots: int | None = None) -> TokenPositions:
        """Prepare one forward pass.

        Args:
            positions: The positions of its tokens, shape (n_prompts, n_tokens).
            n_slots: Slots that attention looks at, more than the largest position; None, or more
                than there are, for all.
        """
        cos, sin = self.rotary
        n_all = cos.shape[0]
        return TokenPositions(
            positions=positions,
            rotary=(cos[positions], sin[positions]),
            mask=mask_slots(
                positions,
                n_slots=n_all if n_slots is None else min(n_slots, n_all),
                dtype=self.trunk.dtype,
            ),
        )
