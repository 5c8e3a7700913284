"""Decodes a batch with transformers' own `generate`, token by token."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList

from tournament_assets.generation.asked import AskedPrompt
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.quiet import quiet_transformers
from tournament_assets.generation.sampling import TokenPicker, draw_uniforms
from tournament_assets.generation.threads import decoding_threads
from tournament_assets.tournament.responses import GeneratedResponse


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
        quiet_transformers(),
        decoding_threads(entrant.model.num_parameters()),
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
