"""Lets a loaded entrant answer prompts, in batches that fit into memory.

A response must not depend on the prompts that happen to share its batch. Its random numbers are
its own, and the shapes of all tensors are a function of its own length and of the batch size:
prompts are batched with prompts of the same padded length only, and a batch that is not full is
filled up. Equal shapes make torch run the same kernels, whose rows do not see each other.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

import torch

from tournament_assets.generation.batch_sizes import SHARE, choose_batch_size, is_out_of_memory
from tournament_assets.generation.hydra_responding import respond_as_hydra
from tournament_assets.generation.loading import LoadedEntrant
from tournament_assets.generation.models.chat_prompts import AskedPrompt, encode_prompts
from tournament_assets.generation.vanilla_responding import respond_with_generate
from tournament_assets.tournament.errors import GenerationError, InputError
from tournament_assets.tournament.prompts import GeneratedResponse, Prompt

Respond = Callable[[Sequence[AskedPrompt], int], list[GeneratedResponse]]
"""Answers the prompts of one batch, all of one padded length; told the rows of the batch."""


def respond_in_batches(
    asked: Sequence[AskedPrompt], respond: Respond, *, batch_size: int, where: str
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, handing out every batch as soon as it is done.

    Prompts share a batch with prompts of the same padded length only. When memory runs out the
    batch size is halved for the rest; as the longest come first, that happens early.

    Args:
        asked: What is asked, in any order.
        respond: Who answers.
        batch_size: Rows of a batch.
        where: Who answers and on which device, to begin a message with.

    Raises:
        GenerationError: If not even one prompt fits into memory.
    """
    longest_first = sorted(asked, key=lambda prompt: prompt.padded_length, reverse=True)
    for _, group in groupby(longest_first, key=lambda prompt: prompt.padded_length):
        waiting = list(group)
        while waiting:
            try:
                responses = respond(waiting[:batch_size], batch_size)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if batch_size == 1:
                    raise GenerationError(
                        f"{where} has not enough memory to answer prompt "
                        f"{waiting[0].prompt_id!r} alone; expected room for one; "
                        "lower max_new_tokens, or use a larger device"
                    ) from error
                batch_size //= 2
            else:
                yield responses
                waiting = waiting[batch_size:]
                continue
            # Outside the handler, where the error no longer holds on to the failed batch's tensors.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def generate_responses(
    entrant: LoadedEntrant,
    prompts: Sequence[Prompt],
    *,
    batch_size: int | None,
    captured: bool = False,
    memory_share: float = SHARE,
) -> Iterator[list[GeneratedResponse]]:
    """Answer prompts, the longest first, handing out every batch as soon as it is done.

    The entrant's own settings decide alone how it decodes: sampling settings that the model's
    files suggest are not used. When memory runs out the batch size is halved for the rest; each
    response's diagnostics hold the batch size it was generated with.

    Args:
        entrant: Who answers.
        prompts: What is asked, in any order.
        batch_size: Prompts decoded together; None tries one step and takes as many as have room.
        captured: Whether heads decode by CUDA graphs; without effect on another device.
        memory_share: Of the free memory that a batch may fill, where the batch size is measured.

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
        context=entrant.context,
        chat_template=entrant.chat_template,
        arguments=spec.template_arguments,
        seed=spec.seed,
        is_padded=entrant.base.is_batchable,
        name=entrant.name,
    )
    if not (asked and entrant.base.is_batchable):
        batch_size = 1
    elif batch_size is None:
        batch_size = _measure_batch_size(entrant, asked, share=memory_share)
    on_cuda = torch.device(entrant.device).type == "cuda"
    return respond_in_batches(
        asked,
        _respond_as(entrant, captured=captured and on_cuda),
        batch_size=batch_size,
        where=f"{entrant.name}: {entrant.device}",
    )


def _respond_as(entrant: LoadedEntrant, *, captured: bool) -> Respond:
    if entrant.hydra is None:
        return partial(respond_with_generate, entrant)
    return partial(respond_as_hydra, entrant, captured=captured)


def _measure_batch_size(
    entrant: LoadedEntrant, asked: Sequence[AskedPrompt], *, share: float
) -> int:
    brief, longest = _longest_step(entrant, asked)
    answer = _respond_as(brief, captured=False)
    device = torch.device(entrant.device)
    return choose_batch_size(lambda: answer([longest], 1), device=device, share=share)


def _longest_step(
    entrant: LoadedEntrant, asked: Sequence[AskedPrompt]
) -> tuple[LoadedEntrant, AskedPrompt]:
    """One step with one row that reads as much as the longest response will have before it."""
    longest = max(asked, key=lambda prompt: len(prompt.ids))
    n_tokens = len(longest.ids) + entrant.spec.max_new_tokens - 1
    repeated = (longest.ids * (n_tokens // len(longest.ids) + 1))[:n_tokens]
    brief = entrant.spec.model_copy(update={"max_new_tokens": 1})
    return replace(entrant, spec=brief), replace(longest, ids=repeated)
