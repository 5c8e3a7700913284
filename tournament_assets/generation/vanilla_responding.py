"""Decodes a batch with transformers' own `generate`, token by token.

Every prompt has its own generator, seeded by its id, which draws one uniform number per position
before decoding starts. A token is then the inverse of the distribution's cumulative sum at that
number. So a response depends on its prompt, its entrant and nothing else: not on what shares its
batch, not on what was decoded before, and not on a global seed.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from tournament_assets.generation.hydra.product_of_experts import draft_probabilities, draw
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.base_models import (
    decoding_threads,
    transformers_logging_off,
)
from tournament_assets.generation.models.chat_prompts import AskedPrompt
from tournament_assets.tournament.errors import GenerationError
from tournament_assets.tournament.prompts import GeneratedResponse, prompt_seed


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


def respond_with_generate(
    entrant: LoadedEntrant, batch: Sequence[AskedPrompt], batch_size: int
) -> list[GeneratedResponse]:
    """Answer the prompts of one batch, all of one padded length.

    Args:
        entrant: Who answers.
        batch: One to `batch_size` prompts.
        batch_size: Rows of the batch; a batch that is not full is filled up.
    """
    # Dummy rows repeat the last prompt, so they end when it ends.
    rows = [*batch, *[batch[-1]] * (batch_size - len(batch))]
    ids, mask = _pad_left(rows, pad_id=entrant.tokenizer.pad_token_id)
    spec = entrant.spec
    uniforms = None
    if spec.temperature is not None:
        prompt_ids = [row.prompt_id for row in rows]
        uniforms = draw_uniforms(prompt_ids, n_positions=spec.max_new_tokens).to(entrant.device)
    picker = TokenPicker(
        n_tokens=len(entrant.tokenizer),
        prompt_length=ids.shape[1],
        temperature=spec.temperature,
        uniforms=uniforms,
    )
    with (
        transformers_logging_off(),
        decoding_threads(entrant.model.num_parameters()),
        entrant.wearing(),
        torch.inference_mode(),
    ):
        sequences = entrant.model.generate(
            input_ids=ids.to(entrant.device),
            attention_mask=mask.to(entrant.device),
            generation_config=_decoding(entrant),
            logits_processor=LogitsProcessorList([picker]),
        )  # (batch_size, prompt_length + n_new_tokens)
    written = sequences[: len(batch), ids.shape[1] :].tolist()
    return [
        _read_response(entrant, prompt, new_ids, batch_size=batch_size)
        for prompt, new_ids in zip(batch, written, strict=True)
    ]


def _pad_left(rows: Sequence[AskedPrompt], *, pad_id: int) -> tuple[Tensor, Tensor]:
    """Return ids and attention mask, both (n_rows, padded_length)."""
    length = rows[0].padded_length
    ids = torch.full((len(rows), length), pad_id)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, -len(row.ids) :] = torch.tensor(row.ids)
        mask[index, -len(row.ids) :] = 1
    return ids, mask


def _decoding(entrant: LoadedEntrant) -> GenerationConfig:
    return GenerationConfig(
        do_sample=False,
        num_beams=1,
        max_new_tokens=entrant.spec.max_new_tokens,
        eos_token_id=list(entrant.eos_ids),
        pad_token_id=entrant.tokenizer.pad_token_id,
    )


def _read_response(
    entrant: LoadedEntrant, prompt: AskedPrompt, new_ids: list[int], *, batch_size: int
) -> GeneratedResponse:
    end = next((n for n, token in enumerate(new_ids) if token in entrant.eos_ids), None)
    own_ids = new_ids if end is None else new_ids[: end + 1]
    return GeneratedResponse(
        prompt_id=prompt.prompt_id,
        text=entrant.read(own_ids),
        finish_reason="length" if end is None else "stop",
        prompt_tokens=len(prompt.ids),
        response_tokens=len(own_ids),
        diagnostics=entrant.circumstances(seed=prompt.seed, batch_size=batch_size),
    )
