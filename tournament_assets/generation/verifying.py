"""What the jury makes of the drafts of one round."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.decoded import VerifiedToken
from tournament_assets.generation.product_of_experts import (
    accept_drafts,
    draw,
    entropies,
    jury_probabilities,
    overlaps,
    suppressions,
    surplus,
)


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One round, verified; what comes after a replacement was drafted in vain.

    Attributes:
        drafts: What was drafted, shape (n_prompts, n_drafts).
        tokens: The drafts, or what replaces them, the same shape.
        accepted: Whether the draft stands, the same shape.
        entropies: Of the verifiers' product, in nats, the same shape.
        overlaps: Probability that a draft is accepted, the same shape.
        suppressions: Probability that this draft is rejected, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_drafts, n_heads).
    """

    drafts: Tensor
    tokens: Tensor
    accepted: Tensor
    entropies: Tensor
    overlaps: Tensor
    suppressions: Tensor
    votes: Tensor

    @classmethod
    def zeros(cls, *shape: int, n_heads: int, device: torch.device) -> "Verdict":
        """Make room for verdicts to be written down; `shape` stands in place of that of drafts."""

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
        """All that it says, in the order of the attributes."""
        return (
            self.drafts,
            self.tokens,
            self.accepted,
            self.entropies,
            self.overlaps,
            self.suppressions,
            self.votes,
        )

    @property
    def n_standing(self) -> Tensor:
        """Tokens up to the first replacement, which stands too; shape (n_prompts,)."""
        n_accepted = self.accepted.long().cumprod(dim=1).sum(dim=1)
        return (n_accepted + 1).clamp(max=self.accepted.shape[1])

    def read(self, kept: Tensor) -> list[VerifiedToken]:
        """Return what is kept of verdicts that were written down, prompt by prompt.

        Args:
            kept: True where a token is kept, shape (n_rounds, n_prompts, n_drafts).
        """
        by_prompt = kept.transpose(0, 1)
        columns = [column.transpose(0, 1)[by_prompt].tolist() for column in self.columns]
        return [
            VerifiedToken(
                draft=draft,
                token=token,
                resampled=not accepted,
                entropy=entropy,
                overlap=overlap,
                suppression=suppression,
                votes=tuple(votes),
            )
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
) -> Verdict:
    """Let the jury accept or replace drafts.

    Args:
        drafts: Token ids, shape (n_prompts, n_drafts).
        q: What they were drafted from, shape (n_prompts, n_drafts, n_tokens).
        verifiers: Sum of the verifiers' logits, the same shape.
        votes: Each head's most probable token, shape (n_prompts, n_drafts, n_heads).
        beta: Weight of each verifier.
        temperature: Sampling temperature; None decodes greedily.
        uniforms: Numbers to accept and to replace with, shape (n_prompts, n_drafts, 2).

    Returns:
        The verdict; its entropies are NaN where the logits are not numbers.
    """
    p = jury_probabilities(verifiers, beta=beta, temperature=temperature)
    wanted = surplus(p, q)
    shared = overlaps(wanted)
    # Where there is nothing to replace a draft with, it stands: P equals q but for rounding.
    accepted = accept_drafts(p, q, drafts=drafts, uniforms=uniforms[..., 0]) | (shared == 1)
    return Verdict(
        drafts=drafts,
        tokens=torch.where(accepted, drafts, draw(wanted, uniforms[..., 1])),
        accepted=accepted,
        entropies=entropies(p),
        overlaps=shared,
        suppressions=suppressions(p, q, drafts=drafts),
        votes=votes,
    )
