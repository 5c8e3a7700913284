"""Where the tokens of one forward pass stand, and what was read before them."""

from dataclasses import dataclass

from torch import Tensor

from tournament_assets.generation.slot_cache import SlotCache, visible_slots


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Where the tokens of one forward pass stand.

    Attributes:
        positions: Absolute position of each token, shape (n_rows, n_tokens).
        rotary: Cosine and sine of the rotary embedding, each (n_rows, n_tokens, head_dim).
        mask: True where a slot is seen, shape (n_rows, 1, n_tokens, n_slots).
    """

    positions: Tensor
    rotary: tuple[Tensor, Tensor]
    mask: Tensor

    @property
    def n_slots(self) -> int:
        """How many slots attention looks at, seen or not."""
        return self.mask.shape[-1]

    def repeat(self, copies: int) -> "Frame":
        """The same tokens once more for each further copy of the rows."""
        if copies == 1:
            return self
        cos, sin = self.rotary
        return Frame(
            positions=self.positions.repeat(copies, 1),
            rotary=(cos.repeat(copies, 1, 1), sin.repeat(copies, 1, 1)),
            mask=self.mask.repeat(copies, 1, 1, 1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class HydraCaches:
    """What has been read of a batch.

    Attributes:
        trunk: Of the trunk, one row per prompt.
        heads: Of the heads, one row per copy and prompt: row copy * n_prompts + prompt.
        rotary: Cosine and sine of the rotary embedding of each slot, each (n_slots, head_dim).
    """

    trunk: SlotCache
    heads: SlotCache
    rotary: tuple[Tensor, Tensor]

    def frame(self, positions: Tensor, *, n_slots: int | None = None) -> Frame:
        """Prepare one forward pass.

        Args:
            positions: Where its tokens stand, shape (n_prompts, n_tokens).
            n_slots: Slots that attention looks at, more than the largest position; None for all.
                More than there are means all.
        """
        cos, sin = self.rotary
        n_all = cos.shape[0]
        return Frame(
            positions=positions,
            rotary=(cos[positions], sin[positions]),
            mask=visible_slots(
                positions, n_slots=n_all if n_slots is None else min(n_slots, n_all)
            ),
        )
