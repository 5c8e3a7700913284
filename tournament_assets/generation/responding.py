"""Lets a loaded entrant answer prompts, in batches that fit into memory.

A response must not depend on the prompts that happen to share its batch. Its random numbers are
its own, and the shapes of all tensors are a function of its own length and of the batch size:
prompts are batched with prompts of the same padded length only, and a batch that is not full is
filled up. Equal shapes make torch run the same kernels, whose rows do not see each other.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import psutil
import torch

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
            except torch.OutOfMemoryError as error:
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


LARGEST = 64
"""Rows from which a batch gains nothing on any device that was looked at."""
_LARGEST_ON_CPU = 16
_SHARE = 0.7
"""Of the free memory; the rest is for what the estimate leaves out, such as fragmentation."""
_FLOAT64_COPIES = 6
"""Tensors of probabilities, one number per token of the vocabulary, that are alive at once."""


def choose_batch_size(entrant: LoadedEntrant, prompt_length: int) -> int:
    """Return the largest power of two whose batch fits into the free memory, by estimate.

    Args:
        entrant: Who will answer; already loaded.
        prompt_length: Tokens of the longest prompt, padded.

    Returns:
        1 to 64, or to 16 on a CPU. Where the estimate was too large, generation halves it.
    """
    device = torch.device(entrant.device)
    room = _SHARE * _free_bytes(device)
    rows = LARGEST if device.type == "cuda" else _LARGEST_ON_CPU
    while rows > 1 and rows * bytes_per_row(entrant, prompt_length) > room:
        rows //= 2
    return rows


def bytes_per_row(entrant: LoadedEntrant, prompt_length: int) -> int:
    """Estimate the memory that one prompt takes while it is answered, in bytes.

    Counted are keys and values, the widest activations while the prompt is read, and what is
    computed over the vocabulary at each position.

    Args:
        entrant: Who answers.
        prompt_length: Tokens of the prompt, padded.
    """
    config = entrant.model.config
    copies, n_shared = 1, config.num_hidden_layers
    if entrant.hydra is not None:
        spec, heads = entrant.as_hydra()
        copies = 1 if spec.bypass_jury else heads.n_heads
        n_shared -= spec.hydra.heads_depth - 1
    n_cached = n_shared + copies * (config.num_hidden_layers - n_shared)
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    n_slots = prompt_length + entrant.spec.max_new_tokens
    n_kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    keys_and_values = 2 * n_cached * n_kv_heads * head_dim * n_slots
    activations = copies * prompt_length * (3 * config.intermediate_size + 6 * config.hidden_size)
    item = entrant.dtype.itemsize
    logits = config.vocab_size * (copies * item + _FLOAT64_COPIES * 8)
    return int(item * (keys_and_values + activations) + logits)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


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
