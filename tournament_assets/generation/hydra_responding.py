"""Decodes a batch with heads, and keeps what the jury made of every token."""

from collections.abc import Sequence

from torch import Tensor

from tournament_assets.generation.hydra.decoded import (
    DecodingMode,
    DecodingSettings,
    describe_decoding,
)
from tournament_assets.generation.hydra.decoding import decode
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.uncertainty import answer_ids, estimate_p_correct
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.chat_prompts import (
    AskedPrompt,
    EncodedPrompt,
    encode_chat,
    padded_length,
)
from tournament_assets.tournament.hydra_entrants import CustomPoeEntrant, fill_in
from tournament_assets.tournament.prompts import GeneratedResponse


def respond_as_hydra(
    entrant: LoadedEntrant,
    batch: Sequence[AskedPrompt],
    batch_size: int,
    *,
    captured: bool = False,
) -> list[GeneratedResponse]:
    """Answer the prompts of one batch, all of one padded length.

    Args:
        entrant: Who answers; it has heads.
        batch: One to `batch_size` prompts.
        batch_size: Rows of the batch; a batch that is not full is filled up.
        captured: Whether to decode by CUDA graphs, on a CUDA device.
    """
    spec, heads = entrant.as_hydra()
    decoded = decode(
        heads,
        [EncodedPrompt(ids=prompt.ids, seed=prompt.seed) for prompt in batch],
        decoding_settings(spec, eos_ids=entrant.eos_ids),
        n_rows=batch_size,
        prompt_length=batch[0].padded_length,
        captured=captured,
    )
    responses = []
    for row, (prompt, own) in enumerate(zip(batch, decoded.responses, strict=True)):
        text = entrant.read(own.token_ids)
        told = entrant.tell_apart(text, prompt.ids)
        diagnostics = {
            **entrant.circumstances(seed=prompt.seed, batch_size=batch_size),
            **describe_decoding(own, read=entrant.read, text=text),
            **told.diagnostics,
        }
        if spec.uncertainty is not None:
            correctness_prompt = fill_in(
                spec.uncertainty.correctness_prompt, prompt=prompt.text, response=told.response
            )
            diagnostics["p_correct"] = _p_correct(
                entrant, heads, correctness_prompt, witness=decoded.witnesses[row : row + 1]
            )
        responses.append(
            GeneratedResponse(
                prompt_id=prompt.prompt_id,
                text=told.response,
                finish_reason=own.finish_reason,
                prompt_tokens=len(prompt.ids),
                response_tokens=len(own.token_ids),
                diagnostics=diagnostics,
            )
        )
    return responses


def decoding_settings(spec: CustomPoeEntrant, *, eos_ids: Sequence[int]) -> DecodingSettings:
    """Say in the decoder's terms how an entrant decodes."""
    return DecodingSettings(
        mode=DecodingMode.BYPASS_JURY if spec.bypass_jury else DecodingMode.FULL_POE,
        max_new_tokens=spec.max_new_tokens,
        temperature=spec.temperature,
        n_adapters=len(spec.adapters),
        beta=spec.beta,
        gamma=spec.gamma,
        eos_ids=tuple(eos_ids),
    )


def _p_correct(
    entrant: LoadedEntrant, heads: HydraModel, correctness_prompt: str, *, witness: Tensor
) -> float | None:
    """Ask about one response alone, so that its companions cannot matter.

    Returns:
        None if the correctness prompt does not fit into the model's context.
    """
    ids = encode_chat(entrant.tokenizer, correctness_prompt, system_prompt=None, name=entrant.name)
    length = min(padded_length(len(ids)), heads.config.max_position_embeddings)
    if len(ids) > length:
        return None
    return estimate_p_correct(
        heads,
        [ids],
        witnesses=witness,
        answer_ids=answer_ids(entrant.tokenizer),
        prompt_length=length,
    )[0]
