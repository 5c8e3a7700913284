"""How probable the uncertainty head thinks it is that a response is correct.

After a response there is a correctness prompt that asks whether it is correct, answered by A or B.
The trunk reads it; at its last token the *witness* is added, the residual stream with which the
speaking head ended the first prompt; the uncertainty head reads on from there.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.models.base_models import decoding_threads
from tournament_assets.generation.models.chat_prompts import pad_right
from tournament_assets.tournament.errors import GenerationError, InputError


def answer_ids(tokenizer: Any) -> tuple[int, int]:
    """Return the tokens of the two answers: `A` for correct and `B`, without a space before them.

    Raises:
        InputError: If either is not one token.
    """
    a, b = (tokenizer.encode(letter, add_special_tokens=False) for letter in "AB")
    if len(a) != 1 or len(b) != 1:
        raise InputError(
            f"the tokenizer writes 'A' as {len(a)} tokens and 'B' as {len(b)}; expected one each, "
            "for the uncertainty head answers with one token; use the tokenizer it was trained with"
        )
    return a[0], b[0]


def estimate_p_correct(
    model: HydraModel,
    prompts: Sequence[Sequence[int]],
    *,
    witnesses: Tensor,
    answer_ids: tuple[int, int],
    prompt_length: int,
) -> list[float]:
    """Ask the uncertainty head about some responses.

    Args:
        model: Who is asked; it has an uncertainty head.
        prompts: Token ids of the correctness prompts, one per response.
        witnesses: From the `DecodedBatch`, shape (n_prompts, hidden_size).
        answer_ids: The tokens for yes and no: `A` and `B` without a space before them.
        prompt_length: Tokens that prompts are padded to.

    Returns:
        The logistic function of logit A - logit B, one per response.

    Raises:
        InputError: If a prompt does not fit, or the model has no uncertainty head.
        GenerationError: If the model's logits are not numbers.
    """
    lengths = [len(ids) for ids in prompts]
    limit = min(prompt_length, model.config.max_position_embeddings)
    wrong = [length for length in lengths if not 1 <= length <= limit]
    if wrong or len(prompts) != len(witnesses):
        raise InputError(
            f"there are {len(prompts)} correctness prompts of {lengths} tokens for "
            f"{len(witnesses)} witnesses; expected one each, of 1 to {limit} tokens"
        )
    selection = model.uncertainty()
    with torch.inference_mode(), decoding_threads(model.n_parameters):
        ids = pad_right(prompts, prompt_length).to(model.device)
        rows = torch.arange(len(prompts), device=model.device)
        last = torch.tensor(lengths, device=model.device) - 1
        caches = model.new_caches(n_prompts=len(prompts), copies=1, n_slots=prompt_length)
        positions = torch.arange(prompt_length, device=model.device).expand_as(ids)
        places = caches.locate(positions)
        hidden = model.trunk(ids, places, caches.trunk).clone()
        hidden[rows, last] += witnesses
        entered = model.enter_heads(hidden, places, caches.trunk)
        read = model.heads(entered, places, caches.heads, selection)[0]
        logits = model.logits(read[rows, last])  # (n_prompts, n_tokens)
        yes, no = answer_ids
        p_correct = (logits[:, yes].double() - logits[:, no].double()).sigmoid()
    if not bool(p_correct.isfinite().all()):
        raise GenerationError(
            "the uncertainty head's logits hold NaN or infinity; expected numbers; "
            "its LoRA shard is broken, or too large for this precision"
        )
    return p_correct.tolist()
