"""One round of reading and drafting, by one head or by all in lockstep.

Every round begins with the last, still unread token of each prompt, and ends with one draft per
prompt and what verification needs of all heads' logits.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.hydra.hydra_model import HydraModel, join
from tournament_assets.generation.hydra.product_of_experts import (
    draft_probabilities,
    draw,
    pick_heads,
    sum_verifiers,
)
from tournament_assets.generation.hydra.shards import HeadSelection


@dataclass(frozen=True, slots=True, eq=False)
class JuryScores:
    """The scores of a jury's heads for the next token.

    Attributes:
        drawn: Logits of each prompt's drawn head, shape (n_prompts, n_tokens).
        verifiers: Sum of the other heads' logits, float64, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_heads).
    """

    drawn: Tensor
    verifiers: Tensor
    votes: Tensor


def score_jury(model: HydraModel, hidden: Tensor, *, heads: Tensor) -> JuryScores:
    """Score all tokens with all heads, keeping only what is needed.

    Args:
        hidden: The heads' residual streams before the final norm,
            shape (n_heads, n_prompts, hidden_size).
        heads: The drawn head of each prompt, shape (n_prompts,).
    """
    normed = model.normalise(hidden)
    drawn, verifiers, largest, places = [], [], [], []
    for part in model.parts:
        scores = model.score(normed, part)  # (n_heads, n_prompts, tokens of the part)
        drawn.append(pick_heads(scores, heads))
        verifiers.append(sum_verifiers(scores, heads=heads))
        most = scores.max(dim=-1)
        largest.append(most.values)
        places.append(most.indices + part.start)
    # The first of equals wins, as within a part.
    best = torch.stack(largest).argmax(dim=0)[None]
    votes = torch.stack(places).gather(0, best)[0]  # (n_heads, n_prompts)
    return JuryScores(
        drawn=join(drawn),
        verifiers=join(verifiers),
        votes=votes.T,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """The drafts of one round.

    Attributes:
        tokens: The drafted tokens, shape (n_prompts,).
        q: The distributions they were drawn from, shape (n_prompts, n_tokens).
        jury: All heads' scores of the same positions; None without verifiers.
        witnesses: The speaking head's residual stream before the final norm,
            shape (n_prompts, hidden_size).
    """

    tokens: Tensor
    q: Tensor
    jury: JuryScores | None
    witnesses: Tensor


_TOKENS_AT_ONCE = 8192
"""Rows times tokens of a prompt that are read at once: enough for any device's products, and what
they take stays small beside the caches, whatever the prompts' length and the number of heads."""


class Drafter(ABC):
    """A batch, its caches, and the heads that read it and draft the next tokens."""

    def __init__(
        self, model: HydraModel, selection: HeadSelection, *, n_prompts: int, n_slots: int
    ) -> None:
        self._model = model
        self._caches = model.new_caches(
            n_prompts=n_prompts, copies=selection.copies, n_slots=n_slots
        )
        self._selection = selection

    def admit(self, rows: Tensor, ids: Tensor, heads: Tensor) -> None:
        """Read other prompts in the memory of these rows, where recorded rounds find them.

        What the caches hold of the prompts before is overwritten before it is seen.

        Args:
            rows: Which rows, shape (n_new,).
            ids: The prompts, padded on the right, shape (n_new, n_tokens).
            heads: The drawn heads of all rows, shape (n_prompts,).
        """
        self.restart(heads)
        if rows.numel() == heads.numel():
            self.prefill(ids)
            return
        # One prompt at a time has the same shapes however many rows are free at once.
        for row, prompt in zip(rows, ids, strict=True):
            alone = self._alone(heads[row[None]], n_slots=prompt.numel())
            alone.prefill(prompt[None])
            self._caches.take(row[None], alone._caches)

    @abstractmethod
    def _alone(self, heads: Tensor, *, n_slots: int) -> "Drafter":
        """Make a drafter of one row; `heads`: its drawn head, shape (1,)."""

    def prefill(self, ids: Tensor) -> None:
        """Read prompts from position 0 on, padded on the right; ids: (n_prompts, n_tokens)."""
        n_rows, length = ids.shape
        step = max(1, _TOKENS_AT_ONCE // (n_rows * self._selection.copies))
        for start in range(0, length, step):
            end = min(start + step, length)
            positions = torch.arange(start, end, device=ids.device).expand(n_rows, -1)
            places = self._caches.locate(positions, n_slots=end)
            self._model.remember(ids[:, start:end], places, self._caches, self._selection)

    def _read(self, tokens: Tensor, positions: Tensor, *, n_slots: int) -> Tensor:
        """Read one token per prompt: the residual stream, (copies, n_prompts, hidden_size)."""
        places = self._caches.locate(positions[:, None], n_slots=n_slots)
        hidden = self._model.trunk(tokens[:, None], places, self._caches.trunk)
        entered = self._model.enter_heads(hidden, places, self._caches.trunk)
        return self._model.heads(entered, places, self._caches.heads, self._selection)[:, :, 0]

    @abstractmethod
    def restart(self, heads: Tensor) -> None:
        """Begin another batch in the same memory; `heads`: the drawn heads, shape (n_prompts,)."""

    @abstractmethod
    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft the next.

        Args:
            tokens: The last token of each prompt, at `positions`, shape (n_prompts,) each.
            uniforms: A number in [0, 1) for each draft, shape (n_prompts,).
            n_slots: Slots that attention looks at, enough for these positions.
        """


class SoloDrafter(Drafter):
    """One head per prompt drafts alone, without verification."""

    def __init__(
        self,
        model: HydraModel,
        selection: HeadSelection,
        *,
        n_adapters: int,
        temperature: float | None,
        n_prompts: int,
        n_slots: int,
    ) -> None:
        super().__init__(model, selection, n_prompts=n_prompts, n_slots=n_slots)
        self._n_adapters = n_adapters
        self._temperature = temperature
        # The base model must write what `generate` writes, so it is scored in the same way.
        self._score = model.plain_logits if selection.changes is None else model.logits

    def restart(self, heads: Tensor) -> None:
        """Give each row its new head's changes."""
        if self._selection.changes is not None:
            self._selection.restart(self._model.drawn(heads, self._n_adapters))

    def _alone(self, heads: Tensor, *, n_slots: int) -> "SoloDrafter":
        is_base = self._selection.changes is None
        return SoloDrafter(
            self._model,
            HeadSelection() if is_base else self._model.drawn(heads, self._n_adapters),
            n_adapters=self._n_adapters,
            temperature=self._temperature,
            n_prompts=1,
            n_slots=n_slots,
        )

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft one."""
        hidden = self._read(tokens, positions, n_slots=n_slots)[0]
        q = draft_probabilities(self._score(hidden), temperature=self._temperature)
        return Drafts(tokens=draw(q, uniforms), q=q, jury=None, witnesses=hidden)


class LockstepDrafter(Drafter):
    """All heads read each token once; the drawn head drafts and the others verify its draft."""

    def __init__(
        self,
        model: HydraModel,
        heads: Tensor,
        *,
        n_adapters: int,
        temperature: float | None,
        n_slots: int,
    ) -> None:
        jury = model.jury(n_adapters)
        super().__init__(model, jury, n_prompts=heads.numel(), n_slots=n_slots)
        self._n_adapters = n_adapters
        self._heads = heads.clone()
        self._temperature = temperature

    def restart(self, heads: Tensor) -> None:
        """Let other heads draft; all of them read."""
        self._heads.copy_(heads)

    def _alone(self, heads: Tensor, *, n_slots: int) -> "LockstepDrafter":
        return LockstepDrafter(
            self._model,
            heads,
            n_adapters=self._n_adapters,
            temperature=self._temperature,
            n_slots=n_slots,
        )

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft one."""
        hidden = self._read(tokens, positions, n_slots=n_slots)
        jury = score_jury(self._model, hidden, heads=self._heads)
        q = draft_probabilities(jury.drawn, temperature=self._temperature)
        return Drafts(
            tokens=draw(q, uniforms), q=q, jury=jury, witnesses=pick_heads(hidden, self._heads)
        )
