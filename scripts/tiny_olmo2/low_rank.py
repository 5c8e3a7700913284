"""Trains low-rank changes of a model's last layers, those of all heads in one pass.

A batch holds equally many rows for every head, the first head's first. The changes are added to the
projections by hooks, so training shares nothing with the decoder but the meaning of a shard.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tournament_assets.generation.hydra.shards import (
    PROJECTIONS,
    HeadShape,
    HeadShards,
    LoraFactors,
)

SCALE = 2.0
WARMUP_STEPS = 10
STORED = torch.bfloat16


def new_shards(shape: HeadShape, *, n_heads: int, rank: int, seed: int) -> HeadShards:
    """Make changes that change nothing yet and can be trained: random a, and b of zeros."""
    generator = torch.Generator().manual_seed(seed)

    def factors(projection: str) -> LoraFactors:
        n_in, n_out = shape.features(projection)
        a = torch.randn(n_heads, rank, n_in, generator=generator) * n_in**-0.5
        return LoraFactors(
            a=a.requires_grad_(), b=torch.zeros(n_heads, n_out, rank).requires_grad_()
        )

    layers = tuple(
        {projection: factors(projection) for projection in PROJECTIONS.values()}
        for _ in range(shape.heads_depth)
    )
    return HeadShards(shape=shape, n_heads=n_heads, rank=rank, scale=SCALE, layers=layers)


def pick_head(shards: HeadShards, head: int) -> HeadShards:
    """Return the changes of one head alone."""
    return _each(shards, lambda tensor: tensor[head : head + 1])


@contextmanager
def changed(model: Any, adapters: Sequence[HeadShards]) -> Iterator[None]:
    """Let a model speak with its heads: rows of equal parts of a batch, one part per head."""
    handles = []
    depth = adapters[0].shape.heads_depth if adapters else 0
    for number, layer in enumerate(model.model.layers[len(model.model.layers) - depth :]):
        for projection in PROJECTIONS.values():
            factors = [(shards.layers[number][projection], shards.scale) for shards in adapters]
            linear = getattr(layer.mlp, projection)
            handles.append(linear.register_forward_hook(_adding(factors)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def train_shards(
    model: Any,
    shards: HeadShards,
    compute_loss: Callable[[], Tensor],
    *,
    beneath: Sequence[HeadShards] = (),
    n_steps: int,
    rate: float,
    with_muon: bool = False,
) -> HeadShards:
    """Train changes on top of others, which stay as they are.

    Args:
        model: The base model, which stays as it is.
        shards: What is trained.
        compute_loss: Reads one batch after the other with the changed model.
        beneath: Changes that were trained before.
        n_steps: Steps of the optimizer.
        rate: Its largest learning rate.
        with_muon: Take Muon instead of AdamW, which memorises in fewer steps.

    Returns:
        The changes, rounded to what a file holds.
    """
    tensors = [t for layer in shards.layers for f in layer.values() for t in (f.a, f.b)]
    # Muon takes matrices one by one: each head's own, which share their memory with the tensors.
    matrices = [tensor.detach()[head] for tensor in tensors for head in range(len(tensor))]
    optimizer = _start_muon(matrices, rate) if with_muon else _start_adamw(tensors, rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP_STEPS, max(0.02, 1 - step / n_steps))
    )
    recent = []
    with changed(model, [*beneath, shards]):
        for step in range(n_steps):
            loss = compute_loss()
            for tensor in tensors:
                tensor.grad = None
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(tensors, 1.0)
            gradients = [part for tensor in tensors for part in _parts(tensor.grad)]
            for matrix, gradient in zip(matrices, gradients, strict=True):
                matrix.grad = gradient
            optimizer.step()
            schedule.step()
            recent.append(loss.item())
            if step % 20 == 19 or step == n_steps - 1:
                mean = sum(recent) / len(recent)
                print(f"  step {step + 1:3d} of {n_steps}  loss {mean:.4f}", flush=True)
                recent.clear()
    return _each(shards, lambda tensor: tensor.detach().to(STORED).to(torch.float32))


def save_shards(shards: HeadShards, paths: Sequence[Path]) -> None:
    """Write one file per head, with the keys that the training code of Hydra heads writes."""
    for head, path in enumerate(paths):
        state = {}
        for number, layer in enumerate(shards.layers):
            for name, projection in PROJECTIONS.items():
                prefix = f"base_model.model.blocks.{number}.feed_forward.{name}"
                for side, tensor in (("A", layer[projection].a), ("B", layer[projection].b)):
                    state[f"{prefix}.lora_{side}.default.weight"] = (
                        tensor[head].to(STORED).contiguous()
                    )
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(state, path)
        # safetensors writes files that only their owner may read, also when they go into a package.
        path.chmod(0o644)


def _start_muon(matrices: list[Tensor], rate: float) -> torch.optim.Optimizer:
    return torch.optim.Muon(matrices, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")


def _start_adamw(tensors: list[Tensor], rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(tensors, lr=rate, betas=(0.9, 0.98), weight_decay=0.0)


def _parts(gradient: Tensor | None) -> tuple[Tensor, ...]:
    """Return each head's own part of a gradient, shape (n_heads, n_rows, n_columns)."""
    return () if gradient is None else gradient.unbind()


def _adding(factors: Sequence[tuple[LoraFactors, float]]) -> Callable[..., Tensor]:
    def add(_module: Any, args: tuple[Tensor], out: Tensor) -> Tensor:
        for change, scale in factors:
            grouped = args[0].reshape(change.a.shape[0], -1, args[0].shape[-1])
            low = grouped @ change.a.mT  # (n_heads, rows_per_head * n_tokens, rank)
            out = out + scale * (low @ change.b.mT).reshape(out.shape)
        return out

    return add


def _each(shards: HeadShards, change: Callable[[Tensor], Tensor]) -> HeadShards:
    return HeadShards(
        shape=shards.shape,
        n_heads=change(shards.layers[0]["up_proj"].a).shape[0],
        rank=shards.rank,
        scale=shards.scale,
        layers=tuple(
            {
                projection: LoraFactors(a=change(factors.a), b=change(factors.b))
                for projection, factors in layer.items()
            }
            for layer in shards.layers
        ),
    )
