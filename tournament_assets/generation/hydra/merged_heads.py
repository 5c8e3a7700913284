"""Writes a head as a model of its own, for programs that know nothing of heads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tournament_assets.generation.hydra.shards import HeadShards, check_adapters, head_shape
from tournament_assets.generation.models.base_models import transformers_logging_off
from tournament_assets.tournament.errors import InputError


def merged_weights(model: Any, adapters: Sequence[HeadShards], *, head: int) -> dict[str, Tensor]:
    """Add a head's low-rank changes to the base weights: W + the sum of scale * B @ A.

    Args:
        model: The `Olmo2ForCausalLM` that the adapters were trained on.
        adapters: The changes of the heads.
        head: Which head, from 0.

    Returns:
        The whole state dict. What the head does not change is shared with the model; sums are
        formed in float32 and rounded to the model's precision once.

    Raises:
        InputError: If the adapters do not fit the model, or there is no such head.
    """
    if not adapters:
        raise InputError("there is no adapter to merge; expected at least one; name its shards")
    depth = adapters[0].shape.heads_depth
    check_adapters(head_shape(model, heads_depth=depth), adapters)
    if not 0 <= head < adapters[0].n_heads:
        raise InputError(f"there is no head {head}; expected 0 to {adapters[0].n_heads - 1}")
    weights: dict[str, Tensor] = dict(model.state_dict())
    first = model.config.num_hidden_layers - depth
    for layer in range(depth):
        for projection in adapters[0].layers[layer]:
            key = f"model.layers.{first + layer}.mlp.{projection}.weight"
            merged = weights[key].to(torch.float32)
            for adapter in adapters:
                factors = adapter.layers[layer][projection]
                change = adapter.scale * (factors.b[head] @ factors.a[head])
                merged = merged + change.to(merged.device)
            weights[key] = merged.to(weights[key].dtype)
    return weights


def export_merged_head(
    model: Any,
    folder: Path,
    *,
    adapters: Sequence[HeadShards],
    head: int,
    tokenizer: Any | None = None,
) -> None:
    """Write a head as a plain Hugging Face folder, with safetensors weights.

    Args:
        model: The `Olmo2ForCausalLM` that the adapters were trained on; it is left as it is.
        folder: Where to write; it does not exist yet, or is empty.
        adapters: The changes of the heads.
        head: Which head, from 0.
        tokenizer: Saved beside the weights, if given.

    Raises:
        InputError: If the folder holds anything, the adapters do not fit the model, or there is no
            such head.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"{str(folder)!r} is not empty; expected a new folder, "
            "so that files of different models are not mixed; name another"
        )
    weights = merged_weights(model, adapters, head=head)
    with transformers_logging_off():
        model.save_pretrained(folder, state_dict=weights)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
