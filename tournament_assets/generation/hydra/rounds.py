"""Rounds of decoding: draft, verify by the jury, keep.

A round reads and writes tensors in place, has shapes that follow from the settings alone, and never
waits for the device, so it can be recorded and replayed (see `decoding`). Its results are stored on
the device and read once, at the end.
"""

from dataclasses import dataclass, fields
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from tournament_assets.foundation.errors import GenerationError
from tournament_assets.generation.hydra.decoded import (
    DecodingMode,
    DecodingSettings,
    Progress,
    VerifiedToken,
)
from tournament_assets.generation.hydra.drafts import Drafter
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.product_of_experts import (
    accept_drafts,
    draw,
    entropies,
    jury_probabilities,
    overlaps,
    suppressions,
    surplus,
)


@dataclass(frozen=True, slots=True, eq=False)
class VerifiedRound:
    """The verdicts of one round.

    Attributes:
        drafts: The drafted tokens, shape (n_prompts,).
        tokens: The drafts or their replacements, the same shape.
        accepted: Whether the draft is kept, the same shape.
        entropies: Entropy of the verifiers' product, in nats, the same shape.
        overlaps: Probability that a draft is accepted, the same shape.
        suppressions: Probability that this draft is rejected, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_heads).
    """

    drafts: Tensor
    tokens: Tensor
    accepted: Tensor
    entropies: Tensor
    overlaps: Tensor
    suppressions: Tensor
    votes: Tensor

    @classmethod
    def zeros(cls, *shape: int, n_heads: int, device: torch.device) -> "VerifiedRound":
        """Make room for verdicts; `shape` replaces the shape of the drafts."""

        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            drafts=zeros(*shape, dtype=torch.long),
            tokens=zeros(*shape, dtype=torch.long),
            accepted=zeros(*shape, dtype=torch.bool),
            entropies=zeros(*shape, dtype=torch.float64),
            overlaps=zeros(*shape, dtype=torch.float64),
            suppressions=zeros(*shape, dtype=torch.float64),
            votes=zeros(*shape, n_heads, dtype=torch.long),
        )

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """All attributes, in order."""
        return tuple(getattr(self, each.name) for each in fields(self))

    def read(self, is_kept: Tensor) -> list[VerifiedToken]:
        """Return the verdicts on kept tokens, prompt by prompt.

        Args:
            is_kept: True where a token is kept, shape (n_rounds, n_prompts).
        """
        by_prompt = is_kept.transpose(0, 1)
        columns = [column.transpose(0, 1)[by_prompt].tolist() for column in self.columns]
        return [
            VerifiedToken(draft, token, not accepted, entropy, overlap, suppression, tuple(votes))
            for draft, token, accepted, entropy, overlap, suppression, votes in zip(
                *columns, strict=True
            )
        ]


def verify(
    drafts: Tensor,
    q: Tensor,
    *,
    verifiers: Tensor,
    votes: Tensor,
    beta: float,
    temperature: float | None,
    uniforms: Tensor,
) -> VerifiedRound:
    """Let the jury accept or replace drafts.

    Args:
        drafts: Token ids, shape (n_prompts,).
        q: The distributions they were drawn from, shape (n_prompts, n_tokens).
        verifiers: Sum of the verifiers' logits, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_heads).
        beta: Weight of each verifier.
        temperature: Sampling temperature; None decodes greedily.
        uniforms: Random numbers for accepting and for replacing, shape (n_prompts, 2).

    Returns:
        The verdict; its entropies are NaN where the logits are not numbers.
    """
    p = jury_probabilities(verifiers, beta=beta, temperature=temperature)
    excess = surplus(p, q)
    shared = overlaps(excess)
    # Where nothing can replace a draft, it is kept: P equals q but for rounding.
    accepted = accept_drafts(p, q, drafts=drafts, uniforms=uniforms[..., 0]) | (shared == 1)
    return VerifiedRound(
        drafts=drafts,
        tokens=torch.where(accepted, drafts, draw(excess, uniforms[..., 1])),
        accepted=accepted,
        entropies=entropies(p),
        overlaps=shared,
        suppressions=suppressions(p, q, drafts=drafts),
        votes=votes,
    )


Written = tuple[tuple[int, ...], tuple[VerifiedToken, ...] | None]
"""The token ids of one response, and a jury's verdicts on them; None without a jury."""


_STEP = 32
_STEP_ON_CUDA = 256
"""Attention looks at multiples of this many slots; a GPU records each multiple once."""


def round_up(n_slots: int, *, device: torch.device) -> int:
    """Return the number of slots, at least this many, that attention looks at on a device."""
    step = _STEP_ON_CUDA if device.type == "cuda" else _STEP
    return -(-n_slots // step) * step


class Rounds:
    """A batch that is being decoded.

    Args:
        drafter: One that has read the prompts.
        progress: Progress at the last token of each prompt.
        numbers: Random numbers of each row and position, shape (n_rows, n_positions, 3), or 1
            without a jury.
        prompt_length: Tokens that prompts are padded to.

    Attributes:
        heads: The drawn head of each row, shape (n_rows,).
        witnesses: The speaking heads' input to the final norm in the first round,
            shape (n_rows, hidden_size).
    """

    def __init__(
        self,
        model: HydraModel,
        drafter: Drafter,
        settings: DecodingSettings,
        *,
        progress: Progress,
        heads: Tensor,
        numbers: Tensor,
        prompt_length: int,
    ) -> None:
        self.heads = heads
        self._drafter = drafter
        self._settings = settings
        self._progress = progress
        self._numbers = numbers
        self._prompt_length = prompt_length
        device = model.device
        n_rows, n_rounds, _ = numbers.shape
        shape = (n_rounds, n_rows)
        self._number = torch.zeros(1, dtype=torch.long, device=device)
        self._broken = torch.zeros((), dtype=torch.bool, device=device)
        self._kept = torch.zeros(shape, dtype=torch.bool, device=device)
        self._verdicts = None
        if settings.mode is DecodingMode.FULL_POE:
            self._verdicts = VerifiedRound.zeros(*shape, n_heads=model.n_heads, device=device)
            self._tokens = self._verdicts.tokens
        else:
            self._tokens = torch.zeros(shape, dtype=torch.long, device=device)
        self.witnesses = torch.zeros(
            (n_rows, model.shape.hidden_size), dtype=model.dtype, device=device
        )

    def restart(
        self, ids: Tensor, progress: Progress, heads: Tensor, numbers: Tensor, *, prompt_length: int
    ) -> None:
        """Begin another batch of as many rows in the same memory, where recorded rounds find it.

        What the caches hold of the batch before is overwritten before it is seen.

        Args:
            ids: The prompts, padded on the right, shape (n_rows, prompt_length).
            progress: As when it was made, and the other arguments too.
        """
        self.heads = heads
        self._prompt_length = prompt_length
        self._drafter.restart(heads)
        self._drafter.prefill(ids)
        self._progress.restart(progress)
        self._numbers.copy_(numbers)
        for tensor in (self._number, self._broken, self._kept, self.witnesses):
            tensor.zero_()

    def n_slots(self, number: int) -> int:
        """Return how many slots a round, counted from 0, looks at; rows at their end need fewer.

        It depends on no row, because a response's bits may depend on the number of slots.
        """
        return round_up(self._prompt_length + number, device=self._numbers.device)

    def play(self, n_slots: int) -> None:
        """Play one round; nothing in it waits for the device.

        Args:
            n_slots: Slots that attention looks at, enough for all tokens of this round.
        """
        settings, progress = self._settings, self._progress
        uniforms = self._next_numbers()
        drafts = self._drafter.draft(
            progress.tokens, progress.positions, uniforms[..., 0], n_slots=n_slots
        )
        self.witnesses.copy_(torch.where(self._number == 0, drafts.witnesses, self.witnesses))
        self._broken |= drafts.q[..., 0].isnan().any()  # NaN everywhere or nowhere
        if drafts.jury is None or self._verdicts is None:
            tokens = drafts.tokens
            self._write(self._tokens, tokens)
        else:
            verdict = verify(
                drafts.tokens,
                drafts.q,
                verifiers=drafts.jury.verifiers,
                votes=drafts.jury.votes,
                beta=settings.beta,
                temperature=settings.temperature,
                uniforms=uniforms[..., 1:],
            )
            tokens = verdict.tokens
            self._broken |= verdict.entropies.isnan().any()
            for column, new in zip(self._verdicts.columns, verdict.columns, strict=True):
                self._write(column, new)
        self._write(self._kept, progress.keep(tokens))
        self._number += 1

    def is_open(self) -> bool:
        """Wait for the device, and return whether any response may still grow."""
        state = torch.stack((self._progress.is_open.any(), self._broken))
        is_open, is_broken = state.tolist()
        if is_broken:
            raise GenerationError(
                "the model's logits hold NaN or infinity; expected numbers; the weights or the "
                "LoRA shards are broken, or too large for this precision"
            )
        return bool(is_open)

    def read(self) -> list[Written]:
        """Return what each row holds so far."""
        ends = accumulate(self._kept.sum(dim=0).tolist(), initial=0)
        tokens = self._tokens.T[self._kept.T].tolist()
        verified = None if self._verdicts is None else self._verdicts.read(self._kept)
        return [
            (
                tuple(tokens[start:end]),
                None if verified is None else tuple(verified[start:end]),
            )
            for start, end in pairwise(ends)
        ]

    def _next_numbers(self) -> Tensor:
        """Pick the random numbers of the next position, shape (n_rows, 3 or 1)."""
        # Nothing is kept beyond the last position, so any number will do there.
        _, n_positions, n_each = self._numbers.shape
        positions = self._progress.n_written.clamp(max=n_positions - 1)
        return self._numbers.gather(1, positions[:, None, None].expand(-1, -1, n_each))[:, 0]

    def _write(self, column: Tensor, new: Tensor) -> None:
        column.index_copy_(0, self._number, new[None])
