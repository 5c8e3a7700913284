"""Draws tokens with random numbers that belong to the prompt, not to the batch.

Every prompt has its own generator, seeded by its id, which draws one uniform number per position
before decoding starts. A token is then the inverse of the distribution's cumulative sum at that
number. So a response depends on its prompt, its entrant and nothing else: not on what shares its
batch, not on what was decoded before, and not on a global seed.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor

from tournament_assets.generation.product_of_experts import draft_probabilities, draw
from tournament_assets.tournament.errors import GenerationError
from tournament_assets.tournament.responses import prompt_seed


def draw_uniforms(prompt_ids: Sequence[str], *, n_positions: int) -> Tensor:
    """Draw every prompt's random numbers, one per position of its response.

    A longer response begins with the same numbers as a shorter one.

    Returns:
        Numbers in [0, 1), float64 on the CPU, shape (n_prompts, n_positions).
    """
    rows = [
        torch.rand(
            n_positions,
            generator=torch.Generator().manual_seed(prompt_seed(prompt_id)),
            dtype=torch.float64,
        )
        for prompt_id in prompt_ids
    ]
    return torch.stack(rows)


def draw_tokens(logits: Tensor, *, uniforms: Tensor, temperature: float) -> Tensor:
    """Draw one token per row from softmax(logits / temperature) by inverse CDF, in float64.

    Args:
        logits: Scores, shape (n_rows, vocabulary); -inf is never drawn.
        uniforms: One number in [0, 1) per row, shape (n_rows,).
        temperature: Divides the logits; towards 0 it draws the most probable token.

    Returns:
        Token ids, shape (n_rows,).
    """
    return draw(draft_probabilities(logits, temperature=temperature), uniforms.to(logits.device))


class TokenPicker(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped
    """Leaves one token per row unmasked, so that greedy decoding takes the one that was drawn.

    Ghost rows, which a vocabulary padded for speed has beyond the tokenizer's last token, are
    masked before anything else: they have logits and mean nothing.

    Attributes:
        n_tokens: Tokens the tokenizer knows; ids from here on are ghosts.
        prompt_length: Padded length of the prompts, in tokens.
        temperature: Sampling temperature; None masks ghosts only and so decodes greedily.
        uniforms: Random numbers, shape (n_rows, n_positions); None with temperature None.
    """

    def __init__(
        self,
        *,
        n_tokens: int,
        prompt_length: int,
        temperature: float | None,
        uniforms: Tensor | None,
    ) -> None:
        if (temperature is None) != (uniforms is None):
            raise ValueError("temperature and uniforms are either both given or both None")
        self.n_tokens = n_tokens
        self.prompt_length = prompt_length
        self.temperature = temperature
        self.uniforms = uniforms

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Mask what must not be decoded at this position.

        Args:
            input_ids: Prompt and response so far, shape (n_rows, n_tokens_so_far).
            scores: The model's logits, shape (n_rows, vocabulary).

        Raises:
            GenerationError: If the model's logits are not numbers.
        """
        known = scores[:, : self.n_tokens]
        if not bool(known.amax(dim=-1).isfinite().all()):
            raise GenerationError(
                "the model's logits hold NaN or infinity; expected numbers; the weights are "
                "broken, or too large for this precision"
            )
        masked = torch.full_like(scores, float("-inf"))
        if self.temperature is None or self.uniforms is None:
            masked[:, : self.n_tokens] = known
            return masked
        position = input_ids.shape[1] - self.prompt_length
        drawn = draw_tokens(
            known, uniforms=self.uniforms[:, position], temperature=self.temperature
        )
        return masked.scatter_(1, drawn[:, None], 0.0)
