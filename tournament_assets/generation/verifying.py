"""What the jury makes of the drafts of one round."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.decoded import VerifiedToken
from tournament_assets.generation.product_of_experts import (
    accept_drafts,
    draw_replacements,
    entropies,
    jury_probabilities,
    overlaps,
    suppressions,
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

    @property
    def n_standing(self) -> Tensor:
        """Tokens up to the first replacement, which stands too; shape (n_prompts,)."""
        n_accepted = self.accepted.long().cumprod(dim=1).sum(dim=1)
        return (n_accepted + 1).clamp(max=self.accepted.shape[1])

    def read(self, n_kept: Sequence[int]) -> list[list[VerifiedToken]]:
        """Return the first tokens of each prompt, as many as are kept."""
        columns = (
            self.drafts.tolist(),
            self.tokens.tolist(),
            self.accepted.tolist(),
            self.entropies.tolist(),
            self.overlaps.tolist(),
            self.suppressions.tolist(),
            self.votes.tolist(),
        )
        return [
            [
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
                    *row, strict=True
                )
            ][:n]
            for n, *row in zip(n_kept, *columns, strict=True)
        ]


def verify(
    drafts: Tensor,
    q: Tensor,
    jury_logits: Tensor,
    *,
    heads: Tensor,
    beta: float,
    temperature: float | None,
    uniforms: Tensor,
) -> Verdict:
    """Let the jury accept or replace drafts.

    Args:
        drafts: Token ids, shape (n_prompts, n_drafts).
        q: What they were drafted from, shape (n_prompts, n_drafts, n_tokens).
        jury_logits: What all heads think, shape (n_heads, n_prompts, n_drafts, n_tokens).
        heads: The drafting heads, which do not verify, shape (n_prompts,).
        beta: Weight of each verifier.
        temperature: Sampling temperature; None decodes greedily.
        uniforms: Numbers to accept and to replace with, shape (n_prompts, n_drafts, 2).

    Raises:
        GenerationError: If the logits are not numbers.
    """
    p = jury_probabilities(jury_logits, heads=heads, beta=beta, temperature=temperature)
    accepted = accept_drafts(p, q, drafts=drafts, uniforms=uniforms[..., 0])
    replacements = draw_replacements(p, q, uniforms=uniforms[..., 1])
    return Verdict(
        drafts=drafts,
        tokens=torch.where(accepted, drafts, replacements),
        accepted=accepted,
        entropies=entropies(p),
        overlaps=overlaps(p, q),
        suppressions=suppressions(p, q, drafts=drafts),
        votes=jury_logits.argmax(dim=-1).permute(1, 2, 0),
    )
