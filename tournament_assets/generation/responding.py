"""Lets a loaded entrant answer prompts, batch by batch.

A response must not depend on the prompts that happen to share its batch. Its random numbers are
its own (see `sampling` and `draws`), and the shapes of all tensors are a function of its own length
and of the batch size: prompts are batched with prompts of the same padded length only, and a batch
that is not full is filled up. Equal shapes make torch run the same kernels, whose rows do not see
each other.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import torch

from tournament_assets.generation.asked import encode_prompts
from tournament_assets.generation.batch_sizes import choose_batch_size
from tournament_assets.generation.batching import respond_in_batches
from tournament_assets.generation.hydra_responding import respond_as_hydra
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.vanilla_responding import respond_with_generate
from tournament_assets.tournament.errors import InputError
from tournament_assets.tournament.prompts import Prompt
from tournament_assets.tournament.responses import GeneratedResponse


def generate_responses(
    entrant: LoadedEntrant,
    prompts: Sequence[Prompt],
    *,
    batch_size: int | None,
    captured: bool = False,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, handing out every batch as soon as it is done.

    The entrant's own settings decide alone how it decodes: sampling settings that the model's
    files suggest are not used. When CUDA runs out of memory the batch size is halved for the rest;
    each response's diagnostics hold the batch size it was generated with.

    Args:
        entrant: Who answers.
        prompts: What is asked, in any order.
        batch_size: Prompts decoded together; None chooses what the free memory has room for.
        captured: Whether heads decode by CUDA graphs; without effect on another device.

    Returns:
        The responses of one batch after the other.

    Raises:
        InputError: Before anything is generated, if a prompt does not fit the model.
        GenerationError: While batches are taken, if not even one prompt fits into memory.
    """
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; expected at least 1")
    spec = entrant.spec
    asked = encode_prompts(
        entrant.tokenizer,
        prompts,
        system_prompt=spec.system_prompt,
        max_new_tokens=spec.max_new_tokens,
        context=getattr(entrant.model.config, "max_position_embeddings", None),
        name=entrant.name,
    )
    on_cuda = torch.device(entrant.device).type == "cuda"
    respond = (
        partial(respond_with_generate, entrant)
        if entrant.hydra is None
        else partial(respond_as_hydra, entrant, captured=captured and on_cuda)
    )
    longest = max((prompt.padded_length for prompt in asked), default=1)
    return respond_in_batches(
        asked,
        respond,
        batch_size=batch_size or choose_batch_size(entrant, longest),
        where=f"{entrant.name}: {entrant.device}",
    )
