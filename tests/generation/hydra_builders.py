"""Small random OLMo-2 models, random LoRA shards, and prompts to decode with them."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import Olmo2Config, Olmo2ForCausalLM

from benchmarks.decoded_batches import decode
from tournament_assets.generation.hydra.decoded import Decoded, DecodingMode, DecodingSettings
from tournament_assets.generation.hydra.decoding import Replay
from tournament_assets.generation.hydra.hydra_model import HydraModel
from tournament_assets.generation.hydra.shards import (
    PROJECTIONS,
    HeadShape,
    HeadShards,
    LoraFactors,
    head_shape,
)
from tournament_assets.generation.models.chat_prompts import EncodedPrompt

SCALE = 2.0
SECURITY_RANK = 2
ROBUSTNESS_RANK = 3


def randn(*shape: int, generator: torch.Generator, size: float = 1.0) -> Tensor:
    return size * torch.randn(shape, generator=generator)


def build_model(
    *,
    n_layers: int = 3,
    hidden_size: int = 16,
    n_attention_heads: int = 4,
    n_kv_heads: int = 4,
    vocab_size: int = 23,
    seed: int = 0,
    sharpness: float = 0.6,
) -> Olmo2ForCausalLM:
    """Build a random model; its vocabulary may hold rows that no tokenizer knows."""
    config = Olmo2Config(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=n_layers,
        num_attention_heads=n_attention_heads,
        num_key_value_heads=n_kv_heads,
        max_position_embeddings=128,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = Olmo2ForCausalLM(config).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.copy_(1 + randn(*weight.shape, generator=generator, size=0.1))
        elif name == "lm_head.weight":
            weight.copy_(randn(*weight.shape, generator=generator, size=sharpness))
        else:
            weight.copy_(randn(*weight.shape, generator=generator, size=weight.shape[1] ** -0.5))
    return model


def build_shards(
    shape: HeadShape, *, n_heads: int, rank: int, seed: int = 1, size: float = 0.7
) -> HeadShards:
    """Build random changes; with size 0 every b is zero, as before training."""
    generator = torch.Generator().manual_seed(seed)

    def factors(projection: str) -> LoraFactors:
        n_in, n_out = shape.features(projection)
        return LoraFactors(
            a=randn(n_heads, rank, n_in, generator=generator, size=n_in**-0.5),
            b=randn(n_heads, n_out, rank, generator=generator, size=size * rank**-0.5),
        )

    layers = [
        {projection: factors(projection) for projection in PROJECTIONS.values()}
        for _ in range(shape.heads_depth)
    ]
    return HeadShards(shape=shape, n_heads=n_heads, rank=rank, scale=SCALE, layers=tuple(layers))


def build_adapters(
    model: Olmo2ForCausalLM, *, n_heads: int = 3, heads_depth: int = 2, size: float = 0.7
) -> tuple[HeadShards, HeadShards]:
    """Build security and robustness shards for a model."""
    shape = head_shape(model, heads_depth=heads_depth)
    return (
        build_shards(shape, n_heads=n_heads, rank=SECURITY_RANK, seed=1, size=size),
        build_shards(shape, n_heads=n_heads, rank=ROBUSTNESS_RANK, seed=2, size=size),
    )


def repeat_first_head(shards: HeadShards) -> HeadShards:
    """Give all heads the changes of the first one."""
    return HeadShards(
        shape=shards.shape,
        n_heads=shards.n_heads,
        rank=shards.rank,
        scale=shards.scale,
        layers=tuple(
            {
                projection: LoraFactors(
                    a=factors.a[:1].expand_as(factors.a), b=factors.b[:1].expand_as(factors.b)
                )
                for projection, factors in layer.items()
            }
            for layer in shards.layers
        ),
    )


def put_heads_on(
    model: Olmo2ForCausalLM, adapters: Sequence[HeadShards], *, n_tokens: int | None = None
) -> HydraModel:
    return HydraModel(
        model,
        n_tokens=model.config.vocab_size if n_tokens is None else n_tokens,
        heads_depth=adapters[0].shape.heads_depth,
        adapters=adapters,
    )


def ask(*prompts: Sequence[int], seed: int = 100) -> list[EncodedPrompt]:
    """Give each prompt a seed of its own."""
    seeds = count(seed)
    return [EncodedPrompt(ids=tuple(ids), seed=next(seeds)) for ids in prompts]


RAGGED = ask((5, 1, 7, 3, 2, 9, 4), (8,), (2, 2, 6), (11, 0, 3, 12, 10))


def poe_settings(
    *,
    max_new_tokens: int = 8,
    temperature: float | None = 0.98,
    n_adapters: int = 2,
    beta: float = 1.0,
    eos_ids: tuple[int, ...] = (),
) -> DecodingSettings:
    return DecodingSettings(
        mode=DecodingMode.FULL_POE,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        n_adapters=n_adapters,
        beta=beta,
        eos_ids=eos_ids,
    )


def solo_settings(
    mode: DecodingMode,
    *,
    max_new_tokens: int = 8,
    temperature: float | None = 0.98,
    n_adapters: int = 2,
    eos_ids: tuple[int, ...] = (),
) -> DecodingSettings:
    return DecodingSettings(
        mode=mode,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        n_adapters=0 if mode is DecodingMode.BASE else n_adapters,
        eos_ids=eos_ids,
    )


class CountingRecorder:
    """Stands for CUDA graphs, and counts what was recorded."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device
        self.n_recorded = 0

    def play_aside(self, play: Callable[[], None]) -> None:
        play()

    def record(self, play: Callable[[], None]) -> Replay:
        self.n_recorded += 1
        return play


def answer(
    model: HydraModel,
    prompts: Sequence[EncodedPrompt],
    settings: DecodingSettings,
    *,
    n_rows: int | None = None,
    prompt_length: int = 8,
) -> tuple[Decoded, ...]:
    n_rows = len(prompts) if n_rows is None else n_rows
    batch = decode(model, prompts, settings, n_rows=n_rows, prompt_length=prompt_length)
    return batch.responses


def state_dict_of(shape: HeadShape, *, rank: int, seed: int = 0) -> dict[str, Tensor]:
    """Build a shard as its training would write it."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for layer in range(shape.heads_depth):
        for name, projection in PROJECTIONS.items():
            n_in, n_out = shape.features(projection)
            prefix = f"base_model.model.blocks.{layer}.feed_forward.{name}"
            state[f"{prefix}.lora_A.default.weight"] = randn(rank, n_in, generator=generator)
            state[f"{prefix}.lora_B.default.weight"] = randn(n_out, rank, generator=generator)
    return state


def write_shard(state: dict[str, Tensor], path: Path) -> Path:
    if path.suffix == ".pt":
        torch.save(state, path)
    else:
        save_file(state, path)
    return path
