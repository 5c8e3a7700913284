"""How many prompts fit into memory together."""

import psutil
import torch

from tournament_assets.generation.loading import LoadedEntrant

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
