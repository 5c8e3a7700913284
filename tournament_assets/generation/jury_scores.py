"""What a round needs of the logits of all heads."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tournament_assets.generation.hydra import HydraModel
from tournament_assets.generation.product_of_experts import pick_heads, sum_verifiers


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
