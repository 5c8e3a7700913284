"""Random models with nine heads, made where they are measured: no checkpoint, no download."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, Olmo2Config, PreTrainedModel

from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.shards import (
    PROJECTIONS,
    HeadShape,
    HeadShards,
    LoraFactors,
    head_shape,
)

N_HEADS, HEADS_DEPTH, RANKS = 9, 3, (8, 16)


@dataclass(frozen=True, slots=True)
class Preset:
    """A model to measure, and what it is asked.

    Attributes:
        config: Sizes of the model, as `Olmo2Config` calls them.
        n_tokens: Tokens that its tokenizer would know.
        dtype: Precision of the weights.
        device: Where it is made.
        batches: Batch sizes, unless others are asked for.
        new_tokens: Tokens of each response, unless another number is asked for.
    """

    config: Mapping[str, int]
    n_tokens: int
    dtype: torch.dtype
    device: str
    batches: tuple[int, ...]
    new_tokens: int


PRESETS = {
    # Widths an eighth of the 7B's. Its vocabulary would be 12,544 by the same rule; 32,768 is in
    # the range of published small models, and harder: a head's projection to it is read 9 times.
    "cpu": Preset(
        config={
            "vocab_size": 32_768,
            "hidden_size": 512,
            "intermediate_size": 1376,
            "num_hidden_layers": 6,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
        },
        n_tokens=32_768,
        dtype=torch.float32,
        device="cpu",
        batches=(1, 8, 32),
        new_tokens=32,
    ),
    # For a dry run of everything that `make gpu` does, in a minute on a CPU.
    "tiny": Preset(
        config={
            "vocab_size": 256,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
        },
        n_tokens=256,
        dtype=torch.float32,
        device="cpu",
        batches=(1, 4),
        new_tokens=8,
    ),
    # As allenai/OLMo-2-1124-7B-Instruct.
    "7b": Preset(
        config={
            "vocab_size": 100_352,
            "hidden_size": 4096,
            "intermediate_size": 11_008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
        n_tokens=100_278,
        dtype=torch.bfloat16,
        device="cuda",
        batches=(1, 8, 32, 64),
        new_tokens=128,
    ),
}


def build_models(preset: Preset) -> tuple[PreTrainedModel, HydraModel]:
    """Make a random model, and put random heads on it; neither ever ends a response."""
    config = Olmo2Config(
        **preset.config,
        max_position_embeddings=4096,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(0)
    with torch.device(preset.device):
        model = AutoModelForCausalLM.from_config(
            config, dtype=preset.dtype, attn_implementation="sdpa"
        )
    model = model.eval().requires_grad_(False)
    return model, put_heads_on(model, n_tokens=preset.n_tokens)


def put_heads_on(model: PreTrainedModel, *, n_tokens: int) -> HydraModel:
    """Put nine random heads on a model, the same ones on every device."""
    shape = head_shape(model, heads_depth=HEADS_DEPTH)
    return HydraModel(
        model,
        n_tokens=n_tokens,
        heads_depth=HEADS_DEPTH,
        adapters=[_build_shards(shape, rank=rank) for rank in RANKS],
    )


def _build_shards(shape: HeadShape, *, rank: int) -> HeadShards:
    generator = torch.Generator().manual_seed(rank)

    def factors(projection: str) -> LoraFactors:
        n_in, n_out = shape.features(projection)
        return LoraFactors(
            a=torch.randn(N_HEADS, rank, n_in, generator=generator) * n_in**-0.5,
            b=torch.randn(N_HEADS, n_out, rank, generator=generator) * 0.02,
        )

    layers = [
        {projection: factors(projection) for projection in PROJECTIONS.values()}
        for _ in range(HEADS_DEPTH)
    ]
    return HeadShards(shape=shape, n_heads=N_HEADS, rank=rank, scale=2.0, layers=tuple(layers))


def bytes_per_step(preset: Preset, *, batch: int, n_slots: float, jury: int, voices: int) -> float:
    """How much memory a step has to read at least: weights, changes, and what was read before.

    Args:
        preset: The model.
        batch: Prompts decoded together.
        n_slots: Tokens that were read before, on average.
        jury: Heads that read each prompt; 1 for one voice.
        voices: Sets of changes that are read; 0 for the base model.
    """
    config = preset.config
    width, inner, n_layers = (
        config[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")
    )
    kv_width = width * config["num_key_value_heads"] // config["num_attention_heads"]
    layer = 2 * width * (width + kv_width) + 3 * width * inner
    changes = HEADS_DEPTH * 3 * (width + inner) * sum(RANKS)
    # The attention of the first head layer is shared, and so is its cache.
    caches = n_layers - (HEADS_DEPTH - 1) + jury * (HEADS_DEPTH - 1)
    numbers = (
        n_layers * layer
        + width * preset.n_tokens
        + voices * changes
        + caches * batch * n_slots * 2 * kv_width
    )
    return numbers * preset.dtype.itemsize
