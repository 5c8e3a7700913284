"""What is read and drafted in one round of decoding, and by whom.

Every round begins with the last token of each prompt, read by nobody yet, and ends with one or
more drafts per prompt and what it needs of the logits of all heads. There are three ways: one head
alone; all heads in lockstep, which read each token once, together; and the drawn head alone for
several tokens, after which all heads read them at once.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import (
    draft_probabilities,
    draw,
    pick_heads,
    sum_verifiers,
)
from tournament_assets.generation.hydra.shards import HeadSelection
from tournament_assets.generation.hydra.slot_cache import TokenPositions


@dataclass(frozen=True, slots=True, eq=False)
class JuryScores:
    """What the heads of a jury think of the next token.

    Attributes:
        drawn: Logits of each prompt's drawn head, shape (n_prompts, n_drafts, n_tokens).
        verifiers: Sum of the other heads' logits, float64, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_drafts, n_heads).
    """

    drawn: Tensor
    verifiers: Tensor
    votes: Tensor


def score_jury(model: HydraModel, hidden: Tensor, *, heads: Tensor) -> JuryScores:
    """Let all heads score all tokens, of which no more is kept than is needed.

    Args:
        model: Whose heads.
        hidden: The heads' residual streams before the final norm,
            shape (n_heads, n_prompts, n_drafts, hidden_size).
        heads: The drawn head of each prompt, shape (n_prompts,).
    """
    normed = model.normalise(hidden)
    drawn, verifiers, largest, places = [], [], [], []
    for part in model.parts:
        scores = model.score(normed, part)  # (n_heads, n_prompts, n_drafts, tokens of the part)
        drawn.append(pick_heads(scores, heads))
        verifiers.append(sum_verifiers(scores, heads=heads))
        most = scores.max(dim=-1)
        largest.append(most.values)
        places.append(most.indices + part.start)
    # The first of equals, as within a part.
    best = torch.stack(largest).argmax(dim=0)[None]
    votes = torch.stack(places).gather(0, best)[0]  # (n_heads, n_prompts, n_drafts)
    return JuryScores(
        drawn=torch.cat(drawn, dim=-1),
        verifiers=torch.cat(verifiers, dim=-1),
        votes=votes.permute(1, 2, 0),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """The drafts of one round.

    Attributes:
        tokens: What was drafted, shape (n_prompts, n_drafts).
        q: What it was drafted from, shape (n_prompts, n_drafts, n_tokens).
        jury: What all heads think of the same positions; None where nobody verifies.
        witnesses: The speaking head's residual stream before the final norm, at the first token
            that was read, shape (n_prompts, hidden_size).
    """

    tokens: Tensor
    q: Tensor
    jury: JuryScores | None
    witnesses: Tensor


class Drafter(Protocol):
    """Reads a batch and drafts what comes next."""

    def prefill(self, ids: Tensor) -> None:
        """Read prompts from position 0 on, padded on the right; ids: (n_prompts, n_tokens)."""

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft what follows it.

        Args:
            tokens: The last token of each prompt, shape (n_prompts,).
            positions: Where it stands, shape (n_prompts,).
            uniforms: A number in [0, 1) for each draft, shape (n_prompts, n_drafts).
            n_slots: Slots that attention looks at, enough for these positions and the drafts.
        """

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with some prompts alone, in this order; `rows` has shape (n_kept,)."""


class _Reader:
    """A batch, what has been read of it, and who reads."""

    def __init__(
        self, model: HydraModel, selection: HeadSelection, *, n_prompts: int, n_slots: int
    ) -> None:
        self.model = model
        self._n_prompts = n_prompts
        self.caches = model.new_caches(
            n_prompts=n_prompts, copies=selection.copies, n_slots=n_slots
        )
        self._selection = selection

    def enter(self, ids: Tensor, places: TokenPositions) -> Tensor:
        """Everything that all heads share: (n_prompts, n_tokens, hidden_size)."""
        hidden = self.model.trunk(ids, places, self.caches.trunk)
        return self.model.enter_heads(hidden, places, self.caches.trunk)

    def read_on(self, entered: Tensor, places: TokenPositions) -> Tensor:
        """The heads' residual stream: (copies, n_prompts, n_tokens, hidden_size)."""
        return self.model.heads(entered, places, self.caches.heads, self._selection)

    def read(self, ids: Tensor, positions: Tensor, *, n_slots: int) -> Tensor:
        places = self.caches.locate(positions, n_slots=n_slots)
        return self.read_on(self.enter(ids, places), places)

    def prefill(self, ids: Tensor) -> None:
        positions = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape[0], -1)
        places = self.caches.locate(positions, n_slots=ids.shape[1])
        self.model.remember(ids, places, self.caches, self._selection)

    def keep_rows(self, rows: Tensor) -> None:
        self.caches = self.caches.keep_rows(
            rows, n_prompts=self._n_prompts, copies=self._selection.copies
        )
        self._selection = self._selection.pick_rows(rows)
        self._n_prompts = rows.numel()


class SoloDrafter:
    """One head per prompt speaks alone; nobody verifies."""

    def __init__(
        self,
        model: HydraModel,
        selection: HeadSelection,
        *,
        temperature: float | None,
        n_prompts: int,
        n_slots: int,
    ) -> None:
        self._reader = _Reader(model, selection, n_prompts=n_prompts, n_slots=n_slots)
        self._temperature = temperature
        # The base model writes what `generate` writes, so it is scored as there.
        self._score = model.plain_logits if selection.changes is None else model.logits

    def prefill(self, ids: Tensor) -> None:
        """Read prompts from position 0 on."""
        self._reader.prefill(ids)

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft one."""
        hidden = self._reader.read(tokens[:, None], positions[:, None], n_slots=n_slots)[0]
        q = draft_probabilities(self._score(hidden), temperature=self._temperature)
        return Drafts(tokens=draw(q, uniforms), q=q, jury=None, witnesses=hidden[:, 0])

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with some prompts alone."""
        self._reader.keep_rows(rows)


class _JuryDrafter:
    """All heads read; one of them, drawn for each prompt, drafts."""

    def __init__(
        self,
        model: HydraModel,
        heads: Tensor,
        *,
        n_adapters: int,
        temperature: float | None,
        n_slots: int,
    ) -> None:
        self._reader = _Reader(
            model, model.jury(n_adapters), n_prompts=heads.numel(), n_slots=n_slots
        )
        self._heads = heads
        self._temperature = temperature

    def prefill(self, ids: Tensor) -> None:
        """Read prompts from position 0 on."""
        self._reader.prefill(ids)

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with some prompts alone."""
        self._reader.keep_rows(rows)
        self._heads = self._heads[rows]


class LockstepDrafter(_JuryDrafter):
    """All heads read each token once; the drawn head drafts and the others verify its draft."""

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft one."""
        hidden = self._reader.read(tokens[:, None], positions[:, None], n_slots=n_slots)
        jury = score_jury(self._reader.model, hidden, heads=self._heads)
        q = draft_probabilities(jury.drawn, temperature=self._temperature)
        return Drafts(
            tokens=draw(q, uniforms),
            q=q,
            jury=jury,
            witnesses=pick_heads(hidden, self._heads)[:, 0],
        )


class AheadDrafter(_JuryDrafter):
    """The drawn head drafts several tokens alone; then all heads read them at once.

    The trunk reads each draft once, for both. The drawn head reads it twice, into a cache of its
    own first; slots of rejected drafts are overwritten in the next round.
    """

    def __init__(
        self,
        model: HydraModel,
        heads: Tensor,
        *,
        n_adapters: int,
        temperature: float | None,
        n_slots: int,
    ) -> None:
        super().__init__(
            model, heads, n_adapters=n_adapters, temperature=temperature, n_slots=n_slots
        )
        self._alone = model.drawn(heads, n_adapters)
        self._alone_cache = self._reader.caches.heads

    def prefill(self, ids: Tensor) -> None:
        """Read prompts from position 0 on."""
        super().prefill(ids)
        n_prompts = self._heads.numel()
        prompts = torch.arange(n_prompts, device=self._heads.device)
        self._alone_cache = self._reader.caches.heads.pick_rows(self._heads * n_prompts + prompts)

    def keep_rows(self, rows: Tensor) -> None:
        """Go on with some prompts alone."""
        super().keep_rows(rows)
        self._alone = self._alone.pick_rows(rows)
        self._alone_cache = self._alone_cache.keep_rows(rows)

    def draft(self, tokens: Tensor, positions: Tensor, uniforms: Tensor, *, n_slots: int) -> Drafts:
        """Read one token per prompt and draft as many as there are uniforms."""
        model = self._reader.model
        drafts, qs, entered, streams = [], [], [], []
        for ahead in range(uniforms.shape[1]):
            places = self._reader.caches.locate(positions[:, None] + ahead, n_slots=n_slots)
            entered.append(self._reader.enter(tokens[:, None], places))
            hidden = model.heads(entered[-1], places, self._alone_cache, self._alone)[0]
            q = draft_probabilities(model.logits(hidden), temperature=self._temperature)
            tokens = draw(q, uniforms[:, ahead : ahead + 1])[:, 0]
            drafts.append(tokens)
            qs.append(q)
            streams.append(hidden)
        read = torch.arange(uniforms.shape[1], device=positions.device)
        places = self._reader.caches.locate(positions[:, None] + read, n_slots=n_slots)
        hidden = self._reader.read_on(torch.cat(entered, dim=1), places)
        return Drafts(
            tokens=torch.stack(drafts, dim=1),
            q=torch.cat(qs, dim=1),
            jury=score_jury(model, hidden, heads=self._heads),
            witnesses=streams[0][:, 0],
        )
