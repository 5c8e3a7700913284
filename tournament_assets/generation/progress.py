"""How far the responses of a batch have come."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Progress:
    """The last token of every response, where it stands, and how many tokens may follow.

    Everything is kept on the device and changed in place: a recorded round finds it where it was.

    Attributes:
        tokens: The last token of each row, which nobody has read yet, shape (n_rows,).
        positions: Where it stands, shape (n_rows,).
        n_written: Tokens of each response so far, shape (n_rows,).
    """

    def __init__(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int,
        eos_ids: Sequence[int],
        device: torch.device,
    ) -> None:
        self.tokens = torch.tensor([ids[-1] for ids in prompts], device=device)
        self.positions = torch.tensor([len(ids) - 1 for ids in prompts], device=device)
        self.n_written = torch.zeros_like(self.positions)
        self._n_left = torch.full_like(self.positions, max_new_tokens)
        self._eos_ids = torch.tensor(eos_ids, dtype=torch.long, device=device)

    @property
    def is_open(self) -> Tensor:
        """Whether any response may still grow; a tensor without dimensions."""
        return (self._n_left > 0).any()

    def keep(self, tokens: Tensor, n_standing: Tensor) -> Tensor:
        """Add one round's tokens, as far as they stand, up to a token that ends and to the cap.

        Args:
            tokens: Token ids, shape (n_rows, n_drafts).
            n_standing: How many of them stand, at least one, shape (n_rows,).

        Returns:
            How many were kept, shape (n_rows,); 0 for responses that are complete.
        """
        n_drafts = tokens.shape[1]
        places = torch.arange(n_drafts, device=tokens.device).expand_as(tokens)
        is_end = (tokens[..., None] == self._eos_ids).any(dim=-1)
        ends = torch.where(is_end, places, n_drafts)
        first_end = ends.amin(dim=1)  # (n_rows,); n_drafts where none ends
        n_kept = torch.minimum(torch.minimum(n_standing, first_end + 1), self._n_left)
        last = tokens.gather(1, (n_kept - 1).clamp(min=0)[:, None])[:, 0]
        self.tokens.copy_(torch.where(n_kept > 0, last, self.tokens))
        self.positions += n_kept
        self.n_written += n_kept
        self._n_left.copy_(torch.where(first_end < n_kept, 0, self._n_left - n_kept))
        return n_kept
